"""Scores that new rows are expected to have: out-of-fold scores with the spread of the mean."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression

from toppush import TopPushTrees, TopRanker, files
from toppush.auto.kernel import TopKernel
from toppush.folds.scores import in_order, left_out_twice, n_averaged, narrowed, with_second_scores
from toppush.folds.splits import split_folds
from toppush.models.forest import TopForest
from toppush.thresholds.calibration import percentiles

MARKS = np.array([10.0, 5.0, 1.0])


def population(n_rows, seed):
    """Rows of which a tenth is positive, mostly by chance."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 10))
    return X, rng.random(n_rows) < 1 / (1 + np.exp(3 - 0.7 * X[:, 0] - 0.5 * X[:, 1] * X[:, 2]))


def above(percentiles):
    """Percent of the rows above each mark."""
    return 100 * np.mean(percentiles[:, None] > 100 - MARKS, axis=0)


# ---- narrowing


@pytest.mark.parametrize("noise", [0.3, 1.0])
@pytest.mark.parametrize("n_models", [2, 4, 8])
def test_narrowed_scores_have_the_distribution_of_the_mean(noise, n_models):
    """Skewed signals, and noise that grows with them."""
    rng = np.random.default_rng(0)
    signal = np.exp(0.5 * rng.normal(size=100_000))
    several = signal + noise * np.sqrt(signal) * rng.normal(size=(n_models, len(signal)))
    first, second = several[0], np.where(np.arange(len(signal)) % 8, np.nan, several[1])
    expected = narrowed(first, first, second, n_models)
    for share in (0.5, 0.9, 0.99):
        mark = np.quantile(expected, share)
        assert np.mean(several.mean(axis=0) > mark) == pytest.approx(1 - share, rel=0.1)
        assert share < 0.9 or np.quantile(first, share) > mark


@pytest.mark.parametrize("n_models", [3, 4])
def test_narrowing_follows_noise_that_makes_the_top(n_models):
    """Noise with outliers that is three times as large where the signal is high."""
    rng = np.random.default_rng(0)
    signal = rng.normal(size=100_000)
    noise = rng.laplace(size=(n_models, len(signal))) * np.where(signal > 1, 1.05, 0.35)
    first, second, *_ = several = signal + noise
    second = np.where(np.arange(len(signal)) % 8, np.nan, second)
    mark = np.quantile(narrowed(first, first, second, n_models), [0.9, 0.99])
    found = np.mean(several.mean(axis=0) > mark[:, None], axis=1)
    assert_allclose(found, [0.1, 0.01], rtol=0.2)


@given(
    st.lists(st.tuples(st.floats(-9, 9), st.floats(-9, 9)), min_size=20, max_size=60),
    st.integers(1, 9),
)
def test_narrowing_keeps_the_ranking_and_goes_to_the_middle(pairs, n_models):
    first, second = np.array(pairs).T
    expected, middle = narrowed(first, first, second, n_models), np.median(first)
    assert (np.diff(expected[np.argsort(first)]) >= -1e-9).all()
    assert (np.abs(expected - middle) <= np.abs(first - middle) + 1e-9).all()
    assert (np.abs(expected - middle) >= np.abs(first - middle) / np.sqrt(n_models) - 1e-9).all()


def test_scores_stay_where_models_agree_or_are_not_averaged():
    first = np.random.default_rng(0).normal(size=200)
    assert_allclose(narrowed(first, first, first, 4), first, atol=1e-12)
    assert_array_equal(narrowed(first, first, -first, 1), first)
    unknown = np.where(np.arange(200) < 5, first, np.nan)
    assert_array_equal(narrowed(first, first, unknown, 4), first)


@given(
    st.lists(st.integers(-3, 3), min_size=1, max_size=30),
    st.lists(st.floats(-9, 9), min_size=1, max_size=30),
)
def test_values_in_the_order_of_scores(scores, values):
    scores = np.array(scores)
    found = in_order(np.array(values), scores)
    order = np.argsort(scores, kind="stable")
    assert (np.diff(found[order]) >= 0).all()
    assert len(np.unique(found)) <= len(np.unique(scores))
    assert min(values) <= found.min() <= found.max() <= max(values)
    distinct = in_order(np.array(values), np.arange(len(values))[::-1])
    assert_array_equal(distinct, np.sort(values)[::-1])


# ---- rows that two models leave out


