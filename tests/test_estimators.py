"""TopPush as scikit-learn sees it: the contract, the company it keeps, and bad input."""

import pickle
import sys
from importlib import import_module

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.model_selection import (
    GridSearchCV,
    TunedThresholdClassifierCV,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from sklearn.utils.estimator_checks import (
    check_sample_weight_equivalence_on_dense_data,
    check_sample_weight_equivalence_on_sparse_data,
    parametrize_with_checks,
)

import reference
from toppush import DegenerateWarning, TopPush, designs, metrics
from toppush.designs import local

pytestmark = pytest.mark.sampled(2)

accelerated = import_module("toppush.solvers.paper")

STOPS_EARLY = (
    "the paper's rule stops early, so two routes to the same optimum stop at different points"
)


MADE_OF_ROWS = "the top is made of rows: a negative of weight 2 counts once, and repeated twice"

WEIGHT_CHECKS = [
    check_sample_weight_equivalence_on_dense_data,
    check_sample_weight_equivalence_on_sparse_data,
]


def expected_failures(estimator):
    if estimator.solver != "paper" and estimator.top == 1:
        return {}
    why = STOPS_EARLY if estimator.solver == "paper" else MADE_OF_ROWS
    return {check.__name__: why for check in WEIGHT_CHECKS}


@pytest.mark.filterwarnings("ignore::toppush.DegenerateWarning")
@parametrize_with_checks(
    [TopPush(solver="paper"), TopPush(solver="newton"), TopPush(top=0.5, pairwise=True)],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.mark.parametrize("check", WEIGHT_CHECKS)
def test_the_paper_solver_passes_the_checks_of_weights_if_it_goes_on(check):
    check("TopPush", TopPush(solver="paper", tol=1e-14, max_iter=100_000))


@pytest.fixture
def rows(rng):
    """120 rows of which 40 positives stand apart; numbers of 24 bits, half of them zero."""
    X = rng.normal(size=(120, 6)).astype(np.float32).astype(np.float64)
    X[rng.random(X.shape) < 0.5] = 0.0
    y = np.arange(120) % 3 == 0
    X[y, 0] += 4.0
    return X, y.astype(int)


@pytest.fixture
def fitted(rows):
    return ranker().fit(*rows)


def ranker(lam=0.1, **params):
    return TopPush(lam, **{"solver": "paper", **params})


def memory_mapped(X, folder):
    np.save(folder / "rows.npy", X)
    return np.load(folder / "rows.npy", mmap_mode="r")


# Attributes and predictions.


def test_attributes(fitted, rows):
    X, _ = rows
    solution = fitted.solution_
    assert fitted.coef_.shape == (1, 6)
    assert fitted.n_features_in_ == 6
    assert fitted.n_iter_ == solution.n_iter
    assert_array_equal(fitted.coef_[0], solution.weights)
    assert fitted.threshold_ == solution.threshold
    assert_array_equal(fitted.intercept_, [-fitted.threshold_])
    assert_array_equal(fitted.classes_, [0, 1])
    assert_allclose(fitted.decision_function(X), X @ fitted.coef_[0] - fitted.threshold_)
    assert is_classifier(fitted)


def test_the_best_negative_is_not_predicted_positive(fitted, rows):
    """The decision of the negative at the threshold is exactly 0, however its row is stored."""
    X, y = rows
    for stored in (X, np.asfortranarray(X), sparse.csr_array(X), X[::-1][::-1]):
        decision = fitted.decision_function(stored)
        assert decision[y == 0].max() == 0.0
        assert_array_equal(fitted.predict(stored), (decision > 0.0).astype(int))
        assert not fitted.predict(stored)[y == 0].any()
        assert fitted.predict(stored)[y == 1].mean() > 0.9
    one_by_one = [fitted.predict(row[None, :])[0] for row in X]
    assert_array_equal(one_by_one, fitted.predict(X))


def test_score_is_average_precision(fitted, rows, rng):
    X, y = rows
    flipped = np.where(rng.random(120) < 0.2, 1 - y, y)
    weight = rng.random(120)
    scores = fitted.decision_function(X)
    assert fitted.score(X, flipped) == metrics.average_precision(flipped, scores)
    weighted = metrics.average_precision(flipped, scores, sample_weight=weight)
    assert fitted.score(X, flipped, sample_weight=weight) == weighted
    assert weighted != fitted.score(X, flipped)


def test_top_as_share_and_as_count(rows):
    """A share rounds up; 1 is one negative and 1.0 is all of them."""
    X, y = rows
    for share, count in ((0.01, 1), (0.1, 8), (0.101, 9), (1.0, 80)):
        by_share, by_count = ranker(top=share).fit(X, y), ranker(top=count).fit(X, y)
        assert_array_equal(by_share.coef_, by_count.coef_)
        expected = reference.top_mean((X @ by_share.coef_[0])[y == 0], count)
        assert by_share.threshold_ == pytest.approx(expected, rel=1e-9)


# Labels and kinds of input.


@pytest.mark.filterwarnings("ignore::toppush.PositiveClassWarning")
@pytest.mark.parametrize(
    "negative, positive",
    [(0, 1), (-1, 1), (False, True), ("ham", "spam"), (3, 10), (0.0, 1.0)],
)
def test_the_greater_label_is_positive(negative, positive, fitted, rows):
    X, y = rows
    labels = np.array([negative, positive])[y]
    labelled = ranker().fit(X, labels)
    assert_array_equal(labelled.coef_, fitted.coef_)
    assert_array_equal(labelled.classes_, [negative, positive])
    assert_array_equal(labelled.predict(X), np.array([negative, positive])[fitted.predict(X)])
    assert labelled.score(X, labels) == fitted.score(X, y)


def test_order_of_labels_decides_who_is_positive(rows):
    """Swap the labels, and the other class is pushed to the top."""
    X, y = rows
    one, other = ranker().fit(X, y), ranker().fit(-X, 1 - y)
    assert other.score(-X, 1 - y) > 0.9
    assert np.abs(one.coef_ - other.coef_).max() > 1e-3
    for labels in (list(y), [int(label) for label in y], pd.Series(y), pl.Series(y)):
        assert_array_equal(ranker().fit(X, labels).coef_, one.coef_)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_data_frames_keep_their_names(frame, fitted, rows):
    X, y = rows
    table = frame({f"column {i}": X[:, i] for i in range(6)})
    named = ranker().fit(table, y)
    assert_array_equal(named.feature_names_in_, [f"column {i}" for i in range(6)])
    assert_allclose(named.coef_, fitted.coef_, rtol=1e-12)
    assert_array_equal(named.predict(table), fitted.predict(X))
    with pytest.raises(ValueError, match="feature"):
        named.predict(
            table.rename(columns={"column 0": "other"})
            if frame is pd.DataFrame
            else table.rename({"column 0": "other"})
        )
    assert not hasattr(fitted, "feature_names_in_")


@pytest.mark.parametrize("kind", [list, sparse.csc_array, sparse.coo_array])
def test_rows_that_are_converted(kind, fitted, rows):
    """`test_design_laws.py` has the ways to hold rows that are used as they are."""
    X, y = rows
    stored = X.tolist() if kind is list else kind(X)
    found = ranker().fit(stored, y)
    assert_allclose(found.coef_, fitted.coef_, rtol=1e-8, atol=1e-10)
    assert_array_equal(found.predict(stored), fitted.predict(X))


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_float32_is_used_as_it_is(kind, fitted, rows):
    X, y = rows
    single = ranker().fit(kind(X.astype(np.float32)), y)
    assert single.coef_.dtype == np.float64
    assert_allclose(single.coef_, fitted.coef_, rtol=0, atol=1e-4)
    assert not single.predict(kind(X.astype(np.float32)))[y == 0].any()


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, memory_mapped])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_data_are_left_alone(kind, dtype, rows, tmp_path):
    X, y = rows
    X = X.astype(dtype)
    X = kind(X, tmp_path) if kind is memory_mapped else kind(X)
    weight = np.linspace(0.0, 2.0, 120)
    kept = X.copy(), y.copy(), weight.copy()
    ranker().fit(X, y, sample_weight=weight).predict(X)
    assert_array_equal(
        X.toarray() if sparse.issparse(X) else X,
        kept[0].toarray() if sparse.issparse(X) else kept[0],
    )
    assert_array_equal(y, kept[1])
    assert_array_equal(weight, kept[2])


