"""Methods over pairs and quantiles: laws of their steps, and optima from independent solvers."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from reproduce.baselines import (
    AccuracyAtTop,
    InfinitePush,
    PNormPush,
    SparseInfinitePush,
    interior_point,
    pair_admm,
)
from reproduce.baselines.accuracy_at_top import Quantile
from reproduce.baselines.interior_point import ShiftedMachines
from reproduce.baselines.p_norm_push import PUSH_NORMS
from reproduce.baselines.pair_step import PairStep
from reproduce.baselines.pairs import PAIR_LOSSES
from toppush import DegenerateWarning, Status, TopPush

pytestmark = pytest.mark.sampled(6)

SMOOTH = ["truncated_quadratic", "logistic", "exponential"]


def two_clouds(n_pos=25, n_neg=30, n_features=4, seed=0):
    rng = np.random.default_rng(seed)
    lift = np.zeros(n_features)
    lift[: max(1, n_features // 2)] = 1.5
    X = np.vstack(
        [rng.normal(size=(n_pos, n_features)) + lift, rng.normal(size=(n_neg, n_features))]
    )
    return X, np.repeat([1, 0], [n_pos, n_neg])


def objective_over_pairs(X, y, weights, loss, penalty):
    """Penalty plus the worst negative's mean loss, by loops over all pairs."""
    scores = X @ weights
    worst = -np.inf
    for negative in scores[y == 0]:
        losses = [float(loss.value(np.array(negative - positive))) for positive in scores[y == 1]]
        worst = max(worst, np.mean(losses))
    return penalty + worst


def cvxpy_losses(loss, violation):
    if loss == "hinge":
        return cp.pos(1 + violation)
    if loss == "logistic":
        return cp.logistic(violation)
    return cp.exp(violation) if loss == "exponential" else cp.square(cp.pos(1 + violation))


def cvxpy_infinite_push(X, y, loss, penalty, cost=None):
    """The optimum with one constraint per negative, each over all its pairs."""
    weights, worst = cp.Variable(X.shape[1]), cp.Variable()
    cost = np.ones(np.count_nonzero(y == 1)) if cost is None else cost
    constraints = []
    for negative in X[y == 0]:
        losses = cvxpy_losses(loss, negative @ weights - X[y == 1] @ weights)
        constraints.append(cost @ losses / cost.sum() <= worst)
    problem = cp.Problem(cp.Minimize(penalty(weights) + worst), constraints)
    problem.solve(solver="CLARABEL")
    return problem.value


# The step on the pairs' duals


@st.composite
def steps(draw):
    n_neg, n_pos = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    seed, spread = draw(st.integers(0, 2**32 - 1)), draw(st.sampled_from([0.01, 1.0, 5.0]))
    rng = np.random.default_rng(seed)
    target = spread * rng.normal(size=(n_neg, n_pos))
    cost = rng.choice([0.5, 1.0, 2.0], size=n_pos) if draw(st.booleans()) else np.ones(n_pos)
    return target, cost, draw(st.sampled_from([0.1, 1.0, 3.0]))


@pytest.mark.parametrize("name", PAIR_LOSSES)
@given(steps(), st.booleans())
def test_step_meets_the_conditions_of_a_minimum(name, case, warm):
    target, cost, stiffness = case
    loss, duals = PAIR_LOSSES[name], target.copy()
    guess = np.full(len(target), 1.0 / len(target)) if warm else None
    landed = PairStep.of(loss, cost, stiffness).land(duals, guess)
    share = landed.share
    assert np.all(share >= 0)
    assert share.sum() <= 1 + 1e-12
    violation = stiffness * (target - duals)
    load = loss.value(violation) @ cost
    level = load.max()
    assert load[share > 0] == pytest.approx(level, rel=1e-9, abs=1e-12)
    assert share.sum() == pytest.approx(1) or level <= 1e-12
    assert not duals[share == 0].any()
    own = duals[share > 0] / (share[share > 0, None] * cost)
    equality = loss.value(violation[share > 0]) + loss.conjugate(np.clip(own, 0, loss.dual_limit))
    assert equality == pytest.approx(own * violation[share > 0], rel=1e-7, abs=1e-7)
    conjugates = share[share > 0] @ loss.conjugate(np.clip(own, 0, loss.dual_limit)) @ cost
    assert landed.conjugates == pytest.approx(conjugates, abs=1e-9)
    assert landed.per_positive == pytest.approx(duals.sum(axis=0))
    assert landed.per_negative == pytest.approx(duals.sum(axis=1))


