"""Columns that may hold the label, and columns that are ids."""

import json
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from test_cli import run
from toppush import TopRanker, files
from toppush.files.fitting import leakage_cautions
from toppush.tables.ids import all_differ, are_ids
from toppush.tables.leakage import LeakageWarning, leaks_of_matrix

QUICK = ["logistic"]
N_ROWS = 2000
RNG = np.random.default_rng(0)
Y = RNG.random(N_ROWS) < 0.1
SCORE = Y + 0.8 * RNG.standard_normal(N_ROWS)
HALF = Y & (RNG.random(N_ROWS) < 0.5)
LEAKS = {
    "copy": Y.astype(float),
    "turned": -1.0 * Y,
    "1 % wrong": np.where(RNG.random(N_ROWS) < 0.01, ~Y, Y).astype(float),
    "code of positives": np.where(Y, RNG.integers(1, 500, N_ROWS), np.nan),
    "missing for positives": np.where(Y, np.nan, RNG.random(N_ROWS)),
    "known for half": np.where(HALF, 1.0, np.nan),
    "in the middle": np.where(Y, 0.5 + 1e-3 * RNG.random(N_ROWS), RNG.random(N_ROWS)),
}
HARMLESS = {
    "strong": SCORE,
    "noise": RNG.standard_normal(N_ROWS),
    "id": RNG.permutation(N_ROWS).astype(float),
    "missing at random": np.where(RNG.random(N_ROWS) < 0.3, np.nan, SCORE),
    "missing": np.full(N_ROWS, np.nan),
    "constant": np.ones(N_ROWS),
}


@pytest.mark.parametrize("is_category", [False, True])
def test_leaks_are_found_and_nothing_else(is_category):
    columns = LEAKS | HARMLESS
    X = np.column_stack(list(columns.values()))
    coded = range(X.shape[1]) if is_category else ()
    found = {leak.name for leak in leaks_of_matrix(X, list(columns), coded, Y)}
    assert found == set(LEAKS) - ({"in the middle"} if is_category else set())


def test_leaks_by_missing_values_are_called_so():
    X = np.column_stack([LEAKS["missing for positives"], LEAKS["copy"]])
    assert [leak.by_missing for leak in leaks_of_matrix(X, "ab", (), Y)] == [True, False]


@given(st.integers(0, 2**32 - 1), st.sampled_from([60, 300, 2000]), st.floats(0.02, 0.5))
def test_noise_is_no_leak(seed, n_rows, rate):
    rng = np.random.default_rng(seed)
    positive = rng.random(n_rows) < rate
    if positive.sum() < 5 or positive.all():
        return
    X = np.column_stack(
        [rng.standard_normal(n_rows), np.arange(n_rows), rng.integers(0, 30, n_rows)]
    )
    assert leaks_of_matrix(X, range(3), (1, 2), positive) == []


def test_sparse_rows_are_judged_by_their_entries():
    X = np.column_stack([Y, RNG.random(N_ROWS) < 0.3, HALF, ~Y]).astype(float)
    found = leaks_of_matrix(sparse.csr_array(X), range(4), (), Y)
    assert [leak.name for leak in found] == [0, 2, 3]


