"""Bounds that cannot lie: every fit judged by an independent checker in long double.

First the problems that once broke a promise, each by its name; then hostile ones by the hundred.
"""

import os
import re

import numpy as np
import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import hostile
from checker import IS_LONG
from hostile_problems import HOLDINGS, LOSSES, Problem, hostile_problem, hostile_problems
from solving import quickly
from toppush import TopPush
from toppush.problem.losses import LOSSES as LIBRARY_LOSSES
from toppush.problem.solution import Status
from verdict import Holder, can_hold, complaints, fit, judged

pytestmark = [
    pytest.mark.sampled(4),
    pytest.mark.skipif(not IS_LONG, reason="needs a long double of wider exponents than a double"),
]

INTEGERS = st.integers(-3, 3).map(float)

every_loss = pytest.mark.parametrize("loss", LOSSES)


def judge(X, y, lam, **options):
    """Fit, and let the checker find nothing wrong; the solution and the names of the warnings."""
    problem = Problem(X=X, y=np.asarray(y, dtype=bool), lam=lam, **options)
    done = fit(problem, problem.X, problem.y, problem.sample_weight)
    assert complaints(problem, done) == []
    return done.ranker.solution_, done.warned


def certify(X, y, lam, **options):
    """The same, for a problem that is to converge without a word."""
    solution, warned = judge(X, y, lam, **options)
    assert solution.status.name == "CONVERGED"
    assert warned == []
    return solution


def shifted(seed, n_rows=200, n_columns=5, by=1.0):
    """Every other row positive, of a normal distribution around `by` in all columns."""
    y = np.arange(n_rows) % 2 == 1
    return np.random.default_rng(seed).normal(size=(n_rows, n_columns)) + by * y[:, None], y


def rows_of_many_sizes(seed):
    rng, y = np.random.default_rng(seed), np.arange(60) % 2
    return (rng.normal(size=(60, 8)) + 2 * y[:, None]) * 10.0 ** rng.uniform(-6, 6, (60, 1)), y


# float32.


def test_float32_with_an_offset():
    """A lower bound of .9188 was stated where the optimum is .9028."""
    X, y = shifted(19)
    solution = certify((X + 1000).astype(np.float32), y, 0.01)
    assert solution.upper == pytest.approx(0.9028, abs=2e-4)


@pytest.mark.parametrize("n_pos", [20, 200])
def test_float32_without_an_offset(n_pos):
    """A lower bound 16 % above the objective of the weights was stated for 20 positives."""
    rng, y = np.random.default_rng(6), np.arange(220) >= 220 - n_pos
    certify((rng.normal(size=(220, 10)) + 2 * y[:, None]).astype(np.float32), y, 1e-5)


@pytest.mark.parametrize("seed", [20, 23, 30, 37])
def test_float32_far_from_zero_is_not_called_degenerate(seed):
    """Weights of zero were called optimal at an offset of 1e4, with .97 and less in reach."""
    X, y = shifted(seed)
    X = (X + 1e4).astype(np.float32)
    solution = certify(X, y, 0.01)
    assert solution.upper < 0.995
    near = certify(X.astype(np.float64) - 1e4, y, 0.01)
    assert solution.upper == pytest.approx(near.upper, rel=2e-4)


@every_loss
@pytest.mark.parametrize("offset", [0.0, 10.0, 1e3, 1e4])
def test_float32_is_the_problem_of_its_values(offset, loss):
    """The same rows in float64 have the same optimum."""
    X, y = shifted(3, n_columns=4)
    X = (X + offset).astype(np.float32)
    single = certify(X, y, 0.01, loss=loss, top=0.2)
    double = certify(X.astype(np.float64), y, 0.01, loss=loss, top=0.2)
    assert single.upper == pytest.approx(double.upper, rel=2e-4)


# Rows of very different size.


def test_rows_of_very_different_size():
    """Upper .498641 and lower .498721 were stated."""
    certify(*rows_of_many_sizes(164), 1e-3, tol=1e-6)


@pytest.mark.parametrize(
    "seed, lam, tol", [(140, 1e-6, 1e-6), (263, 1e-3, 1e-6), (263, 1e-3, 1e-4), (392, 1e-6, 1e-6)]
)
def test_more_rows_of_very_different_size(seed, lam, tol):
    """The lower bound was up to 3 % above the objective."""
    certify(*rows_of_many_sizes(seed), lam, tol=tol)


# Offsets and scale.