def test_hinge_step_is_the_published_projection():
    rng = np.random.default_rng(1)
    target = rng.normal(size=(4, 5))
    variable = cp.Variable((4, 5), nonneg=True)
    distance = cp.sum_squares(variable - (target + 1.0))
    cp.Problem(cp.Minimize(distance), [cp.sum(cp.max(variable, axis=1)) <= 1]).solve()
    PairStep.of(PAIR_LOSSES["hinge"], np.ones(5), 1.0).land(target)
    assert target == pytest.approx(variable.value, abs=1e-6)


@given(st.floats(-2, 2), st.floats(0.01, 100.0))
def test_the_hinge_and_its_conjugate(point, stiffness):
    """Against grids of duals: the conjugate of the conjugate, and the prox."""
    hinge, duals = PAIR_LOSSES["hinge"], np.linspace(0.0, 1.0, 1001)
    value = float(hinge.value(np.array(point)))
    assert value == pytest.approx(np.max(duals * point - hinge.conjugate(duals)), abs=1e-12)
    dual = float(hinge.dual_prox(np.array(point), stiffness)[0])
    costs = hinge.conjugate(duals) + stiffness / 2 * (duals - point) ** 2
    assert -dual + stiffness / 2 * (dual - point) ** 2 <= costs.min() + 1e-12
    assert np.isinf(hinge.conjugate(np.array([-1e-9, 1 + 1e-9]))).all()


# Infinite Push


@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("solver", ["gradient", "admm"])
def test_infinite_push_has_the_optimum_of_toppush(loss, solver):
    X, y = two_clouds()
    pairs = InfinitePush(1.0, loss=loss, solver=solver, tol=1e-6).fit(X, y).solution_
    linear = TopPush(1.0, loss=loss, tol=1e-12, max_iter=20_000).fit(X, y).solution_
    assert pairs.relative_gap <= 1e-6
    assert linear.lower <= pairs.upper
    assert pairs.lower <= linear.upper
    assert pairs.upper == pytest.approx(linear.upper, rel=1e-3)


@pytest.mark.parametrize("solver", ["gradient", "admm"])
@pytest.mark.parametrize("lam", [1.0, 0.1])
def test_infinite_push_with_hinge_against_cvxpy(solver, lam):
    X, y = two_clouds()
    ranker = InfinitePush(lam, solver=solver, tol=1e-5, max_iter=50_000).fit(X, y)
    optimum = cvxpy_infinite_push(X, y, "hinge", lambda w: lam / 2 * cp.sum_squares(w))
    assert ranker.solution_.lower <= optimum * (1 + 1e-7)
    assert ranker.solution_.upper == pytest.approx(optimum, rel=2e-5)


@pytest.mark.parametrize("loss", PAIR_LOSSES)
def test_infinite_push_reports_the_objective_over_pairs(loss):
    X, y = two_clouds(8, 9)
    ranker = InfinitePush(0.5, loss=loss).fit(X, y)
    penalty = 0.25 * np.sum(ranker.coef_**2)
    slow = objective_over_pairs(X, y, ranker.coef_[0], PAIR_LOSSES[loss], penalty)
    assert ranker.solution_.upper == pytest.approx(slow)
    assert ranker.threshold_ == pytest.approx((X[y == 0] @ ranker.coef_[0]).max())


def test_infinite_push_weighs_positives():
    X, y = two_clouds(10, 12)
    cost = np.random.default_rng(3).uniform(0.2, 3.0, size=10)
    ranker = InfinitePush(0.3, tol=1e-6).fit(X, y, np.concatenate([cost, np.ones(12)]))
    optimum = cvxpy_infinite_push(X, y, "hinge", lambda w: 0.15 * cp.sum_squares(w), cost)
    assert ranker.solution_.upper == pytest.approx(optimum, rel=1e-5)