def test_wide_sparse_data_give_weights_for_all_columns(rows):
    """Empty columns are dropped inside; their weights are 0."""
    X, y = rows
    assert local.WIDE < 5506
    wide = sparse.csr_array(np.hstack([np.zeros((120, 400)), X, np.zeros((120, 5100))]))
    found = ranker(warm_start=True).fit(wide, y)
    assert_allclose(found.coef_[0, 400:406], ranker().fit(X, y).coef_[0], rtol=1e-9)
    assert np.count_nonzero(found.coef_) == 6
    assert found.coef_.shape == (1, 5506)
    assert_allclose(found.fit(wide, y).coef_, found.coef_, atol=1e-2)


# Company.


@pytest.mark.parametrize(
    "before",
    [
        MaxAbsScaler(),
        StandardScaler(),
        Nystroem(gamma=0.1, n_components=20, random_state=0),
        RBFSampler(gamma=0.1, n_components=50, random_state=0),
    ],
    ids=lambda step: type(step).__name__,
)
def test_pipelines(before, rows):
    X, y = rows
    pipeline = make_pipeline(before, ranker(0.01)).fit(X, y)
    assert pipeline.score(X, y) > 0.9
    transformed = clone(before).fit_transform(X)
    assert_allclose(pipeline[-1].coef_, ranker(0.01).fit(transformed, y).coef_, rtol=1e-6)