@every_loss
@pytest.mark.parametrize("offset", [1e5, 1e6, 1e8])
def test_a_shift_of_all_rows_changes_nothing(offset, loss):
    """From 1e5 on every fit stalled; a float64 of 1e8 still has eight digits after the point."""
    for seed in range(5):
        X, y = shifted(seed)
        X = X + offset
        solution = certify(X, y, 0.01, loss=loss, top=0.2)
        near = certify(X - offset, y, 0.01, loss=loss, top=0.2)
        assert solution.upper == pytest.approx(near.upper, rel=2e-4)


@pytest.mark.parametrize("seed", quickly(range(20), range(5)))
def test_an_offset_of_a_million(seed):
    """Twenty of twenty stalled."""
    X, y = shifted(seed)
    solution, warned = judge(X + 1e6, y, 0.01)
    assert solution.status.name == "CONVERGED"
    assert "ConvergenceWarning" not in warned


@every_loss
@pytest.mark.parametrize("factor", [1e30, 1e80, 1e150, 1e-100, 1e-150])
def test_the_unit_of_the_rows_is_no_matter(factor, loss):
    """X s with lam s^2 is the same problem."""
    X, y = shifted(1)
    lam = 0.01 * factor**2
    solution = certify(X * factor, y, lam, loss=loss, top=0.2)
    plain = certify(X, y, 0.01, loss=loss, top=0.2)
    assert solution.upper == pytest.approx(plain.upper, rel=2e-4)


@every_loss
def test_huge_rows_of_classes_apart(loss):
    """lam as it is: next to nothing beside such rows, but the classes do not overlap."""
    X, y = shifted(0, by=8.0)
    certify(X * 1e30, y, 0.01, loss=loss)


@every_loss
@pytest.mark.parametrize("by", [1.0, 8.0])
@pytest.mark.parametrize("factor", [1e30, 1e80, 1e150])
def test_huge_rows_beside_a_common_lam(factor, by, loss):
    """No dual in float64 has the digits for every bound: what is stated holds, and it is said."""
    X, y = shifted(0, by=by)
    solution, warned = judge(X * factor, y, 0.01, loss=loss)
    assert solution.upper <= LIBRARY_LOSSES[loss].value(np.zeros(1))[0] * (1 + 1e-4)
    assert solution.status.success or "ConvergenceWarning" in warned


@every_loss
@pytest.mark.parametrize("huge", [1.0, 1e150])
def test_columns_of_extreme_size(huge, loss):
    """Columns of 1e-150 and of 1 beside huge ones are as good as none."""
    X, y = shifted(2, by=8.0)
    X = X * np.array([huge, 1e-150, 1.0, huge, huge])
    certify(X, y, 0.01 * huge**2, loss=loss)
    solution, warned = judge(X, y, 0.01, loss=loss)
    assert solution.status.success or "ConvergenceWarning" in warned


# A stalled fit is not a success.


@pytest.mark.parametrize("lam", [1e-6, 1e-4, 1e-3, 1e-2])
def test_cauchy(lam):
    """An objective of .174 was returned for every lam, without a word; .00816 is right for .01."""
    rng = np.random.default_rng(33)
    y = rng.random(150) < 0.5
    X = rng.standard_cauchy((150, 6)) + y[:, None]
    solution = certify(X, y, lam, top=1.0, loss="logistic")
    assert solution.upper < 0.0082


@pytest.mark.parametrize("by", [1.0, 2.0])
@pytest.mark.parametrize("lam", [1e-6, 1e-5, 1e-4, 1e-3])
def test_more_cauchy(lam, by):
    rng, y = np.random.default_rng(33), np.arange(150) % 2
    certify(rng.standard_cauchy((150, 6)) + by * y[:, None], y, lam, top=1.0, loss="logistic")


@pytest.mark.parametrize("max_iter", [1, 3])
@every_loss
def test_a_fit_that_is_cut_short_says_so(loss, max_iter):
    X, y = shifted(0)
    solution, warned = judge(X, y, 1e-3, loss=loss, max_iter=max_iter)
    assert solution.status.name == "MAX_ITER"
    assert not solution.status.success
    assert "ConvergenceWarning" in warned


def test_a_stalled_fit_is_not_a_success():
    """With tol = 0 there is nothing but to go on until steps are lost in rounding."""
    assert not Status.STALLED.success
    X, y = shifted(4)
    solution, warned = judge(X, y, 1e-3, top=0.2, tol=0.0)
    assert solution.status.success == (solution.gap <= 0.0)
    assert solution.status.success != ("ConvergenceWarning" in warned)