def published_by_loops(X, y, lam, n_iter):
    """Steps 1/(L sqrt(t)) from zero on a dual for every pair, projected by CVXPY."""
    pairs = np.array([x - z for z in X[y == 0] for x in X[y == 1]])
    shape, scale = (np.sum(y == 0), np.sum(y == 1)), lam * np.sum(y == 1)
    steepest = np.linalg.eigvalsh(pairs.T @ pairs)[-1] / scale
    duals = np.zeros(len(pairs))
    for t in range(1, n_iter + 1):
        slope = pairs @ (pairs.T @ duals) / scale - 1.0
        target = (duals - slope / (steepest * np.sqrt(t))).reshape(shape)
        nearest = cp.Variable(shape, nonneg=True)
        domain = [cp.sum(cp.max(nearest, axis=1)) <= 1]
        cp.Problem(cp.Minimize(cp.sum_squares(nearest - target)), domain).solve(solver="CLARABEL")
        duals = nearest.value.ravel()
    return pairs.T @ duals / scale


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("lam", [3.0, 0.03])
def test_published_steps_against_loops(lam):
    X, y = two_clouds(6, 7, 3)
    for n_iter in (1, 4):
        ranker = InfinitePush(lam, solver="published", max_iter=n_iter).fit(X, y)
        slow = published_by_loops(X, y, lam, n_iter)
        assert ranker.coef_[0] == pytest.approx(slow, abs=1e-4 * np.abs(slow).max())


@pytest.mark.filterwarnings("ignore::toppush.DegenerateWarning")
@pytest.mark.parametrize("loss", PAIR_LOSSES)
@pytest.mark.parametrize("lam", [100.0, 0.3])
def test_published_steps_begin_at_the_difference_of_means_and_settle(loss, lam):
    X, y = two_clouds()
    with pytest.warns(ConvergenceWarning, match="max_iter came first"):
        first = InfinitePush(lam, loss=loss, solver="published", max_iter=1).fit(X, y).coef_[0]
    means = X[y == 1].mean(axis=0) - X[y == 0].mean(axis=0)
    assert first / np.linalg.norm(first) == pytest.approx(means / np.linalg.norm(means))
    solution = InfinitePush(lam, loss=loss, solver="published", tol=1e-3).fit(X, y).solution_
    assert solution.status is Status.SETTLED
    lowers = np.array([point.lower for point in solution.history])
    assert np.all(np.diff(lowers) >= -1e-12)
    settled = np.abs(np.diff(lowers)) <= 1e-3 * np.abs(lowers[:-1])
    assert solution.n_iter == max(10, 2 + np.flatnonzero(settled)[0])
    optimum = InfinitePush(lam, loss=loss, solver="admm").fit(X, y).solution_
    assert solution.lower <= optimum.upper
    assert optimum.lower <= solution.upper


@pytest.mark.parametrize("loss", PAIR_LOSSES)
@pytest.mark.parametrize("solver", ["gradient", "admm"])
@pytest.mark.parametrize("lam", [100.0, 0.1])
def test_positives_among_negatives_have_no_solution_and_the_fit_says_so(loss, solver, lam):
    X = np.array([[1.0, 0.1], [-1.0, 0.0], [2.0, 0.0], [-2.0, 0.5], [0.0, -2.0], [0.1, 3.0]])
    with pytest.warns(DegenerateWarning, match=r"TopPush\(top=\"auto\"\)"):
        InfinitePush(lam, loss=loss, solver=solver).fit(X, [1, 1, 0, 0, 0, 0])


# Sparse Infinite Push


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
@pytest.mark.filterwarnings("ignore::toppush.DegenerateWarning")
@pytest.mark.parametrize("loss", ["hinge", "logistic", "truncated_quadratic"])
@pytest.mark.parametrize("l1_ratio", [1.0, 0.5, 0.0])
@pytest.mark.parametrize("lam", [0.2, 0.05])
def test_sparse_infinite_push_against_cvxpy(loss, l1_ratio, lam):
    X, y = two_clouds(12, 15)
    ranker = SparseInfinitePush(lam, l1_ratio=l1_ratio, loss=loss, tol=1e-5, max_iter=30_000)
    solution = ranker.fit(X, y).solution_
    optimum = cvxpy_infinite_push(
        X,
        y,
        loss,
        lambda w: lam * (l1_ratio * cp.norm1(w) + (1 - l1_ratio) / 2 * cp.sum_squares(w)),
    )
    assert solution.lower <= optimum * (1 + 1e-6)
    assert solution.upper == pytest.approx(optimum, rel=3e-5)


