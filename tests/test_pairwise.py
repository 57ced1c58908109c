"""The pairwise family: sums over pairs, smoothed tops, optimum, certificate, estimators."""

import re
import warnings
from functools import cache

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import check_grad
from sklearn.exceptions import ConvergenceWarning

import checker
import reference
from hostile_problems import hostile_problem
from reproduce.baselines import InfinitePush, PNormPush
from solving import apart_at_most, every_loss, few_rows, quickly, some_rows
from toppush import DegenerateWarning, TopPush, TopPushCV, files, toppush_path
from toppush.designs import LocalDesign
from toppush.problem.losses import LOSSES
from toppush.problem.pairwise import PAIR_SUMS, LogisticSums, PairwiseProblem, smoothed_top
from toppush.problem.solution import Status
from toppush.solvers import SOLVERS, pairwise
from toppush.solvers.pairwise import ClassVectors

pytestmark = pytest.mark.sampled(2)


@pytest.fixture(autouse=True)
def _few_is_fine():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegenerateWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


# Sums over pairs.

SUMS = {**PAIR_SUMS, "logistic by panels": LogisticSums}


@pytest.mark.parametrize("name", SUMS)
@given(
    seed=st.integers(0, 2**32 - 1),
    sizes=st.tuples(st.integers(1, 30), st.integers(1, 30)),
    spread=st.sampled_from([0.0, 1e-3, 0.3, 3.0, 30.0, 90.0]),
    offset=st.sampled_from([0.0, 5.0, -50.0]),
    ties=st.booleans(),
)
def test_sums_are_those_over_all_pairs(name, seed, sizes, spread, offset, ties):
    rng = np.random.default_rng(seed)
    positives, negatives = (spread * rng.normal(size=size) for size in sizes)
    positives += offset
    if ties:
        positives, negatives = np.round(positives), np.round(negatives)
    sums, loss = SUMS[name](positives, negatives), LOSSES[name.split()[0]]
    violations = negatives[:, None] - positives
    for order, kind in enumerate((loss.value, loss.slope, loss.curvature)):
        table = kind(violations)
        on_pos, on_neg = rng.random(sizes[0]), rng.random(sizes[1])
        least = 1e-17 * max(sizes)
        assert_allclose(sums.over_positives(on_pos, order), table @ on_pos, 1e-12, least)
        assert_allclose(sums.over_negatives(on_neg, order), on_neg @ table, 1e-12, least)
        signed = on_pos - 0.5
        room = 1e-12 * (table @ abs(signed)) + least
        assert np.all(abs(sums.over_positives(signed, order) - table @ signed) <= room)


def test_panels_far_apart_take_little_memory():
    scores = 1e6 * np.arange(3000.0)
    found = LogisticSums(scores - 5e5, scores).over_positives(np.ones(3000), 1)
    assert_array_equal(found, np.arange(1.0, 3001.0))


# Smoothed tops.


@given(
    st.integers(0, 2**32 - 1), st.integers(1, 20), st.sampled_from([1e-9, 1e-3, 0.1, 1.0, 100.0])
)
def test_shares_lie_in_the_capped_simplex_and_smoothing_costs_at_most_its_entropy(seed, n, mu):
    rng = np.random.default_rng(seed)
    losses, k = np.round(rng.normal(size=n), 1) ** 2, int(rng.integers(1, n + 1))
    top = smoothed_top(losses, k, mu)
    assert top.mean == pytest.approx(reference.top_mean(losses, k), rel=1e-12)
    assert np.all((top.shares >= 0.0) & (top.shares <= 1.0 / k))
    assert top.shares.sum() == pytest.approx(1.0, rel=1e-12)
    most = mu * n / k * np.log(2.0)
    smooth = top.shares @ losses + top.entropy
    assert top.mean * (1 - 1e-12) <= smooth <= top.mean + most + 1e-12 * top.mean


def at_point(X, positive, problem_of, mu, weights):
    """A point with its gradient and its Newton system."""
    with LocalDesign(X, positive, n_jobs=1) as design:
        problem, sides = problem_of(design), ClassVectors(design)
        point = problem.at(weights, sides.scores(weights), sides.cost, mu)
        gradient = problem.lam * weights - sides.combine(*point.gradient_weights)
        return point, gradient, pairwise.NewtonSystem(problem, sides, point)


