"""Tables of the pages are those of result files, settings are numbers of the source."""

import pytest

from benchmarks import summary
from benchmarks.pages import PAGES, TYPED, renewed, unknown_settings

by_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
by_typed = pytest.mark.parametrize("page", TYPED, ids=lambda page: page.name)
ADVICE = "run python -m benchmarks.pages"


def text_of(page):
    return page.read_text(encoding="utf-8")


@by_page
def test_tables_are_those_of_their_files(page):
    assert renewed(text_of(page)) == text_of(page), ADVICE


@by_typed
def test_settings_are_numbers_of_our_source(page):
    assert unknown_settings(text_of(page)) == [], ADVICE


def test_a_setting_that_no_source_has_is_seen():
    page = "By `tol=1e-4`, `95 %` and `0.01`, not by `lam=0.01739` or `61.73 %`; `TopPush` and `3`."
    assert unknown_settings(page) == ["lam=0.01739", "61.73 %"]


def test_a_changed_digit_of_a_table_is_seen():
    page = text_of(next(page for page in PAGES if page.name == "evidence.md"))
    assert "| 8.0 ms |" in page
    assert renewed(page.replace("| 8.0 ms |", "| 8.1 ms |")) == page


# On files of three lines.


@pytest.fixture
def results(tmp_path, monkeypatch):
    """A folder of results in place of ours."""
    monkeypatch.setattr(summary, "RESULTS", tmp_path)
    lines = ["data,seconds,share,AP", "w8a,0.0381,0.281,0.7452", "url,61.0,0.05,0.991"]
    (tmp_path / "race.csv").write_text("\n".join(lines))
    return tmp_path


@pytest.mark.parametrize(
    "form, shown",
    [
        ("{AP:.3s}", ".745"),
        ("{share:.0%}", "28 %"),
        ("{seconds}", "0.0381"),
        ("{seconds:r}", "0.0381"),
        ("{nothing:.3f}", ""),
        ("{nothing:.3f} / {nothing:.1f}", ""),
    ],
)
def test_forms_of_cells(results, form, shown):
    row = summary.read("race", results)[0] | {"nothing": summary.cell("")}
    assert summary.grid([row], {"title": form}) == [["title"], [shown]]


def test_a_table_without_a_form_is_its_file(results):
    assert summary.markdown(summary.plain("race")).splitlines() == [
        "| data | seconds | share | AP |",
        "|---|---|---|---|",
        "| w8a | 0.0381 | 0.281 | 0.745 |",
        "| url | 61 | 0.05 | 0.991 |",
    ]
