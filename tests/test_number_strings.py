"""Numbers that are written as text, in data frames, Arrow tables, arrays and files."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toppush import TopPushTrees, TopRanker, files
from toppush.files import Columns, DataError
from toppush.tables.column_types import Counts
from toppush.tables.strings import NumberFormat, blocking_numbers, format_of

pytestmark = pytest.mark.filterwarnings("ignore::toppush.DegenerateWarning")
N_ROWS = 240
QUICK = ["logistic"]


@given(
    st.lists(st.floats(-1e9, 1e9).map(lambda value: round(value, 2)), min_size=1, max_size=30),
    st.sampled_from(["", "$", "%", " EUR"]),
    st.booleans(),
)
def test_numbers_are_read_as_they_were_written(values, unit, with_comma):
    texts = [f"{value:,.2f}{unit}" for value in values]
    if with_comma:
        swap = str.maketrans(",.", ".,")
        texts = [text.translate(swap) for text in texts]
    how = format_of(texts)
    scale = 100.0 if unit == "%" else 1.0
    assert [how.parse(text) for text in texts] == pytest.approx([one / scale for one in values])


@given(st.lists(st.integers(-(10**9), 10**9), min_size=1), st.text(max_size=4))
def test_a_string_has_one_number_or_none(values, other):
    texts = [f"{value:,}" for value in values]
    how = format_of(texts)
    assert how is None or [how.parse(text) for text in texts] == values
    found = NumberFormat().parse(other)
    assert found is None or np.isnan(found) or np.isfinite(found)


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (["1,5", "1,500"], [1.5, 1.5]),
        (["1,234", "2,500"], [1234, 2500]),
        (["$1,001", "$250"], [1001, 250]),
        (["1,234,567", "5000"], [1234567, 5000]),
        (["(1,234)", "55.0"], [-1234, 55]),
        (["1.234,5", "12"], [1234.5, 12]),
        ([" 37 % ", "0", "-1.5%"], [0.37, 0, -0.015]),
        (["\u22125", "1\u202f234.5", "1e3", ".5", "2."], [-5, 1234.5, 1000, 0.5, 2]),
    ],
)
def test_formats(texts, values):
    how = format_of([*texts, "N/A", "?", ""])
    assert [how.parse(text) for text in texts] == pytest.approx(values)
    assert np.isnan(how.parse("n/a"))
    assert how.parse("unknown") is None


@pytest.mark.parametrize(
    "texts",
    [
        ["1,234", "250"],  # 1.234 or 1234
        ["1,5", "1.5"],
        ["37%", "5"],
        ["$5", "€5"],
        ["02134", "10001"],
        ["1_000"],
        ["0x1f"],
        ["inf", "1"],
        ["5", "٣"],
        ["1,2,3"],
        ["--5"],
        ["(-5)"],
        ["N/A", ""],
        [],
    ],
)
def test_what_is_ambiguous_or_a_code_is_not_read(texts):
    assert format_of(texts) is None


def test_what_keeps_a_column_from_being_numbers():
    numbers = [str(one) for one in range(1, 40)]
    assert blocking_numbers([*numbers, "oops"]) == ["oops"]
    assert blocking_numbers([*numbers, "00012"]) == []
    assert blocking_numbers(["a", "b", "1"]) == []
    assert blocking_numbers(["1,234", "250"]) == ["1,234", "250"]


def made():
    rng = np.random.default_rng(0)
    score, noise = rng.standard_normal((2, N_ROWS))
    return np.round(np.exp(8.0 + score), 2), score + 0.3 * noise > 1.0


VALUES, Y = made()
WAYS = {
    "Decimal": [Decimal(str(one)) for one in VALUES],
    "floats": np.array([*VALUES[:-1], None], dtype=object),
    "percent": [f"{one:.2f}%" for one in VALUES],
    "currency": [f"${one:,.0f}" for one in VALUES],
    "grouped": [f"{one:,.2f}" for one in VALUES],
    "string": pd.array([f"{one}" for one in VALUES], dtype="string"),
    "marked": ["?" if row % 20 == 3 else f" {one} " for row, one in enumerate(VALUES)],
    "integers": np.array([int(one) if row % 9 else None for row, one in enumerate(VALUES)], object),
}


@pytest.mark.filterwarnings("ignore:numbers written as text")
@pytest.mark.parametrize("way", WAYS)
def test_a_column_of_numbers_is_one_however_it_is_written(way, tmp_path):
    noise = np.random.default_rng(1).standard_normal(N_ROWS)
    table = pd.DataFrame({"noise": noise, "a": WAYS[way]})
    plain = TopRanker(QUICK).fit(pd.DataFrame({"noise": noise, "a": VALUES}), Y)
    ranker = TopRanker(QUICK).fit(table, Y)
    assert ranker.categories_ == {}
    expected = plain.leaderboard_[0]["average_precision"]
    assert ranker.leaderboard_[0]["average_precision"] > expected - 0.1
    new = table.assign(a=list(WAYS[way])[::-1])
    assert len(np.unique(ranker.decision_function(new))) > 0.9 * N_ROWS
    files.save(ranker, tmp_path / "m.toppush")
    opened = files.load(tmp_path / "m.toppush").ranker
    np.testing.assert_array_equal(opened.decision_function(new), ranker.decision_function(new))


@pytest.mark.parametrize("as_table", [pd.DataFrame, pl.DataFrame, pa.table, "array"])
def test_all_kinds_of_tables_are_read_alike(as_table):
    columns = {"a": WAYS["currency"], "kind": ["x", "y", "z"] * (N_ROWS // 3)}
    if as_table == "array":
        table = np.array(list(columns.values()), dtype=object).T
    else:
        table = as_table(columns)
    with pytest.warns(UserWarning, match="numbers"):
        ranker = TopRanker(QUICK).fit(table, Y)
    assert ranker.formats_ == {0: [".", "$"]}
    assert ranker.categories_ == {1: ["x", "y", "z"]}
    scores = ranker.decision_function(table)
    np.testing.assert_allclose(ranker.contributions(table).sum(axis=1), scores)
    assert len(ranker.explain(table)) == N_ROWS


def test_new_values_that_are_no_numbers_are_missing_and_reported():
    table = pd.DataFrame({"a": WAYS["currency"], "b": VALUES[::-1]})
    with pytest.warns(UserWarning, match="'a'"):
        ranker = TopRanker(QUICK).fit(table, Y)
    new = table.assign(a=["$7", "€7", "soon", *[None] * (N_ROWS - 3)])
    with pytest.warns(UserWarning, match="'soon'"):
        scores = ranker.decision_function(new)
    np.testing.assert_array_equal(
        scores, ranker.decision_function(new.assign(a=["$7", *[None] * (N_ROWS - 1)]))
    )


@pytest.mark.filterwarnings("ignore:columns .'a'. have another value")
def test_mostly_numeric_columns_are_named_with_what_prevents_them():
    values = [f"{one}" for one in VALUES]
    table = pd.DataFrame({"a": ["oops", values[1], *values[:-2]], "b": VALUES})
    with pytest.warns(UserWarning, match=r"'a'.*'oops'"):
        assert TopRanker(QUICK).fit(table, Y).formats_ == {}


def test_asked_for_and_typed_categories_stay_categories():
    codes = [str(row % 5) for row in range(N_ROWS)]
    table = pd.DataFrame({"b": VALUES, "a": pd.Categorical(codes), "c": codes})
    ranker = TopRanker(QUICK, categorical_features=["a", "c"]).fit(table, Y)
    assert set(ranker.categories_) == {1, 2}
    with pytest.warns(UserWarning, match="in column 'c'"):
        assert set(TopRanker(QUICK).fit(table, Y).categories_) == {1}


def test_objects_that_are_flags_or_dates():
    days = [datetime.date(2024, 1, 1) + datetime.timedelta(row) for row in range(N_ROWS)]
    flags = np.array([True, False, None] * (N_ROWS // 3), dtype=object)
    table = pd.DataFrame({"a": VALUES, "when": days, "flag": flags})
    ranker = TopRanker(QUICK).fit(table, Y)
    assert ranker.dates_ == {1: ["days", "month", "day", "weekday"]}
    assert ranker.categories_ == {}


@pytest.mark.filterwarnings("ignore:numbers written as text")
def test_trees_read_them_too():
    pytest.importorskip("lightgbm")
    table = pd.DataFrame({"a": WAYS["currency"], "kind": ["x", "y"] * (N_ROWS // 2)})
    ranker = TopPushTrees(n_members=2, max_rounds=5, categorical_features="from_dtype")
    ranker.fit(table, Y)
    assert set(ranker.categories_) == {1}
    assert len(np.unique(ranker.decision_function(table))) > 2


# ---- files


def test_columns_of_files_read_numbers_and_count_what_is_none():
    table = pa.table({"a": ["$1,001", "$250", None, "?"], "b": ["1,5", "2,25", "0,125", "3"]})
    columns = Columns().fit(table)
    np.testing.assert_array_equal(
        columns.transform(table),
        [[1001, 0, 1.5], [250, 0, 2.25], [625.5, 1, 0.125], [625.5, 1, 3.0]],
    )
    counts = Counts()
    new = pa.table({"a": ["$5", "€5", "soon", ""], "b": ["1"] * 4})
    assert columns.matrix(new, counts)[0].tolist() == [5.0, 0.0, 1.0]
    assert counts.unread == {"a": 2}
    assert counts.missing == {"a": 3}


def test_codes_with_zeros_in_front_are_categories():
    columns = Columns().fit(pa.table({"zip": ["02134", "10001", "10002", "10003"]}))
    assert columns.columns_[0].categories == ["02134", "10001", "10002", "10003"]


@pytest.mark.filterwarnings("ignore::toppush.LeakageWarning")
def test_a_mostly_numeric_column_of_a_file_is_refused_with_its_line(tmp_path):
    rows = [f"{one:.1f}%" for one in range(1, 60)]
    path = tmp_path / "rows.csv"
    path.write_text("label,a\n" + "".join(f"{i % 2},{one}\n" for i, one in enumerate(rows)))
    found = files.fit(path, lam=1.0, top=1)
    (named,) = found.about["columns"]["named"]
    assert (named["kind"], named["unit"]) == ("number", "%")
    path.write_text(path.read_text() + "1,oops\n")
    with pytest.raises(DataError, match="'oops'") as error:
        files.fit(path, lam=1.0, top=1)
    assert error.value.line == 61


def test_thousands_are_no_decimal_commas_where_semicolons_separate(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("label;a\n" + "".join(f"{i % 2};{7 * i * i:,}\n" for i in range(60)))
    (column,) = files.fit(path, lam=1.0, top=1).columns.columns_
    assert column.high == 7 * 59**2