def test_sparse_infinite_push_leaves_features_out():
    X, y = two_clouds(40, 40, 10)
    few = SparseInfinitePush(0.1).fit(X, y)
    all_ = SparseInfinitePush(0.1, l1_ratio=0.0).fit(X, y)
    with pytest.warns(DegenerateWarning, match="lam"):
        none = SparseInfinitePush(10.0).fit(X, y)
    assert 0 < np.count_nonzero(few.coef_) < np.count_nonzero(all_.coef_) == 10
    assert not none.coef_.any()


def test_many_features_take_conjugate_gradients():
    X, y = two_clouds(10, 12)
    formed = SparseInfinitePush(0.1, l1_ratio=0.5).fit(X, y)
    wide = np.hstack([X, np.zeros((22, pair_admm.DENSE_FEATURES))])
    by_products = SparseInfinitePush(0.1, l1_ratio=0.5).fit(wide, y)
    assert by_products.solution_.upper == pytest.approx(formed.solution_.upper, rel=1e-4)


# P-Norm Push


def slow_push(loss, scores, weights, p):
    (on_pos, on_neg), (pos_weights, neg_weights) = scores, weights
    total = 0.0
    for score, weight in zip(on_neg, neg_weights, strict=True):
        losses = PAIR_LOSSES[loss].value(score - on_pos)
        total += weight * (np.sum(pos_weights * losses) / pos_weights.sum()) ** p
    return (total / neg_weights.sum()) ** (1 / p)


@pytest.mark.parametrize("loss", PUSH_NORMS)
@given(
    st.integers(0, 2**32 - 1), st.integers(1, 7), st.integers(1, 7), st.sampled_from([1, 2.5, 16])
)
def test_push_norms_against_loops_and_differences(loss, seed, n_pos, n_neg, p):
    rng = np.random.default_rng(seed)
    scores = [2 * rng.normal(size=n_pos) + 1, 2 * rng.normal(size=n_neg)]
    scores[1][0] = scores[0][0]  # so that the losses are not all zero
    weights = rng.uniform(0.5, 2, size=n_pos), rng.uniform(0.5, 2, size=n_neg)
    push = PUSH_NORMS[loss](tuple(scores), weights, p)
    assert push.value == pytest.approx(slow_push(loss, scores, weights, p))
    slopes, step = (push.on_positives, push.on_negatives), 1e-6
    for side in (0, 1):
        for entry in range(scores[side].size):
            ends = []
            for sign in (1, -1):
                moved = [part.copy() for part in scores]
                moved[side][entry] += sign * step
                ends.append(slow_push(loss, moved, weights, p))
            slope = (ends[0] - ends[1]) / (2 * step)
            assert slopes[side][entry] == pytest.approx(slope, rel=1e-4, abs=1e-5 * push.value)


@pytest.mark.parametrize("loss", PUSH_NORMS)
@pytest.mark.parametrize("p", [1.0, 6.0])
def test_p_norm_push_against_scipy(loss, p):
    X, y = two_clouds()
    solution = PNormPush(0.1, p=p, loss=loss, tol=1e-9).fit(X, y).solution_

    def objective(weights):
        scores = X[y == 1] @ weights, X[y == 0] @ weights
        ones = np.ones(scores[0].size), np.ones(scores[1].size)
        return 0.05 * weights @ weights + slow_push(loss, scores, ones, p)

    assert solution.relative_gap <= 1e-9
    assert solution.upper == pytest.approx(objective(solution.weights))
    assert solution.upper == pytest.approx(minimize(objective, np.zeros(4)).fun, rel=1e-7)
    assert solution.lower <= solution.upper


@pytest.mark.parametrize("loss", PUSH_NORMS)
def test_p_norm_push_tends_to_infinite_push(loss):
    X, y = two_clouds()
    limit = InfinitePush(0.1, loss=loss, solver="admm", tol=1e-6).fit(X, y).solution_
    optima = [PNormPush(0.1, p=p, loss=loss).fit(X, y).solution_ for p in (1, 8, 64, 512)]
    distances = [limit.upper - solution.lower for solution in optima]
    assert distances == sorted(distances, reverse=True)
    # The greatest of n numbers is at most n^(1/p) times their p-norm.
    assert optima[-1].lower <= limit.upper
    assert limit.lower <= optima[-1].upper * 30 ** (1 / 512)


