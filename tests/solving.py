"""What the tests of solvers share: small problems, their optimum by other means, and proofs."""

import cvxpy as cp
import numpy as np
import pytest

import reference
from toppush.designs import LocalDesign
from toppush.problem.losses import LOSSES
from toppush.problem.objective import TopPushProblem, count_top
from toppush.problem.solution import Status
from toppush.solvers import SOLVERS

every_loss = pytest.mark.parametrize("name", LOSSES)
every_solver = pytest.mark.parametrize("solver", SOLVERS)


def quickly(values, quick):
    """All the values of a parameter; a quick run takes those of `quick` alone."""
    return [
        value if value in quick else pytest.param(value, marks=pytest.mark.long) for value in values
    ]


slow_by_paper = pytest.mark.parametrize("solver", quickly(SOLVERS, ["newton"]))


def solve(
    X,
    positive,
    *,
    lam=1.0,
    name="truncated_quadratic",
    top=1,
    weight=None,
    solver="newton",
    n_jobs=1,
    **options,
):
    with LocalDesign(X, positive, weight, n_jobs=n_jobs) as design:
        problem = TopPushProblem(design, LOSSES[name], lam, count_top(top, design.n_neg))
        return SOLVERS[solver](problem, **options)


def few_rows(seed):
    """A few rows of either class, apart by a little or by much."""
    rng = np.random.default_rng(seed)
    n_pos, n_neg, n_features = rng.integers([3, 4, 1], [11, 16, 6])
    positive = rng.permutation(np.arange(n_pos + n_neg) < n_pos)
    X = rng.normal(size=(n_pos + n_neg, n_features))
    X[positive] += rng.normal(size=n_features) * rng.choice([0.3, 1.0, 3.0])
    return X, positive


def some_rows(rng, *, share=0.3, n_rows=400, n_features=12, apart=1.5):
    """Half of the entries are zero; of the rows, `share` are positive, not quite apart."""
    X = rng.normal(size=(n_rows, n_features))
    X[rng.random(X.shape) < 0.5] = 0.0
    positive = rng.random(n_rows) < share
    X[positive, :3] += apart
    return X, positive


def generic_optimum(X, positive, *, lam, name, top, weight=None):
    """The least objective by a generic solver, to about 1e-7."""
    weight = np.ones(len(X)) if weight is None else weight
    k = count_top(top, int(np.sum(~positive & (weight > 0))))
    w = cp.Variable(X.shape[1])
    threshold = cp.sum_largest(X[~positive & (weight > 0)] @ w, k) / k
    loss = {
        "truncated_quadratic": lambda t: cp.square(cp.pos(1 + t)),
        "logistic": cp.logistic,
        "exponential": cp.exp,
    }[name](threshold - X[positive] @ w)
    cost = weight[positive] / weight[positive].sum()
    problem = cp.Problem(cp.Minimize(lam / 2 * cp.sum_squares(w) + cost @ loss))
    problem.solve(solver=cp.CLARABEL)
    return problem.value


ROUNDED = 2e-7
"""Share of the objective by which bounds are rounded outward at most."""


def check_certificate(solution, X, positive, *, lam, name, top, weight=None, tol=None):
    """Weights, threshold, dual and bounds are what slow code makes of them."""
    kept = np.full(len(X), True) if weight is None else weight > 0
    k = count_top(top, int(np.sum(~positive & kept)))
    given = {"lam": lam, "name": name, "cost": weight}
    upper = reference.primal(X, positive, solution.weights, k=k, **given)
    assert upper * (1.0 - 1e-13) <= solution.upper <= upper * (1.0 + ROUNDED)
    threshold = reference.top_mean((X @ solution.weights)[~positive & kept], k)
    assert solution.threshold == pytest.approx(threshold, rel=1e-9, abs=1e-10)
    check_feasible(solution.dual, positive, k, name, weight)
    lower = reference.lower_bound(X, positive, solution.dual, **given)
    room = 1e-13 * upper + 1e-12  # the slow code is in float64 too
    assert lower - ROUNDED * upper - room <= solution.lower <= lower + room
    assert solution.lower <= solution.upper
    assert solution.gap == solution.upper - solution.lower
    assert solution.relative_gap == pytest.approx(solution.gap / solution.upper)
    if tol is not None:
        assert solution.status is Status.CONVERGED
        assert solution.relative_gap <= tol


def check_feasible(dual, positive, k, name, weight=None):
    """The dual lies in its domain, but for rounding."""
    weight = np.ones(len(dual)) if weight is None else weight
    a, b = dual[positive], dual[~positive]
    assert np.all(dual >= 0.0)
    assert np.all(dual[weight == 0.0] == 0.0)
    limit = LOSSES[name].dual_limit
    assert np.isinf(limit) or np.all(a <= limit * weight[positive])
    assert a.sum() == pytest.approx(b.sum(), rel=1e-10, abs=1e-300)
    assert b.max() <= a.sum() / k * (1.0 + 1e-10)


def apart_at_most(one, other, lam):
    """How far apart the weights of two certified solutions can be.

    The objective is lam-strongly convex, so weights of gap e lie within sqrt(2 e / lam) of the
    optimum; rounding of the bounds adds a little.
    """
    gaps = (max(found.gap, 0.0) + 1e-14 * found.upper for found in (one, other))
    return sum(np.sqrt(2.0 * gap / lam) for gap in gaps)


def check_same_optimum(one, other, lam, rel):
    """Objectives agree, and weights as far as strong convexity has it."""
    assert one.upper == pytest.approx(other.upper, rel=rel)
    distance = np.linalg.norm(one.weights - other.weights)
    assert distance <= apart_at_most(one, other, lam) + 1e-9 * np.linalg.norm(one.weights)
