"""The Newton method: the right optimum with a true proof, by either linear system, on any data."""

import lzma
import warnings
from dataclasses import replace
from threading import Lock

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import load_svmlight_file
from sklearn.preprocessing import MaxAbsScaler

import reference
from solving import (
    check_certificate,
    check_same_optimum,
    every_loss,
    few_rows,
    generic_optimum,
    quickly,
    solve,
    some_rows,
)
from toppush import DegenerateWarning, TopPush
from toppush.designs import LocalDesign, blocks, local
from toppush.designs.in_memory import DenseRows
from toppush.designs.rows import MaskedRows
from toppush.problem.losses import LOSSES
from toppush.problem.objective import TopPushProblem, count_top
from toppush.problem.solution import Solution, Status
from toppush.solvers import SOLVERS
from toppush.solvers.newton import interior_point
from toppush.solvers.newton.kkt import Factored, Iterative

pytestmark = pytest.mark.sampled(4)

AT_ZERO = {name: reference.loss(name, 0.0) for name in LOSSES}


# Agreement.


@every_loss
@pytest.mark.parametrize("top", [1, 3, 0.3, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", quickly(range(4), range(2)))
def test_agrees_with_a_generic_solver(seed, weighted, top, name):
    X, positive = few_rows(seed)
    rng = np.random.default_rng(100 + seed)
    lam = 10.0 ** rng.uniform(-3, 3)
    weight = None
    if weighted:
        weight = rng.permutation(np.r_[0.0, 0.0, rng.uniform(0.1, 5.0, size=len(X) - 2)])
        if np.sum(~positive & (weight > 0)) < 3 or not np.any(weight[positive]):
            weight = np.maximum(weight, 0.1)
    given = {"lam": lam, "name": name, "top": top, "weight": weight}
    optimum = generic_optimum(X, positive, **given)
    solution = solve(X, positive, tol=1e-7, **given)
    check_certificate(solution, X, positive, tol=1e-7, **given)
    generic = 1e-6 * (1.0 + optimum)  # Clarabel's own tolerance is 1e-8
    assert abs(solution.upper - optimum) <= generic
    assert solution.lower <= optimum + generic
    loose = solve(X, positive, tol=1e-2, **given)
    check_certificate(loose, X, positive, tol=1e-2, **given)
    assert loose.lower - generic <= optimum <= loose.upper + generic


@every_loss
@pytest.mark.parametrize("top", [1, 3, 0.3, 1.0])
@pytest.mark.parametrize("lam", quickly([0.3, 30.0], [30.0]))
def test_agrees_with_the_method_of_the_paper_run_long(lam, top, name):
    """The paper's method climbs in the dual, so its lower bound is the better one."""
    X, positive = few_rows(7)
    given = {"lam": lam, "name": name, "top": top}
    by_newton = solve(X, positive, tol=1e-7, **given)
    by_paper = solve(X, positive, solver="paper", tol=1e-12, max_iter=5_000, **given)
    assert by_paper.lower == pytest.approx(by_newton.upper, rel=1e-6)
    assert by_paper.lower <= by_newton.upper * (1.0 + 1e-12)
    assert by_newton.lower <= by_paper.upper * (1.0 + 1e-12)
    check_same_optimum(by_newton, by_paper, lam, rel=1e-4)


@every_loss
@pytest.mark.parametrize("tol", [1e-1, 1e-3, 1e-5, 1e-8])
def test_the_gap_asked_for_is_the_gap_proven(tol, name, rng):
    X, positive = some_rows(rng)
    given = {"lam": 0.01, "name": name, "top": 5}
    solution = solve(X, positive, tol=tol, **given)
    check_certificate(solution, X, positive, tol=tol, **given)


@every_loss
def test_the_history_keeps_the_bounds_in_order(name, rng):
    X, positive = some_rows(rng)
    solution = solve(X, positive, lam=0.01, name=name, top=5, tol=1e-8)
    lower = np.array([at.lower for at in solution.history])
    upper = np.array([at.upper for at in solution.history])
    assert len(lower) == solution.n_iter > 3
    assert np.all(np.diff(lower) >= -1e-12)  # the last one is proven anew
    assert np.all(upper[-1] <= upper * (1.0 + 1e-6))
    assert np.all(lower <= solution.upper * (1.0 + 1e-12))
    assert (upper[-1], lower[-1]) == (solution.upper, solution.lower)


# The two linear systems.


class Witness:
    """Notes which parts of the solver were at work."""

    def __init__(self, monkeypatch):
        self.seen = set()
        self.note(monkeypatch, Factored, "__init__", "factored")
        self.note(monkeypatch, Iterative, "__init__", "iterative")
        self.note(monkeypatch, MaskedRows, "hessian_product", "masked rows")

    def note(self, monkeypatch, kind, method, what):
        original = getattr(kind, method)

        def noting(*arguments):
            self.seen.add(what)
            return original(*arguments)

        monkeypatch.setattr(kind, method, noting)


@pytest.fixture
def witness(monkeypatch):
    return Witness(monkeypatch)


@every_loss
@pytest.mark.parametrize("top", [1, 4, 0.2])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("share", [0.2, 0.8])
def test_both_linear_systems_find_the_same_optimum(
    share, kind, top, name, rng, monkeypatch, witness
):
    """With four positives in five the iterative one masks rows instead of copying them."""
    monkeypatch.setattr(local, "SMALL", 0)
    X, positive = some_rows(rng, share=share, n_rows=150)
    given = {"lam": 0.03, "name": name, "top": top, "tol": 1e-7}
    factored = solve(kind(X), positive, **given)
    assert witness.seen == {"factored"}
    monkeypatch.setattr(interior_point, "FORMED", 0)
    iterative = solve(kind(X), positive, **given)
    expected = {"factored", "iterative"}
    expected |= {"masked rows"} if share > 0.5 else set()
    assert witness.seen == expected
    check_same_optimum(factored, iterative, 0.03, rel=2e-7)
    check_certificate(iterative, X, positive, **given)
    check_certificate(factored, X, positive, **given)


def test_more_features_than_are_factored(rng, monkeypatch, witness):
    """Nothing is set by hand."""
    X = sparse.random_array((300, 1500), density=0.05, rng=rng, format="csr")
    positive = rng.random(300) < 0.3
    given = {"lam": 1e-3, "name": "truncated_quadratic", "top": 3, "tol": 1e-6}
    solution = solve(X, positive, **given)
    assert "iterative" in witness.seen
    assert "factored" not in witness.seen
    check_certificate(solution, X.toarray(), positive, **given)
    monkeypatch.setattr(interior_point, "FORMED", 2000)
    check_same_optimum(solution, solve(X, positive, **given), 1e-3, rel=2e-6)


@every_loss
@pytest.mark.parametrize("copied_share", [0.0, 1.0])
def test_masked_and_copied_rows_agree(copied_share, name, rng, monkeypatch, witness):
    X, positive = some_rows(rng, n_rows=150)
    given = {"lam": 0.03, "name": name, "top": 2, "tol": 1e-7}
    plain = solve(X, positive, **given)
    monkeypatch.setattr(interior_point, "FORMED", 0)
    monkeypatch.setattr(blocks, "COPIED_SHARE", copied_share)
    other = solve(X, positive, **given)
    assert ("masked rows" in witness.seen) == (copied_share == 0.0)
    check_same_optimum(plain, other, 0.03, rel=2e-7)


@pytest.mark.parametrize("first, most_new", [((4, 6), 2), ((20, 30), 10**9)])
@pytest.mark.parametrize("top", [1, 4])
@every_loss
def test_a_narrow_first_working_set_grows_to_the_same_optimum(
    name, top, first, most_new, rng, monkeypatch
):
    X, positive = some_rows(rng)
    given = {"lam": 0.01, "name": name, "top": top, "tol": 1e-7}
    wide = solve(X, positive, **given)
    monkeypatch.setattr(interior_point, "FIRST_WORKING_SET", first)
    monkeypatch.setattr(interior_point, "MAX_NEW", most_new)
    narrow = solve(X, positive, **given)
    check_certificate(narrow, X, positive, **given)
    check_same_optimum(wide, narrow, 0.01, rel=2e-7)


# Data at their worst.


def columns_of_all_sizes(rng):
    X, positive = few_rows(3)
    return X * 10.0 ** np.linspace(-6, 6, X.shape[1]), positive


def repeated_rows(rng):
    X, positive = few_rows(1)
    which = np.r_[np.arange(len(X)), rng.integers(len(X), size=3 * len(X))]
    return X[which], positive[which]


def dull_columns(rng):
    X, positive = few_rows(4)
    n_rows = len(X)
    return np.hstack([np.zeros((n_rows, 2)), X, np.full((n_rows, 1), 100.0)]), positive


def no_data(rng):
    X, positive = few_rows(5)
    return np.zeros_like(X), positive


def one_of_each(rng):
    return np.array([[2.0, 1.0], [-1.0, 0.5]]), np.array([True, False])


def identical_classes(rng):
    X, _ = few_rows(6)
    return np.vstack([X, X]), np.repeat([True, False], len(X))


def positives_inside(rng):
    X = rng.normal(size=(60, 2))
    positive = np.arange(60) % 3 == 0
    X[positive] *= 0.1
    return X, positive


def many_ties(rng):
    X, positive = some_rows(rng, n_rows=150, n_features=4)
    return np.round(X), positive


def one_feature(rng):
    X, positive = few_rows(2)
    return X[:, :1], positive


def more_features_than_rows(rng):
    return rng.normal(size=(9, 40)), np.arange(9) < 4


WORST = [
    columns_of_all_sizes,
    repeated_rows,
    dull_columns,
    no_data,
    one_of_each,
    identical_classes,
    positives_inside,
    many_ties,
    one_feature,
    more_features_than_rows,
]


def check_honest(solution, X, positive, *, tol, **given):
    """Finite, in order, no worse than zero, and the status says what was proven."""
    assert np.all(np.isfinite(solution.weights))
    assert np.isfinite([solution.upper, solution.lower, solution.threshold]).all()
    assert solution.upper <= AT_ZERO[given["name"]] * (1.0 + tol)
    assert (solution.status is Status.CONVERGED) == (solution.relative_gap <= tol)
    assert solution.status in (Status.CONVERGED, Status.STALLED)
    check_certificate(solution, X, positive, **given)


@every_loss
@pytest.mark.parametrize("make", WORST)
@pytest.mark.parametrize("top", [1, 2, 1.0])
@pytest.mark.parametrize("formed", [1000, 0])
def test_worst_data_end_with_a_proof_or_an_honest_status(formed, top, make, name, rng, monkeypatch):
    monkeypatch.setattr(interior_point, "FORMED", formed)
    X, positive = make(rng)
    top = min(top, int(np.sum(~positive))) if isinstance(top, int) else top
    for lam in 10.0 ** np.arange(-6, 7, 3):
        solution = solve(X, positive, lam=lam, name=name, top=top)
        check_honest(solution, X, positive, tol=1e-4, lam=lam, name=name, top=top)
        if lam >= 1e-3 and make is not columns_of_all_sizes:
            assert solution.status is Status.CONVERGED


@every_loss
@pytest.mark.parametrize("make", WORST)
def test_worst_data_in_every_form_have_one_optimum(make, name, rng, monkeypatch):
    X, positive = make(rng)
    found = []
    for formed, kind in ((1000, np.asarray), (1000, sparse.csr_array), (0, np.asarray)):
        monkeypatch.setattr(interior_point, "FORMED", formed)
        monkeypatch.setattr(local, "SMALL", 0)
        found.append(solve(kind(X), positive, lam=0.1, name=name))
    greatest_lower = max(solution.lower for solution in found)
    assert all(greatest_lower <= solution.upper * (1.0 + 1e-9) for solution in found)


@pytest.mark.parametrize(
    "name, off", [("truncated_quadratic", 1e-4), ("logistic", 1e-6), ("exponential", 1e-6)]
)
def test_bounds_are_true_far_from_the_origin(name, off):
    """Columns such as years or timestamps: spread 1 about a mean of 1e5."""
    for seed in range(8):
        X, positive = few_rows(seed)
        for lam in (1e-3, 1e-1):
            solution = solve(X + 1e5, positive, lam=lam, name=name)
            dual = solution.dual
            proven = reference.lower_bound(X + 1e5, positive, dual, lam=lam, name=name)
            assert solution.lower <= proven + off * solution.upper
            assert solution.lower <= solution.upper * (1.0 + 1e-6)


@pytest.mark.parametrize("formed", [0])
def test_rows_of_huge_norm_end_with_an_honest_status(formed, monkeypatch):
    monkeypatch.setattr(interior_point, "FORMED", formed)
    for seed in range(4):
        X, positive = few_rows(seed)
        for top in (1, 3):
            solution = solve(X * 1e7, positive, lam=1e-3, top=top)
            assert np.all(np.isfinite(solution.weights))


# Where weights of zero are optimal.


@every_loss
@pytest.mark.parametrize("lam", [1e-3, 1.0, 1e3])
def test_degenerate_problems_still_give_a_direction_and_a_warning(lam, name, rng):
    X, positive = positives_inside(rng)
    tol = 1e-4
    assert generic_optimum(X, positive, lam=lam, name=name, top=1) >= AT_ZERO[name] - 1e-6
    with pytest.warns(DegenerateWarning, match='top="auto"') as caught:
        found = TopPush(lam, loss=name, tol=tol).fit(X, positive)
    assert f"the 1 highest of {np.sum(~positive)} negatives" in str(caught[0].message)
    assert caught[0].filename == __file__
    assert np.any(found.coef_ != 0.0)
    objective = reference.primal(X, positive, found.coef_[0], lam=lam, name=name)
    assert objective <= AT_ZERO[name] * (1.0 + tol)
    assert objective <= found.solution_.upper <= objective * (1.0 + 1e-9)
    assert found.solution_.status is Status.CONVERGED


def test_the_direction_of_a_degenerate_problem_ranks():
    """A shift of the positives shows in the direction although no negative may be passed."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(3000, 3))
        positive = np.arange(3000) % 3 == 0
        X[positive, 0] += 1.0
        with pytest.warns(DegenerateWarning):
            found = TopPush(1.0).fit(X, positive)
        assert found.coef_[0, 0] > 0.0
        assert found.score(X, positive) > positive.mean()


@every_loss
def test_no_warning_where_there_is_a_solution(name, rng):
    X, positive = positives_inside(rng)
    X[positive, 0] += 6.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TopPush(0.1, loss=name).fit(X, positive)


# Threads and kinds of storage.


@every_loss
@pytest.mark.parametrize("top", [1, 5])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("formed", [1000, 0])
def test_threads_change_only_the_rounding(formed, kind, top, name, rng, monkeypatch):
    """Also where the first band is an even sample, however the rows are cut into blocks."""
    monkeypatch.setattr(interior_point, "FIRST_WORKING_SET", (20, 30))
    monkeypatch.setattr(local, "ENTRIES_PER_THREAD", 1)
    monkeypatch.setattr(local, "SMALL", 0)
    monkeypatch.setattr(interior_point, "FORMED", formed)
    X, positive = some_rows(rng)
    given = {"name": name, "top": top, "lam": 0.1}
    one, two, three = (solve(kind(X), positive, n_jobs=n, **given) for n in (1, 2, 3))
    for many in (two, three):
        assert many.n_iter == one.n_iter
        assert many.upper == pytest.approx(one.upper, rel=1e-9)
        assert many.lower == pytest.approx(one.lower, rel=1e-9)
        size = np.abs(one.weights).max()
        assert_allclose(many.weights, one.weights, rtol=0, atol=1e-9 * size)


@every_loss
@pytest.mark.parametrize("n_jobs", [1, 3])
@pytest.mark.parametrize("formed", [1000, 0])
def test_repeats_to_the_bit(formed, n_jobs, name, rng, monkeypatch):
    monkeypatch.setattr(local, "ENTRIES_PER_THREAD", 1)
    monkeypatch.setattr(interior_point, "FORMED", formed)
    X, positive = some_rows(rng)
    answers = set()
    for _ in range(3):
        found = solve(X, positive, name=name, top=5, lam=0.1, n_jobs=n_jobs)
        answers.add((found.weights.tobytes(), found.dual.tobytes(), found.upper, found.lower))
    assert len(answers) == 1


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_a_block_may_hold_one_class_alone(n_jobs, rng, monkeypatch):
    """Sorted by class, some blocks have no positives, and others no negatives."""
    monkeypatch.setattr(local, "ENTRIES_PER_THREAD", 1)
    X, positive = some_rows(rng, share=0.5)
    order = np.argsort(positive, kind="stable")
    for name in LOSSES:
        for formed in (1000, 0):
            monkeypatch.setattr(interior_point, "FORMED", formed)
            given = {"lam": 0.1, "name": name, "top": 2, "tol": 1e-7}
            mixed = solve(X, positive, **given)
            by_class = solve(X[order], positive[order], n_jobs=n_jobs, **given)
            check_certificate(by_class, X[order], positive[order], **given)
            check_same_optimum(mixed, by_class, 0.1, rel=2e-7)


@every_loss
@pytest.mark.parametrize("top", [1, 5])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("formed", [1000, 0])
def test_float32_rows_are_certified_too(formed, kind, top, name, rng, monkeypatch):
    monkeypatch.setattr(local, "SMALL", 0)
    monkeypatch.setattr(interior_point, "FORMED", formed)
    X, positive = some_rows(rng)
    single = X.astype(np.float32)
    given = {"lam": 0.1, "name": name, "top": top}
    exact = solve(single.astype(float), positive, **given)
    found = solve(kind(single), positive, **given)
    assert found.weights.dtype == np.float64
    assert found.status is Status.CONVERGED
    assert found.upper == pytest.approx(exact.upper, rel=1e-3)
    objective = reference.primal(single, positive, found.weights, lam=0.1, name=name, k=top)
    assert found.upper == pytest.approx(objective, rel=1e-4)
    assert found.lower <= exact.upper * (1.0 + 1e-5)


# Warm starts.


def iterations_cold_and_warm(lam, top, name, seed):
    X, positive = some_rows(np.random.default_rng(seed))
    ranker = TopPush(lam, top=top, loss=name, warm_start=True).fit(X, positive)
    cold = ranker.solution_
    warm = ranker.fit(X, positive).solution_
    assert warm.status is Status.CONVERGED
    check_same_optimum(warm, cold, lam, rel=2e-4)
    return cold.n_iter, warm.n_iter


@every_loss
def test_warm_starts_at_the_optimum_take_no_more_iterations_in_sum(name):
    pairs = [
        iterations_cold_and_warm(lam, 1, name, seed)
        for lam in (0.1, 1.0, 10.0)
        for seed in (0, 2, 3)
    ]
    assert sum(warm for _, warm in pairs) <= sum(cold for cold, _ in pairs)


def test_warm_start_takes_no_more_iterations_for_a_small_lam():
    for lam in (1e-2, 1e-1):
        pairs = [iterations_cold_and_warm(lam, 0.1, "logistic", seed) for seed in range(3)]
        assert sum(warm for _, warm in pairs) <= sum(cold for cold, _ in pairs)


@every_loss
@pytest.mark.parametrize("top", [1, 0.02, 0.1])
def test_a_path_takes_two_thirds_of_the_iterations_of_its_solves_alone(top, name, rng):
    X, positive = some_rows(rng)
    lams, start, along, alone = np.geomspace(10.0, 1e-2, 7), None, 0, 0
    for lam in lams:
        start = solve(X, positive, lam=lam, top=top, name=name, start=start)
        cold = solve(X, positive, lam=lam, top=top, name=name)
        check_same_optimum(start, cold, lam, rel=2e-4)
        along, alone = along + start.n_iter, alone + cold.n_iter
    assert along <= 0.67 * alone


def test_a_dual_of_nothing_is_passed_over(rng):
    X, positive = some_rows(rng)
    cold = solve(X, positive, lam=0.1, top=5)
    for dual in (np.zeros(len(X)), np.full(len(X), -1.0)):
        warm = solve(X, positive, lam=0.1, top=5, start=replace(cold, dual=dual))
        assert warm.status is Status.CONVERGED
        check_same_optimum(warm, cold, 0.1, rel=2e-4)


@every_loss
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e3])
def test_any_start_leads_to_the_same_optimum(size, name, rng):
    X, positive = some_rows(rng)
    ranker = TopPush(0.1, top=5, loss=name, warm_start=True, tol=1e-6).fit(X, positive)
    cold = ranker.solution_
    for _ in range(3):
        ranker.solution_ = replace(cold, weights=size * rng.normal(size=X.shape[1]))
        warm = ranker.fit(X, positive).solution_
        check_certificate(warm, X, positive, lam=0.1, name=name, top=5, tol=1e-6)
        check_same_optimum(warm, cold, 0.1, rel=2e-6)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_start_that_is_not_finite_is_passed_over(bad, rng):
    X, positive = some_rows(rng)
    weights = np.full(X.shape[1], 0.1)
    weights[3] = bad
    cold, warm = (
        solve(X, positive, lam=0.1, top=5, start=start) for start in (None, Solution.guess(weights))
    )
    assert_array_equal(warm.weights, cold.weights)
    assert (warm.upper, warm.lower, warm.n_iter) == (cold.upper, cold.lower, cold.n_iter)


def test_a_start_at_zero_is_no_trap(rng):
    X, positive = some_rows(rng)
    cold = solve(X, positive, lam=0.1, top=5)
    warm = solve(X, positive, lam=0.1, top=5, start=Solution.guess(np.zeros(X.shape[1])))
    assert warm.status is Status.CONVERGED
    check_same_optimum(warm, cold, 0.1, rel=2e-4)


# Reads of the data.


class Reader:
    """Counts the entries of dense rows that products read."""

    def __init__(self, monkeypatch):
        self.entries, self.lock = 0, Lock()
        self.count(monkeypatch, "scores", lambda rows, vector: rows.X.size)
        self.count(monkeypatch, "combine", lambda rows, vector: rows.X.size)
        self.count(monkeypatch, "gram", lambda rows, where, scale: rows.X[where].size)
        self.count(monkeypatch, "subset", lambda rows, where: rows.X[where].size)

    def count(self, monkeypatch, method, size):
        original = getattr(DenseRows, method)

        def counting(*arguments):
            with self.lock:
                self.entries += size(*arguments)
            return original(*arguments)

        monkeypatch.setattr(DenseRows, method, counting)


@every_loss
@pytest.mark.parametrize("share", [0.2, 0.8])
@pytest.mark.parametrize("formed", [1000, 0])
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_passes_are_the_entries_read(n_jobs, formed, share, name, rng, monkeypatch):
    monkeypatch.setattr(local, "ENTRIES_PER_THREAD", 1)
    monkeypatch.setattr(interior_point, "FORMED", formed)
    X, positive = some_rows(rng, share=share)
    reader, seen = Reader(monkeypatch), []

    def watch(history, weights, threshold):
        seen.append(reader.entries / X.size)
        return False

    solution = solve(X, positive, name=name, top=5, n_jobs=n_jobs, callback=watch)
    passes = [at.data_passes for at in solution.history]
    assert len(passes) > 2
    assert_allclose(passes, seen, rtol=1e-12)
    assert np.all(np.diff(passes) > 0.0)
    assert np.all(np.diff([at.seconds for at in solution.history]) >= 0.0)


# Real data.


def real_data(shared_file, path, n_features):
    with lzma.open(shared_file(f"data/{path}.svm.xz")) as file:
        X, y = load_svmlight_file(file, n_features=n_features, zero_based=False)
    return MaxAbsScaler().fit_transform(X), y > 0


def check_certified_on(X, positive, name, top):
    for lam in 10.0 ** np.arange(-3, 4):
        solution = solve(sparse.csr_array(X), positive, lam=lam, name=name, top=top)
        assert solution.status is Status.CONVERGED
        assert 0.0 <= solution.relative_gap <= 1e-4
        scores = X @ solution.weights
        k = count_top(top, int(np.sum(~positive)))
        threshold = np.sort(scores[~positive])[-k:].mean()
        losses = LOSSES[name].value(threshold - scores[positive])
        objective = 0.5 * lam * solution.weights @ solution.weights + losses.mean()
        assert solution.upper == pytest.approx(objective, rel=1e-9)
        assert solution.upper <= AT_ZERO[name] * (1.0 + 1e-4)


@pytest.mark.parametrize(
    "path, n_features", [("spambase/spambase-authors-train", 57), ("mammography/mammography", 6)]
)
@pytest.mark.parametrize("top", [1, 0.01])
@pytest.mark.parametrize("name", ["truncated_quadratic", "logistic"])
def test_real_data_are_certified(name, top, path, n_features, shared_file):
    check_certified_on(*real_data(shared_file, path, n_features), name, top)


@pytest.mark.slow
@every_loss
@pytest.mark.parametrize("path, n_features", [("w8a/w8a", 300), ("spambase/spambase", 57)])
@pytest.mark.parametrize("top", [1, 0.001, 0.1])
def test_more_real_data_are_certified(top, path, n_features, name, shared_file):
    check_certified_on(*real_data(shared_file, path, n_features), name, top)


@pytest.mark.parametrize("sparse_rows", [False, True])
def test_single_precision_takes_as_many_iterations_as_double(sparse_rows):
    """Copies of few negatives are held in float64; else this fit ends far from tol."""
    rng = np.random.default_rng(7)
    y = rng.random(5000) < 0.05
    X = rng.standard_normal((5000, 100), dtype=np.float32)
    X[y, :10] += 2.0
    given = sparse.csr_array(X) if sparse_rows else X
    with LocalDesign(given, y) as single, LocalDesign(given.astype(np.float64), y) as double:
        one, other = (
            SOLVERS["newton"](TopPushProblem(design, LOSSES["truncated_quadratic"], 1e-3), tol=1e-4)
            for design in (single, double)
        )
    assert one.status is other.status is Status.CONVERGED
    assert one.n_iter <= other.n_iter + 3
