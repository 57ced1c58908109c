"""The checker itself: true on problems that CVXPY solves, and able to fail."""

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checker import IS_LONG, Checker, capped, conjugate, loss, slope
from toppush import TopPush
from toppush.problem.solution import Status

LOSSES = ["truncated_quadratic", "logistic", "exponential"]

needs_long_double = pytest.mark.skipif(
    not IS_LONG, reason="needs a long double of wider exponents than a double"
)


def made(seed):
    """A small problem without malice, and its parameters."""
    rng = np.random.default_rng(seed)
    n_rows, n_columns = rng.integers(8, 40), rng.integers(1, 6)
    y = np.arange(n_rows) % 3 == 0
    X = rng.normal(size=(n_rows, n_columns)) + y[:, None]
    weight = rng.choice([0.0, 1.0, 2.5], n_rows) if seed % 2 else None
    if weight is not None:
        weight[:2] = 1.0
    n_neg = int(np.sum(~y if weight is None else ~y & (weight > 0)))
    k = [1, n_neg, int(rng.integers(1, n_neg + 1))][seed // 2 % 3]
    terms = {"lam": 10.0 ** rng.uniform(-3, 1), "k": k, "loss": LOSSES[seed % 3]}
    return X, y, {**terms, "sample_weight": weight}


def optimum(X, y, *, lam, k, loss, sample_weight):
    """By CVXPY, from the objective alone."""
    weight = np.ones(len(y)) if sample_weight is None else sample_weight
    cost = weight[y]
    w = cp.Variable(X.shape[1])
    t = cp.sum_largest(X[~y & (weight > 0)] @ w, k) / k - X[y] @ w
    losses = {
        "truncated_quadratic": lambda: cp.square(cp.pos(1 + t)),
        "logistic": lambda: cp.logistic(t),
        "exponential": lambda: cp.exp(t),
    }
    objective = lam / 2 * cp.sum_squares(w) + cost @ losses[loss]() / cost.sum()
    problem = cp.Problem(cp.Minimize(objective))
    problem.solve(solver=cp.CLARABEL)
    return problem.value, w.value


@pytest.mark.filterwarnings("ignore::toppush.DegenerateWarning")
@pytest.mark.parametrize("seed", range(24))
def test_every_bound_is_below_and_every_objective_above_the_optimum(seed, rng):
    """For any weights and any dual, feasible or not; and the best of both meet."""
    X, y, terms = made(seed)
    checker, (best, weights) = Checker(X, y, **terms), optimum(X, y, **terms)
    room = 1e-7 * best
    for size in (0.0, 1e-3, 1.0):
        off = weights + size * rng.normal(size=weights.shape)
        assert checker.objective(off).value >= best - room
        dual = rng.normal(size=len(y)) * 10.0 ** rng.uniform(-4, 0.5)
        assert checker.bound(dual).value <= best + room
    assert checker.objective(weights).value <= best + room
    options = {"top": terms["k"], "loss": terms["loss"], "tol": 1e-7}
    ranker = TopPush(terms["lam"], **options).fit(X, y, sample_weight=terms["sample_weight"])
    assert checker.bound(ranker.solution_.dual).value == pytest.approx(best, rel=1e-6)
    assert checker.complaints(ranker.solution_, tol=1e-7) == []


@pytest.mark.parametrize("name", LOSSES)
def test_a_conjugate_is_the_greatest_difference_from_a_line(name):
    """l*(a) = sup_t a t - l(t), reached at the t whose slope is a."""
    t = np.linspace(-20, 3, 2001, dtype=np.longdouble)
    a = slope(name, t[200:1900:17])
    a = a[a > 0]
    gaps = conjugate(name, a) - (a[:, None] * t - loss(name, t)).max(axis=1)
    assert np.all(gaps >= -1e-17)
    assert np.all(gaps <= 1e-3 * np.maximum(a, 1e-6))


@given(st.integers(0, 2**32), st.booleans())
def test_capped_is_feasible_and_leaves_what_is(seed, sparse):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 30))
    k = int(rng.integers(1, n + 1))
    b = np.where(rng.random(n) < 0.6 * sparse, 0.0, rng.exponential(size=n)).astype(np.longdouble)
    total = np.longdouble(10.0 ** rng.uniform(-20, 20))
    found = capped(b, total, k)
    assert np.all((found >= 0) & (found <= total / k))
    assert abs(found.sum() - total) <= 1e-17 * total
    again = capped(found, total, k)
    assert np.all(np.abs(again - found) <= 1e-17 * total)


# Falsified solutions.


def honest(loss="logistic"):
    X, y, terms = made(6)
    terms = {**terms, "loss": loss, "k": 3, "lam": 0.1, "sample_weight": None}
    ranker = TopPush(0.1, top=3, loss=loss, tol=1e-4).fit(X, y)
    return Checker(X, y, **terms), ranker.solution_, y


def _scaled(dual, y, factor):
    return np.where(y, dual, factor * dual)


def _one_more(dual, y, excess):
    changed = dual.copy()
    changed[np.flatnonzero(~y)[np.argmax(dual[~y])]] += excess
    return changed


