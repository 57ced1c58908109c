"""Errors about rows that hold no numbers, no rows or no columns, or numbers of extreme size."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import dump_svmlight_file

from reproduce.baselines import BASELINES
from test_cli import run
from toppush import (
    TopPush,
    TopPushAdditive,
    TopPushCV,
    TopPushNet,
    TopPushTrees,
    TopRanker,
    files,
    toppush_path,
)
from toppush.auto.kernel import TopKernel
from toppush.auto.linear import TopLinear
from toppush.files import DataError
from toppush.models.forest import TopForest

pytestmark = pytest.mark.filterwarnings("ignore::toppush.DegenerateWarning")
TABLE = pd.DataFrame({"a": np.arange(60.0), "kind": ["p", "q", "r"] * 20})
Y = np.arange(60) % 3 == 0
RANKERS = [TopPush(), TopPushCV(), TopPushAdditive(), TopPushNet()]
RANKERS += [BASELINES["RankSVM"](), BASELINES["LogisticRanker"]()]


@pytest.mark.parametrize(
    "rows", [TABLE, pa.Table.from_pandas(TABLE), TABLE.to_numpy()], ids=["pandas", "arrow", "array"]
)
@pytest.mark.parametrize("ranker", RANKERS, ids=lambda ranker: type(ranker).__name__)
def test_columns_without_numbers_are_named(ranker, rows):
    if isinstance(ranker, TopPushNet):
        pytest.importorskip("torch")
    name = "1" if isinstance(rows, np.ndarray) else "'kind'"
    with pytest.raises(ValueError, match=rf"{name} \(such as 'p'\).*TopRanker"):
        ranker.fit(rows, Y)


def test_a_path_names_columns_without_numbers():
    with pytest.raises(ValueError, match="'kind'"):
        toppush_path(TABLE, Y)


def test_columns_without_numbers_are_named_when_scoring():
    ranker = TopPush().fit(TABLE.assign(kind=TABLE.a % 7), Y)
    with pytest.raises(ValueError, match="'kind'"):
        ranker.decision_function(TABLE)


@pytest.mark.parametrize("ranker", [TopRanker(), TopPush(), TopPushTrees()])
@pytest.mark.parametrize("rows", [TABLE.iloc[:, :0], pa.table({}), np.empty((60, 0))])
def test_rows_without_columns_are_refused(ranker, rows):
    with pytest.raises(ValueError, match=r"0 feature\(s\)"):
        ranker.fit(rows, Y)


def test_columns_without_rows_are_refused():
    with pytest.raises(ValueError, match="X has no rows"):
        TopRanker().fit(TABLE.iloc[:0], Y[:0])


NUMBERS = np.random.default_rng(0).normal(size=(80, 2))
TOP_THIRD = NUMBERS[:, 0] > 0.5
SIZED = {
    "additive": TopPushAdditive([0.1], tops=[0.3]),
    "trees": TopPushTrees(n_members=1, max_rounds=10, random_state=0),
    "forest": TopForest(n_trees=8, random_state=0),
    "kernel": TopKernel("asinh"),
    "logistic": TopLinear("logistic"),
    "push": TopLinear("push"),
    "net": TopPushNet(n_members=2, max_steps=5, hidden=(4,), random_state=0),
    "ranker": TopRanker(effort="quick", members=["logistic", "forest"], random_state=0),
}


def one_entry(value, rows=NUMBERS):
    changed = rows.copy()
    changed[3, 1] = value
    return changed


def fit(name, *given, **how):
    if name == "net":
        pytest.importorskip("torch")
    return clone(SIZED[name]).fit(*given, **how)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize(
    ("rows", "found"),
    [
        (1e-310 * NUMBERS, r"'a' \(.*e-310\), 'b'"),
        (1e-300 * NUMBERS, r"'a' \(.*e-300\), 'b'"),
        (1e-100 * NUMBERS, r"'a' \(.*e-100\), 'b'"),
        (1e100 * NUMBERS, r"'a' \(.*e\+100\), 'b'"),
        (1e300 * NUMBERS, r"'a' \(.*e\+300\), 'b'"),
        (one_entry(1e300), r"column 'b' \(1e\+300\)\."),
        (one_entry(-1e300), r"column 'b' \(1e\+300\)\."),
        (NUMBERS * [1.0, 1e-310], r"column 'b' \(.*e-310\)\."),
    ],
)
@pytest.mark.parametrize("name", SIZED)
def test_a_fit_refuses_columns_beyond_single_precision(name, rows, found):
    with pytest.raises(ValueError, match=f"magnitude.*{found}"):
        fit(name, pd.DataFrame(rows, columns=["a", "b"]), TOP_THIRD)
    for form in (np.asarray, sparse.csr_array):
        with pytest.raises(ValueError, match=r"magnitude.*column [01] \("):
            fit(name, form(rows), TOP_THIRD)


@pytest.mark.parametrize("name", [name for name in SIZED if name != "net"])
def test_missing_values_hide_no_magnitude(name):
    rows = one_entry(np.nan, one_entry(1e300)[::-1])
    with pytest.raises(ValueError, match=r"magnitude.*column 1 \(1e\+300\)"):
        fit(name, rows, TOP_THIRD)


def test_coded_tables_are_checked_too():
    table = pd.DataFrame({"kind": ["p", "q"] * 40, "b": one_entry(1e300)[:, 1]})
    for ranker in (clone(SIZED["ranker"]), TopPushTrees(categorical_features="from_dtype")):
        with pytest.raises(ValueError, match=r"magnitude.*'b' \(1e\+300\)"):
            ranker.fit(table, TOP_THIRD)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("name", SIZED)
def test_small_new_rows_and_weights_of_any_size_rank_as_usual(name):
    """New rows may be small, not too large; weights count relative to each other."""
    ranker = fit(name, NUMBERS, TOP_THIRD)
    for huge in (1e40, -1e300):
        for form in (np.asarray, sparse.csr_array):
            with pytest.raises(ValueError, match=r"magnitude.*column 1 \("):
                ranker.decision_function(form(one_entry(huge)))
    scores = ranker.decision_function(np.array([[1e-310, 1e-200], [0.0, 0.0]]))
    assert scores[0] == pytest.approx(scores[1], abs=1e-9)
    expected = ranker.decision_function(NUMBERS)
    for weight in (1e-99, 1e9, 1e99):
        weighted = fit(name, NUMBERS, TOP_THIRD, sample_weight=np.full(len(NUMBERS), weight))
        assert weighted.decision_function(NUMBERS) == pytest.approx(expected, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("model", ["trees", "auto"])
def test_columns_of_a_file_are_named(model, tmp_path):
    usual, huge, place = tmp_path / "usual.csv", tmp_path / "huge.csv", tmp_path / "model.toppush"
    table = pd.DataFrame(NUMBERS, columns=["age", "income"]).assign(label=TOP_THIRD.astype(int))
    table.insert(0, "kind", ["p", "q"] * 40)
    table.to_csv(usual, index=False)
    table.assign(income=one_entry(1e300)[:, 1]).to_csv(huge, index=False)
    options = {"auto": ["--members", "logistic"], "trees": ["--members", "1"]}[model]
    fitted = run("fit", huge, "-o", place, "--model", model, *options, code=1)
    assert "huge.csv: " in fitted.stderr
    assert "column 'income' (1e+300)" in fitted.stderr
    run("fit", usual, "-o", place, "--model", model, *options)
    assert "column 'income' (1e+300)" in run("rank", place, huge, code=1).stderr


def test_columns_of_a_matrix_are_numbered_as_in_its_file(tmp_path):
    path = tmp_path / "huge.svm"
    dump_svmlight_file(one_entry(1e300), TOP_THIRD.astype(int), str(path), zero_based=False)
    with pytest.raises(DataError, match=r"huge\.svm: .*column 2 \(1e\+300\)"):
        files.fit(path, model="trees", members=1)


def test_a_comparison_names_columns_of_the_file(tmp_path):
    path = tmp_path / "huge.csv"
    table = pd.DataFrame(one_entry(1e300), columns=["age", "income"])
    table.assign(label=TOP_THIRD.astype(int)).to_csv(path, index=False)
    failed = run("compare", path, "--methods", "TopPush trees", "--cv", "2", code=1)
    assert "column 'income' (1e+300)" in failed.stderr
