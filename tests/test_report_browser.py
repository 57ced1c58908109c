"""The report in a browser: its control says what the library says, and nothing is fetched.

Needs Debian's chromium and chromium-driver, and skips without them.
"""

import json
import re
import time

import numpy as np
import pytest

from hostile_page import HOSTILE, hostile_page
from toppush import metrics, report
from toppush.metrics.quantile_sketch import QuantileSketch
from toppush.monitor.drift import Limits
from toppush.monitor.profile import LEVELS, CategoryProfile, NumberProfile, ScoreCounts
from toppush.monitor.verdict import ColumnNow, verdict
from toppush.report.check import drift_page
from toppush.report.contributions import ColumnCurve, Explained
from toppush.thresholds.calibration import ScoreScale

webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

pytestmark = pytest.mark.long
PATIENCE = 60
"""Seconds until a chart that has not come is taken for missing."""


class Opened:
    """A report in the browser, with all charts drawn."""

    def __init__(self, browser, path, page):
        report.write(path, page)
        self.browser, self.url = browser, path.as_uri()
        browser.get_log("browser"), browser.get_log("performance")
        browser.get(self.url)
        self.wait(
            "return document.querySelectorAll('.chart').length"
            " === document.querySelectorAll('.chart.vega-embed svg').length"
            " && !document.getElementById('k-number').disabled"
        )

    def wait(self, condition):
        """Until a script returns true."""
        for _ in range(PATIENCE * 20):
            if self.browser.execute_script(condition):
                return
            time.sleep(0.05)
        raise AssertionError(f"not so after {PATIENCE} s: {condition}")

    def find(self, name):
        return self.browser.find_element(By.ID, name)

    def value(self, name):
        return float(self.find(f"k-{name}").get_attribute("value"))

    def text(self, name):
        return self.find(f"k-{name}").text

    def k(self):
        return int(self.find("k-number").get_attribute("value"))

    def type_k(self, k):
        box = self.find("k-number")
        box.send_keys(Keys.CONTROL, "a")
        box.send_keys(str(k))

    def requests(self):
        """Addresses that the page asked for."""
        entries = [json.loads(entry["message"]) for entry in self.browser.get_log("performance")]
        sent = [
            entry["message"]["params"]["request"]["url"]
            for entry in entries
            if entry["message"]["method"] == "Network.requestWillBeSent"
        ]
        return [url for url in sent if not url.startswith("data:")]


def made_list(n_rows, decimals):
    rng = np.random.default_rng(1410)
    positive = rng.random(n_rows) < 0.1
    return positive, np.round(positive + rng.normal(size=n_rows), decimals)


@pytest.fixture(scope="module")
def tied():
    return made_list(2000, 1)


@pytest.fixture(scope="module")
def opened(browser, tied, tmp_path_factory):
    """A report with every chart, on a list with many ties."""
    positive, scores = tied
    rng = np.random.default_rng(0)
    X = rng.normal(size=(len(scores), 5))
    alarms = report.first_false_alarms(positive, scores)
    page = report.build(
        positive,
        scores,
        model=report.ModelDetails(
            report.Features.of(X, rng.normal(size=5), list("abcde"), rows=alarms)
        ),
        baseline=report.Baseline(scores + rng.normal(size=len(scores))),
        preview=[{"one": 1}],
        budget=report.Budget(value=1200, cost=100, per_day=50, rows_per_day=20_000),
    )
    return Opened(browser, tmp_path_factory.mktemp("report") / "report.html", page)


def check_numbers(opened, positive, scores, k):
    """What the page says of the first k rows is what the library says."""
    precision = metrics.precision_at_k(positive, scores, k=k)
    recall = metrics.recall_at_k(positive, scores, k=k)
    lift = metrics.lift_at(positive, scores, fraction=k / len(scores))
    threshold = np.sort(scores)[::-1][k - 1]
    assert opened.k() == k
    assert opened.value("precision") == pytest.approx(precision, rel=1e-12)
    assert opened.value("recall") == pytest.approx(recall, rel=1e-12)
    assert opened.value("lift") == pytest.approx(lift, rel=1e-12)
    assert opened.value("hits") == pytest.approx(precision * k, rel=1e-12)
    assert opened.value("alarms") == pytest.approx(k - precision * k, rel=1e-9, abs=1e-9)
    assert opened.value("threshold") == threshold
    assert float(opened.text("precision").rstrip("%")) == pytest.approx(100 * precision, abs=0.051)
    assert float(opened.text("recall").rstrip("%")) == pytest.approx(100 * recall, abs=0.051)
    assert float(opened.text("lift").replace(",", "")) == pytest.approx(lift, abs=0.0051)
    rows = "row" if k == 1 else f"{k:,} rows"
    assert opened.find("k-sentence").text.startswith(f"Of the first {rows}, ")