# Accuracy at the top


@given(st.integers(0, 2**32 - 1), st.sampled_from([1e-3, 1.0, 100.0]), st.integers(2, 12))
def test_interior_points_close_the_gap_and_bound_every_problem(seed, C, n_rows):
    rng = np.random.default_rng(seed)
    sign = np.where(np.arange(n_rows) % 2, 1.0, -1.0)
    machines = ShiftedMachines(rng.normal(size=(n_rows, 3)), sign, C * rng.uniform(0.5, 2, n_rows))
    which = np.arange(n_rows)
    batch = machines.solve(which, tol=1e-8, max_iter=100)
    assert np.all(batch.upper - batch.lower <= 1e-8 * batch.upper)
    for row in which:
        difference = sign[:, None] * (machines.rows - machines.rows[row])
        for first in which:
            bound = machines.lower_for_all(which[[first]], batch.duals[[first]].T)[row]
            assert bound <= batch.upper[row] * (1 + 1e-9)
            assert bound >= batch.lower[row] * (1 - 1e-7) or row != first
        pull = batch.duals[row] @ difference
        assert batch.lower[row] == pytest.approx(batch.duals[row].sum() - 0.5 * pull @ pull)


@pytest.mark.parametrize("held", [0, 1 << 20])
def test_sums_of_interior_points_against_their_definition(held, monkeypatch):
    monkeypatch.setattr(interior_point, "HELD_PRODUCTS", held)
    rng, which = np.random.default_rng(0), np.array([4, 0, 9])
    sign = np.where(rng.random(10) < 0.4, 1.0, -1.0)
    machines = ShiftedMachines(rng.normal(size=(10, 4)), sign, np.ones(10))
    weights, scale = rng.normal(size=(3, 4)), rng.random((10, 3))
    margins, sums = machines.margins(which, weights), machines.combine(which, scale)
    systems = machines.systems(which, scale)
    for at, row in enumerate(which):
        d = sign[:, None] * (machines.rows - machines.rows[row])
        np.testing.assert_allclose(margins[:, at], d @ weights[at], atol=1e-13)
        np.testing.assert_allclose(sums[at], d.T @ scale[:, at], atol=1e-13)
        expected = np.eye(4) + d.T @ (scale[:, [at]] * d)
        np.testing.assert_allclose(systems[at], expected, atol=1e-13)


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.floats(0.01, 0.99))
def test_quantile_against_its_definition(seed, n_rows, tau):
    rng = np.random.default_rng(seed)
    scores, weight = (
        rng.integers(0, 5, n_rows).astype(float),
        rng.integers(1, 4, n_rows).astype(float),
    )
    quantile, each = Quantile(weight, tau), np.arange(n_rows)
    (found,) = quantile.value(scores[:, None])
    enough = [s for s in scores if weight[scores >= s].sum() >= tau * weight.sum() * (1 - 1e-12)]
    assert found == max(enough)
    standing = quantile.standing(np.repeat(scores[:, None], n_rows, axis=1), each)
    assert np.array_equal(standing.miss == 0, scores == found)
    assert np.all(standing.quantile == found)


def exhaustive(X, y, C, tau, by_quantile):
    """Every row's problem by CVXPY, then the rule, by hand."""
    sign, best = np.where(y == 1, 1.0, -1.0), (np.inf, np.inf)
    rank, least = int(np.ceil(tau * len(y) - 1e-9)), np.inf
    for row in range(len(y)):
        weights = cp.Variable(X.shape[1])
        margins = cp.multiply(sign, (X - X[row]) @ weights)
        loss = 0.5 * cp.sum_squares(weights) + C * cp.sum(cp.pos(1 - margins))
        problem = cp.Problem(cp.Minimize(loss))
        problem.solve(solver="CLARABEL")
        scores = X @ weights.value
        quantile = np.sort(scores)[::-1][rank - 1]
        above = np.count_nonzero(scores > scores[row] + 1e-9)
        miss = abs(above + 1 - rank) if by_quantile else 0
        own = np.maximum(1 - sign * (scores - quantile), 0).sum()
        value = 0.5 * weights.value @ weights.value + C * own
        best, least = min(best, (miss, value)), min(least, problem.value)
    return best, least


