"""Why a row stands where it does: what columns add, what is said of it, what a pair differs in."""

from itertools import combinations
from math import factorial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from toppush import TopPush, TopPushAdditive, TopPushCV, TopPushKernel, TopPushNet, TopPushTrees
from toppush.baselines import BASELINES
from toppush.estimators.contributions import (
    background_places,
    highest_negatives,
    mean_contributions,
    shapley,
    some_background,
)

RANKERS = {
    "linear": TopPush(0.1, top=0.3),
    "cv": TopPushCV([0.1], tops=[0.3], cv=2),
    "additive": TopPushAdditive([0.1], tops=[0.3]),
    "kernel": TopPushKernel([0.1], tops=[0.3], widths=[0.3], n_components=20),
    "trees": TopPushTrees(0.1, n_members=2, max_rounds=20, n_threads=1),
    "net": TopPushNet(n_members=2, hidden=(8,), max_steps=30, learning_rate=0.01, n_threads=1),
}
ENGINES = {"trees": "lightgbm", "net": "torch"}


def made(n_rows=200, n_columns=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_columns)).round(2)
    return X, X[:, 0] + X[:, 1] * (X[:, 2] > 0) + rng.normal(size=n_rows) > 1.3


def fitted(name):
    if name in ENGINES:
        pytest.importorskip(ENGINES[name], reason=f"needs {ENGINES[name]}, an extra")
    return RANKERS[name].fit(*made())


by_ranker = pytest.mark.parametrize("name", RANKERS)


# What columns add.


@by_ranker
def test_contributions_sum_to_the_score(name):
    ranker, (X, _) = fitted(name), made(60, seed=1)
    found = ranker.contributions(X)
    assert found.shape == (60, 6)
    assert_allclose(found.sum(axis=1), ranker.decision_function(X), rtol=1e-9, atol=1e-9)


@by_ranker
def test_sparse_rows_have_the_same_contributions(name):
    if name in ENGINES:
        pytest.importorskip(ENGINES[name], reason=f"needs {ENGINES[name]}, an extra")
    X, y = made()
    X[np.abs(X) < 0.7] = 0.0
    ranker, X = RANKERS[name].fit(sparse.csr_array(X), y), X[:20]
    found = ranker.contributions(sparse.csr_array(X))
    assert_allclose(found, ranker.contributions(X), atol=1e-8)


@pytest.mark.parametrize("name", ["TopPush", *list(BASELINES)[:2]])
def test_a_weighted_sum_is_weight_times_value(name):
    X, y = made()
    made_by = BASELINES | {"TopPush": lambda: TopPush(0.1, top=0.3)}
    ranker = made_by[name]().fit(X, y)
    found = ranker.contributions(X)
    assert_array_equal(found[:, :-1], X * ranker.coef_[0])
    assert_array_equal(found[:, -1], -ranker.threshold_)


# Shapley's values.


def brute_force(score, row, start):
    """Shapley's value by its definition, over all subsets of columns."""
    n = len(row)

    def with_columns(columns):
        mixed = start.copy()
        mixed[list(columns)] = row[list(columns)]
        return float(score(mixed[None, :])[0])

    found = np.zeros(n)
    for j in range(n):
        others = [k for k in range(n) if k != j]
        for size in range(n):
            weight = factorial(size) * factorial(n - size - 1) / factorial(n)
            for some in combinations(others, size):
                found[j] += weight * (with_columns((*some, j)) - with_columns(some))
    return found


def pairwise(rows):
    return rows[:, 0] * rows[:, 1] - 2 * np.sin(rows[:, 2]) * rows[:, 3] + rows[:, 3] ** 2


def tangled(rows):
    return np.exp(rows[:, :3].sum(axis=1)) + np.prod(rows, axis=1) + np.max(rows, axis=1)


def test_values_are_exact_where_two_columns_act_together():
    X, _ = made(5, 4)
    background = made(3, 4, seed=2)[0]
    found = shapley(pairwise, X, background)
    for row, values in zip(X, found, strict=True):
        expected = np.mean([brute_force(pairwise, row, start) for start in background], axis=0)
        assert_allclose(values[:-1], expected, atol=1e-12)
    assert_allclose(found[:, -1], pairwise(background).mean())