def test_opens_with_the_headline(opened, tied):
    opened.browser.refresh()
    opened.wait("return !document.getElementById('k-number').disabled")
    check_numbers(opened, *tied, 100)
    headline = opened.browser.find_element(By.CLASS_NAME, "headline").text
    assert opened.find("k-sentence").text == headline


@pytest.mark.parametrize("k", [1, 2, 7, 50, 333, 1999, 2000])
def test_typed_k(opened, tied, k):
    opened.type_k(k)
    check_numbers(opened, *tied, k)


def test_a_cut_tie_is_told(opened, tied):
    ends = np.cumsum(np.unique(tied[1], return_counts=True)[1][::-1])
    cut = next(int(end) - 1 for end in ends[1:] if end - 1 not in ends)
    opened.type_k(cut)
    assert "within a tie" in opened.find("k-note").text
    opened.type_k(int(ends[3]))
    assert opened.find("k-note").text == ""


@pytest.mark.parametrize("wrong, last", [("0", 50), ("-3", 50), ("2001", 200), ("1.5", 1)])
def test_wrong_k_is_refused_and_the_last_one_stays(opened, tied, wrong, last):
    opened.type_k(50)
    opened.type_k(wrong)
    assert re.search(r"1.*2,000", opened.find("k-note").text)
    assert opened.value("precision") == pytest.approx(metrics.precision_at_k(*tied, k=last))


def test_slider_by_keyboard(opened, tied):
    opened.type_k(100)
    slider = opened.find("k-slider")
    seen = {opened.k()}
    for key in (Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.PAGE_UP, Keys.ARROW_LEFT):
        slider.send_keys(key)
        check_numbers(opened, *tied, opened.k())
        seen.add(opened.k())
    assert len(seen) >= 4
    slider.send_keys(Keys.END)
    check_numbers(opened, *tied, 2000)
    assert slider.get_attribute("aria-valuetext") == "first 2,000 rows"
    slider.send_keys(Keys.HOME)
    check_numbers(opened, *tied, 1)


RULE = "document.querySelector('#chart-curve .mark-rule.role-mark line').getBoundingClientRect()"


def move_rule(opened, k):
    """Choose k, wait until the line at k has moved, and say where it is now."""
    before = opened.browser.execute_script(f"return {RULE}.x")
    opened.type_k(k)
    opened.wait(f"return {RULE}.x !== {before}")
    return opened.browser.execute_script(f"return {RULE}.x")


def test_the_chart_follows_and_leads(opened, tied):
    move_rule(opened, 3)
    left, right = move_rule(opened, 10), move_rule(opened, 1000)
    assert right > left + 100
    # Typing may have started a smooth scroll, under which the chart would move away.
    opened.browser.execute_script(
        "document.documentElement.style.scrollBehavior = 'auto';"
        "document.getElementById('chart-curve').scrollIntoView({block: 'center'})"
    )
    # On a logarithmic axis 100 is half way between 10 and 1000.
    height = opened.browser.execute_script(f"return {RULE}.y + {RULE}.height / 2")
    actions = webdriver.ActionChains(opened.browser)
    actions.w3c_actions.pointer_action.move_to_location(round((left + right) / 2), round(height))
    actions.click().perform()
    opened.wait("return document.getElementById('k-number').value !== '1000'")
    assert opened.k() == pytest.approx(100, rel=0.05)
    check_numbers(opened, *tied, opened.k())


def test_false_alarms_can_be_chosen(opened):
    choice = opened.find("parts-row")
    bars = "return document.querySelector('#chart-parts .mark-rect').innerHTML"
    before = opened.browser.execute_script(bars)
    choice.send_keys(Keys.ARROW_DOWN)
    assert choice.get_attribute("value").startswith("rank ")
    opened.wait(f"{bars} !== {json.dumps(before)}")