@every_loss
def test_slopes_and_bends_are_differences(name, rng):
    X, positive = some_rows(rng, n_rows=60, n_features=4)
    weights, mu = rng.normal(size=4), 0.2

    def problem_of(design):
        return PairwiseProblem(design, LOSSES[name], 0.1, 7)

    def at(weights):
        return at_point(X, positive, problem_of, mu, weights)

    off = check_grad(lambda w: at(w)[0].smooth, lambda w: at(w)[1], weights)
    assert off <= 1e-5 * np.linalg.norm(at(weights)[1])
    ahead, step = rng.normal(size=4), 1e-6
    change = (at(weights + step * ahead)[1] - at(weights - step * ahead)[1]) / (2 * step)
    with LocalDesign(X, positive, n_jobs=1) as design:
        problem, sides = problem_of(design), ClassVectors(design)
        point = problem.at(weights, sides.scores(weights), sides.cost, mu)
        newton = pairwise.NewtonSystem(problem, sides, point)
        assert_allclose(newton._product(ahead), change, rtol=1e-5, atol=1e-5 * abs(change).max())


# The optimum.


def pairwise_optimum(X, positive, *, lam, name, k, weight=None):
    """The least objective by a generic solver, to about 1e-7."""
    weight = np.ones(len(X)) if weight is None else weight
    w = cp.Variable(X.shape[1])
    negatives = np.flatnonzero(~positive & (weight > 0))
    cost = weight[positive] / weight[positive].sum()
    kind = {
        "truncated_quadratic": lambda t: cp.square(cp.pos(1 + t)),
        "logistic": cp.logistic,
        "exponential": cp.exp,
    }[name]
    each = cp.hstack([cost @ kind(X[j] @ w - X[positive] @ w) for j in negatives])
    problem = cp.Problem(cp.Minimize(lam / 2 * cp.sum_squares(w) + cp.sum_largest(each, k) / k))
    problem.solve(solver=cp.CLARABEL)
    return problem.value


def solved(X, positive, *, lam=0.1, name="truncated_quadratic", k=1, weight=None, **options):
    options = {"tol": 1e-8, "max_iter": 1000, **options}
    with LocalDesign(X, positive, weight, n_jobs=1) as design:
        problem = PairwiseProblem(design, LOSSES[name], lam, k)
        return pairwise.smoothed_newton(problem, **options)


def check_bounds(solution, X, positive, *, lam, name, k, weight=None):
    upper = reference.pairwise_primal(
        X, positive, solution.weights, lam=lam, k=k, name=name, cost=weight
    )
    assert solution.upper == pytest.approx(upper, rel=1e-10)
    assert solution.lower <= upper
    lowers = [step.lower for step in solution.history]
    assert max(lowers) <= upper * (1 + 1e-9)
    kept = np.full(len(X), True) if weight is None else weight > 0
    scores = (X @ solution.weights)[~positive & kept]
    assert solution.threshold == pytest.approx(reference.top_mean(scores, k), rel=1e-9, abs=1e-10)


