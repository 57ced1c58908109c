"""Paths over lam and top, and their choice by cross-validation, against fits one by one."""

import sys
import time
from dataclasses import replace
from functools import partial
from threading import Event

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, get_scorer, make_scorer, roc_auc_score
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import reference
from toppush import DegenerateWarning, TopPush, TopPushCV, metrics, toppush_path
from toppush.designs import LocalDesign, LocalRows, local
from toppush.metrics.partial_curve import Head, first_negatives
from toppush.models.path import Grid, follow, follow_solvable, lam_grid
from toppush.models.search import by_the_top, ranks
from toppush.problem.losses import LOSSES
from toppush.problem.objective import TopPushProblem, count_top
from toppush.problem.solution import Status
from toppush.solvers import zero_is_optimal
from toppush.system.threads import Cancelled, check_cancelled

pytestmark = pytest.mark.sampled(3)

every_loss = pytest.mark.parametrize("name", LOSSES)
selection = sys.modules["toppush.models.linear_cv"]
paths = sys.modules["toppush.models.path"]
LAMS, TOPS = [0.03, 3.0, 0.3], (1, 0.1, 5)


@pytest.fixture
def rows(rng):
    """150 rows of which 50 positives stand apart, but not from all of the others."""
    X = rng.normal(size=(150, 5))
    y = np.arange(150) % 3 == 0
    X[y, 0] += 2.5
    X[y, 1] += 1.5
    return X, y.astype(int)


# Paths.


@every_loss
def test_a_path_equals_separate_fits(name, rows):
    X, y = rows
    path = toppush_path(X, y, lams=LAMS, tops=TOPS, loss=name, tol=1e-6)
    assert_array_equal(path.lams, [3.0, 0.3, 0.03])
    assert path.tops == TOPS
    assert path.coefs.shape == (3, 3, 5)
    for i, top in enumerate(TOPS):
        for j, lam in enumerate(path.lams):
            found = path.solutions[i][j]
            alone = TopPush(lam, top=top, loss=name, tol=1e-6).fit(X, y).solution_
            assert found.status is Status.CONVERGED
            assert found.upper == pytest.approx(alone.upper, rel=1.1e-6)
            assert max(found.lower, alone.lower) <= min(found.upper, alone.upper) * (1 + 1e-12)
            apart = np.linalg.norm(found.weights - alone.weights)
            assert apart <= np.sqrt(2 * found.gap / lam) + np.sqrt(2 * alone.gap / lam) + 1e-12
            assert_array_equal(path.coefs[i, j], found.weights)
            k = {1: 1, 0.1: 10, 5: 5}[top]
            slow = reference.primal(X, y == 1, found.weights, lam=lam, k=k, name=name)
            assert found.upper == pytest.approx(slow, rel=1e-10)


def test_a_path_takes_sample_weights(rows, rng):
    X, y = rows
    weight = np.where(rng.random(150) < 0.2, 0.0, rng.uniform(0.5, 3.0, size=150))
    path = toppush_path(X, y, lams=[0.3], sample_weight=weight, tol=1e-7)
    alone = TopPush(0.3, tol=1e-7).fit(X, y, sample_weight=weight).solution_
    assert path.solutions[0][0].upper == pytest.approx(alone.upper, rel=1e-6)
    plain = toppush_path(X, y, lams=[0.3], tol=1e-7).solutions[0][0]
    assert abs(plain.upper - alone.upper) > 1e-3


def test_a_path_over_rows_with_empty_columns_has_weights_for_all(rows):
    X, y = rows
    assert local.WIDE < 5405
    wide = sparse.csr_array(np.hstack([np.zeros((150, 5400)), X]))
    path = toppush_path(wide, y, lams=LAMS, tol=1e-7)
    narrow = toppush_path(X, y, lams=LAMS, tol=1e-7)
    assert path.coefs.shape == (1, 3, 5405)
    assert_array_equal(path.coefs[..., :5400], 0.0)
    assert_allclose(path.coefs[..., 5400:], narrow.coefs, atol=1e-3)


@every_loss
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_the_default_lams_start_where_little_is_to_be_gained(scale, name, rows):
    """At the first of them no weights beat zero by more than 1 %; further down, they do."""
    X, y = scale * rows[0], rows[1]
    path = toppush_path(X, y, tops=(1, 1.0), loss=name)
    at_zero = reference.loss(name, 0.0)
    assert len(path.lams) == 9
    assert np.all(np.diff(path.lams) < 0.0)
    assert path.lams[-1] == pytest.approx(1e-4 * path.lams[0])
    for row in path.solutions:
        assert row[0].lower >= at_zero * (1.0 - 0.01 - 1e-4)
        assert row[-1].upper < 0.9 * at_zero
    # Against the mean of all negatives the bound is nearly attained: the grid starts no higher.
    assert path.solutions[1][0].upper < at_zero * (1.0 - 0.005)


def test_default_lams_of_equal_means_are_positive():
    X = np.array([[1.0], [-1.0], [1.0], [-1.0]])
    with LocalDesign(X, np.array([True, True, False, False])) as design:
        lams = lam_grid(design, "truncated_quadratic")
    assert np.all(lams > 0.0)
    assert np.all(np.isfinite(lams))


