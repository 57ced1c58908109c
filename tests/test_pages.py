"""The tables of the pages are those of their result files."""

import pytest

from benchmarks import pages

ROWS = "data,method,seconds,AP\nw8a,ours,0.0381,0.7452\nw8a,theirs,0.05,\nurl,ours,61.0,0.991\n"


@pytest.mark.parametrize("page", pages.PAGES, ids=lambda page: page.name)
def test_tables_are_those_of_their_files(page):
    text = page.read_text(encoding="utf-8")
    assert pages.renewed(text) == text, "run python -m benchmarks.pages"


@pytest.mark.parametrize(
    "lines, head, rows",
    [
        ([], "data | method | seconds | AP", ["w8a | ours | 0.0381 | 0.745",
         "w8a | theirs | 0.05 | ", "url | ours | 61 | 0.991"]),
        (["where method = ours", "set: {data}", "AP: {AP:.1%}"], "set | AP",
         ["w8a | 74.5 %", "url | 99.1 %"]),
        (["for data", "set: {data}", "each method: {seconds:.2f} s"], "set | ours | theirs",
         ["w8a | 0.04 s | 0.05 s", "url | 61.00 s | "]),
        (["for data", "n: {AP:count}", "s: {seconds:range .2g}", "AP: {AP:mean .2f}"],
         "n | s | AP", ["2 | 0.038 to 0.05 | 0.75", "1 | 61 | 0.99"]),
    ],
)  # fmt: skip
def test_lines_say_what_is_shown(lines, head, rows, tmp_path, monkeypatch):
    (tmp_path / "race.csv").write_text(ROWS)
    monkeypatch.setattr(pages, "FOLDERS", (tmp_path,))
    found = pages.table("\n".join(["race", *lines])).splitlines()
    assert found[0] == f"| {head} |"
    assert found[2:] == [f"| {row} |" for row in rows]