def test_dark_and_print(opened):
    def look(**media):
        opened.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        return opened.browser.execute_script(
            "const label = document.querySelector('#chart-curve .role-axis-label text');"
            "return [getComputedStyle(document.body).backgroundColor, getComputedStyle(label).fill,"
            "getComputedStyle(document.querySelector('.control')).display]"
        )

    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    try:
        light_paper, light_ink, shown = look(media="screen", features=[])
        dark_paper, dark_ink, _ = look(media="screen", features=dark)
        assert (dark_paper, dark_ink) != (light_paper, light_ink)
        assert light_paper == "rgb(255, 255, 255)"
        print_paper, print_ink, hidden = look(media="print", features=dark)
        assert (print_paper, print_ink) == (light_paper, light_ink)
        assert (shown, hidden) == ("grid", "none")
    finally:
        look(media="", features=[])


def test_narrow_screens_scroll_tables_only(opened):
    assert width_on_a_phone(opened) <= 360


def width_on_a_phone(opened):
    narrow = {"width": 360, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    try:
        opened.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", narrow)
        return opened.browser.execute_script("return document.documentElement.scrollWidth")
    finally:
        opened.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_nothing_is_fetched_and_nothing_complains(opened):
    opened.browser.refresh()
    opened.wait("return !document.getElementById('k-number').disabled")
    opened.type_k(5)
    assert set(opened.requests()) == {opened.url}
    assert opened.browser.get_log("browser") == []


def test_a_long_list_goes_to_the_nearest_length(browser, tmp_path):
    positive, scores = made_list(20_000, 9)
    opened = Opened(browser, tmp_path / "long.html", report.build(positive, scores))
    opened.type_k(9_999)
    check_numbers(opened, positive, scores, 9_999)
    assert opened.find("k-note").text == ""
    opened.type_k(13_210)
    note = opened.find("k-note").text
    k = int(note.split(" rows")[0].removeprefix("Shown for ").replace(",", ""))
    assert k == pytest.approx(13_210, rel=0.005)
    precision = metrics.precision_at_k(positive, scores, k=k)
    assert opened.value("precision") == pytest.approx(precision, rel=1e-12)
    opened.type_k(20_000)
    check_numbers(opened, positive, scores, 20_000)


def test_hostile_text_runs_nothing(browser, tmp_path):
    opened = Opened(browser, tmp_path / "hostile.html", hostile_page())
    bar = opened.browser.find_element(By.CSS_SELECTOR, "#chart-weights .mark-rect path")
    webdriver.ActionChains(opened.browser).move_to_element(bar).perform()
    opened.wait(
        "return document.getElementById('vg-tooltip-element').textContent.includes('pwned')"
    )
    assert opened.browser.execute_script("return window.pwned") is None
    assert opened.browser.title == HOSTILE
    assert opened.browser.get_log("browser") == []


def test_curves_are_drawn_whatever_their_columns_are_called(browser, tied, tmp_path):
    positive, scores = tied
    alarms = report.first_false_alarms(positive, scores)
    names = [HOSTILE, "b" * 200]
    told = Explained(
        names,
        {int(row): np.array([0.5, -0.2]) for row in alarms},
        np.array([2.0, 1.0]),
        {int(row): {HOSTILE: HOSTILE, names[1]: 3.0} for row in alarms},
        n_rows=len(scores),
        curves=[
            ColumnCurve(HOSTILE, [HOSTILE, "two"], [0.3, -0.1]),
            ColumnCurve(names[1], [0.0, 1e6, 2e6], [0.0, 0.5, 0.2], missing=0.1),
        ],
        note="The score is a sum.",
    )
    page = report.build(positive, scores, model=report.ModelDetails(told))
    opened = Opened(browser, tmp_path / "curves.html", page)
    assert len(opened.browser.find_elements(By.CSS_SELECTOR, "[id^=chart-curve-] svg")) == 2
    assert width_on_a_phone(opened) <= 360
    assert opened.browser.execute_script("return window.pwned") is None
    assert set(opened.requests()) == {opened.url}
    assert opened.browser.get_log("browser") == []


@pytest.fixture(scope="module")
def wide(browser, tmp_path_factory):
    """A report whose rows have long names and ids."""
    positive, scores = made_list(60, 2)
    row = {"customer": "2024-00017-AX", "remark": "said that he would call again"}
    row |= {f"NumberOfTimes{days}DaysPastDueNotWorse": days for days in (30, 60, 90)}
    page = report.build(positive, scores, preview=[row] * 60)
    return Opened(browser, tmp_path_factory.mktemp("wide") / "wide.html", page)


@pytest.mark.parametrize("width, media", [(360, "screen"), (1200, "screen"), (700, "print")])
def test_ids_stay_on_one_line_and_tables_can_be_reached(wide, width, media):
    """Wide tables scroll inside the page; on paper, where nothing scrolls, none is cut off."""
    browser = wide.browser
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
    try:
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media})
        lines = browser.execute_script(
            "return [...document.querySelectorAll('td.word')].map(cell => {"
            "const range = document.createRange(); range.selectNodeContents(cell);"
            "return range.getClientRects().length})"
        )
        assert set(lines) == {1}
        cut = browser.execute_script(
            "return [...document.querySelectorAll('table')].filter(table => {"
            "const room = table.parentElement, style = getComputedStyle(room);"
            "return table.offsetWidth > room.clientWidth && style.overflowX !== 'auto'}).length"
        )
        assert cut == 0
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})