# Cross-validation.


def slow_choice(X, y, folds, lams, tops, measure, tol, sample_weight=None):
    """Fits and scores one by one: a list of (lam, top, the folds' scores)."""
    found = []
    for top in tops:
        for lam in sorted(lams, reverse=True):
            scores = []
            for train, test in folds:
                weight = None if sample_weight is None else sample_weight[train]
                ranker = TopPush(lam, top=top, tol=tol).fit(X[train], y[train], weight)
                scores.append(measure(ranker, X[test], y[test]))
            found.append((lam, top, scores))
    return found


FOLDS = {
    "3": 3,
    "stratified": StratifiedKFold(4, shuffle=True, random_state=0),
    "unstratified": KFold(3, shuffle=True, random_state=1),
}


@pytest.mark.parametrize("cv", FOLDS)
@pytest.mark.parametrize("kind, n_jobs", [(np.asarray, 2), (sparse.csr_array, 1)])
def test_equals_fits_and_scores_one_by_one(kind, n_jobs, cv, rows, monkeypatch):
    monkeypatch.setattr(local, "SMALL", 0)
    X, y = rows
    by = "average_precision"
    search = TopPushCV(LAMS, tops=TOPS, cv=FOLDS[cv], scoring=by, tol=1e-9, n_jobs=n_jobs)
    search.fit(kind(X), y)
    splitter = StratifiedKFold(3) if cv == "3" else FOLDS[cv]
    folds = list(splitter.split(X, y))

    def measure(ranker, X, y):
        return average_precision_score(y, ranker.decision_function(X))

    slow = slow_choice(X, y, folds, LAMS, TOPS, measure, 1e-8)
    table = np.array([scores for *_, scores in slow])
    results = search.cv_results_
    assert results["params"] == [{"lam": lam, "top": top} for lam, top, _ in slow]
    for fold in range(len(folds)):
        # One pair of rows in another order moves average precision by less than this.
        assert_allclose(results[f"split{fold}_test_score"], table[:, fold], atol=5e-3)
    assert_allclose(results["mean_test_score"], table.mean(axis=1), atol=2e-3)
    assert_allclose(results["std_test_score"], table.std(axis=1), atol=5e-3)
    best = int(np.argmax(table.mean(axis=1)))
    assert (search.lam_, search.top_) == slow[best][:2]
    assert search.best_score_ == results["mean_test_score"].max()
    final = TopPush(search.lam_, top=search.top_, tol=1e-9).fit(X, y)
    assert_allclose(search.coef_, final.coef_, atol=1e-5)
    assert search.threshold_ == pytest.approx(final.threshold_, abs=1e-5)
    assert np.ptp(results["mean_test_score"]) > 1e-3


def test_folds_are_fitted_on_the_rows_that_the_splitter_trains_on(rows, rng):
    """As with ShuffleSplit(train_size=...) and TimeSeriesSplit, where some rows are in neither."""
    X, y = rows
    y = np.where(np.arange(150) < 75, y, rng.permutation(y))  # nothing to learn past row 75
    train, test = np.arange(50), np.arange(50, 75)
    search = TopPushCV(
        [0.3], tops=(1.0,), cv=[(train, test)], scoring="average_precision", tol=1e-8
    ).fit(X, y)
    ranker = TopPush(0.3, top=1.0, tol=1e-8).fit(X[train], y[train])
    assert search.best_score_ == pytest.approx(ranker.score(X[test], y[test]), abs=1e-6)


def test_cross_validated_results_look_like_those_of_a_grid_search(rows):
    X, y = rows
    search = TopPushCV(LAMS, tops=(1, 5), cv=3, tol=1e-4).fit(X, y)
    grid = GridSearchCV(TopPush(), {"lam": LAMS, "top": [1, 5]}, cv=3).fit(X, y)
    ours, theirs = search.cv_results_, grid.cv_results_
    of_the_rule = {"joint_test_score", "mean_average_precision", "degenerate", "n_folds"}
    assert set(ours) - of_the_rule <= set(theirs)
    assert set(theirs) - set(ours) == {"std_fit_time", "mean_score_time", "std_score_time"}
    assert set(map(str, ours["params"])) == set(map(str, theirs["params"]))
    for name in of_the_rule:
        assert len(ours.pop(name)) == 6
    for name in ours:
        assert len(ours[name]) == len(theirs[name]) == 6
    points = ours["params"]
    by_point = {
        str(point): rank for point, rank in zip(points, ours["rank_test_score"], strict=True)
    }
    assert by_point[str({"lam": search.lam_, "top": search.top_})] == 1
    order = np.argsort(-ours["mean_test_score"], kind="stable")
    assert np.all(np.diff(ours["rank_test_score"][order]) >= 0)
    assert ours["rank_test_score"].dtype == theirs["rank_test_score"].dtype
    table = pd.DataFrame(ours)
    assert list(table["param_lam"]) == [point["lam"] for point in ours["params"]]
    assert list(table["param_top"]) == [point["top"] for point in ours["params"]]
    assert np.all(ours["mean_fit_time"] > 0.0)


