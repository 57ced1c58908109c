"""Where weights of zero are optimal, and the top that is found for such data."""

from dataclasses import replace
from functools import cache

import cvxpy as cp
import numpy as np
import pytest

import reference
from toppush import DegenerateWarning, TopPush, TopPushCV
from toppush.designs import LocalDesign
from toppush.problem.losses import LOSSES
from toppush.problem.objective import TopPushProblem
from toppush.solvers import SOLVERS, TOP_RATIO, automatic_top, zero_is_optimal

pytestmark = pytest.mark.sampled(2)

every_loss = pytest.mark.parametrize("name", LOSSES)
TOL = 1e-3


def positives_inside(seed, n_rows=300, n_features=4, shift=0.3):
    """Positives whose mean lies among the negatives."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    positive = np.arange(n_rows) % 3 == 0
    X[positive] *= 0.3
    X[positive, 0] += shift
    return X, positive


def apart(seed):
    X, positive = positives_inside(seed)
    X[positive, 0] += 8.0
    return X, positive


@cache
def mean_is_in_capped_hull(seed, k):
    """Whether the positives' mean is a mean of negatives of which none weighs more than 1/k."""
    X, positive = positives_inside(seed, n_rows=60, n_features=2)
    share = cp.Variable(int(np.sum(~positive)))
    constraints = [share >= 0, share <= 1 / k, cp.sum(share) == 1]
    off = share @ X[~positive] - X[positive].mean(axis=0)
    problem = cp.Problem(cp.Minimize(cp.norm(off, "inf")), constraints)
    problem.solve(solver=cp.CLARABEL)
    return problem.value <= 1e-6


class Certified:
    """Solves of one data set for any k, each with the certificate that tells."""

    def __init__(self, design, name, lam):
        self.problem = TopPushProblem(design, LOSSES[name], lam)

    def zero_is_optimal(self, k, tol=TOL):
        problem = replace(self.problem, k=k)
        solution = SOLVERS["newton"](problem, tol=tol / 100)
        assert solution.relative_gap <= tol / 100
        return zero_is_optimal(solution, problem, tol)


@every_loss
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("lam", [1e-2, 1.0])
def test_zero_is_optimal_where_the_mean_lies_in_the_capped_hull(lam, seed, name):
    """Whatever lam and the loss are; the hull shrinks as k grows."""
    X, positive = positives_inside(seed, n_rows=60, n_features=2)
    inside = []
    with LocalDesign(X, positive) as design:
        certified = Certified(design, name, lam)
        for k in (1, 5, 10, 20, 30, 40):
            inside.append(mean_is_in_capped_hull(seed, k))
            assert certified.zero_is_optimal(k, tol=1e-5) == inside[-1]
    assert inside[0]
    assert not inside[-1]
    assert inside == sorted(inside, reverse=True)


@every_loss
def test_zero_optimal_for_one_k_is_optimal_for_every_smaller(name):
    X, positive = positives_inside(1)
    with LocalDesign(X, positive) as design:
        certified = Certified(design, name, 0.1)
        answers = [certified.zero_is_optimal(k) for k in (1, 2, 5, 20, 60, 100, 140, 180, 200)]
    assert answers == sorted(answers, reverse=True)
    assert answers[0]
    assert not answers[-1]


def test_the_certificate_tells_and_not_the_weights(rng):
    """Zero counts as optimal by the lower bound: a solve cut short proves nothing."""
    X, positive = positives_inside(0)
    with LocalDesign(X, positive) as design:
        problem = TopPushProblem(design, LOSSES["truncated_quadratic"], 1.0)
        short = SOLVERS["newton"](problem, tol=1e-4, max_iter=1)
        full = SOLVERS["newton"](problem, tol=1e-4)
        assert not zero_is_optimal(replace(short, lower=0.5), problem, TOL)
        assert zero_is_optimal(full, problem, TOL)
        assert full.lower >= 1.0 - TOL


@every_loss
@pytest.mark.parametrize("lam", [1e-3, 1e-1])
@pytest.mark.parametrize("seed", range(3))
def test_the_automatic_top_is_the_smallest_sound_one(seed, lam, name):
    X, positive = positives_inside(seed)
    n_neg = int(np.sum(~positive))
    with LocalDesign(X, positive) as design:
        certified = Certified(design, name, lam)
        top = automatic_top(certified.problem, tol=TOL)
        assert 1 < top < n_neg
        assert not certified.zero_is_optimal(top)
        assert certified.zero_is_optimal(int(top / TOP_RATIO) - 1)