@every_loss
@pytest.mark.parametrize("share", ["one", "some", "all"])
@pytest.mark.parametrize("seed", range(3))
def test_the_optimum_is_that_of_a_generic_solver(name, share, seed):
    X, positive = few_rows(seed)
    n_neg = int(np.sum(~positive))
    given = {
        "lam": 0.03,
        "name": name,
        "k": {"one": 1, "some": n_neg // 3 + 1, "all": n_neg}[share],
    }
    weight = None
    if seed == 1:
        weight = np.random.default_rng(0).choice([0.0, 1.0, 2.5], len(X))
        weight[np.flatnonzero(~positive)[: n_neg // 2 + 1]] = 1.0
        weight[positive] += 0.5
        given["k"] = min(given["k"], int(np.sum(~positive & (weight > 0))))
    solution = solved(X, positive, weight=weight, **given)
    assert solution.relative_gap <= 1e-7
    check_bounds(solution, X, positive, weight=weight, **given)
    best = pairwise_optimum(X, positive, weight=weight, **given)
    assert solution.upper == pytest.approx(best, rel=1e-5)
    assert solution.lower <= best * (1 + 1e-6)


@every_loss
def test_one_negative_is_the_infinite_push_and_the_threshold_family(name, rng):
    X, positive = some_rows(rng, n_rows=60, n_features=3)
    own = solved(X, positive, lam=0.1, name=name, k=1, tol=1e-7)
    other = TopPush(0.1, loss=name, tol=1e-7).fit(X, positive).solution_
    push = InfinitePush(0.1, loss=name, tol=1e-5).fit(X, positive).solution_
    assert own.upper == pytest.approx(other.upper, rel=3e-7)
    assert own.upper == pytest.approx(push.upper, rel=3e-5)
    asked = TopPush(0.1, loss=name, pairwise=True, tol=1e-7).fit(X, positive).solution_
    assert_array_equal(asked.weights, other.weights)


@every_loss
def test_all_negatives_are_the_mean_over_all_pairs(name, rng):
    X, positive = some_rows(rng, n_rows=150, n_features=5)
    own = TopPush(0.1, top=1.0, pairwise=True, loss=name, tol=1e-8).fit(X, positive).solution_
    other = PNormPush(0.1, p=1.0, loss=name, tol=1e-8).fit(X, positive).solution_
    assert own.upper == pytest.approx(other.upper, rel=3e-8)
    assert np.linalg.norm(own.weights - other.weights) <= apart_at_most(own, other, 0.1)


@pytest.mark.parametrize("formed", [1000, 0])
@every_loss
def test_weights_are_repetitions_and_zero_is_absence(name, formed, rng, monkeypatch):
    monkeypatch.setattr(pairwise, "MAX_FORMED", formed)
    X, positive = some_rows(rng, n_rows=150, n_features=5)
    weight = rng.integers(0, 3, len(X)).astype(float)
    given = {"top": 6, "pairwise": True, "loss": name, "tol": 1e-7}
    weighted = TopPush(0.1, **given).fit(X, positive, weight).solution_
    times = np.where(positive, weight, weight > 0).astype(int)
    repeated = TopPush(0.1, **given).fit(X.repeat(times, 0), positive.repeat(times)).solution_
    assert weighted.upper == pytest.approx(repeated.upper, rel=3e-7)
    assert np.linalg.norm(weighted.weights - repeated.weights) <= apart_at_most(
        weighted, repeated, 0.1
    )


# Promises.


@every_loss
@given(st.integers(0, 2**32 - 1), st.sampled_from([-100, -9, 9, 100]))
def test_a_power_of_ten_changes_nothing_but_the_weights(name, seed, power):
    X, positive = few_rows(seed)
    k = (int(np.sum(~positive)) + 1) // 2
    plain = solved(X, positive, lam=0.1, name=name, k=k, tol=1e-6)
    scale = 10.0**power
    other = solved(scale * X, positive, lam=0.1 * scale**2, name=name, k=k, tol=1e-6)
    assert other.status is plain.status is Status.CONVERGED
    assert other.upper == pytest.approx(plain.upper, rel=3e-6)
    assert_allclose(
        scale * other.weights, plain.weights, rtol=0, atol=0.02 * abs(plain.weights).max()
    )


@every_loss
@pytest.mark.parametrize("shift", [1e4, -1e8])
def test_a_shift_changes_nothing(name, shift, rng):
    X, positive = some_rows(rng, n_rows=100, n_features=4)
    plain = solved(X, positive, name=name, k=9, tol=1e-5)
    moved = X + shift * rng.choice([-1.0, 1.0], 4)
    other = solved(moved, positive, name=name, k=9, tol=1e-4)
    assert other.status is Status.CONVERGED
    assert other.upper == pytest.approx(plain.upper, rel=2e-4)


def test_bounds_of_float32_rows_are_those_of_float64(rng):
    X, positive = some_rows(rng, n_rows=200, n_features=6)
    single = (X + 30.0).astype(np.float32)
    given = {"lam": 1e-3, "name": "truncated_quadratic", "k": 10}
    solution = solved(single, positive, tol=1e-5, **given)
    assert solution.status is Status.CONVERGED
    check_bounds(solution, single.astype(np.float64), positive, **given)


def test_classes_of_one_mean_have_zero_as_their_optimum(rng):
    X = rng.normal(size=(60, 3))
    positive = np.arange(60) < 30
    X[positive] -= X[positive].mean(axis=0) - X[~positive].mean(axis=0)
    ranker = TopPush(0.01, top=1.0, pairwise=True)
    with pytest.warns(DegenerateWarning):
        ranker.fit(X, positive)
    assert ranker.solution_.status is Status.CONVERGED
    assert ranker.solution_.upper == pytest.approx(1.0, abs=1e-12)


def test_where_zero_is_optimal_the_direction_still_ranks(rng):
    """The same tops have a solution in both families, and `auto` finds the same."""
    X = rng.normal(size=(240, 4))
    positive = np.arange(240) % 3 == 0
    X[positive] += 0.3
    ranker = TopPush(0.01, top=3, pairwise=True)
    with pytest.warns(DegenerateWarning):
        ranker.fit(X, positive)
    assert np.any(ranker.coef_)
    assert ranker.score(X, positive) > positive.mean() + 0.05
    auto = TopPush(0.01, top="auto", pairwise=True).fit(X, positive)
    assert auto.top_ == TopPush(0.01, top="auto").fit(X, positive).top_ > 3
    assert auto.solution_.lower < 1.0


# As the driver gives it.


@cache
def rows():
    return some_rows(np.random.default_rng(5), n_rows=500, n_features=8)


def test_a_warm_start_takes_fewer_iterations():
    ranker = TopPush(0.01, top=20, pairwise=True, warm_start=True, tol=1e-6).fit(*rows())
    cold = ranker.n_iter_
    assert ranker.fit(*rows()).n_iter_ < cold / 2
    assert ranker.solution_.relative_gap <= 1e-6


def test_who_watches_may_stop_it():
    seen = []

    def watch(history, weights, threshold):
        seen.append((history[-1], threshold))
        return len(seen) == 3

    solution = solved(*rows(), lam=1e-3, k=20, callback=watch)
    assert (solution.status, solution.n_iter) == (Status.STOPPED, 3)
    assert solved(*rows(), lam=1e-3, k=20, max_iter=2).status is Status.MAX_ITER


def test_many_features_go_without_a_matrix(monkeypatch):
    formed = solved(*rows(), lam=1e-2, k=30, tol=1e-6)
    monkeypatch.setattr(pairwise, "MAX_FORMED", 0)
    other = solved(*rows(), lam=1e-2, k=30, tol=1e-6)
    assert other.upper == pytest.approx(formed.upper, rel=2e-6)


def test_what_does_not_know_pairs_is_refused(monkeypatch):
    with pytest.raises(ValueError, match="pairwise=True needs solver='newton', found 'paper'"):
        TopPush(pairwise=True, solver="paper").fit(*rows())
    with (
        pytest.raises(ValueError, match="pairwise"),
        LocalDesign(*rows(), n_jobs=1) as design,
    ):
        SOLVERS["paper"](PairwiseProblem(design, LOSSES["logistic"], 1.0))
    monkeypatch.setitem(LOSSES, "other", LOSSES["logistic"])
    for estimator in (TopPush(pairwise=True, loss="other"), TopPushCV(pairwise="cv", loss="other")):
        with pytest.raises(ValueError, match="pairs"):
            estimator.fit(*rows())


# Paths, folds and files.

GRID = {"lams": (0.1, 0.01), "tops": (1, 0.05, 0.3), "cv": 3}


def test_a_path_is_its_fits():
    X, y = rows()
    path = toppush_path(X, y, lams=(0.1, 0.01), tops=(0.05, 30), pairwise=True, tol=1e-6)
    for top, row in zip(path.tops, path.solutions, strict=True):
        for lam, one in zip(path.lams, row, strict=True):
            alone = TopPush(lam, top=top, pairwise=True, tol=1e-6).fit(X, y).solution_
            assert one.upper == pytest.approx(alone.upper, rel=3e-6)


def test_folds_choose_within_a_family_or_between_them():
    X, y = rows()
    found = {
        pairwise: TopPushCV(**GRID, pairwise=pairwise).fit(X, y) for pairwise in (False, True, "cv")
    }
    tables = {name: one.cv_results_ for name, one in found.items()}
    assert "param_pairwise" not in tables[False]
    assert np.all(tables[True]["param_pairwise"])
    both = tables["cv"]["param_pairwise"]
    assert_array_equal(both, [False] * 6 + [True] * 4)  # one negative is the same in both
    for name, wanted, part in ((False, ~both, slice(None)), (True, both, slice(2, None))):
        for key in ("mean_test_score", "joint_test_score"):
            assert_allclose(tables["cv"][key][wanted], tables[name][key][part], rtol=1e-9)
    chosen = found["cv"]
    best = chosen.cv_results_["params"][int(np.argmin(chosen.cv_results_["rank_test_score"]))]
    assert best == {"lam": chosen.lam_, "top": chosen.top_, "pairwise": chosen.pairwise_}
    again = TopPush(chosen.lam_, top=chosen.top_, pairwise=chosen.pairwise_).fit(X, y)
    assert_array_equal(again.coef_, chosen.coef_)


def test_default_grids_grow_within_the_family_that_wins():
    X, y = rows()
    ranker = TopPushCV(pairwise=True, cv=2).fit(X[:150], y[:150])
    assert ranker.pairwise_
    assert all(pair["pairwise"] for pair in ranker.cv_results_["params"])


@pytest.mark.parametrize("make", [TopPush, TopPushCV])
def test_model_files_keep_it(make, tmp_path):
    X, y = rows()
    given = {"lam": 0.1, "top": 20} if make is TopPush else GRID
    ranker = make(**given, pairwise=True).fit(X, y)
    files.save(ranker, tmp_path / "model")
    again = files.load(tmp_path / "model").pipeline[-1]
    assert again.get_params()["pairwise"] is True
    assert_array_equal(again.decision_function(X), ranker.decision_function(X))
    del vars(ranker)["pairwise"]  # as models of versions before are
    assert ranker.get_params()["pairwise"] is False


def test_sparse_rows_of_many_empty_columns():
    X, y = rows()
    wide = sparse.csr_array(np.hstack([X, np.zeros((len(X), 6000))]))
    own = TopPush(0.1, top=20, pairwise=True, tol=1e-6).fit(X, y)
    other = TopPush(0.1, top=20, pairwise=True, tol=1e-6).fit(wide, y)
    assert_allclose(other.coef_[:, :8], own.coef_, rtol=0, atol=1e-6 * abs(own.coef_).max())
    assert not np.any(other.coef_[:, 8:])


# Hostile problems.


def long_objective(problem, weights, k):
    """F in long double, every pair written down."""
    wide = problem.X.astype(np.longdouble) @ weights.astype(np.longdouble)
    weight = np.ones(len(problem.y)) if problem.sample_weight is None else problem.sample_weight
    positive, negative = problem.y & (weight > 0), ~problem.y & (weight > 0)
    cost = weight[positive].astype(np.longdouble)
    losses = checker.loss(problem.loss, wide[negative][:, None] - wide[positive])
    each = losses @ (cost / cost.sum())
    length = weights.astype(np.longdouble) @ weights.astype(np.longdouble)
    return np.longdouble(problem.lam) / 2 * length + np.sort(each)[-k:].mean()


@pytest.mark.skipif(not checker.IS_LONG, reason="needs a long double of wider exponents")
@pytest.mark.parametrize("number", quickly(range(200), range(0, 200, 20)))
def test_bounds_hold_on_hostile_problems(number):
    """What is said of the weights is true, and no weights found otherwise are below the bound."""
    problem = hostile_problem(number, "dense")
    given = {"loss": problem.loss, "pairwise": True, "n_jobs": 1, "max_iter": 200}
    try:
        found = [
            TopPush(problem.lam, top=problem.top, tol=tol, **given).fit(
                problem.X, problem.y, problem.sample_weight
            )
            for tol in (problem.tol, 1e-8)
        ]
    except ValueError as error:
        if re.search("1e-100 to 1e\\+100|beyond float64", str(error)):
            return
        raise
    solution, k = found[0].solution_, found[0].top_
    with np.errstate(all="ignore"):
        uppers = [long_objective(problem, one.solution_.weights, k) for one in found]
    assert solution.upper == pytest.approx(float(uppers[0]), rel=1e-7, abs=1e-25)
    least = min(*uppers, LOSSES[problem.loss].value(np.zeros(1))[0])
    assert solution.lower <= least * (1.0 + 1e-9)
    if solution.status is Status.CONVERGED:
        assert solution.relative_gap <= problem.tol