def test_grid_search(rows):
    X, y = rows
    grid = {"lam": [0.01, 1.0], "top": [1, 0.1]}
    search = GridSearchCV(ranker(), grid, cv=3, error_score="raise").fit(X, y)
    assert set(search.best_params_) == {"lam", "top"}
    assert search.best_score_ > 0.9
    expected = cross_val_score(ranker(**search.best_params_), X, y, cv=3).mean()
    assert search.best_score_ == pytest.approx(expected)


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_calibration(method, rows):
    X, y = rows
    calibrated = CalibratedClassifierCV(ranker(), method=method, cv=3).fit(X, y)
    probability = calibrated.predict_proba(X)[:, 1]
    assert np.all((probability >= 0.0) & (probability <= 1.0))
    assert probability[y == 1].mean() > 0.7 > 0.3 > probability[y == 0].mean()


def test_tuned_threshold(rows):
    X, y = rows
    tuned = TunedThresholdClassifierCV(ranker(), scoring="balanced_accuracy", cv=3).fit(X, y)
    balanced = 0.5 * (tuned.predict(X)[y == 1].mean() + 1 - tuned.predict(X)[y == 0].mean())
    assert balanced > 0.9


def test_pickle_and_joblib(fitted, rows, tmp_path):
    X, _ = rows
    joblib.dump(fitted, tmp_path / "ranker")
    for copy in (pickle.loads(pickle.dumps(fitted)), joblib.load(tmp_path / "ranker")):
        assert_array_equal(copy.decision_function(X), fitted.decision_function(X))
        assert copy.solution_.status is fitted.solution_.status
        assert copy.solution_.history == fitted.solution_.history


# Weights.


def test_sample_weight_zero_is_removal(rows):
    X, y = rows
    kept = np.arange(120) % 5 != 0
    zeroed = ranker().fit(X, y, sample_weight=kept.astype(float))
    removed = ranker().fit(X[kept], y[kept])
    assert_allclose(zeroed.coef_, removed.coef_, rtol=1e-9)
    assert zeroed.threshold_ == pytest.approx(removed.threshold_)


def test_weights_of_negatives_count_as_whole_rows(rows, rng):
    X, y = rows
    weight = np.where(y == 1, 1.0, rng.uniform(0.1, 9.0, size=120))
    assert_array_equal(ranker().fit(X, y, sample_weight=weight).coef_, ranker().fit(X, y).coef_)


def test_a_positive_of_much_weight_rises(rows):
    X, y = rows
    last = np.flatnonzero(y)[np.argmin(ranker().fit(X, y).decision_function(X)[y == 1])]
    weight = np.ones(120)
    weight[last] = 1000.0
    heavy = ranker().fit(X, y, sample_weight=weight)
    above = heavy.decision_function(X)[last]
    assert above > ranker().fit(X, y).decision_function(X)[last]


# Warm start.


def test_warm_start_goes_on_where_it_ended(rows):
    X, y = rows
    warm = ranker(warm_start=True, tol=1e-8).fit(X, y)
    first, n_first = warm.solution_, warm.n_iter_
    warm.fit(X, y)
    assert warm.n_iter_ <= 20 < n_first / 10
    assert warm.solution_.lower >= first.lower - 1e-9
    cold = ranker(tol=1e-8).fit(X, y).fit(X, y)
    assert cold.n_iter_ == n_first


def test_warm_start_is_passed_over_where_it_does_not_fit(rows):
    X, y = rows
    warm = ranker(warm_start=True).fit(X[:100], y[:100])
    assert_array_equal(warm.fit(X, y).coef_, ranker().fit(X, y).coef_)
    warm = ranker(warm_start=True).fit(X[:, :3], y)
    assert_array_equal(warm.fit(X, y).coef_, ranker().fit(X, y).coef_)