@pytest.fixture(scope="module")
def watched(browser, tmp_path_factory):
    """The page of a check in which columns of hostile names moved, and so did the scores."""
    rng = np.random.default_rng(0)
    columns = []
    for place in range(14):
        name = HOSTILE if place == 0 else f"NumberOfTimes{place}DaysPastDueNotWorse"
        before = NumberProfile(QuantileSketch.of(rng.normal(size=2_000), levels=LEVELS), 0.1)
        columns.append(
            ColumnNow(name, before, before.sketch.count(1 + rng.normal(size=900)), 400.0)
        )
    texts = CategoryProfile.of([HOSTILE, "x" * 200], np.array([900.0, 100.0]), 0.0, 1_000.0)
    columns.append(ColumnNow("y" * 300, texts, np.array([10.0, 500.0, 0.0, 90.0]), 0.0))
    positive, scores = made_list(5_000, 9)
    scale = ScoreScale.learn(positive, scores)
    counts, hits = scale.sketch.count(scores + 1), scale.sketch.count(scores[positive] - 1)
    found = verdict(columns, ScoreCounts(scale, counts, counts, hits), Limits())
    path = tmp_path_factory.mktemp("watch") / "check.html"
    report.write(path, drift_page(found, model=HOSTILE, data="rows.csv"))
    browser.get_log("browser"), browser.get_log("performance")
    browser.get(path.as_uri())
    return browser


def test_the_page_of_a_check_runs_and_fetches_nothing(watched):
    assert watched.find_element(By.CLASS_NAME, "headline").text.startswith("Drifted: precision")
    assert watched.execute_script("return document.scripts.length") == 0
    assert watched.execute_script("return window.pwned") is None
    assert watched.get_log("browser") == []
    assert watched.execute_script("return performance.getEntriesByType('resource').length") == 0


@pytest.mark.parametrize("width, media", [(360, "screen"), (1200, "screen"), (700, "print")])
def test_the_page_of_a_check_fits_every_width(watched, width, media):
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
    try:
        watched.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        watched.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media})
        assert watched.execute_script("return document.documentElement.scrollWidth") <= width
        bars = "return [...document.querySelectorAll('.bars .bar.now')].map(b => b.offsetWidth)"
        widths = watched.execute_script(bars)
        assert max(widths) > width / 12
    finally:
        watched.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        watched.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})


def test_bars_of_a_check_are_seen_in_the_dark(watched):
    look = (
        "return [document.querySelector('.bars .bar.now'), document.body].map("
        "one => getComputedStyle(one).backgroundColor)"
    )
    seen = {}
    try:
        for scheme in ("light", "dark"):
            features = [{"name": "prefers-color-scheme", "value": scheme}]
            watched.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
            seen[scheme] = watched.execute_script(look)
    finally:
        watched.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
    assert seen["light"] != seen["dark"]
    assert all(bar != paper for bar, paper in seen.values())
