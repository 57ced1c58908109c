"""TopPushKernel: the laws of the estimator, against the steps one by one."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import make_circles
from sklearn.kernel_approximation import Nystroem
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from toppush import TopPush, TopPushCV, TopPushKernel
from toppush.nonlinear import features, kernel

DRAWN = "the kernel's rows are drawn by position, so repeated rows draw others than weighted ones"


def expected_failures(estimator):
    names = "check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_"
    return {names[0]: DRAWN, f"{names[1]}sparse_data": DRAWN}


@pytest.mark.filterwarnings("ignore::toppush.DegenerateWarning")
@pytest.mark.sampled(2)
@parametrize_with_checks(
    [
        TopPushKernel([0.01], tops=[0.3], widths=[0.3], n_components=20),
        TopPushKernel([0.01, 0.1], tops=[0.3], n_components=20, cv=2),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.fixture
def rings():
    """The positives lie within the negatives; the second column has another size."""
    X, y = make_circles(300, factor=0.4, noise=0.15, random_state=0)
    return X * [1.0, 100.0] + [5.0, 0.0], y


def slow_median(X):
    scaled = StandardScaler().fit_transform(X)
    return np.median([np.sum((a - b) ** 2) for i, a in enumerate(scaled) for b in scaled[:i]])


def test_it_is_the_steps_one_after_another(rings):
    X, y = rings
    ranker = TopPushKernel([0.01], tops=[0.1], widths=[0.5], n_components=40).fit(X, y)
    scaled = StandardScaler().fit_transform(X)
    assert ranker.gamma_ == pytest.approx(0.5 / slow_median(X))
    made = Nystroem(gamma=ranker.gamma_, n_components=40, random_state=0).fit_transform(scaled)
    linear = TopPush(0.01, top=0.1, tol=features.TOL).fit(made, y)
    assert_array_equal(ranker.coef_, linear.coef_)
    assert_allclose(ranker.decision_function(X), linear.decision_function(made), atol=1e-9)
    assert ranker.solution_.relative_gap <= features.TOL
    assert ranker.score(X, y) > 0.99


def test_the_width_is_chosen_on_the_same_folds(rings):
    X, y = rings
    how = {"tops": [0.1, 0.3], "scoring": "average_precision", "cv": 3}
    ranker = TopPushKernel([0.1, 0.001], widths=[0.001, 1.0], n_components=40, **how).fit(X, y)
    scaled, found = StandardScaler().fit_transform(X), {}
    for width in (0.001, 1.0):
        gamma = width / kernel.median_distance(scaled)
        made = Nystroem(gamma=gamma, n_components=40, random_state=0).fit_transform(scaled)
        found[width] = TopPushCV([0.1, 0.001], tol=features.TOL, **how).fit(made, y)
    assert ranker.widths_ == {width: one.best_score_ for width, one in found.items()}
    best = max(found.values(), key=lambda one: one.best_score_)
    assert (ranker.lam_, ranker.top_) == (best.lam_, best.top_)
    assert_array_equal(ranker.coef_, best.coef_)


def test_shift_and_size_of_columns_do_not_matter(rings):
    X, y = rings
    how = {"tops": [0.1], "widths": [0.5], "n_components": 40}
    one = TopPushKernel([0.01], **how).fit(X, y).decision_function(X)
    other = X * [1e4, 1e-4] + [1.0, 2.0]
    assert_allclose(
        TopPushKernel([0.01], **how).fit(other, y).decision_function(other), one, atol=1e-4
    )


def test_sparse_rows(rings):
    X, y = rings
    how = {"tops": [0.1], "widths": [0.5], "n_components": 40}
    dense = TopPushKernel([0.01], **how).fit(X, y)
    thin = TopPushKernel([0.01], **how).fit(sparse.csr_array(X), y)
    assert thin.gamma_ == pytest.approx(dense.gamma_)
    assert_allclose(
        thin.decision_function(sparse.csr_array(X)), dense.decision_function(X), atol=1e-4
    )


def test_large_tables_are_searched_in_part_and_fitted_whole(rings, monkeypatch):
    X, y = rings
    monkeypatch.setattr(features, "OF_EACH_CLASS", 50)
    monkeypatch.setattr(kernel, "SEARCH_ENTRIES", 4000)
    ranker = TopPushKernel([0.01, 0.1], tops=[0.1], n_components=40, cv=2).fit(X, y)
    best = max(ranker.widths_, key=ranker.widths_.get)
    alone = TopPushKernel([ranker.lam_], tops=[0.1], widths=[best], n_components=40).fit(X, y)
    assert_array_equal(ranker.coef_, alone.coef_)
    assert ranker.threshold_ == alone.threshold_


def test_a_fit_repeats_and_the_seed_counts(rings):
    X, y = rings
    made = [
        TopPushKernel([0.01], tops=[0.1], n_components=40, cv=2, random_state=seed).fit(X, y)
        for seed in (0, 0, 1)
    ]
    assert_array_equal(made[0].coef_, made[1].coef_)
    assert not np.array_equal(made[0].coef_, made[2].coef_)


def test_rows_of_no_weight_are_not_looked_at(rings):
    X, y = rings
    weight = (np.arange(300) % 3 > 0).astype(float)
    how = {"tops": [0.1], "widths": [0.5], "n_components": 40}
    weighted = TopPushKernel([0.01], **how).fit(X, y, weight)
    without = TopPushKernel([0.01], **how).fit(X[weight > 0], y[weight > 0])
    assert_allclose(weighted.decision_function(X), without.decision_function(X), atol=0.05)
    assert weighted.gamma_ == pytest.approx(without.gamma_)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"widths": []}, "widths must be numbers above 0"),
        ({"widths": [1.0, -1.0]}, "widths must be numbers above 0"),
        ({"n_components": 0}, "n_components"),
        ({"tops": []}, "the grid is empty"),
    ],
)
def test_errors_say_what_to_do(rings, change, message):
    with pytest.raises(ValueError, match=message):
        TopPushKernel(**change).fit(*rings)


def test_too_many_features_are_refused(rings, monkeypatch):
    monkeypatch.setattr(kernel, "MOST_ENTRIES", 3000)
    with pytest.raises(ValueError, match="give at most n_components=10"):
        TopPushKernel().fit(*rings)


def test_an_interrupt_leaves_the_ranker_as_it_was(rings, monkeypatch):
    X, y = rings
    ranker = TopPushKernel([0.01], tops=[0.1], widths=[0.5], n_components=40).fit(X, y)
    before = ranker.decision_function(X)

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(TopPush, "fit", interrupt)
    with pytest.raises(KeyboardInterrupt):
        ranker.set_params(n_components=20).fit(X[:, :1], y)
    assert_array_equal(ranker.decision_function(X), before)
