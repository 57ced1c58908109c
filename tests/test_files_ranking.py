"""The best rows from a stream are the first of the whole list, ties by row number."""

import csv as std_csv

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from files import DROP, made_rows, write
from toppush import files
from toppush.files import ranking
from toppush.files.ranking import COLUMNS, Best, write_table
from toppush.files.readers import arrow, csv, reading


@given(
    st.lists(st.lists(st.integers(-3, 3), max_size=9), max_size=12),
    st.one_of(st.none(), st.integers(1, 20)),
    st.booleans(),
)
def test_best_is_the_head_of_the_sorted_list(parts, limit, carry):
    rows = [float(score) for part in parts for score in part]
    best = Best(limit)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranking, "SLACK", 0)  # sort out after every batch
        first = 0
        for part in parts:
            batch = pa.RecordBatch.from_pydict({"id": [f"r{first + i}" for i in range(len(part))]})
            best.add(np.array(part, float), first, batch if carry else None)
            first += len(part)
    if not rows:
        with pytest.raises(files.DataError, match="no rows"):
            best.table()
        return
    order = sorted(range(len(rows)), key=lambda row: (-rows[row], row))[:limit]
    found = best.table().to_pydict()
    assert found["row"] == [row + 1 for row in order]
    assert found["score"] == [rows[row] for row in order]
    assert found["rank"] == list(range(1, len(order) + 1))
    if carry:
        assert found["id"] == [f"r{row}" for row in order]


@given(
    st.lists(
        st.lists(st.tuples(st.integers(-3, 3), st.sampled_from(["a", "b", None])), max_size=9),
        max_size=12,
    ),
    st.one_of(st.none(), st.integers(1, 5)),
    st.booleans(),
)
def test_best_of_groups_are_the_heads_of_their_lists(parts, limit, coded):
    rows = [row for part in parts for row in part]
    best, first = Best(limit, "g"), 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranking, "SLACK", 0)  # sort out after every batch
        for part in parts:
            groups = pa.array([group for _, group in part], pa.string())
            column = groups.dictionary_encode() if coded else groups
            batch = pa.RecordBatch.from_pydict({"g": column})
            best.add(np.array([score for score, _ in part], float), first, batch)
            first += len(part)
    if not rows:
        return
    expected = []
    for name in dict.fromkeys(group for _, group in rows):
        members = [at for at, (_, group) in enumerate(rows) if group == name]
        listed = sorted(members, key=lambda at: (-rows[at][0], at))[:limit]
        expected += [(place, at + 1, name) for place, at in enumerate(listed, 1)]
    found = best.table().to_pydict()
    assert list(zip(found["rank"], found["row"], found["g"], strict=True)) == expected


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = write(tmp_path_factory.mktemp("train") / "t.csv", made_rows(300))
    return files.fit(path, label="fraud", drop=DROP, lam=0.1, top=0.3)


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".feather"])
def test_a_limit_takes_the_head(ending, model, tmp_path, monkeypatch):
    monkeypatch.setattr(csv.CsvReader, "block", 1024)
    monkeypatch.setattr(arrow, "BATCH", 17)
    path = write(tmp_path / f"new{ending}", made_rows(500, seed=2))
    whole = files.rank(model, path, columns=("id", "fraud"))
    for limit in (1, 10, 499, 500, 1000):
        assert files.rank(model, path, limit=limit, columns=("id", "fraud")).equals(whole[:limit])
    cities = files.rank(model, path, limit=7, by="city", columns=("id",))
    for city in dict.fromkeys(whole_cities := made_rows(500, seed=2)["city"]):
        rows = [row for row in whole["row"].to_pylist() if whole_cities[row - 1] == city][:7]
        place = [at for at, one in enumerate(cities["city"].to_pylist()) if (one or None) == city]
        assert [cities["row"][at].as_py() for at in place] == rows
        assert [cities["rank"][at].as_py() for at in place] == list(range(1, len(rows) + 1))
    assert cities.column_names == [*COLUMNS, "city", "id"]
    assert sorted(whole["row"].to_pylist()) == list(range(1, 501))
    by_id = {f"client {row - 1}" for row in whole["row"].to_pylist()[:5]}
    assert set(whole["id"].to_pylist()[:5]) == by_id


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".parquet", ".feather"])
def test_lists_are_written_and_read_again(ending, tmp_path):
    table = pa.table(
        {"rank": [1, 2], "score": [0.5, -1.0], "id": ["plain", 'with "quotes", comma']}
    )
    write_table(table, tmp_path / f"r{ending}")
    with reading(tmp_path / f"r{ending}") as file:
        assert file.table().equals(table)
    with pytest.raises(files.DataError, match="written"):
        write_table(table, tmp_path / "r.docx")


def test_a_carried_column_may_be_called_score(model, tmp_path):
    rows = made_rows(20) | {"score": list(range(20)), "rank": list(range(20))}
    found = files.rank(model, write(tmp_path / "n.csv", rows), columns=("score", "rank"))
    assert found.column_names == [*COLUMNS, "score (data)", "rank (data)"]


FORMULAS = ["=1+1", "+49 30", "-", "@SUM(A1)", "\t=1", "\r=1", "-cmd|' /C calc'!A0", "\uff1d1"]
PLAIN = ["a=1", "'=1", "-3.5", "+1e5", "-1,5", ".5", "", "1-1"]


@pytest.mark.parametrize("ending, delimiter", [(".csv", ","), (".tsv", "\t")])
def test_cells_of_text_files_are_no_formulas(ending, delimiter, tmp_path):
    """Column names too, and dictionaries; strings that are numbers stay, and so do numbers."""
    cells = FORMULAS + PLAIN
    coded = pa.array(cells).dictionary_encode()
    table = pa.table({"=name": cells, "coded": coded, "number": [-1.5] * len(cells)})
    path = tmp_path / f"r{ending}"
    for escape, mark in ((True, "'"), (False, "")):
        write_table(table, path, escape=escape)
        with path.open(newline="", encoding="utf-8") as file:
            names, *rows = std_csv.reader(file, delimiter=delimiter)
        assert names == [f"{mark}=name", "coded", "number"]
        expected = [mark + cell for cell in FORMULAS] + PLAIN
        assert rows == [[cell, cell, "-1.5"] for cell in expected]


def test_other_formats_keep_their_cells(tmp_path):
    table = pa.table({"=name": FORMULAS})
    for ending in (".parquet", ".feather"):
        write_table(table, tmp_path / f"r{ending}")
        with reading(tmp_path / f"r{ending}") as file:
            assert file.table().equals(table)