@every_loss
@pytest.mark.parametrize("lam", [1e-2, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_the_automatic_top_of_data_with_a_solution_is_one(seed, lam, name):
    with LocalDesign(*apart(seed)) as design:
        certified = Certified(design, name, lam)
        assert not certified.zero_is_optimal(1)
        assert automatic_top(certified.problem, tol=TOL) == 1


@every_loss
@pytest.mark.parametrize("n_neg", [1, 2, 3, 5])
def test_the_automatic_top_is_a_count_of_the_negatives(n_neg, name, rng):
    """Also where every k leaves zero optimal, the classes being the same points."""
    X = np.vstack([np.zeros((4, 2)), np.zeros((n_neg, 2))])
    with LocalDesign(X, np.arange(4 + n_neg) < 4) as design:
        top = automatic_top(TopPushProblem(design, LOSSES[name], 1.0), tol=TOL)
    assert isinstance(top, int)
    assert 1 <= top <= n_neg


@every_loss
def test_the_automatic_top_does_not_depend_on_threads_or_repetition(name):
    X, positive = positives_inside(2)
    tops = set()
    for n_jobs in (1, 2, 1):
        with LocalDesign(X, positive, n_jobs=n_jobs) as design:
            tops.add(automatic_top(TopPushProblem(design, LOSSES[name], 0.1), tol=TOL))
    assert len(tops) == 1


def test_rows_of_weight_zero_do_not_count():
    X, positive = positives_inside(0)
    kept = np.arange(len(X)) % 4 != 0
    with LocalDesign(X, positive, kept.astype(float)) as design:
        weighted = automatic_top(TopPushProblem(design, LOSSES["logistic"], 0.1), tol=TOL)
    with LocalDesign(X[kept], positive[kept]) as design:
        removed = automatic_top(TopPushProblem(design, LOSSES["logistic"], 0.1), tol=TOL)
    assert weighted == removed > 1


# In the estimator.


@every_loss
def test_the_estimator_records_the_top_it_took(name):
    X, positive = apart(0)
    ranker = TopPush(0.1, top="auto", loss=name).fit(X, positive)
    assert ranker.top_ == 1
    assert ranker.coef_.tobytes() == TopPush(0.1, loss=name).fit(X, positive).coef_.tobytes()


@every_loss
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.filterwarnings("ignore::toppush.DegenerateWarning")
def test_the_estimator_takes_the_automatic_top_for_degenerate_data(solver, name):
    X, positive = positives_inside(1)
    ranker = TopPush(0.1, top="auto", loss=name, solver=solver).fit(X, positive)
    with LocalDesign(X, positive) as design:
        problem = TopPushProblem(design, LOSSES[name], 0.1)
        assert ranker.top_ == automatic_top(problem, tol=TOL) > 1
    threshold = reference.top_mean((X @ ranker.coef_[0])[~positive], ranker.top_)
    assert ranker.threshold_ == pytest.approx(threshold, rel=1e-8, abs=1e-12)
    assert np.any(ranker.coef_ != 0.0)


def test_counts_and_shares_are_recorded_as_counts():
    X, positive = apart(0)
    n_neg = int(np.sum(~positive))
    assert TopPush(0.1, top=3).fit(X, positive).top_ == 3
    assert TopPush(0.1, top=0.1).fit(X, positive).top_ == np.ceil(0.1 * n_neg)
    assert TopPush(0.1, top=1.0).fit(X, positive).top_ == n_neg


def test_the_automatic_top_ranks_better_than_the_degenerate_fit():
    """Its direction follows the shift of the positives, which one negative alone hides."""
    found = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(1500, 5))
        positive = np.arange(1500) % 3 == 0
        X[positive, 0] += 1.0
        with pytest.warns(DegenerateWarning):
            one = TopPush(1.0).fit(X, positive)
        several = TopPush(1.0, top="auto").fit(X, positive)
        assert several.top_ > 1
        found.append((one.score(X, positive), several.score(X, positive)))
    one, several = np.mean(found, axis=0)
    assert several > one
    assert several > positive.mean() + 0.1


def test_the_advice_of_the_warning_is_enough():
    """What it names ends without a warning, which would be an error here."""
    X, positive = positives_inside(1)
    with pytest.warns(DegenerateWarning, match=r'top="auto".*tops=\["auto"\].*--top auto'):
        TopPush(0.1).fit(X, positive)
    top = TopPush(0.1, top="auto").fit(X, positive).top_
    assert top > 1
    with pytest.warns(DegenerateWarning, match=r'tops=\["auto"\]'):
        TopPushCV([0.1], tops=[1], cv=3).fit(X, positive)
    search = TopPushCV([0.1], tops=["auto"], cv=3).fit(X, positive)
    assert np.ceil(search.top_ * np.sum(~positive)) == top


def test_an_automatic_top_that_is_degenerate_says_so_and_gives_no_circular_advice():
    """The classes are the same points, so no top has a solution."""
    X = np.vstack([np.eye(4), np.eye(4)])
    positive = np.arange(8) < 4
    with pytest.warns(DegenerateWarning) as said:
        assert TopPush(0.1, top="auto").fit(X, positive).top_ == 4
    assert "auto" not in str(said[0].message)
    assert "find columns" in str(said[0].message)
