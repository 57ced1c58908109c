"""TopPushAdditive: the curves' numbers against slow code, and the laws of the estimator."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from toppush import DegenerateWarning, TopPush, TopPushAdditive, TopPushCV, metrics
from toppush.models import additive
from toppush.models.curves import PER_PIECE, SPREAD, Curves
from toppush.plots import CurvesDisplay
from toppush.problem.solution import Solution

PLAIN = (np.ndarray, str, int, float, bool, type(None), Solution, np.generic)


@pytest.mark.filterwarnings("ignore::toppush.DegenerateWarning")
@pytest.mark.sampled(2)
@parametrize_with_checks([TopPushAdditive([0.1], tops=[1]), TopPushAdditive([0.1, 1.0], cv=2)])
def test_scikit_learn_contract(estimator, check):
    if check.func.__name__.startswith("check_sample_weight_equivalence"):
        estimator = clone(estimator).set_params(tops=[1])  # negatives are rows, not weight
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(additive, "TOL", 1e-9)
        check(estimator)


def curves(X, weight=None, pieces=4, categorical=()):
    mask = np.zeros(X.shape[1], bool)
    mask[list(categorical)] = True
    return Curves.of(X, weight, pieces, mask)


@pytest.fixture
def table(rng):
    """600 rows: a heavy tail, a mostly empty column, gaps, counts, codes, 0/1 and a constant."""
    n = 600
    tail = np.exp(3.0 * rng.normal(size=n))
    empty = np.where(rng.random(n) < 0.8, 0.0, rng.normal(size=n))
    gaps = np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n))
    counts, codes = rng.poisson(2.0, n), rng.integers(0, 5, n)
    X = np.column_stack([tail, empty, gaps, counts, codes, rng.random(n) < 0.3, np.full(n, 7.0)])
    hump = np.exp(-(np.log(tail) ** 2) / 4.0) + (codes == 3) + np.isnan(gaps)
    return X, (hump + 0.3 * rng.normal(size=n) > 1.2).astype(int)


CODES = (4,)


@pytest.fixture
def fitted(table):
    return TopPushAdditive([0.1], tops=[0.1], categorical_features=CODES).fit(*table)


# The numbers of a column.


def slow_numbers(value, knots, levels, size):
    """u and the hats of a binary division, one after another."""
    place = float(np.interp(value, knots, np.linspace(0.0, 1.0, len(knots))))
    found = [size * place]
    for level in range(levels):
        width = 0.5**level
        for i in range(2**level):
            middle = (i + 0.5) * width
            hat = max(0.0, 1.0 - abs(place - middle) / (width / 2))
            found.append(size * 0.5 ** (level + 1) * hat)
    return found


@given(st.lists(st.integers(-30, 30), min_size=3, max_size=80), st.integers(1, 9))
def test_numbers_are_those_of_slow_code(numbers, pieces):
    values = np.array(numbers, float) / 7.0
    made = curves(values[:, None], pieces=pieces)
    column = made.columns[0]
    expected = []
    for value in values:
        if len(column.values) < 2:
            row = []
        else:
            size = SPREAD if len(column.values) > 2 else 1.0
            row = slow_numbers(value, column.values, column.levels, size)
        shared = value == column.common
        expected.append([0.0] * len(row) if shared else row)
        if column.has_common:
            expected[-1].insert(0, float(not shared))
    assert_allclose(made.transform(values[:, None]).toarray(), np.array(expected), atol=1e-12)


@given(st.lists(st.integers(0, 6), min_size=1, max_size=40))
def test_few_values_can_take_any_heights(numbers):
    """The numbers of distinct values, with a constant, are linearly independent."""
    distinct = np.unique(np.array(numbers, float))[:, None]
    made = curves(np.array(numbers, float)[:, None], pieces=8).transform(distinct).toarray()
    with_constant = np.column_stack([made, np.ones(len(distinct))])
    assert np.linalg.matrix_rank(with_constant) == len(distinct)


def test_quantiles_place_a_heavy_tail_evenly(rng):
    values = np.exp(5.0 * rng.normal(size=10_000))
    column = curves(values[:, None], pieces=8).columns[0]
    assert len(column.values) == PER_PIECE * 8 + 1
    shares = np.histogram(values, column.values)[0] / len(values)
    assert_allclose(shares, 1.0 / (PER_PIECE * 8), rtol=0.05)


def test_a_growing_map_of_the_values_changes_nothing(table):
    X, y = table
    other = X.copy()
    other[:, 0] = np.log(X[:, 0])
    made = [TopPushAdditive([0.1], tops=[0.1]).fit(rows, y) for rows in (X, other)]
    at_knots = np.isin(X[:, 0], made[0].values_[0])
    first, second = made[0].decision_function(X), made[1].decision_function(other)
    assert at_knots.sum() > 50
    assert_allclose(first[at_knots], second[at_knots], atol=0.05)
    assert metrics.average_precision(y, first) == pytest.approx(
        metrics.average_precision(y, second), abs=0.01
    )


def test_weights_count_as_repeated_rows(table, rng):
    X, _ = table
    weight = rng.integers(0, 4, len(X)).astype(float)
    weighted, repeated = curves(X, weight), curves(np.repeat(X, weight.astype(int), axis=0))
    for one, other in zip(weighted.columns, repeated.columns, strict=True):
        assert_array_equal(one.values, other.values)
        assert (one.levels, one.missing) == (other.levels, other.missing)
    assert_allclose(weighted.means, repeated.means)


@pytest.mark.parametrize("weighted", [False, True])
def test_sparse_and_dense_rows_are_the_same(table, rng, weighted):
    X, y = table
    weight = rng.random(len(y)) if weighted else None
    ranker = TopPushAdditive([0.1], tops=[0.1], categorical_features=CODES)
    dense = ranker.fit(X, y, weight).decision_function(X)
    stored = sparse.csr_matrix(X)
    assert_allclose(ranker.fit(stored, y, weight).decision_function(stored), dense, atol=1e-9)
    assert_array_equal(ranker.decision_function(X), ranker.decision_function(stored))


def test_sparse_zeros_and_ones_stay_as_they_are(rng):
    X = sparse.csr_array((rng.random((2000, 300)) < 0.04).astype(float))
    made = curves(X).transform(X)
    assert made.nnz == X.nnz
    assert_array_equal(made.toarray(), X.toarray())


def test_rows_in_parts_are_the_same(table, monkeypatch):
    X, _ = table
    made = curves(X)
    whole = made.transform(X).toarray()
    monkeypatch.setattr("toppush.models.curves.CHUNK", 100)
    assert_array_equal(made.transform(X).toarray(), whole)


# The estimator.


def test_contributions_add_up_to_the_score(fitted, table):
    X, _ = table
    found = fitted.contributions(X)
    assert found.shape == (X.shape[0], X.shape[1] + 1)
    assert_allclose(found.sum(axis=1), fitted.decision_function(X), atol=1e-9)
    assert_allclose(found[:, :-1].mean(axis=0), 0.0, atol=1e-9)
    assert_array_equal(found[:, 6], 0.0)


def test_curves_are_the_contributions(fitted, table):
    X, _ = table
    found = fitted.contributions(X)
    for j, curve in enumerate(fitted.curves_):
        gaps = np.isnan(X[:, j])
        assert_allclose(found[gaps, j], curve.missing, atol=1e-9)
        for value, height in zip(curve.values, curve.contribution, strict=True):
            assert_allclose(found[X[:, j] == value, j], height, atol=1e-9)
    assert [curve.name for curve in fitted.curves_] == list("0123456")
    assert fitted.curve(4).is_categorical
    assert fitted.curve(-1).name == "6"


def test_the_hump_is_found(fitted, table):
    """The middle of the heavy tail ranks first, which no straight line can say."""
    curve = fitted.curve(0)
    best = curve.values[np.argmax(curve.contribution)]
    assert 0.2 < best < 5.0
    assert fitted.curve(4).contribution.argmax() == 3
    assert fitted.curve(2).missing > 0.0


def test_values_that_training_lacks_contribute_nothing(fitted, table):
    X, _ = table
    strange = X[:1].copy()
    strange[0, [0, 3, 4]] = np.nan, np.nan, 77.0
    for stored in (strange, sparse.csr_array(strange)):
        assert_allclose(fitted.contributions(stored)[0, [0, 3, 4]], 0.0, atol=1e-12)
    assert fitted.contributions(X[np.isnan(X[:, 2])])[0, 2] != 0.0


def test_it_is_the_linear_ranker_on_the_numbers(fitted, table):
    X, y = table
    numbers = curves(X, pieces=8, categorical=CODES).transform(X)
    linear = TopPush(0.1, top=0.1, tol=additive.TOL).fit(numbers, y)
    assert_array_equal(fitted.coef_, linear.coef_)
    assert_array_equal(fitted.decision_function(X), linear.decision_function(numbers))
    assert fitted.solution_.upper == linear.solution_.upper
    assert fitted.solution_.relative_gap <= additive.TOL
    assert (fitted.lam_, fitted.top_) == (0.1, 0.1)


def test_folds_choose_as_those_of_the_linear_ranker(table):
    X, y = table
    how = {"tops": (0.1, 0.3), "scoring": "average_precision", "cv": 3}
    ranker = TopPushAdditive([0.01, 0.1, 1.0], **how).fit(X, y)
    linear = TopPushCV([0.01, 0.1, 1.0], tol=additive.TOL, **how)
    linear.fit(curves(X, pieces=8).transform(X), y)
    assert (ranker.lam_, ranker.top_) == (linear.lam_, linear.top_)
    assert_array_equal(ranker.coef_, linear.coef_)
    assert ranker.best_score_ == linear.best_score_


def test_large_tables_are_searched_in_part_and_fitted_whole(table, monkeypatch):
    X, y = table
    monkeypatch.setattr(additive, "OF_EACH_CLASS", 80)
    monkeypatch.setattr(additive, "SEARCH_ROWS", 200)
    where = TopPushAdditive()._searched(y == 1)
    assert 160 <= len(where) <= 300
    assert y[where].sum() >= min(y.sum(), 80)
    assert_array_equal(np.unique(where), where)
    ranker = TopPushAdditive([0.01, 1.0], cv=3).fit(X, y)
    alone = TopPushAdditive([ranker.lam_], tops=[ranker.top_]).fit(X, y)
    assert_array_equal(ranker.coef_, alone.coef_)
    assert ranker.threshold_ == alone.threshold_


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_fit_repeats_bit_for_bit(table, n_jobs):
    X, y = table
    made = [TopPushAdditive([0.1, 1.0], cv=2, n_jobs=n_jobs).fit(X, y) for _ in range(2)]
    assert_array_equal(made[0].coef_, made[1].coef_)
    again = pickle.loads(pickle.dumps(made[0]))
    assert_array_equal(again.decision_function(X), made[1].decision_function(X))


def test_fitted_attributes_are_plain(table):
    ranker = TopPushAdditive([0.1, 1.0], cv=2).fit(*table)
    for name, value in vars(ranker).items():
        if name.endswith("_") and not isinstance(value, PLAIN):
            parts = value.values() if isinstance(value, dict) else value
            assert all(isinstance(part, (*PLAIN, list)) for part in parts), name


def test_data_frames_and_names(table):
    X, y = table
    frame = pd.DataFrame(X, columns=list("abcdefg"))
    ranker = TopPushAdditive([0.1], tops=[0.1], categorical_features=["e"]).fit(frame, y)
    by_mask = TopPushAdditive([0.1], tops=[0.1], categorical_features=np.arange(7) == 4).fit(X, y)
    assert_array_equal(ranker.coef_, by_mask.coef_)
    assert ranker.curve("e").name == "e"
    assert_array_equal(ranker.curve("e").contribution, by_mask.curve(4).contribution)


def test_an_interrupt_leaves_the_ranker_as_it_was(fitted, table, monkeypatch):
    X, y = table
    before = fitted.decision_function(X)

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(TopPush, "fit", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fitted.fit(X[:, :5], y)
    assert_array_equal(fitted.decision_function(X), before)


def test_noise_is_told(rng):
    X, y = rng.normal(size=(200, 2)), np.arange(200) % 2
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        TopPushAdditive([0.1], tops=[1]).fit(X, y)
    assert any(issubclass(one.category, DegenerateWarning) for one in said)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"categorical_features": [9]}, "column=9.*7 columns"),
        ({"categorical_features": [True, False]}, "2 columns.*X.*7"),
        ({"categorical_features": ["age"]}, "column='age'"),
        ({"lams": []}, "empty"),
        ({"n_pieces": 0}, "n_pieces"),
    ],
)
def test_errors_say_what_to_do(table, change, message):
    with pytest.raises(ValueError, match=message):
        TopPushAdditive(**change).fit(*table)


def test_constant_columns_are_refused():
    with pytest.raises(ValueError, match="value"):
        TopPushAdditive().fit(np.ones((6, 2)), [0, 1] * 3)


def test_tensors_are_refused(table):
    torch = pytest.importorskip("torch")
    X, y = table
    with pytest.raises(ValueError, match=r"X.*torch.*tensor"):
        TopPushAdditive().fit(torch.tensor(X), y)


def test_curves_are_drawn(fitted):
    pytest.importorskip("matplotlib")
    display = CurvesDisplay.from_estimator(fitted)
    assert len(display.axes_) == 6  # the constant column has no curve
    first = display.axes_[0].lines[0].get_ydata()
    spans = [np.ptp(np.append(one.contribution, one.missing)) for one in fitted.curves_]
    assert_array_equal(first, fitted.curve(int(np.argmax(spans))).contribution)
    chosen = CurvesDisplay.from_estimator(fitted, columns=[2])
    assert [axes.get_title() for axes in chosen.axes_] == ["2"]
    assert chosen.axes_[0].lines[1].get_ydata()[0] == fitted.curve(2).missing
