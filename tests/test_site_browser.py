"""The built site in a browser: readable for all, no wider than a telephone, nothing fetched.

`python3 tasks.py docs` builds it; without it, and without chromium, these tests skip.
"""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

SITE = Path(__file__).resolve().parent.parent / "build/site"
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not SITE.exists(), reason="needs the site: python3 tasks.py docs"),
]
PAGES = [
    "index.html", "guide.html", "which.html", "auto.html", "reference/metrics.html",
    "reference/names/toppush.TopPush.html", "reference/commands/fit.html", "gallery/index.html",
    "gallery/first_list.html",
]  # fmt: skip
SERIOUS = {"serious", "critical"}
ASK = "axe.run().then(arguments[arguments.length - 1])"


CUT_OFF = """
return [...document.querySelectorAll("article p, article dt, article dd, article li, article img")]
    .filter(one => one.getBoundingClientRect().right > innerWidth + 1)
    .filter(one => !one.closest("pre, table"))
    .map(one => one.outerHTML.slice(0, 100));
"""
"""Text and pictures that end beyond the window; code and tables may be moved sideways."""


def show(browser, page, theme="light", width=1280):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    # Set in the page itself: what another page stored may come too late for this one's process.
    choice = {"source": f"localStorage.mode = localStorage.theme = '{theme}'"}
    script = browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", choice)
    browser.get_log("performance")
    browser.get(f"{SITE.as_uri()}/{page}")
    browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)
    assert browser.execute_script("return document.documentElement.dataset.theme") == theme


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("page", PAGES)
def test_no_serious_barrier(browser, page, theme):
    axe = find_spec("axe_core_python")
    if axe is None:
        pytest.skip("needs axe-core-python")
    show(browser, page, theme)
    browser.execute_script(Path(axe.origin).with_name("axe.min.js").read_text(encoding="utf-8"))
    found = browser.execute_async_script(ASK)["violations"]
    serious = [one for one in found if one["impact"] in SERIOUS]
    assert not serious, [(one["id"], one["nodes"][0]["html"][:200]) for one in serious]


@pytest.mark.parametrize("page", PAGES)
def test_nothing_is_wider_than_a_telephone(browser, page):
    show(browser, page, width=390)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    assert browser.execute_script(CUT_OFF) == []


@pytest.mark.parametrize("page", PAGES)
def test_nothing_is_fetched_from_elsewhere(browser, page):
    show(browser, page)
    entries = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [
        entry["params"]["request"]["url"]
        for entry in entries
        if entry["method"] == "Network.requestWillBeSent"
    ]
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []


def test_search_finds_a_name(browser):
    show(browser, "search.html?q=positives_at_top")
    for _ in range(200):
        if found := browser.find_elements("css selector", "#search-results li a"):
            break
        browser.execute_async_script("setTimeout(arguments[0], 50)")
    assert any("positives_at_top" in link.get_attribute("href") for link in found)
