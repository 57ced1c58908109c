"""Tables and figures of the pages are those of result files."""

import re

import pytest

from benchmarks import figures, summary
from benchmarks.pages import PAGES, TYPED, renewed

by_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
by_typed = pytest.mark.parametrize("page", TYPED, ids=lambda page: page.name)
ADVICE = "run python -m benchmarks.pages; CONTRIBUTING.md says how a page gets a figure"


def text_of(page):
    return page.read_text(encoding="utf-8")


@by_page
def test_tables_are_those_of_their_files(page):
    assert renewed(text_of(page)) == text_of(page), ADVICE


@by_typed
def test_every_figure_is_in_a_result_file(page):
    assert figures.missing(text_of(page)) == [], ADVICE


@by_typed
def test_settings_are_numbers_of_our_source(page):
    assert figures.unknown_settings(text_of(page)) == [], ADVICE


def test_a_setting_that_no_source_has_is_seen():
    page = "By `tol=1e-4`, `95 %` and `0.01`, not by `lam=0.01739` or `61.73 %`; `TopPush` and `3`."
    assert figures.unknown_settings(page) == ["lam=0.01739", "61.73 %"]


def test_phrases_that_are_let_through_are_there():
    everything = " ".join(map(text_of, TYPED))
    assert all(phrase in everything for phrase in figures.ALLOWED)


def changed(figure):
    """The figure with each other last digit."""
    digits, *power = figure.text.split("e")
    for digit in "0123456789":
        if digit != digits[-1]:
            yield figure.text, "e".join([digits[:-1] + digit, *power])


def mutants():
    """Pages with one digit of one figure changed."""
    for page in TYPED:
        text = text_of(page)
        for section in re.split(r"^(?=## )", text, flags=re.MULTILINE):
            for sentence in figures.sentences(section):
                for figure in figures.figures(sentence):
                    found = list(figures.sources_of(section))
                    yield from (
                        (found, sentence.replace(before, after))
                        for before, after in changed(figure)
                    )


def test_nearly_every_changed_digit_is_caught():
    """A figure may be a cell by chance: with 41 figures it was in 7 of 100 changes."""
    caught = [bool(figures.without_source(sentence, found)) for found, sentence in mutants()]
    assert sum(caught) > 0.9 * len(caught)


def test_a_changed_digit_of_a_table_is_seen():
    page = text_of(next(page for page in PAGES if page.name == "evidence.md"))
    assert "| 8.0 ms |" in page
    assert renewed(page.replace("| 8.0 ms |", "| 8.1 ms |")) == page


# On files of three lines.


@pytest.fixture
def results(tmp_path, monkeypatch):
    """A folder of results in place of ours."""
    for module in (figures, summary):
        monkeypatch.setattr(module, "RESULTS", tmp_path)
    lines = ["data,seconds,share,AP", "w8a,0.0381,0.281,0.7452", "url,61.0,0.05,0.991"]
    (tmp_path / "race.csv").write_text("\n".join(lines))
    return tmp_path


NAMED = "## Speed\n\n`python -m benchmarks.race`. "


@pytest.mark.parametrize(
    "said",
    [
        "On w8a it takes 38 ms.",
        "On w8a it takes 0.038 s.",
        "On w8a AP is .745, on url 0.991.",
        "A share of 28 % on w8a, and 28.1 %.",
        "On url it takes 1.02 minutes.",
        "No figure: w8a has 64,700 rows, `0.123` is a setting, and 2^29, 1/3 or 10^7 are none.",
        "Nor is code:\n\n```\n0.123\n```\n\n    x = 0.123\n\nand so on.",
        "| w8a | 0.7452 |",
    ],
)
def test_what_a_file_has_passes(results, said):
    assert figures.missing(NAMED + said) == []


@pytest.mark.parametrize(
    "said, found",
    [
        ("On w8a it takes 39 ms.", "39"),
        ("On w8a AP is .746.", ".746"),
        ("On w8a AP is .7453.", ".7453"),
        ("On url AP is .745.", ".745"),
        ("AP is .745.", ".745"),
        ("On w8a it takes 61 s.", "61"),
        ("A share of 27 to 28 % on w8a.", "27"),
        ("It is first on 8 of 11.", "8 of 11"),
        ("| w8a | 0.7462 |", "0.7462"),
        ("It is 3x faster on w8a.", "3"),
        ("AP on w8a is 7.4e-1.", "7.4e-1"),
        ("On w8a it gains -0.745.", "-0.745"),
    ],
)
def test_what_no_file_has_is_named(results, said, found):
    assert [figure for _, figure in figures.missing(NAMED + said)] == [found]


def test_a_section_must_name_its_file(results):
    assert figures.missing(f"{NAMED}On w8a AP is .745.\n\n## Rank\n\nOn w8a AP is .745.") == [
        ("On w8a AP is .745.", ".745")
    ]


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