FALSE = {
    "lower raised above the optimum": ("crossed", lambda s, y: {"lower": s.upper * 1.01}),
    "lower raised above zero's": ("false", lambda s, y: {"lower": 1.1}),
    "lower raised a little": ("unproven", lambda s, y: {"lower": s.lower + 1e-9 * s.upper}),
    "bounds crossed by a rounding": ("crossed", lambda s, y: {"lower": np.nextafter(s.upper, 1)}),
    "upper lowered a little": ("upper", lambda s, y: {"upper": s.upper * (1 - 1e-9)}),
    "upper raised a little": ("loose", lambda s, y: {"upper": s.upper * (1 + 3e-6)}),
    "weights changed": ("upper", lambda s, y: {"weights": s.weights * 0.9}),
    "threshold changed": ("threshold", lambda s, y: {"threshold": s.threshold + 1e-4}),
    "dual zero": ("unproven", lambda s, y: {"dual": np.zeros_like(s.dual)}),
    "dual of other rows": ("unproven", lambda s, y: {"dual": s.dual[::-1].copy()}),
    "dual negative": ("dual", lambda s, y: {"dual": -s.dual}),
    "dual of unequal sums": ("dual", lambda s, y: {"dual": _scaled(s.dual, y, 1.001)}),
    "dual above the cap": ("dual", lambda s, y: {"dual": _one_more(s.dual, y, 1.0)}),
    "dual outside the domain": ("dual", lambda s, y: {"dual": 100.0 * s.dual}),
    "dual too short": ("shape", lambda s, y: {"dual": s.dual[1:]}),
    "weights too short": ("shape", lambda s, y: {"weights": s.weights[1:]}),
    "upper NaN": ("not finite", lambda s, y: {"upper": np.nan}),
    "lower -inf": ("not finite", lambda s, y: {"lower": -np.inf}),
    "weights NaN": ("not finite", lambda s, y: {"weights": s.weights * np.nan}),
    "dual NaN": ("not finite", lambda s, y: {"dual": s.dual * np.nan}),
    "converged with a gap": ("status", lambda s, y: {"lower": 0.5 * s.upper}),
}


@pytest.mark.parametrize("kind", FALSE)
def test_a_false_solution_is_told(kind):
    checker, solution, y = honest()
    assert checker.complaints(solution, tol=1e-4) == []
    word, change = FALSE[kind]
    told = checker.complaints(replace(solution, **change(solution, y)), tol=1e-4)
    assert word in [text.partition(":")[0] for text in told]


def test_a_lower_bound_too_low_is_true():
    """It is weak, not wrong, as long as nobody says that the fit converged."""
    checker, solution, _ = honest()
    weak = replace(solution, lower=-1.0, status=Status.STALLED)
    assert checker.complaints(weak, tol=1e-4) == []


@pytest.mark.parametrize("name", LOSSES)
def test_without_a_dual_the_bound_is_compared_with_objectives(name):
    checker, solution, _ = honest(name)
    without = replace(solution, dual=np.empty(0))
    assert checker.complaints(without, tol=1e-4) == []
    assert checker.complaints(replace(without, lower=1.01 * solution.upper), tol=1e-4)
    at_zero = float(loss(name, np.longdouble(0)))
    above = np.nextafter(at_zero, 1.0)
    zero = {"weights": np.zeros_like(solution.weights), "upper": above, "threshold": 0.0}
    poor = replace(without, **zero, lower=0.5 * (solution.upper + at_zero))
    assert checker.complaints(poor) == []
    assert checker.complaints(poor, others={"better weights": solution.weights})


@needs_long_double
@pytest.mark.parametrize("factor", [1e80, 1e-100, 1e150])
def test_the_size_of_the_rows_is_no_matter(factor):
    """X s with lam s^2 is the same problem, its weights divided by s; even where s^2 overflows."""
    X, y, terms = made(8)
    plain = Checker(X, y, **terms)
    terms["lam"] = np.longdouble(terms["lam"]) * np.longdouble(factor) ** 2
    scaled = Checker(X * factor, y, **terms)
    rng = np.random.default_rng(0)
    weights, dual = rng.normal(size=X.shape[1]), rng.exponential(size=len(y))
    assert float(scaled.objective(weights / factor).value) == pytest.approx(
        float(plain.objective(weights).value), rel=1e-13
    )
    assert float(scaled.bound(dual).value) == pytest.approx(
        float(plain.bound(dual).value), rel=1e-13
    )


@needs_long_double
def test_float32_rows_are_taken_as_they_are():
    """The objective of what was rounded, not of what was meant."""
    X, y, terms = made(2)
    single = (X + 1000.0).astype(np.float32)
    weights = np.linspace(-1.0, 1.0, X.shape[1]) + 0.3
    exact = Checker(single.astype(np.float64), y, **terms).objective(weights).value
    assert Checker(single, y, **terms).objective(weights).value == exact
    assert Checker(X + 1000.0, y, **terms).objective(weights).value != exact