@pytest.mark.parametrize("seed, top", [(19, "auto"), (53, "auto"), (36, "auto"), (19, 1), (4, 1)])
def test_the_paper_solver_does_not_end_far_above_zero_in_silence(seed, top):
    """It ended at 1e16 with top="auto" and no warning."""
    rng, y = np.random.default_rng(seed), np.arange(100) % 2
    X = (rng.normal(size=(100, 4)) + y[:, None]) * 10.0 ** rng.uniform(-3, 3, (100, 1))
    options = {"top": top, "loss": "exponential", "solver": "paper", "max_iter": 300}
    solution, warned = judge(X, y, 1e-3, **options)
    assert solution.upper <= 1.0 or warned


@every_loss
@pytest.mark.parametrize("weight", [1e-12, 1e-6, 1e-3, 1e6, 1e12])
def test_equal_sample_weights_are_none_to_the_paper_solver(weight, loss):
    """Weights of 1e-6 ended it after one iteration."""
    X, y = shifted(0)
    options = {"loss": loss, "solver": "paper", "top": 0.2}
    plain, _ = judge(X, y, 0.1, **options)
    weighted, _ = judge(X, y, 0.1, sample_weight=np.full(len(y), weight), **options)
    assert weighted.n_iter == plain.n_iter
    assert weighted.status is plain.status
    assert weighted.upper == pytest.approx(plain.upper, rel=1e-6)


@every_loss
@pytest.mark.parametrize("weight", [1e-12, 1e-6, 1e12])
def test_equal_sample_weights_are_none(weight, loss):
    X, y = shifted(0)
    plain = certify(X, y, 0.1, loss=loss, top=0.2)
    weighted = certify(X, y, 0.1, loss=loss, top=0.2, sample_weight=np.full(len(y), weight))
    assert weighted.upper == pytest.approx(plain.upper, rel=2e-4)


# Crashes.


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_logistic_with_more_columns_than_rows(first):
    """A division by zero in 26 of these 60."""
    for seed in range(first, first + 10):
        certify(*shifted(seed, 30, 50), 1e-6, top=0.5, loss="logistic")