def test_of_equal_scores_the_first_is_chosen(rows):
    """Ties fall to the earlier top, and to the greater lam: the simpler model."""
    X, y = rows
    X = np.where(y == 1, 10.0, -10.0)[:, None] + X  # every ranking is perfect
    search = TopPushCV([0.01, 1.0, 0.1], tops=(3, 1), cv=3).fit(X, y)
    assert_array_equal(search.cv_results_["rank_test_score"], 1)
    assert (search.lam_, search.top_) == (1.0, 3)


# The head of a list, by which the default chooses.


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.booleans())
def test_joined_heads_have_the_recall_of_the_whole_list(seed, n_lists, weighted):
    rng = np.random.default_rng(seed)
    lists = []
    for _ in range(n_lists):
        y = np.r_[True, False, rng.random(rng.integers(1, 3000)) < 0.3]
        scores = rng.integers(-8, 8, y.size) + 3.0 * y * rng.random()
        lists.append((y, scores, rng.integers(0, 3, y.size) * 0.5 if weighted else None))
    if weighted:
        for y, _, weight in lists:
            weight[[np.argmax(y), np.argmin(y)]] = 1.0
    n_neg = sum((~y).sum() if w is None else w[~y].sum() for y, _, w in lists)
    heads = [Head.of(*one, first_negatives(n_neg)) for one in lists]
    whole = [np.concatenate([one[i] for one in lists]) for i in (0, 1)]
    weight = np.concatenate([w for *_, w in lists]) if weighted else None
    slow = metrics.top_recall(*whole, n_false=max(1, 0.001 * n_neg), sample_weight=weight)
    assert Head.join(heads).recall() == pytest.approx(slow, abs=1e-12)


def test_heads_of_one_class():
    scores = np.array([1.0, 2.0, 3.0])
    positives = Head.of(np.ones(3, bool), scores, None, 1)
    negatives = Head.of(np.zeros(3, bool), scores - 0.5, None, 1)
    assert positives.recall() == 1.0
    assert negatives.recall() == 0.0
    assert Head.join([positives, negatives]).recall() == pytest.approx(1 / 3)


def test_the_default_chooses_by_the_joint_list(rows):
    X, y = rows
    folds = list(StratifiedKFold(3).split(X, y))
    search = TopPushCV(LAMS, tops=(1, 5), cv=folds, tol=1e-9).fit(X, y)
    joint = []
    for params in search.cv_results_["params"]:
        scores = np.empty(len(y))
        for train, test in folds:
            fold = TopPush(**params, tol=1e-9).fit(X[train], y[train])
            scores[test] = X[test] @ fold.coef_[0] - fold.threshold_
        joint.append(metrics.top_recall(y, scores, n_false=1))
    found = search.cv_results_["joint_test_score"]
    assert_allclose(found, joint, atol=0.05)
    assert search.best_score_ == found.max()
    assert {"lam": search.lam_, "top": search.top_} == search.cv_results_["params"][found.argmax()]


# The rule: a pair that has a solution, near the best average precision, then the head.


def test_recall_decides_among_pairs_of_near_average_precision():
    recall = np.array([0.9, 0.2, 0.4, 0.4])
    precision = np.array([0.70, 0.80, 0.791, 0.795])
    order = by_the_top(recall, precision, np.zeros(4, bool))
    assert_array_equal(ranks(order, np.zeros(4, bool)), [4, 3, 1, 1])


def test_a_degenerate_pair_comes_after_every_other():
    recall, precision = np.array([0.9, 0.1, 0.2]), np.array([0.9, 0.5, 0.4])
    degenerate = np.array([True, False, False])
    assert_array_equal(ranks(by_the_top(recall, precision, degenerate), degenerate), [3, 1, 2])
    everywhere = np.ones(3, bool)
    assert_array_equal(ranks(by_the_top(recall, precision, everywhere), everywhere), [1, 3, 2])
    assert_array_equal(ranks(np.array([-5.0, -700.0, -80.0]), degenerate), [3, 2, 1])


def test_without_average_precision_recall_decides_alone():
    order = by_the_top(np.array([0.1, 0.3]), np.full(2, np.nan), np.zeros(2, bool))
    assert_array_equal(ranks(order, np.zeros(2, bool)), [2, 1])