@given(st.integers(2, 9), st.integers(0, 99))
def test_folds_leave_out_a_few_rows_of_the_next_one(n_folds, seed):
    positive = np.random.default_rng(seed).random(400) < 0.3
    folds = split_folds(n_folds, positive, np.arange(400))
    left, again = with_second_scores(folds, positive)
    seen = np.zeros((n_folds, 400), bool)
    for number, (train, held) in enumerate(left):
        seen[number, train] = True
        assert_array_equal(held, folds[number][1])
        assert not seen[number, again[number]].any()
    assert_array_equal((~seen).sum(axis=0), 1 + left_out_twice(positive))
    assert np.mean(left_out_twice(positive)) == pytest.approx(1 / 8, abs=0.01)
    assert n_averaged([held for _, held in left]) == n_folds


def test_few_of_many_rows_are_left_out_twice():
    assert left_out_twice(np.arange(1_000_000) % 9 == 0).sum() == 4_000


# ---- rankers

RANKERS = {
    "trees": TopPushTrees(n_members=4),
    "binary": TopPushTrees(loss="binary", n_members=4),
    "forest": TopForest(48),
    "kernel": TopKernel(),
    "combination": TopRanker(["logistic", "boosted", "forest"], effort="quick"),
    "linear": TopRanker(["logistic"], effort="quick"),
}


@pytest.mark.long
@pytest.mark.parametrize("name", RANKERS)
def test_percentile_scores_of_new_rows_are_uniform(name):
    new = population(20_000, 99)[0]
    found, before = [], []
    for seed in range(6):
        ranker = RANKERS[name].fit(*population(2_000, seed))
        scores = ranker.decision_function(new)
        found.append(above(percentiles(scores, ranker.expected_scores_)))
        before.append(above(percentiles(scores, ranker.out_of_fold_)))
    error = np.std(found, axis=0, ddof=1) / np.sqrt(len(found))
    assert (np.abs(np.mean(found, axis=0) - MARKS) < 2 * error + 0.15 * MARKS).all()
    if name != "linear":
        assert (np.mean(before, axis=0)[1:] < 0.9 * MARKS[1:]).all()


def test_a_second_fold_model_scores_the_rows_that_two_leave_out():
    X, y = population(1_000, 0)
    for ranker in (TopPushTrees(n_members=4, max_rounds=20), TopForest(16)):
        ranker.fit(X, y)
        assert_array_equal(np.isfinite(ranker.second_scores_), left_out_twice(y))
        assert np.std(ranker.expected_scores_) < np.std(ranker.out_of_fold_)


@pytest.mark.long
def test_threads_do_not_matter():
    X, y = population(800, 0)
    for make in (
        lambda n: TopPushTrees(n_members=4, max_rounds=20, n_jobs=n),
        lambda n: TopForest(16, n_jobs=n),
        lambda n: TopKernel(n_jobs=n),
        lambda n: TopRanker(["boosted", "forest"], effort="quick", n_jobs=n),
    ):
        first, second = (make(n_jobs).fit(X, y).expected_scores_ for n_jobs in (1, 2))
        assert_array_equal(first, second)


@pytest.mark.filterwarnings("ignore:base model 'own'")
def test_an_estimator_that_is_refitted_keeps_its_out_of_fold_scores():
    X, y = population(400, 0)
    ranker = TopRanker([("own", LogisticRegression())], effort="quick").fit(X, y)
    assert_allclose(ranker.expected_scores_, ranker.out_of_fold_, atol=1e-9)


@pytest.mark.parametrize(
    "options",
    [
        {"model": "trees", "members": 2},
        pytest.param({"model": "auto", "effort": "quick"}, marks=pytest.mark.long),
    ],
)
def test_what_scores_mean_is_learned_from_expected_scores_and_saved(options, tmp_path):
    X, y = population(600, 0)
    table = np.column_stack([X, y])
    names = ",".join([*(f"x{at}" for at in range(10)), "label"])
    np.savetxt(tmp_path / "train.csv", table, "%.6g", ",", header=names, comments="")
    model = files.fit(tmp_path / "train.csv", label="label", **options)
    expected = model.ranker.expected_scores_
    expected = expected[~np.isnan(expected)]
    own = percentiles(expected, expected)
    assert_allclose(model.percentile(expected), own, atol=1e-4)
    files.save(model, tmp_path / "m.toppush")
    again = files.load(tmp_path / "m.toppush")
    assert_allclose(again.percentile(expected), own, atol=1e-4)
    assert_array_equal(again.probability(expected), model.probability(expected))
    assert not {"expected_scores_", "second_scores_", "out_of_fold_"} & set(vars(again.ranker))
