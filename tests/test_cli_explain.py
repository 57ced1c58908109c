"""`toppush rank --explain` and `toppush explain`: the same reasons, in files and in words."""

import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from sklearn.datasets import dump_svmlight_file
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline

from files import made_rows, odd_rows, write
from test_cli import result, run
from toppush import TopPush, files
from toppush.files.explaining import picked
from toppush.files.readers import csv

COLUMNS = ("age", "income", "city", "member")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli-explain")
    write(folder / "train.csv", made_rows(300))
    write(folder / "new.csv", odd_rows())
    options = ("--label", "fraud", "--drop", "id", "--lam", "0.1", "--top", "30%")
    run("fit", folder / "train.csv", "-o", folder / "m.toppush", "--model", "linear", *options)
    return folder


@pytest.fixture(scope="module")
def given(folder):
    return folder / "m.toppush", folder / "new.csv"


@pytest.fixture(scope="module")
def reasons(folder):
    """What the model says of all rows in Python."""
    table = pa.table({name: odd_rows()[name] for name in COLUMNS})
    return files.load(folder / "m.toppush").explain(table)


def test_a_list_has_the_reasons_of_its_rows(given, reasons, folder, monkeypatch):
    monkeypatch.setattr(csv.CsvReader, "block", 1024)
    run("rank", *given, "--explain", 3, "--columns", "id", "-o", folder / "list.parquet")
    found = pa.parquet.read_table(folder / "list.parquet").to_pylist()
    assert len(found) == 200
    for row in found:
        expected = reasons[row["row"] - 1].flat(3)
        assert row["id"] == f"client {row['row'] - 1}"
        assert {name: row[name] for name in expected if name != "why"} == pytest.approx(
            {name: value for name, value in expected.items() if name != "why"}
        )
        assert row["why"] == expected["why"]


def test_a_limit_has_the_head_of_the_list(given):
    whole = result("rank", *given, "--explain", 2)["ranked"]
    some = result("rank", *given, "--explain", 2, "--limit", 7)
    assert some["ranked"] == whole[:7]
    assert "negatives of the training rows" in some["compared_with"]
    plain = result("rank", *given, "--limit", 7)["ranked"]
    assert [{name: row[name] for name in plain[0]} for row in some["ranked"]] == plain


@pytest.mark.parametrize("width", [80, 120])
def test_the_table_keeps_to_the_terminal(given, width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    shown = run("rank", *given, "--explain", 3, "--limit", 5, "--columns", "id").stdout
    listed = shown.partition("why")[2].splitlines()
    assert max(map(len, listed)) <= width
    assert "why_1" not in shown
    assert "(+" in shown
    assert "behind" in shown


def test_a_column_called_why_stays(folder, given):
    rows = odd_rows() | {"why": ["because"] * 200}
    path = write(folder / "why.csv", rows)
    found = result("rank", given[0], path, "--explain", 1, "--columns", "why", "--limit", 2)
    assert found["ranked"][0]["why (data)"] == "because"
    assert found["ranked"][0]["why"] != "because"


def test_a_row_is_explained_as_in_the_list(given):
    listed = {row["row"]: row for row in result("rank", *given, "--explain", 5)["ranked"]}
    found = result("explain", *given, "--row", 17, "--row", 4)
    assert [one["row"] for one in found["explained"]] == [17, 4]
    for one in found["explained"]:
        row = listed[one["row"]]
        assert one["rank"] == row["rank"]
        assert listed[one["above"]]["rank"] == row["rank"] - 1
        named = [row[f"why_{place}_column"] for place in range(1, 6)]
        assert [part["column"] for part in one["raised_by"]] == [name for name in named if name]
        assert one["held_back"][0]["contribution"] == pytest.approx(row["held_back_contribution"])


def test_the_first_row_is_held_back_by_none(given):
    first = result("rank", *given, "--limit", 1)["ranked"][0]["row"]
    shown = run("explain", *given, "--row", first).stdout
    assert f"Row {first}: rank 1 of 200" in shown
    assert "is ahead" not in shown
    assert "is ahead" in run("explain", *given, "--row", 1 + first % 200).stdout


def test_pairs_are_told_both_ways(given):
    one = result("explain", *given, "--pair", "17,4", "--count", 9)["pairs"][0]
    other = result("explain", *given, "--pair", "4, 17", "--count", 9)["pairs"][0]
    assert one["rows"] == [17, 4]
    assert one["ranks"] == other["ranks"][::-1]
    total = sum(part["contribution"] for part in one["differences"])
    assert total == pytest.approx(one["score"] - one["other"])
    lifts = [part["contribution"] for part in other["differences"]]
    assert [part["contribution"] for part in one["differences"]] == pytest.approx(
        np.negative(lifts)
    )
    shown = run("explain", *given, "--pair", "17,4").stdout
    side = "above" if one["ranks"][0] < one["ranks"][1] else "below"
    assert f"is {side} row 4" in shown


def test_what_cannot_be_explained_is_said(given):
    assert re.search(r"1.*200.*201", run(
        "explain", *given, "--row", 201, code=1
    ).stderr)  # fmt: skip
    assert "nothing to explain" in run("explain", *given, code=2).stderr
    for wrong in ("17", "1,2,3", "a,b", "1;2"):
        assert "no pair of row numbers" in run("explain", *given, "--pair", wrong, code=2).stderr


def test_features_of_columns_are_not_explained(folder, rng):
    X = rng.normal(size=(60, 4))
    pipeline = make_pipeline(Nystroem(n_components=10, random_state=0), TopPush(0.1, top=0.3))
    files.save(pipeline.fit(X, X[:, 0] > 0.5), folder / "features.toppush")
    np.save(folder / "features.npy", X)
    ran = run("rank", folder / "features.toppush", folder / "features.npy", "--explain", 2, code=1)
    assert "Nystroem" in ran.stderr


def test_rows_of_a_matrix(folder):
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(150, 4)), 2)
    dump_svmlight_file(X, X[:, 2] > 0.7, str(folder / "a.svm"), zero_based=False)
    run("fit", folder / "a.svm", "-o", folder / "svm.toppush", "--model", "linear", "--lam", "0.1",
        "--top", "0.3")  # fmt: skip
    row = result("rank", folder / "svm.toppush", folder / "a.svm", "--explain", 1)["ranked"][0]
    assert row["why_1_column"] == "number 3"
    assert float(row["why_1_value"]) == X[row["row"] - 1, 2]


def test_rows_are_picked_in_the_order_asked_for(given, monkeypatch):
    monkeypatch.setattr(csv.CsvReader, "block", 1024)
    numbers = np.array([150, 3, 3, 199, 0])
    found = picked(files.load(given[0]), given[1], numbers)
    income = odd_rows()["income"]
    assert found["income"].to_pylist() == [income[number] for number in numbers]


def test_a_terminal_explains_the_rows_that_it_shows(given, monkeypatch):
    asked = []

    def note(model, path, rows, kind=None):
        asked.append(len(rows))
        return picked(model, path, rows, kind)

    monkeypatch.setattr("toppush.files.explaining.picked", note)
    run("rank", *given, "--explain", 1)
    run("rank", *given, "--explain", 1, "--limit", 3)
    assert asked == [20, 3]


def test_the_first_of_a_group_is_held_back_by_nobody(given):
    """A list per group begins anew: what the row above in the file has is no matter."""
    found = result("rank", *given, "--by", "city", "--limit", 3, "--explain", 2)["ranked"]
    heads = [row for row in found if row["rank"] == 1]
    assert len(heads) > 2
    assert all(row["held_back_column"] is None for row in heads)
    assert any(row["held_back_column"] for row in found)