def inside(seed=1):
    """Positives whose mean lies among the negatives: small tops have no solution."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(600, 4)), np.arange(600) % 3 == 0
    X[y, 0] += 1.0
    return X, y


@pytest.mark.parametrize("scoring", [None, "positives_at_top", "average_precision"])
def test_a_pair_without_a_solution_is_never_preferred(scoring):
    X, y = inside()
    search = TopPushCV(scoring=scoring, cv=3).fit(X, y)  # a DegenerateWarning would be an error
    found = search.cv_results_
    best = np.argmin(found["rank_test_score"])
    assert found["degenerate"].any()
    assert not found["degenerate"][best]
    assert found["rank_test_score"][~found["degenerate"]].max() < (
        found["rank_test_score"][found["degenerate"]].min()
    )


def test_the_default_rule_against_slow_code():
    X, y = inside()
    folds = list(StratifiedKFold(3).split(X, y))
    lams, tops = [0.001, 0.1], (0.5, 0.7, 1.0)
    search = TopPushCV(lams, tops=tops, cv=folds, tol=1e-8).fit(X, y)
    found = []
    for top in tops:
        for lam in sorted(lams, reverse=True):
            fits = [TopPush(lam, top=top, tol=1e-8).fit(X[train], y[train]) for train, _ in folds]
            joint = np.empty(len(y))
            for ranker, (_, test) in zip(fits, folds, strict=True):
                joint[test] = ranker.decision_function(X[test])
            precision = np.mean([average_precision_score(y[t], joint[t]) for _, t in folds])
            found.append((precision, metrics.top_recall(y, joint, n_false=1), lam, top))
    assert_allclose(search.cv_results_["mean_average_precision"], [one[0] for one in found])
    near = [one for one in found if one[0] >= max(found)[0] - 0.01]
    assert 1 < len(near) < len(found)
    assert (search.lam_, search.top_) == max(near, key=lambda one: one[1])[2:]


def test_rows_held_out_one_by_one_have_no_average_precision(rows):
    X, y = rows[0][:30], rows[1][:30]
    search = TopPushCV([1.0, 0.1], tops=(1,), cv=KFold(30)).fit(X, y)
    assert np.all(np.isnan(search.cv_results_["mean_average_precision"]))
    assert search.best_score_ == search.cv_results_["joint_test_score"].max()


def test_one_solve_stands_for_the_pairs_at_which_it_shows_zero_optimal():
    X, y = inside()
    tops, lams, tol = (1, 0.1, 1.0, 0.6), np.array([1.0, 0.1, 0.01]), 1e-6
    told = []
    with LocalDesign(X, y) as design:
        grid = Grid(lams, tops, "logistic", tol)
        every = follow(design, grid)
        done = lambda: told.append(design.data_passes)  # noqa: E731
        spared = follow_solvable(design, grid, np.ones((4, 3), bool), done=done)
        for top, row, other in zip(tops, every.solutions, spared, strict=True):
            for lam, one, two in zip(lams, row, other, strict=True):
                k = count_top(top, design.n_neg)
                problem = TopPushProblem(design, LOSSES["logistic"], lam, k)
                flags = [zero_is_optimal(found, problem, tol) for found in (one, two)]
                assert flags[0] == flags[1]
                assert flags[0] or one.upper == pytest.approx(two.upper, rel=2e-6)
    assert len(told) == 12
    assert spared[0][0] is spared[1][2]  # both without a solution
    assert len({id(one) for row in spared for one in row}) == 7


@pytest.mark.parametrize(
    "name, label, drop",
    [
        pytest.param("give-me-some-credit", "SeriousDlqin2yrs", "id", marks=pytest.mark.long),
        ("bank-marketing", "y", "duration"),
    ],
)
def test_raw_tables_are_ranked_as_well_as_by_logistic_regression(name, label, drop, shared_file):
    """The head of the list alone chose models with an AUC of .52 and .64."""
    pytest.importorskip("pyarrow", reason="needs pyarrow, the extra [files]")
    from toppush.files.fitting import read_training_file

    given = read_training_file(shared_file(f"data/tables/{name}.csv.gz"), label=label, drop=[drop])
    X, y = given.rows.X, given.positive
    for _, step in given.preparation():
        X = step.fit_transform(X)
    some = StratifiedShuffleSplit(1, train_size=6000, test_size=20_000, random_state=3)
    train, test = next(some.split(np.empty(len(y)), y))
    search = TopPushCV(cv=3).fit(X[train], y[train])
    rival = LogisticRegression().fit(X[train], y[train]).decision_function(X[test])
    assert search.score(X[test], y[test]) > average_precision_score(y[test], rival) - 0.02
    assert roc_auc_score(y[test], search.decision_function(X[test])) > 0.74


# What is chosen is what is delivered.


@pytest.mark.parametrize("tol", [1e-4, 1e-2])
def test_the_folds_fits_are_as_close_as_the_last_if_tol_is_given(tol, rows):
    """A fold that trains on all rows and holds all of them out scores what is delivered."""
    X, y = rows
    everything = np.arange(len(y))
    search = TopPushCV([1.0], tops=(1,), cv=[(everything, everything)], tol=tol).fit(X, y)
    assert search.solution_.relative_gap <= tol
    assert search.best_score_ == metrics.top_recall(y, search.decision_function(X), n_false=1)
    found = search.cv_results_["mean_average_precision"][0]
    assert found == pytest.approx(search.score(X, y), abs=1e-12)


@pytest.mark.parametrize("top", [1, 0.1])
def test_a_rough_fit_leaves_little_of_what_it_gains_open(top, rows):
    X, y = rows
    with LocalDesign(X, y == 1) as design:
        lams = lam_grid(design, "logistic")
        grid = Grid(lams, (top,), "logistic", 1e-6, rough=True)
        (rough,), (close,) = (
            follow(design, grid).solutions,
            follow(design, replace(grid, rough=False)).solutions,
        )
        at_zero = TopPushProblem(design, LOSSES["logistic"], 1.0).at_zero()
    for one, other in zip(rough, close, strict=True):
        assert one.gap <= 0.03 * min(one.upper, at_zero - one.lower) or one.relative_gap <= 1e-6
        assert one.lower <= other.upper
        assert one.upper >= other.lower
    assert sum(one.n_iter for one in rough) < 0.8 * sum(one.n_iter for one in close)


# Pairs that are dropped.


def many_pairs(X, y, **given):
    return TopPushCV(np.geomspace(10.0, 1e-3, 9), tops=(1, 5, 0.1, 0.5), cv=5, **given).fit(X, y)


@pytest.mark.parametrize("scoring", [None, "average_precision"])
def test_pairs_that_rank_low_on_the_first_folds_are_dropped_and_it_is_said(scoring, rows):
    search = many_pairs(*rows, scoring=scoring)
    found = search.cv_results_
    assert_array_equal(np.unique(found["n_folds"]), [2, 5])
    kept = found["n_folds"] == 5
    assert kept.sum() == 10
    for fold in range(5):
        tried = ~np.isnan(found[f"split{fold}_test_score"])
        assert_array_equal(tried, kept | (fold in (0, 3)))
    assert found["rank_test_score"][kept & ~found["degenerate"]].max() < (
        found["rank_test_score"][~kept].min()
    )
    best = np.argmin(found["rank_test_score"])
    assert found["params"][best] == {"lam": search.lam_, "top": search.top_}
    assert np.all(np.isfinite(found["mean_test_score"]))


def test_what_is_not_dropped_scores_as_if_nothing_were(rows, monkeypatch):
    dropped = many_pairs(*rows, tol=1e-7).cv_results_
    monkeypatch.setattr(sys.modules["toppush.models.search"], "LEAST_KEPT", 36)
    every = many_pairs(*rows, tol=1e-7).cv_results_
    assert np.all(every["n_folds"] == 5)
    kept = dropped["n_folds"] == 5
    for name in ("joint_test_score", "mean_average_precision", "split1_test_score"):
        assert_allclose(dropped[name][kept], every[name][kept], atol=1e-3)
    first = [f"split{fold}_test_score" for fold in (0, 3)]
    for name in first:
        assert_allclose(dropped[name], every[name], atol=1e-3)


def test_where_no_pair_that_went_on_has_a_solution_the_others_follow(monkeypatch):
    """Of the two that go on one is degenerate on another fold; the rest is then tried there."""
    X, y = inside()
    searches = sys.modules["toppush.models.search"]
    monkeypatch.setattr(searches, "LEAST_KEPT", 1)
    monkeypatch.setattr(searches, "KEPT", 0.0)
    tried, fit = [], searches.fit_fold

    def fit_fold(given, fold, *, numbers, **how):
        found = fit(given, fold, numbers=numbers, **how)
        tried.append(numbers[numbers >= 0].tolist())
        first = len(tried) > 2 and len(tried[-1]) == 1
        return replace(found, degenerate=frozenset(tried[-1])) if first else found

    monkeypatch.setattr(searches, "fit_fold", fit_fold)
    search = TopPushCV([1.0, 0.1], tops=(0.7, 1.0), cv=4).fit(X, y)
    assert sorted(map(len, tried)) == [1, 1, 3, 3, 4, 4]
    assert search.cv_results_["n_folds"].tolist() == [4, 4, 4, 4]
    assert search.cv_results_["degenerate"].sum() == 1


def test_the_tolerance_of_every_fit(rows, monkeypatch):
    tols = []
    for module in (paths, sys.modules["toppush.models.linear"]):
        solve = module.solve
        monkeypatch.setattr(
            module, "solve", lambda *a, solve=solve, **k: (tols.append(k["tol"]), solve(*a, **k))[1]
        )
    TopPushCV(LAMS, tops=(1,), cv=3).fit(*rows)
    assert set(tols) == {1e-4}
    assert len(tols) == 10


# A grid that ends too early.


def test_the_default_grid_grows_while_its_least_lam_wins(rows):
    X, y = rows
    search = TopPushCV(tops=(1,), cv=3).fit(X, y)
    lams = toppush_path(X, y).lams
    assert_allclose(search.lams_[:9], lams, rtol=1e-12)
    assert search.lam_ <= lams[-1]  # the last of the first nine won
    assert search.lams_[-1] < search.lam_  # and then no longer the last
    assert_allclose(np.diff(np.log10(search.lams_)), -0.5)
    assert [pair["lam"] for pair in search.cv_results_["params"]] == list(search.lams_)
    given = TopPushCV(lams, tops=(1,), cv=3).fit(X, y)
    assert len(given.lams_) == 9
    assert given.best_score_ <= search.best_score_


def test_a_least_lam_that_wins_still_is_said(rows, monkeypatch):
    monkeypatch.setattr(paths, "LEAST_LAM", 1e-4)
    with pytest.warns(UserWarning, match="default"):
        search = TopPushCV(tops=(1,), cv=3).fit(*rows)
    assert len(search.lams_) == 9


def test_greater_tops_are_tried_where_none_has_a_solution(rows):
    X, y = inside()
    assert TopPushCV(cv=3).fit(X, y).top_ in (0.5, 1.0)
    with pytest.warns(DegenerateWarning):
        TopPushCV(tops=selection.TOPS, cv=3).fit(X, y)
    X, y = rows
    easy = TopPushCV(cv=3).fit(np.where(y == 1, 10.0, -10.0)[:, None] + X, y)
    assert list(dict.fromkeys(easy.cv_results_["param_top"])) == [1, 0.001, 0.01, 0.03, 0.1]


# Measures.


@pytest.mark.parametrize("scoring", ["positives_at_top", "ndcg", "auc", "average_precision"])
def test_scoring_by_the_name_of_a_metric(scoring, rows):
    X, y = rows
    folds = list(StratifiedKFold(3).split(X, y))
    search = TopPushCV(LAMS, cv=folds, tops=(2,), scoring=scoring, tol=1e-9).fit(X, y)

    def measure(ranker, X, y):
        return metrics.METRICS[scoring](y, ranker.decision_function(X))

    slow = slow_choice(X, y, folds, LAMS, (2,), measure, 1e-8)
    means = [np.mean(scores) for *_, scores in slow]
    assert_allclose(search.cv_results_["mean_test_score"], means, atol=2e-2)
    assert search.best_score_ == search.cv_results_["mean_test_score"].max()


def test_names_of_scikit_learn_and_scorers_agree(rows):
    X, y = rows
    scorers = [
        "auc",
        "roc_auc",
        get_scorer("roc_auc"),
        make_scorer(roc_auc_score, response_method="decision_function"),
        metrics.scorer("auc"),
        lambda ranker, X, y: roc_auc_score(y, ranker.decision_function(X)),
    ]
    found = [TopPushCV(LAMS, tops=(1,), cv=3, scoring=scoring).fit(X, y) for scoring in scorers]
    for other in found[1:]:
        assert_allclose(
            other.cv_results_["mean_test_score"], found[0].cv_results_["mean_test_score"]
        )
        assert other.lam_ == found[0].lam_


def test_scorers_of_predictions_see_the_threshold_of_the_fold(rows):
    X, y = rows
    folds = list(StratifiedKFold(3).split(X, y))
    search = TopPushCV([0.03], tops=(5,), cv=folds, scoring="accuracy", tol=1e-9).fit(X, y)
    slow = slow_choice(X, y, folds, [0.03], (5,), get_scorer("accuracy"), 1e-8)
    assert_allclose(search.best_score_, np.mean(slow[0][2]), atol=0.02)
    assert search.best_score_ > 0.7


@pytest.mark.parametrize("scoring", ["ranking_loss", "top_loss"])
def test_of_a_loss_the_least_is_chosen(scoring, rows):
    X, y = rows
    search = TopPushCV([1e-3, 1.0, 1e3], tops=(1, 1.0), cv=3, scoring=scoring).fit(X, y)
    scores = search.cv_results_["mean_test_score"]
    assert np.all(scores <= 0.0)
    assert scores.min() < scores.max()
    assert search.best_score_ == scores.max()
    by_scorer = TopPushCV(
        [1e-3, 1.0, 1e3], tops=(1, 1.0), cv=3, scoring=metrics.scorer(scoring)
    ).fit(X, y)
    assert_allclose(by_scorer.cv_results_["mean_test_score"], scores)


def test_an_unknown_measure_is_refused(rows):
    with pytest.raises(ValueError, match="'height'"):
        TopPushCV(LAMS, scoring="height").fit(*rows)


# Weights.


def test_sample_weight_zero_is_removal(rows, rng):
    X, y = rows
    kept = rng.random(150) < 0.8
    place = np.cumsum(kept) - 1
    folds = list(StratifiedKFold(3, shuffle=True, random_state=0).split(X, y))
    folds_of_kept = [tuple(place[rows_[kept[rows_]]] for rows_ in fold) for fold in folds]
    given = {"tops": (1, 3), "tol": 1e-8}
    zeroed = TopPushCV(LAMS, cv=folds, **given).fit(X, y, sample_weight=kept.astype(float))
    removed = TopPushCV(LAMS, cv=folds_of_kept, **given).fit(X[kept], y[kept])
    assert_allclose(
        zeroed.cv_results_["mean_test_score"], removed.cv_results_["mean_test_score"], atol=2e-3
    )
    assert (zeroed.lam_, zeroed.top_) == (removed.lam_, removed.top_)
    assert_allclose(zeroed.coef_, removed.coef_, atol=1e-4)
    whole = TopPushCV(LAMS, cv=folds, **given).fit(X, y)
    assert np.abs(whole.cv_results_["mean_test_score"] - zeroed.best_score_).max() > 2e-3


def test_weights_enter_the_measures(rows, rng):
    X, y = rows
    weight = rng.uniform(0.1, 2.0, size=150)
    train, test = next(StratifiedShuffleSplit(1, test_size=0.4, random_state=0).split(X, y))
    ranker = TopPush(0.3, tol=1e-8).fit(X[train], y[train], sample_weight=weight[train])
    held_out = test[y[test] == 1]
    last = held_out[np.argmin(ranker.decision_function(X[held_out]))]
    weight[last] = 100.0
    search = TopPushCV(
        [0.3], tops=(1,), cv=[(train, test)], scoring="average_precision", tol=1e-8
    ).fit(X, y, sample_weight=weight)
    weighted = ranker.score(X[test], y[test], sample_weight=weight[test])
    assert search.best_score_ == pytest.approx(weighted, abs=2e-3)
    assert ranker.score(X[test], y[test]) > weighted + 0.01


# The estimator.


def expected_failures(estimator):
    other_folds = "folds by row number differ once rows of weight zero are gone or repeated"
    return {
        "check_sample_weight_equivalence_on_dense_data": other_folds,
        "check_sample_weight_equivalence_on_sparse_data": other_folds,
    }


@pytest.mark.filterwarnings("ignore::toppush.DegenerateWarning")
@parametrize_with_checks(
    [TopPushCV(lams=[0.1, 1.0], tops=(1,), cv=2)], expected_failed_checks=expected_failures
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.fixture
def fitted(rows):
    return TopPushCV(LAMS, tops=(1, 5), cv=3).fit(*rows)


def test_attributes(fitted, rows):
    X, y = rows
    assert fitted.coef_.shape == (1, 5)
    assert_array_equal(fitted.lams_, [3.0, 0.3, 0.03])
    assert fitted.lam_ in LAMS
    assert fitted.top_ in (1, 5)
    assert_array_equal(fitted.coef_[0], fitted.solution_.weights)
    assert fitted.threshold_ == fitted.solution_.threshold
    assert fitted.n_iter_ == fitted.solution_.n_iter
    assert fitted.solution_.relative_gap <= 1e-4
    assert is_classifier(fitted)
    assert fitted.score(X, y) == metrics.average_precision(y, fitted.decision_function(X))
    assert fitted.score(X, y) > 0.8
    assert not hasattr(clone(fitted), "coef_")


def test_repeated_lams_are_tried_once(rows):
    search = TopPushCV([1.0, 0.1, 1.0], tops=(1,), cv=3).fit(*rows)
    assert [point["lam"] for point in search.cv_results_["params"]] == [1.0, 0.1]


def test_string_labels(fitted, rows):
    X, y = rows
    labels = np.array(["ham", "spam"])[y]
    for scoring in ("average_precision", "accuracy"):
        named = TopPushCV(LAMS, tops=(1, 5), cv=3, scoring=scoring, positive="spam").fit(X, labels)
        plain = TopPushCV(LAMS, tops=(1, 5), cv=3, scoring=scoring).fit(X, y)
        assert_array_equal(named.classes_, ["ham", "spam"])
        assert_array_equal(named.coef_, plain.coef_)
        assert_array_equal(named.predict(X), np.array(["ham", "spam"])[plain.predict(X)])
        assert named.best_score_ == plain.best_score_


def test_data_frames_keep_their_names(fitted, rows):
    X, y = rows
    table = pd.DataFrame(X, columns=list("abcde"))
    named = TopPushCV(LAMS, tops=(1, 5), cv=3).fit(table, y)
    assert_array_equal(named.feature_names_in_, list("abcde"))
    assert_allclose(named.coef_, fitted.coef_, rtol=1e-6, atol=1e-9)
    with pytest.raises(ValueError, match="feature"):
        named.predict(table.rename(columns={"a": "z"}))
    assert not hasattr(fitted, "feature_names_in_")


def test_pipelines_and_nested_cross_validation(rows):
    X, y = rows
    shifted = 100.0 + 50.0 * X
    pipeline = make_pipeline(StandardScaler(), TopPushCV(LAMS, tops=(1, 5), cv=3))
    pipeline.fit(shifted, y)
    alone = TopPushCV(LAMS, tops=(1, 5), cv=3).fit(StandardScaler().fit_transform(shifted), y)
    assert_allclose(pipeline[-1].coef_, alone.coef_, rtol=1e-9)
    scores = cross_val_score(pipeline, shifted, y, cv=3, error_score="raise")
    assert scores.shape == (3,)
    assert scores.min() > 0.8


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_repeats_to_the_bit(n_jobs, rows):
    found = [TopPushCV(LAMS, tops=(1, 5), cv=3, n_jobs=n_jobs).fit(*rows) for _ in range(2)]
    assert found[0].coef_.tobytes() == found[1].coef_.tobytes()
    tables = [one.cv_results_["mean_test_score"].tobytes() for one in found]
    assert tables[0] == tables[1]


def test_float32_rows_choose_alike(fitted, rows):
    X, y = rows
    single = TopPushCV(LAMS, tops=(1, 5), cv=3).fit(X.astype(np.float32), y)
    assert_allclose(
        single.cv_results_["mean_test_score"], fitted.cv_results_["mean_test_score"], atol=1e-2
    )
    assert single.coef_.dtype == np.float64


def test_a_degenerate_choice_is_said(rng):
    X = rng.normal(size=(90, 2))
    y = np.arange(90) % 3 == 0
    X[y] *= 0.1
    with pytest.warns(DegenerateWarning, match=r'TopPushCV: tops=\["auto"\]'):
        TopPushCV([1.0], tops=(1,), cv=3).fit(X, y)


def test_verbose_counts_the_folds_fits_and_follows_the_last(rows, capsys):
    TopPushCV([1.0, 0.1], tops=(1, 0.1), cv=3, verbose=1).fit(*rows)
    counted, followed = capsys.readouterr().out.split("iteration", 1)
    assert "folds: 1 of 12 fits" in counted
    assert "s left" in counted
    assert "folds: 12 of 12 fits" in counted
    assert "objective" in followed
    TopPushCV([1.0], tops=(1,), cv=3).fit(*rows)
    assert capsys.readouterr().out == ""


# Bad grids.


@pytest.mark.parametrize("change", [{"lams": []}, {"tops": ()}, {"tops": (1000,)}])
def test_an_empty_grid_is_refused_with_a_sentence(change, rows):
    with pytest.raises(ValueError, match="100 negatives"):
        TopPushCV(**{"lams": LAMS, "tops": (1,), **change}).fit(*rows)


def test_counts_above_the_negatives_are_left_out(rows):
    search = TopPushCV([1.0], tops=(1, 1000, 0.1), cv=3).fit(*rows)
    assert [point["top"] for point in search.cv_results_["params"]] == [1, 0.1]


@pytest.mark.parametrize(
    "params, sentence",
    [
        ({"lams": 1.0}, "'lams' parameter of TopPushCV"),
        ({"tops": 1}, "'tops' parameter of TopPushCV"),
        ({"loss": "hinge"}, "'loss' parameter of TopPushCV"),
        ({"scoring": 3}, "'scoring' parameter of TopPushCV"),
        ({"cv": 1}, "'cv' parameter of TopPushCV"),
        ({"tol": 0.0}, "'tol' parameter of TopPushCV"),
        ({"n_jobs": 0}, "'n_jobs' parameter of TopPushCV"),
        ({"tops": (0,)}, "tops holds 0"),
        ({"tops": (1.5,)}, "tops holds 1.5"),
        ({"cv": 120}, "greater"),
    ],
)
def test_bad_parameters(params, sentence, rows):
    with pytest.raises(ValueError, match=sentence):
        TopPushCV(**{"lams": LAMS, **params}).fit(*rows)


@pytest.mark.parametrize("lam", [0.0, -1.0, np.nan])
@pytest.mark.parametrize("fit", ["cross-validation", "path"])
def test_lams_must_be_positive(fit, lam, rows):
    X, y = rows
    search = TopPushCV([1.0, lam], tops=(1,), cv=3)
    run = {"path": partial(toppush_path, lams=[1.0, lam]), "cross-validation": search.fit}[fit]
    with pytest.raises(ValueError, match="lam"):
        run(X, y)


# A fit that does not end.


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("where", ["fit_fold", "TopPush"])
def test_an_interrupted_fit_changes_nothing(where, n_jobs, error, fitted, rows, monkeypatch):
    X, y = rows
    fitted.set_params(n_jobs=n_jobs)
    before, decision = vars(fitted).copy(), fitted.decision_function(X)

    def failing(*arguments, **options):
        raise error

    home = {"fit_fold": "search", "TopPush": "linear_cv"}[where]
    monkeypatch.setattr(sys.modules[f"toppush.models.{home}"], where, failing)
    with pytest.raises(error):
        fitted.fit(X[:, :3], 1 - y)
    assert vars(fitted).keys() == before.keys()
    assert all(vars(fitted)[name] is value for name, value in before.items())
    assert_array_equal(fitted.decision_function(X), decision)
    unfitted = TopPushCV(LAMS, tops=(1,), cv=3)
    with pytest.raises(error):
        unfitted.fit(X, y)
    assert not [name for name in vars(unfitted) if name.endswith("_")]


def test_an_interrupted_fold_ends_the_others(rows, monkeypatch):
    """The other solve would go on for long; it is told to stop when it asks."""
    X, y = rows
    first, second, cancelled = Event(), Event(), Event()

    def solve(*arguments, **options):
        if not first.is_set():
            first.set()
            assert second.wait(60)
            raise KeyboardInterrupt
        second.set()
        try:
            for _ in range(20_000):
                check_cancelled()
                time.sleep(1e-3)
        except Cancelled:
            cancelled.set()
            raise

    monkeypatch.setattr(paths, "solve", solve)
    with pytest.raises(KeyboardInterrupt):
        TopPushCV(LAMS, tops=(1,), cv=2, n_jobs=2).fit(LocalRows(X, entries_per_fit=1), y)
    assert cancelled.is_set()