@pytest.mark.parametrize("by", [0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("top", [1, 0.5, 1.0])
def test_logistic_with_more_than_a_thousand_columns(top, by):
    """The iterative path: divisions by zero, and fits that stalled."""
    certify(*shifted(1, 40, 1200, by), 1e-8, top=top, loss="logistic")


@every_loss
@pytest.mark.parametrize("lam", [1e100, 1e200, 1e300])
def test_a_penalty_beyond_reason(lam, loss):
    """Weights of nearly zero: the objective is that of zero, and so is the bound."""
    solution, _ = judge(*shifted(1, 40), lam, loss=loss)
    assert solution.status.name == "CONVERGED"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("by, lam", [(30.0, 1e-12), (10.0, 1e-12), (5.0, 1e-14), (5.0, 1e-12)])
def test_logistic_optima_of_next_to_nothing(by, lam, seed):
    """Below 1e-11, 1 - a is 1 for the duals a, and l* loses what the bound is made of."""
    solution = certify(*shifted(seed, 60, 5, by), lam, loss="logistic")
    assert solution.upper < 1e-11


# Bounds are rounded outward.


def test_bounds_of_tiny_integers_do_not_cross():
    """A lower bound 5e-11 of the objective above the upper one was stated, and CONVERGED."""
    certify(np.array([[0.0, 0.0], [1000.0, 1000.0]]), [0, 1], 14.7)


@pytest.mark.parametrize("n_problems", quickly([40, 300], [40]))
def test_bounds_of_few_rows_of_integers_do_not_cross(n_problems):
    """29 of 300 did; the checker allows for nothing."""

    @given(
        X=arrays(np.float64, st.tuples(st.integers(2, 8), st.integers(1, 3)), elements=INTEGERS),
        n_pos=st.integers(1, 7),
        power=st.integers(-2, 3),
        lam=st.floats(1e-3, 100.0),
        loss=st.sampled_from(LOSSES),
        family=st.sampled_from(["newton", "paper", "pairwise"]),
        top=st.sampled_from([1, 0.5, 1.0]),
    )
    @settings(max_examples=n_problems, phases=[Phase.generate])
    def check(X, n_pos, power, lam, loss, family, top):
        y = np.arange(len(X)) < min(n_pos, len(X) - 1)
        pairwise, solver = family == "pairwise", "paper" if family == "paper" else "newton"
        options = {"loss": loss, "top": top, "solver": solver, "pairwise": pairwise}
        solution, _ = judge(X * 10.0**power, y, lam, **options, max_iter=500)
        assert solution.lower <= solution.upper

    check()


@every_loss
@pytest.mark.parametrize("tol", [1e-4, 1e-7, 1e-9])
def test_small_tols_are_still_reached(tol, loss):
    X, y = shifted(5)
    for options in ({"top": 0.2}, {"top": 1.0}, {"top": 0.2, "pairwise": True}):
        certify(X, y, 0.01, tol=tol, loss=loss, **options)


# What float64 cannot hold is refused by its size.


@every_loss
@pytest.mark.parametrize("options", [{}, {"solver": "paper"}, {"pairwise": True, "top": 5}])
def test_weights_beyond_float64_are_refused(options, loss):
    """Weights of zero were returned with an upper bound of 0; the objective there is 1."""
    ranker = TopPush(loss=loss, **{**options, "top": 1})
    for weight in (1e308, 1e-165, 5e-324):
        with pytest.raises(ValueError, match=re.escape(f"{weight:g}")):
            ranker.fit([[0.0], [1.0], [2.0]], [0, 1, 1], sample_weight=[1.0, weight, weight])


@pytest.mark.parametrize("change", ["all 1e300", "all 1e-300", "all 1e-310", "one 1e300"])
@pytest.mark.parametrize("options", [{}, {"solver": "paper"}, {"pairwise": True, "top": 5}])
def test_rows_beyond_float64_are_refused(options, change):
    """An OverflowError or a ZeroDivisionError for 793 of 9,338 problems."""
    X, y = shifted(0, 40)
    number = float(change.split()[1])
    X = X * number if change.startswith("all") else np.where(np.arange(40)[:, None] == 7, number, X)
    with pytest.raises(ValueError, match=re.escape(f"{np.abs(X).max():.3g}")):
        TopPush(0.1, **options).fit(X, y)


# Hostile problems.


@pytest.fixture(scope="module")
def holder():
    with Holder() as found:
        yield found


def test_the_hostile_problems_use_the_losses_there_are():
    assert set(LOSSES) == set(LIBRARY_LOSSES)


def test_a_number_is_a_problem():
    """What a run reports can be replayed."""
    one, again = hostile_problem(17), hostile_problem(17)
    assert str(one) == str(again)
    assert one.X.tobytes() == again.X.tobytes()


@pytest.mark.parametrize(
    "number", quickly([9059, 15298, 16230, 17922, 18991, 121495], [9059, 18991, 121495])
)
def test_hostile_problems_that_once_failed(number, holder):
    """Bounds that no dual proves, a warning, a bound of NaN, one iteration too many, a crash."""
    assert judged(hostile_problem(number), holder).complaints == ()


@pytest.mark.parametrize("n_problems", quickly([60, 300], [60]))
def test_hostile_problems(n_problems, holder):
    """The budget of a run of the tests; `python tests/hostile.py` lists all that fail."""

    @given(hostile_problems)
    @settings(max_examples=n_problems, phases=[Phase.generate])
    def check(problem):
        assume(can_hold(problem.holding))
        done = fit(problem, *holder.hold(problem))
        assert complaints(problem, done) == [], str(problem)

    check()


@pytest.mark.parametrize("holding", HOLDINGS)
def test_hostile_problems_however_rows_are_held(holding, holder):
    if not can_hold(holding):
        pytest.skip(f"needs what holds rows as {holding}: torch or Dask, extras [gpu] and [dask]")
    for number in range(1000, 1012):
        problem = hostile_problem(number, holding=holding)
        done = fit(problem, *holder.hold(problem))
        assert complaints(problem, done) == [], str(problem)


@pytest.mark.slow
def test_many_hostile_problems(capsys):
    """TOPPUSH_CHECK_PROBLEMS of them, or as many as TOPPUSH_CHECK_SECONDS are enough for."""
    seconds = os.environ.get("TOPPUSH_CHECK_SECONDS")
    problems = os.environ.get("TOPPUSH_CHECK_PROBLEMS", "20000" if seconds is None else None)
    found = list(
        hostile.run(
            0,
            None if problems is None else int(problems),
            None if seconds is None else float(seconds),
            jobs=os.cpu_count() or 1,
        )
    )
    wrong = [hostile.line(one) for one in found if one.complaints]
    with capsys.disabled():
        print("", *wrong, hostile.summary(found), sep="\n")
    assert wrong == []
    assert sum(one.stalled for one in found) < 0.02 * len(found)
