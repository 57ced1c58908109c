"""Solvers: the authors' figures, and certificates that hold."""

import csv
import lzma
from functools import partial
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_svmlight_file
from sklearn.preprocessing import MaxAbsScaler

import reference
import solving
from solving import (
    check_certificate,
    every_loss,
    every_solver,
    few_rows,
    generic_optimum,
    quickly,
    slow_by_paper,
    some_rows,
)
from toppush import TopPush
from toppush.designs import local
from toppush.designs.in_memory import DenseRows, SparseRows
from toppush.problem.losses import LOSSES
from toppush.problem.solution import Status

pytestmark = pytest.mark.sampled(4)


@pytest.fixture(autouse=True)
def sparse_stays_sparse(monkeypatch):
    """However small the problem."""
    monkeypatch.setattr(local, "SMALL", 0)


LONG = {"paper": {"tol": 1e-12, "max_iter": 5_000}}
"""How to run a solver until little is left; by default, until the gap is 1e-6."""
solve = partial(solving.solve, solver="paper")


def solve_long(X, positive, *, solver="paper", **options):
    long = LONG.get(solver, {"tol": 1e-6, "max_iter": 10_000})
    return solve(X, positive, solver=solver, **{**long, **options})


def small_problem(seed):
    return *few_rows(seed), [1, 2, 0.3][seed % 3]


# The authors' program.


def golden(path):
    """Weights by lambda."""
    with path.open() as file:
        rows = list(csv.reader(file))
    lambdas = [float(title.removeprefix("lambda=")) for title in rows[0]]
    return dict(zip(lambdas, np.array(rows[1:], float).T, strict=True))


BREAST_CANCER = golden(Path(__file__).parent / "golden" / "breast-cancer-exact-projection.csv")


def check_golden(X, y, lam, weights):
    found = TopPush(lam, solver="paper").fit(X, y).coef_[0]
    assert_allclose(found, weights, rtol=0, atol=1e-8 * np.abs(weights).max())


# At some lambdas the authors' rule stops where weights of zero are better.
golden_figures = pytest.mark.filterwarnings("ignore::toppush.DegenerateWarning")


@golden_figures
@pytest.mark.parametrize("lam", BREAST_CANCER)
@pytest.mark.parametrize("kind", [np.asarray, np.asfortranarray, sparse.csr_array])
def test_breast_cancer_as_the_authors(lam, kind):
    X, y = load_breast_cancer(return_X_y=True)
    check_golden(kind(MaxAbsScaler().fit_transform(X)), y == 0, lam, BREAST_CANCER[lam])


@golden_figures
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_spambase_as_the_authors(kind, shared_file):
    weights = golden(shared_file("golden/spambase-exact-projection.csv"))
    with lzma.open(shared_file("data/spambase/spambase-authors-train.svm.xz")) as file:
        X, y = load_svmlight_file(file, n_features=57, zero_based=False)
    assert len(weights) == 5
    for lam, right in weights.items():
        check_golden(kind(X.toarray()), y, lam, right)


# Certificates.


@every_solver
@every_loss
@pytest.mark.parametrize("seed", quickly(range(16), range(9)))
def test_optimum_lies_between_the_bounds(seed, name, solver):
    X, positive, top = small_problem(seed)
    lam = 10.0 ** np.random.default_rng(seed).uniform(-2, 1)
    given = {"lam": lam, "name": name, "top": top}
    optimum = generic_optimum(X, positive, **given)
    solution = solve(X, positive, solver=solver, **given)
    check_certificate(solution, X, positive, **given)
    generic = 1e-6 * (1.0 + abs(optimum))  # Clarabel's own tolerance is 1e-8
    assert solution.lower <= optimum + generic
    assert optimum - generic <= solution.upper