# Warnings.


def test_too_few_iterations_are_said_with_the_gap(rows):
    X, y = rows
    with pytest.warns(ConvergenceWarning, match="max_iter") as caught:
        short = ranker(max_iter=2).fit(X, y)
    assert f"relative gap {short.solution_.relative_gap:.2g}" in str(caught[0].message)
    assert f"{short.solution_.upper:.6g}" in str(caught[0].message)
    assert short.n_iter_ == 2
    assert short.predict(X).shape == (120,)


def test_warnings_point_at_the_caller(rows):
    with pytest.warns(ConvergenceWarning) as caught:
        ranker(max_iter=2).fit(*rows)
    assert caught[0].filename == __file__


def inside_the_hull(rng):
    """Positives whose mean lies among the negatives: weights of zero are optimal."""
    X = rng.normal(size=(60, 2))
    y = np.arange(60) % 3 == 0
    X[y] *= 0.1
    return X, y


def test_a_degenerate_optimum_is_said_and_names_top(rng):
    X, y = inside_the_hull(rng)
    with pytest.warns(DegenerateWarning, match="top=") as caught:
        found = ranker(10.0).fit(X, y)
    assert f"the 1 highest of {np.sum(~y)} negatives" in str(caught[0].message)
    assert found.solution_.lower == pytest.approx(1.0, rel=1e-3)


def test_weights_worse_than_zero_are_said(rng):
    """Here zero is optimal too, but the bound does not prove it yet."""
    X, y = inside_the_hull(rng)
    with pytest.warns(DegenerateWarning, match=r"tol.*top="):
        found = ranker(0.1).fit(X, y)
    assert found.solution_.upper > 1.0 > found.solution_.lower


def test_verbose_follows_the_fit(rows, capsys):
    ranker(verbose=1).fit(*rows)
    shown = capsys.readouterr().out
    assert "objective" in shown
    assert "passes" in shown
    ranker().fit(*rows)
    assert capsys.readouterr().out == ""


# Bad input.


@pytest.mark.parametrize(
    "change, sentence",
    [
        ({"X": np.empty((0, 6)), "y": np.empty(0)}, "0 sample"),
        ({"X": np.empty((120, 0))}, r"0 feature\(s\)"),
        ({"X": np.zeros(120)}, "2D array.*1D array"),
        ({"X": np.zeros((120, 2, 2))}, "dim 3"),
        ({"X": np.full((120, 6), "a")}, r"0.*.a.\).*TopRanker"),
        ({"X": np.ones((120, 6), complex)}, "supported"),
        ({"X": np.full((120, 6), np.nan)}, "X contains.*NaN"),
        ({"X": np.full((120, 6), np.inf)}, "X contains"),
        ({"X": sparse.csr_array(np.full((120, 6), np.nan))}, "X contains.*NaN"),
        ({"X": sparse.csr_array(np.full((120, 6), -np.inf))}, "X contains"),
        ({"y": np.zeros(119)}, "inconsistent"),
        ({"y": np.zeros(120)}, r"y needs.*class, array\(\[0\.\]\)"),
        ({"y": ["no"] * 120}, "y needs"),
        ({"y": np.arange(120) % 3}, "3 classes.*y"),
        ({"y": np.linspace(0, 1, 120)}, "continuous"),
        ({"y": np.zeros((120, 2))}, "y should.*1d array"),
        ({"y": np.r_[np.nan, np.zeros(119)]}, "y contains.*NaN"),
        ({"y": np.r_[np.inf, np.zeros(119)]}, "y contains"),
        ({"y": None}, "requires.*y.*y"),
        ({"sample_weight": np.ones(119)}, r"sample_weight.shape == \(119,\), expected \(120,\)"),
        ({"sample_weight": np.r_[np.nan, np.ones(119)]}, "sample_weight contains NaN"),
        ({"sample_weight": np.r_[np.inf, np.ones(119)]}, "sample_weight contains infinity"),
        ({"sample_weight": np.r_[-1.0, np.ones(119)]}, "sample_weight.*found -1"),
        (
            {"sample_weight": np.arange(120) % 3 > 0},
            r"class (np\.int64\()?1\)?.*sample_weight.*0",
        ),
        (
            {"sample_weight": np.arange(120) % 3 == 0},
            r"class (np\.int64\()?0\)?.*sample_weight.*0",
        ),
        ({"sample_weight": np.zeros(120)}, "at least one non-zero number|every row of class"),
    ],
)
def test_bad_data(change, sentence, rows):
    X, y = rows
    with pytest.raises(ValueError, match=sentence):
        ranker().fit(**{"X": X, "y": y, **change})