def test_values_come_close_where_many_do():
    X, _ = made(3, 4)
    background = made(2, 4, seed=2)[0]
    found = shapley(tangled, X, background, n_pairs=400)
    for row, values in zip(X, found, strict=True):
        expected = np.mean([brute_force(tangled, row, start) for start in background], axis=0)
        assert_allclose(values[:-1], expected, atol=0.05 * np.abs(expected).max())
    assert_allclose(found.sum(axis=1), tangled(X), rtol=1e-12)


def test_equal_parts_for_columns_that_act_alike():
    row, start = np.array([[2.0, 2.0, 5.0, 1.0]]), np.zeros((1, 4))
    found = shapley(lambda rows: rows[:, 0] * rows[:, 1] + rows[:, 2], row, start)[0]
    assert_allclose(found, [2.0, 2.0, 5.0, 0.0, 0.0])


def test_a_column_that_does_nothing_adds_nothing():
    X, _ = made(10, 5)
    found = shapley(lambda rows: tangled(rows[:, 1:]), X, made(4, 5, seed=2)[0])
    assert_array_equal(found[:, 0], 0.0)


def test_values_of_a_sum_are_sums_of_values():
    X, background = made(10, 4)[0], made(4, 4, seed=2)[0]
    found = shapley(lambda rows: 2.0 * tangled(rows) - pairwise(rows), X, background)
    one, other = shapley(tangled, X, background), shapley(pairwise, X, background)
    assert_allclose(found, 2.0 * one - other, atol=1e-9)


def test_a_row_is_explained_as_it_is_alone(monkeypatch):
    X, background = made(7, 4)[0], made(4, 4, seed=2)[0]
    together = shapley(tangled, X, background)
    monkeypatch.setattr("toppush.estimators.contributions.NUMBERS", 30)
    alone = np.concatenate([shapley(tangled, X[[row]], background) for row in range(7)])
    assert_allclose(together, alone, atol=1e-12)


def test_gaps_equal_gaps():
    X, background = made(4, 4)[0], made(2, 4, seed=2)[0]
    X[:, 1] = background[:, 1] = np.nan
    asked = []

    def score(rows):
        asked.append(rows)
        return np.nansum(rows, axis=1)

    found = shapley(score, X, background)
    assert_array_equal(found[:, 1], 0.0)
    assert_allclose(found.sum(axis=1), np.nansum(X, axis=1))
    assert np.isnan(np.concatenate(asked)[:, 1]).all()


def test_the_background_is_of_bounded_work():
    assert len(background_places(1000, 6)) == 16
    assert len(background_places(1000, 5000)) == 2
    assert len(background_places(3, 6)) == 3
    assert some_background(sparse.csr_array(made()[0])).shape == (16, 5)


# The reference.


@pytest.mark.parametrize("n_rows, count", [(5, 5), (500, 10), (3000, 30), (150_000, 1000)])
def test_the_reference_is_one_in_a_hundred_negatives(n_rows, count):
    scores = np.random.default_rng(0).normal(size=n_rows + 3)
    positive = np.arange(n_rows + 3) < 3
    found = highest_negatives(positive, scores)
    assert_array_equal(found, 3 + np.argsort(-scores[3:])[:count])


def test_rows_without_a_score_are_no_reference():
    scores = np.array([5.0, np.nan, 3.0, 9.0])
    assert_array_equal(highest_negatives(np.array([0, 0, 0, 1]), scores), [0, 2])


def test_the_mean_is_taken_in_parts(monkeypatch):
    ranker, (X, _) = fitted("linear"), made(50, seed=1)
    whole = ranker.contributions(X).mean(axis=0)
    monkeypatch.setattr("toppush.estimators.contributions.PART_NUMBERS", 20)
    assert_allclose(mean_contributions(ranker, X), whole)