@every_solver
@every_loss
@pytest.mark.parametrize("seed", quickly(range(12), [0, 5, 7, 11]))
def test_strong_duality(seed, name, solver):
    X, positive, top = small_problem(seed)
    lam = [0.2, 1.0, 10.0, 100.0][seed // 3]
    given = {"lam": lam, "name": name, "top": top}
    solution = solve_long(X, positive, solver=solver, **given)
    check_certificate(solution, X, positive, **given)
    assert solution.relative_gap <= 1e-4
    optimum = generic_optimum(X, positive, **given)
    assert solution.upper == pytest.approx(optimum, rel=2e-4)


@every_solver
@every_loss
@pytest.mark.parametrize("top", [1, 3, 0.25, 1.0])
def test_certificate_with_sample_weights(name, top, solver, rng):
    X, positive, _ = small_problem(3)
    weight = np.r_[[0.0, 0.5, 2.0, 7.0], rng.integers(0, 3, size=len(X) - 4)]
    given = {"lam": 0.5, "name": name, "top": top, "weight": weight}
    solution = solve_long(X, positive, solver=solver, **given)
    check_certificate(solution, X, positive, **given)
    optimum = generic_optimum(X, positive, **given)
    assert solution.upper == pytest.approx(optimum, rel=2e-4)
    assert solution.relative_gap <= 1e-4


@slow_by_paper
@every_loss
@pytest.mark.parametrize("top", [1, 2])
def test_repeating_a_positive_is_doubling_its_weight(name, top, solver):
    X, positive, _ = small_problem(8)
    weight = np.where(positive, np.arange(len(X)) % 3 + 1, 1)
    given = {"name": name, "top": top, "solver": solver, "tol": 1e-12}
    weighted = solve_long(X, positive, weight=weight.astype(float), **given)
    rows, of_them = np.repeat(X, weight, axis=0), np.repeat(positive, weight)
    repeated = solve_long(rows, of_them, **given)
    assert_allclose(weighted.weights, repeated.weights, rtol=0, atol=1e-4)
    assert weighted.upper == pytest.approx(repeated.upper, rel=1e-5)
    plain = solve_long(X, positive, **given)
    assert abs(plain.upper - weighted.upper) > 1e-3


@slow_by_paper
@every_loss
def test_scaling_all_weights_changes_nothing(name, solver):
    X, positive, top = small_problem(1)
    given = {"name": name, "top": top, "solver": solver, "tol": 1e-12}
    plain = solve_long(X, positive, **given)
    scaled = solve_long(X, positive, weight=np.full(len(X), 64.0), **given)
    assert scaled.upper == pytest.approx(plain.upper, rel=1e-6)
    assert_allclose(scaled.weights, plain.weights, rtol=0, atol=1e-4)


@every_loss
@every_solver
@pytest.mark.parametrize("top", [1, 2])
def test_weight_zero_is_removal(name, top, solver):
    X, positive, _ = small_problem(5)
    kept = np.arange(len(X)) % 4 != 1
    assert 0 < positive[~kept].sum() < (~kept).sum()
    zeroed = solve(X, positive, name=name, top=top, weight=kept.astype(float), solver=solver)
    removed = solve(X[kept], positive[kept], name=name, top=top, solver=solver)
    assert_allclose(zeroed.weights, removed.weights, rtol=1e-6, atol=1e-9)
    assert_allclose(zeroed.dual[kept], removed.dual, rtol=1e-6, atol=1e-9)


@every_solver
@every_loss
def test_history(name, solver):
    X, positive, top = small_problem(0)
    solution = solve(X, positive, name=name, top=top, lam=0.1, solver=solver)
    history = solution.history
    assert len(history) == solution.n_iter
    assert (history[-1].upper, history[-1].lower) == (solution.upper, solution.lower)
    assert np.all(np.diff([entry.data_passes for entry in history]) > 0)
    assert np.all(np.diff([entry.seconds for entry in history]) >= 0)
    optimum = generic_optimum(X, positive, lam=0.1, name=name, top=top)
    assert all(entry.lower <= optimum + 1e-6 for entry in history)
    assert all(optimum - 1e-6 <= entry.upper for entry in history)


@every_solver
def test_max_iter_is_kept_and_said(solver):
    X, positive, _ = small_problem(0)
    solution = solve(X, positive, lam=1e-3, tol=0.0, max_iter=3, solver=solver)
    assert solution.n_iter == 3
    assert solution.status is Status.MAX_ITER
    assert not solution.status.success


@every_solver
def test_a_watcher_sees_each_iteration_and_may_stop(solver):
    X, positive, _ = small_problem(0)
    seen = []

    def watch(history, weights, threshold):
        seen.append((len(history), weights.copy(), threshold))
        return len(history) == 4

    solution = solve(X, positive, lam=1e-2, tol=1e-12, callback=watch, solver=solver)
    assert [count for count, *_ in seen] == [1, 2, 3, 4]
    assert solution.status is Status.STOPPED
    assert_array_equal(solution.weights, seen[-1][1])
    assert solution.threshold == pytest.approx(seen[-1][2], rel=1e-12)


# The paper's method.


class Counter:
    """Counts the products that blocks make."""

    def __init__(self, monkeypatch):
        self.count = 0
        for kind in (DenseRows, SparseRows):
            for method in ("scores", "combine"):
                monkeypatch.setattr(kind, method, self.counting(getattr(kind, method)))

    def counting(self, method):
        def counted(rows, vector):
            self.count += 1
            return method(rows, vector)

        return counted


@every_loss
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_passes_are_the_products_made(name, kind, monkeypatch):
    X, positive, top = small_problem(0)
    counter = Counter(monkeypatch)
    solution = solve(kind(X), positive, name=name, top=top, lam=0.01)
    looked = int(kind is np.asarray)  # a sample that is all of so few rows
    before = counter.count
    assert solution.history[-1].data_passes == before + looked
    again = solve(kind(X), positive, name=name, top=top, lam=0.02, start=solution)
    assert again.history[-1].data_passes == counter.count - before + looked
    # An iteration is two, and one more for each doubling of the curvature.
    passes = np.diff([0.0, *(entry.data_passes for entry in solution.history)])
    assert set(passes) <= set(range(2, 60))
    assert passes[-2] == 2
    assert passes[-1] == 5  # three more prove the bounds


@every_loss
@pytest.mark.parametrize("k, at_most", [(1, 12), (5, 60), (50, 60)])
def test_few_sums_per_iteration(name, k, at_most, middling, monkeypatch):
    """A step reads the row-length vectors a few times, not hundreds of times."""
    asked = []
    module = import_module("toppush.solvers.paper")
    positives_mass = module._positives_mass

    def counted(block, shift, step):
        asked.append(shift)
        return positives_mass(block, shift, step)

    monkeypatch.setattr(module, "_positives_mass", counted)
    solution = solve(*middling, name=name, top=k, max_iter=15, tol=1e-12)
    assert len(asked) / solution.n_iter <= at_most


@every_loss
@pytest.mark.parametrize("top", [1, 2])
def test_warm_start_at_the_solution_ends_at_once(name, top):
    X, positive, _ = small_problem(2)
    solve_here = partial(solve, X, positive, name=name, top=top)
    first = solve_here(tol=1e-12)
    again = solve_here(tol=1e-4, start=first)
    cold = solve_here(tol=1e-4)
    assert again.n_iter <= 10 <= cold.n_iter
    assert again.upper == pytest.approx(first.upper, rel=1e-4)
    assert again.lower >= cold.lower - 1e-12


@every_solver
@every_loss
@pytest.mark.parametrize("other", quickly(LOSSES, ["logistic"]))
def test_warm_start_from_elsewhere_agrees(name, other, solver):
    X, positive, _ = small_problem(4)
    given = {"lam": 2.0, "name": name, "top": 2}
    start = solve(X, positive, lam=20.0, name=other, top=1, solver=solver)
    cold, warm = (
        solve_long(X, positive, solver=solver, start=begin, **given) for begin in (None, start)
    )
    check_certificate(warm, X, positive, **given)
    assert warm.upper == pytest.approx(cold.upper, rel=2e-4)
    assert warm.relative_gap <= 1e-4


@every_solver
@every_loss
def test_warm_start_from_other_labels_agrees(name, solver, rng):
    """A dual of positives that are negatives now is brought into the domain."""
    X, positive, _ = small_problem(4)
    given = {"lam": 2.0, "name": name, "top": 1}
    start = solve(X, rng.permutation(positive), lam=20.0, name=name, top=2, solver=solver)
    warm = solve_long(X, positive, start=start, solver=solver, **given)
    check_certificate(warm, X, positive, **given)
    assert warm.upper == pytest.approx(generic_optimum(X, positive, **given), rel=2e-4)
    assert warm.relative_gap <= 1e-4


@pytest.fixture
def middling(rng):
    return some_rows(rng, apart=0.5)


@every_solver
@every_loss
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_threads_change_only_the_rounding(name, kind, solver, middling, monkeypatch):
    monkeypatch.setattr(local, "ENTRIES_PER_THREAD", 1)
    X, positive = kind(middling[0]), middling[1]
    given = {"name": name, "top": 5, "solver": solver, "max_iter": 30}
    one, two, three = (solve(X, positive, n_jobs=n, **given) for n in (1, 2, 3))
    for many in (two, three):
        assert_allclose(many.weights, one.weights, rtol=0, atol=1e-8 * np.abs(one.weights).max())
        assert many.n_iter == one.n_iter


@every_solver
@every_loss
@pytest.mark.parametrize("n_jobs", [1, 2, 3])
def test_solves_repeat_to_the_bit(name, n_jobs, solver, middling, monkeypatch):
    monkeypatch.setattr(local, "ENTRIES_PER_THREAD", 1)
    X, positive = middling
    given = {"name": name, "top": 5, "solver": solver, "max_iter": 12}
    answers = set()
    for _ in range(3):
        solution = solve(X, positive, n_jobs=n_jobs, **given)
        answers.add((solution.weights.tobytes(), solution.dual.tobytes(), solution.upper))
    assert len(answers) == 1


@every_solver
@pytest.mark.parametrize("kind", ["float32", "csr float32"])
def test_float32_rows_give_nearly_the_same(kind, solver, middling):
    X, positive = middling
    single = X.astype(np.float32)
    rows = single if kind == "float32" else sparse.csr_array(single)
    exact = solve(single.astype(float), positive, lam=0.1, solver=solver)
    found = solve(rows, positive, lam=0.1, solver=solver)
    assert found.weights.dtype == np.float64
    assert found.upper == pytest.approx(exact.upper, rel=1e-4)


@every_solver
@every_loss
def test_one_positive_one_negative_one_feature(name, solver):
    X, positive = np.array([[2.0], [-1.0]]), np.array([True, False])
    given = {"lam": 0.5, "name": name, "top": 1}
    solution = solve_long(X, positive, solver=solver, **given)
    check_certificate(solution, X, positive, **given)
    assert solution.relative_gap <= 1e-4


@every_solver
@every_loss
def test_rows_of_zeros_leave_weights_of_zero(name, solver):
    X, positive = np.zeros((5, 3)), np.arange(5) < 2
    solution = solve(X, positive, name=name, solver=solver)
    assert_array_equal(solution.weights, np.zeros(3))
    assert solution.upper == pytest.approx(reference.loss(name, 0.0))


@every_solver
@pytest.mark.parametrize("power", [-12, 0, 12])
def test_scale_of_the_rows_is_that_of_lam(power, solver):
    """Rows c times as large with lam c^2 times as large have weights c times smaller."""
    X, positive, _ = small_problem(2)
    factor = 2.0**power
    plain = solve(X, positive, lam=0.5, solver=solver)
    scaled = solve(X * factor, positive, lam=0.5 * factor**2, solver=solver)
    assert_allclose(scaled.weights * factor, plain.weights, rtol=1e-9, atol=1e-12)
    assert scaled.upper == pytest.approx(plain.upper, rel=1e-12)