@pytest.mark.parametrize(
    "params, sentence",
    [
        ({"lam": 0.0}, "'lam'.*TopPush"),
        ({"lam": -1.0}, "'lam'.*TopPush"),
        ({"lam": "1"}, "'lam' parameter of TopPush"),
        ({"top": 0}, "'top'.*TopPush"),
        ({"top": -1}, "'top'.*TopPush"),
        ({"top": 0.0}, "'top'.*TopPush"),
        ({"top": 1.5}, "'top'.*TopPush"),
        ({"top": "x"}, "'top'.*TopPush"),
        ({"top": None}, "'top'.*TopPush"),
        ({"top": 81}, "top=81.*80 negatives.*1.*80"),
        ({"loss": "hinge"}, "'loss'.*TopPush"),
        ({"solver": "simplex"}, "'solver'.*TopPush"),
        ({"tol": -1e-3}, "'tol' parameter of TopPush"),
        ({"max_iter": 0}, "'max_iter' parameter of TopPush"),
        ({"n_jobs": 0}, "'n_jobs' parameter of TopPush"),
        ({"warm_start": "yes"}, "'warm_start' parameter of TopPush"),
    ],
)
def test_bad_parameters(params, sentence, rows):
    with pytest.raises(ValueError, match=sentence):
        ranker(**params).fit(*rows)


@pytest.mark.parametrize("lam", [np.nan, np.inf])
def test_lam_must_be_a_finite_number(lam, rows):
    with pytest.raises(ValueError, match="'lam' parameter of TopPush"):
        ranker(lam).fit(*rows)


# A fit that does not end.


def interrupt_after(n_calls, error, monkeypatch):
    """Make the work on a block fail after some calls."""
    advance, calls = accelerated._advance, []

    def failing(block, weights):
        calls.append(block)
        if len(calls) > n_calls:
            raise error
        return advance(block, weights)

    monkeypatch.setattr(accelerated, "_advance", failing)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_an_interrupted_fit_leaves_a_fitted_estimator_as_it_was(
    error, n_jobs, fitted, rows, monkeypatch
):
    X, y = rows
    monkeypatch.setattr(local, "ENTRIES_PER_THREAD", 1)
    fitted.set_params(n_jobs=n_jobs)
    before, decision = vars(fitted).copy(), fitted.decision_function(X)
    interrupt_after(5, error, monkeypatch)
    with pytest.raises(error):
        fitted.fit(X[:, :4], 1 - y)
    assert vars(fitted).keys() == before.keys()
    assert all(vars(fitted)[name] is value for name, value in before.items())
    assert_array_equal(fitted.decision_function(X), decision)


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_an_interrupted_fit_leaves_an_unfitted_estimator_unfitted(n_jobs, rows, monkeypatch):
    monkeypatch.setattr(local, "ENTRIES_PER_THREAD", 1)
    interrupt_after(2, KeyboardInterrupt, monkeypatch)
    unfitted = ranker(n_jobs=n_jobs)
    with pytest.raises(KeyboardInterrupt):
        unfitted.fit(*rows)
    assert not [name for name in vars(unfitted) if name.endswith("_")]
    with pytest.raises(NotFittedError):
        unfitted.predict(rows[0])


def test_a_refused_fit_leaves_a_fitted_estimator_as_it_was(fitted, rows):
    X, y = rows
    before = vars(fitted).copy()
    with pytest.raises(ValueError, match="one class"):
        fitted.fit(X[:, :2], np.zeros(120))
    assert vars(fitted) == before
    assert_array_equal(fitted.predict(X), ranker().fit(X, y).predict(X))


def test_a_device_without_torch_says_what_to_install(rows, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    for name in ("toppush.designs.torch", "toppush.designs.torch.rows"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.delattr(designs, "torch", raising=False)
    with pytest.raises(ImportError, match=r"device='cuda'.*torch.*'toppush\[gpu\]'"):
        ranker(device="cuda").fit(*rows)


def test_the_readme_example_ranks_breast_cancer():
    X, y = load_breast_cancer(return_X_y=True)
    pipeline = make_pipeline(MaxAbsScaler(), TopPush(lam=0.01, solver="paper")).fit(X, y)
    assert pipeline.score(X, y) > 0.99