@pytest.mark.parametrize("choose", ["quantile", "objective"])
@pytest.mark.parametrize("C, tau", [(0.1, 0.2), (1.0, 0.4), (10.0, 0.45)])
def test_accuracy_at_top_against_exhaustive_cvxpy(choose, C, tau):
    X, y = two_clouds(9, 11, 3)
    ranker = AccuracyAtTop(C, tau=tau, candidates="all", choose=choose, tol=1e-9).fit(X, y)
    (miss, value), least = exhaustive(X, y, C, tau, choose == "quantile")
    assert ranker.solution_.upper == pytest.approx(value, rel=1e-4)
    assert ranker.solution_.lower <= least * (1 + 1e-7)
    if choose == "quantile":
        assert ranker.feasible_ == (miss == 0)
    scores = np.sort(X @ ranker.coef_[0])[::-1]
    assert ranker.threshold_ == pytest.approx(scores[int(np.ceil(tau * 20 - 1e-9)) - 1])


def test_accuracy_at_top_lower_bound_is_exact_when_all_rows_are_tried():
    X, y = two_clouds(9, 11, 3)
    ranker = AccuracyAtTop(candidates="all", choose="objective", tau=0.2, tol=1e-9).fit(X, y)
    assert ranker.solution_.lower == pytest.approx(exhaustive(X, y, 1.0, 0.2, False)[1], rel=1e-6)


def test_accuracy_at_top_with_few_candidates_is_no_better():
    X, y = two_clouds(40, 50)
    exact = AccuracyAtTop(choose="objective").fit(X, y).solution_
    few = AccuracyAtTop(choose="objective", candidates=10).fit(X, y).solution_
    assert exact.upper * (1 - 1e-12) <= few.upper <= 1.1 * exact.upper
    assert few.n_iter < exact.n_iter


def test_accuracy_at_top_skips_what_cannot_win():
    X, y = two_clouds(40, 50)
    X[y == 1] += 6.0  # separable: a feasible row is found at once, most bounds are above it
    ranker = AccuracyAtTop(10.0).fit(X, y)
    all_rows = ShiftedMachines(X - X.mean(axis=0), np.where(y == 1, 1.0, -1.0), np.full(90, 10.0))
    assert ranker.feasible_
    assert ranker.n_iter_ < all_rows.solve(np.arange(90), tol=1e-4, max_iter=100).n_iter.sum()


@pytest.mark.parametrize("options", [{}, {"candidates": 12}, {"choose": "objective", "C": 10.0}])
def test_accuracy_at_top_of_many_taus_is_that_of_each(options, monkeypatch):
    """And it solves the problem of no row twice."""
    X, y = two_clouds(40, 50)
    weight, taus = np.random.default_rng(0).uniform(0.5, 2.0, 90), [0.05, 0.2, 0.45]
    plain = AccuracyAtTop(tol=1e-8, n_jobs=1, **options)
    alone = [clone(plain).set_params(tau=tau).fit(X, y, weight) for tau in taus]
    solve, asked = ShiftedMachines.solve, []

    def counting(self, which, **how):
        asked.extend(which)
        return solve(self, which, **how)

    monkeypatch.setattr(ShiftedMachines, "solve", counting)
    together = plain.fit_taus(X, y, taus, weight)
    assert len(set(asked)) == len(asked)
    assert not hasattr(plain, "coef_")
    for one, other in zip(together, alone, strict=True):
        assert one.get_params() == other.get_params()
        assert one.coef_ == pytest.approx(other.coef_, rel=1e-6)
        assert (one.n_iter_, one.feasible_) == (other.n_iter_, other.feasible_)
        assert one.solution_.lower == pytest.approx(other.solution_.lower, rel=1e-6)
        assert set(vars(one)) == set(vars(other))


def test_accuracy_at_top_with_more_features_than_rows():
    X, y = two_clouds(9, 11, 3)
    wide = np.hstack([X, np.zeros((20, 30))])
    narrow = AccuracyAtTop(tau=0.3, tol=1e-8).fit(X, y)
    ranker = AccuracyAtTop(tau=0.3, tol=1e-8).fit(sparse.csr_array(wide), y)
    assert ranker.solution_.upper == pytest.approx(narrow.solution_.upper)
    assert ranker.decision_function(wide) == pytest.approx(narrow.decision_function(X), abs=1e-4)