def test_the_ranker_warns_and_names_the_column():
    table = pd.DataFrame({"strong": SCORE, "chargeback": LEAKS["known for half"]})
    with pytest.warns(LeakageWarning, match="'chargeback'"):
        TopRanker(QUICK).fit(table, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", LeakageWarning)
        TopRanker(QUICK).fit(table[["strong"]], Y)


@pytest.mark.filterwarnings("ignore:.*average precision 1.000")
@pytest.mark.parametrize("model", ["linear", "auto", "trees"])
def test_fits_of_files_warn_once_with_the_option(tmp_path, model):
    if model == "trees":
        pytest.importorskip("lightgbm")
    path = tmp_path / "rows.csv"
    code = [f"c{row % 7}" if y else None for row, y in enumerate(Y[:600])]
    pd.DataFrame({"label": Y[:600].astype(int), "strong": SCORE[:600], "code": code}).to_csv(
        path, index=False
    )
    options = {"auto": {"members": QUICK}, "trees": {"members": 2}, "linear": {"lam": 1.0}}[model]
    with pytest.warns(LeakageWarning, match=r"'code'.*--drop code") as caught:
        found = files.fit(path, model=model, **options)
    assert len([one for one in caught if one.category is LeakageWarning]) == 1
    assert any("--drop code" in text for text in found.about["warnings"])


def test_nothing_is_said_of_one_class():
    assert leakage_cautions(pa.table({"a": [1, 2]}), np.ones(2, bool)) == []


# ---- ids


@given(st.integers(0, 2**32 - 1), st.integers(60, 3000), st.sampled_from([0.1, 0.75, 1.0]))
def test_parts_of_shuffled_row_numbers_are_ids(seed, n_rows, share):
    rng = np.random.default_rng(seed)
    part = rng.permutation(n_rows)[: int(share * n_rows)] + 1000.0
    assert are_ids(part) == (len(part) >= 50 and (share > 0.1 or len(part) >= 2 * 20 / share))


@pytest.mark.parametrize(
    "values",
    [
        np.random.default_rng(0).integers(0, 5000, 1000),  # some are equal
        np.random.default_rng(0).choice(10**7, 1000, replace=False),  # distinct by chance
        np.arange(1000) + 0.5,
        [float(f"{day:%Y%m%d}") for day in pd.date_range("2018-01-01", periods=1000)],
        np.arange(40),
        np.full(100, np.nan),
    ],
)
def test_measurements_and_dates_are_no_ids(values):
    assert not are_ids(np.asarray(values, float))


def test_ids_are_left_out_of_frames_with_a_notice():
    n_rows = 300
    table = pd.DataFrame(
        {
            "strong": SCORE[:n_rows],
            "rownames": RNG.permutation(n_rows) + 1,
            "rank": RNG.permutation(n_rows).astype(float),
        }
    )
    with pytest.warns(UserWarning, match="'rownames'"):
        ranker = TopRanker(QUICK).fit(table, Y[:n_rows])
    assert np.abs(ranker.contributions(table)[:, 1]).max() < 1e-9
    assert np.abs(ranker.contributions(table)[:, 2]).max() > 1e-9  # floats are kept
    assert "rownames" not in str(ranker.explain(table))


def test_ids_are_left_out_of_files_unless_they_are_kept(tmp_path):
    n_rows = 300
    path = tmp_path / "rows.csv"
    names = [f"{row:08x}-uuid" for row in RNG.permutation(n_rows)]
    columns = {"label": Y[:n_rows].astype(int), "strong": SCORE[:n_rows], "name": names}
    pd.DataFrame(columns | {"rownames": RNG.permutation(n_rows)}).to_csv(path, index=False)
    with pytest.warns(UserWarning, match="--drop name,rownames"):
        found = files.fit(path, lam=1.0, top=0.3)
    assert found.about["columns"]["ids"] == ["name", "rownames"]
    assert [one.name for one in found.columns.columns_] == ["strong"]
    json.dumps(found.about["columns"])
    kept = files.fit(path, lam=1.0, top=0.3, keep=["rownames"], drop=["name"])
    assert [one.name for one in kept.columns.columns_] == ["strong", "rownames"]


def test_all_must_differ_among_enough_rows():
    assert all_differ(99, 100)
    assert not all_differ(98, 100)
    assert not all_differ(40, 40)


@pytest.mark.long
def test_a_report_cautions_on_its_page_and_off_it(tmp_path):
    path, page = tmp_path / "rows.csv", tmp_path / "page.html"
    code = [f"c{row % 7}" if y else None for row, y in enumerate(Y[:600])]
    table = {"label": Y[:600].astype(int), "strong": SCORE[:600], "code": code}
    pd.DataFrame(table).to_csv(path, index=False)
    for drop, number in ((), 1), (("code",), 0):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            files.save(files.fit(path, lam=1.0, top=0.3, drop=drop), tmp_path / "model.toppush")
        reported = run("report", tmp_path / "model.toppush", path, "-o", page)
        assert reported.stderr.count("column 'code' ranks almost perfectly") == number
        assert page.read_text().count("Possible target leakage: alone, column") == number