# What all share

RANKERS = [
    InfinitePush(10.0),
    InfinitePush(solver="admm", loss="truncated_quadratic"),
    SparseInfinitePush(l1_ratio=0.5, loss="truncated_quadratic"),
    PNormPush(),
    PNormPush(loss="truncated_quadratic"),
    PNormPush(loss="logistic"),
    AccuracyAtTop(choose="objective"),
]
TIGHT = {
    "InfinitePush": 1e-15,
    "SparseInfinitePush": 1e-15,
    "PNormPush": 1e-13,
    "AccuracyAtTop": 1e-10,
}


@pytest.mark.filterwarnings("ignore::toppush.DegenerateWarning")
@parametrize_with_checks(RANKERS)
def test_scikit_learn_contract(estimator, check):
    if check.func.__name__.startswith("check_sample_weight_equivalence"):
        # Two roads to one optimum are to agree in seven digits.
        estimator = clone(estimator).set_params(tol=TIGHT[type(estimator).__name__])
    check(estimator)


@pytest.mark.parametrize("ranker", RANKERS, ids=repr)
def test_sparse_and_single_precision_rows(ranker):
    X, y = two_clouds(20, 20)
    X[np.abs(X) < 0.3] = 0.0
    dense = ranker.fit(X, y).solution_.upper
    assert ranker.fit(sparse.csr_array(X), y).solution_.upper == pytest.approx(dense, rel=1e-4)
    assert ranker.fit(X.astype(np.float32), y).solution_.upper == pytest.approx(dense, rel=1e-3)


@pytest.mark.parametrize("ranker", RANKERS, ids=repr)
def test_empty_columns_of_wide_rows_get_weights_of_zero(ranker):
    X, y = two_clouds(20, 20)
    places = [3, 77, 4000, 7999]
    wide = sparse.csr_array((X.ravel(), np.tile(places, 40), np.arange(0, 161, 4)), (40, 8000))
    narrow, ranker = clone(ranker).fit(X, y), clone(ranker).fit(wide, y)
    assert ranker.coef_.shape == (1, 8000)
    assert np.count_nonzero(ranker.coef_) <= 4
    assert ranker.solution_.upper == pytest.approx(narrow.solution_.upper, rel=1e-4)
    assert ranker.decision_function(wide) == pytest.approx(narrow.decision_function(X), abs=0.05)


@pytest.mark.parametrize("kind", [InfinitePush, SparseInfinitePush])
def test_too_many_pairs_are_refused_before_they_are_made(kind):
    X, y = two_clouds()
    with pytest.raises(ValueError, match=r"25 positives.*30 negatives.*750 pairs") as error:
        kind(max_pairs=749).fit(X, y)
    for words in ("GiB", "Raise max_pairs to at least 750", "TopPush"):
        assert words in str(error.value)
    kind(max_pairs=750).fit(X, y)


def test_accuracy_at_top_refuses_a_copy_too_large():
    X = sparse.eye_array(8000, 7000, format="csr")
    with pytest.raises(ValueError, match=r"8000.*7000"):
        AccuracyAtTop().fit(X, np.arange(8000) % 2)


@pytest.mark.parametrize(
    "ranker",
    [
        InfinitePush(),
        InfinitePush(solver="admm"),
        SparseInfinitePush(),
        PNormPush(1e-3),
        AccuracyAtTop(),
    ],
    ids=repr,
)
def test_max_iter_warns_and_keeps_valid_bounds(ranker):
    X, y = two_clouds()
    with pytest.warns(ConvergenceWarning, match=r"max_iter.*tol"):
        solution = ranker.set_params(max_iter=1).fit(X, y).solution_
    assert solution.lower <= solution.upper


@pytest.mark.parametrize("ranker", RANKERS, ids=repr)
def test_a_class_without_weight_is_refused(ranker):
    X, y = two_clouds(5, 5)
    with pytest.raises(ValueError, match=r"sample_weight.*0"):
        ranker.fit(X, y, np.where(y == 1, 0.0, 1.0))
