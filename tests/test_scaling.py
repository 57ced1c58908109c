"""Rows in another scaling, and the solver for few rows of very different size."""

import re
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from toppush import on_disk
from toppush.designs import LocalDesign
from toppush.designs.disk.rows import DiskReader, DiskRows
from toppush.designs.local import rows_of
from toppush.designs.rows import UNSCALED, PreciseRows, Scaling, precise
from toppush.problem.losses import LOSSES
from toppush.problem.objective import TopPushProblem
from toppush.problem.solution import Status
from toppush.solvers import SOLVERS
from toppush.solvers.driver import History, row_scaling, use_exact_scaling
from toppush.solvers.newton import dense_fallback

KINDS = {
    "dense": lambda X: rows_of(X),
    "float32": lambda X: rows_of(X.astype(np.float32)),
    "CSR": lambda X: rows_of(sparse.csr_array(X)),
    "CSR float32": lambda X: rows_of(sparse.csr_array(X.astype(np.float32))),
}
SCALINGS = {"scaled": Scaling(0.125), "shifted": Scaling(4.0, np.linspace(-3.0, 3.0, 6))}


@pytest.fixture
def values(rng):
    X = rng.integers(-8, 8, (300, 6)).astype(float)  # exact in float32
    X[rng.random(X.shape) < 0.3] = 0.0
    return X


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SCALINGS)
def test_products_are_those_of_the_rows_in_their_form(kind, name, values, rng):
    form, rows = SCALINGS[name], KINDS[kind](values)
    if form.centre is not None and not rows.can_center:
        pytest.skip("rows that store no zeros cannot be shifted")
    explicit = form.scale * values - (0.0 if form.centre is None else form.centre)
    check_products(PreciseRows(rows, form), explicit, rng)


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_products_of_rows_on_disk_in_a_form(kind, values, rng, tmp_path):
    np.save(tmp_path / "rows.npy", values.astype(kind))
    held, form = on_disk.open(tmp_path / "rows.npy", memory_limit="2GiB"), SCALINGS["shifted"]
    with DiskReader(held, 1 << 20) as reader:
        rows = PreciseRows(DiskRows(held, reader, 1 << 20), form)
        check_products(rows, form.scale * values - form.centre, rng)


def check_products(rows, explicit, rng):
    weights, u, scale = rng.normal(size=6), rng.normal(size=300), rng.random(300)
    u[:120] = 0.0
    close = {"rtol": 1e-12, "atol": 1e-12}
    assert_allclose(rows.scores(weights), explicit @ weights, **close)
    assert_allclose(rows.combine(u), u @ explicit, **close)
    curved = (scale * (explicit @ weights - 0.5)) @ explicit
    assert_allclose(rows.hessian_product(weights, scale, 0.5), curved, **close)
    where = np.flatnonzero(u)
    gram, product = rows.gram(where, scale[where])
    assert_allclose(gram, (explicit[where].T * scale[where]) @ explicit[where], **close)
    assert_allclose(product, scale[where] @ explicit[where], **close)
    assert_allclose(rows.squared_norms(), np.square(explicit).sum(axis=1), **close)
    assert rows.largest() == pytest.approx(np.abs(explicit).max())
    assert_allclose(rows.subset(where).scores(weights), explicit[where] @ weights, **close)
    assert_allclose(rows.exact().scores(weights), explicit @ weights, **close)


@pytest.mark.parametrize("kind", KINDS)
def test_parts_are_all_rows_in_order(kind, rng):
    X = sparse.random_array((5_000, 40), density=0.5, rng=rng).toarray()
    places = [place for place, _ in KINDS[kind](X).parts()]
    assert len(places) > 1
    assert places[0].start == 0
    assert all(one.stop == two.start for one, two in pairwise(places))


def test_rows_that_are_float64_already_stay():
    rows = rows_of(np.ones((3, 2)))
    assert precise(rows, UNSCALED) is rows
    assert isinstance(precise(rows_of(np.ones((3, 2), np.float32)), UNSCALED), PreciseRows)


@pytest.mark.parametrize(
    "change, shifted, scaled",
    [
        (lambda X: X, False, False),
        (lambda X: X + 1e6, True, False),
        (lambda X: (X + 300).astype(np.float32), True, False),
        (lambda X: 1e-30 * X, False, True),
        (lambda X: 1e90 * (X + 1e6), True, True),
        (lambda X: sparse.csr_array(1e30 * X), False, True),
    ],
)
def test_a_form_is_taken_only_where_rows_need_it(change, shifted, scaled, rng):
    X, positive = rng.normal(size=(400, 5)), np.arange(400) % 3 == 0
    with LocalDesign(change(X), positive) as design:
        how = row_scaling(TopPushProblem(design, LOSSES["logistic"], 0.1))
    assert (how.scaling.centre is not None, how.scaling.scale != 1.0) == (shifted, scaled)
    mantissa, _ = np.frexp(how.scaling.scale)
    assert mantissa == 0.5  # a power of two


def some_classes(seed, apart=1.5):
    rng = np.random.default_rng(seed)
    positive = np.arange(300) % 3 == 0
    return rng.normal(size=(300, 7)) + apart * positive[:, None], positive


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("k", [1, 12, 200])
@pytest.mark.parametrize("seed", range(3))
def test_the_solver_on_the_driver_finds_the_optimum_of_newton(name, k, seed):
    X, positive = some_classes(seed)
    with LocalDesign(X, positive) as design:
        problem = TopPushProblem(design, LOSSES[name], 1e-3, k)
        by_newton = SOLVERS["newton"](problem, tol=1e-8)
        assert use_exact_scaling(problem)
        found = dense_fallback.solve_dense(problem, History(design), tol=1e-8, max_iter=500)
    assert found.status is by_newton.status is Status.CONVERGED
    assert found.upper == pytest.approx(by_newton.upper, rel=2e-8)
    assert_allclose(found.weights, by_newton.weights, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("name", LOSSES)
def test_the_solver_on_the_driver_with_more_columns_than_rows(name):
    rng = np.random.default_rng(0)
    X, positive = rng.normal(size=(30, 80)), np.arange(30) % 2 == 0
    with LocalDesign(X, positive) as design:
        problem = TopPushProblem(design, LOSSES[name], 0.1, 3)
        by_newton = SOLVERS["newton"](problem, tol=1e-7)
        assert use_exact_scaling(problem)
        found = dense_fallback.solve_dense(problem, History(design), tol=1e-7, max_iter=500)
    assert found.upper == pytest.approx(by_newton.upper, rel=2e-7)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("seed", range(4))
def test_rows_of_sixteen_powers_of_ten(name, seed):
    X, positive = some_classes(seed)
    X *= 10.0 ** np.random.default_rng(seed).uniform(-8, 8, (len(X), 1))
    with LocalDesign(X, positive) as design:
        found = SOLVERS["newton"](TopPushProblem(design, LOSSES[name], 0.1, 5), tol=1e-4)
    assert found.status is Status.CONVERGED


@pytest.mark.parametrize("exponent", [-1000, -720, 720, 1000])
def test_rows_out_of_reach_are_refused_by_their_size(exponent):
    """Beside a lam of 1 their weights are no float64; beside one of their size they are."""
    X, positive = some_classes(0)
    X = np.ldexp(X, exponent)
    largest = f"{np.abs(X).max():.3g}"
    for solver in SOLVERS.values():
        with LocalDesign(X, positive) as design:
            problem = TopPushProblem(design, LOSSES["logistic"], 1.0)
            with pytest.raises(ValueError, match=re.escape(largest)):
                solver(problem, tol=1e-4, max_iter=10)


def test_a_power_of_two_changes_no_bit():
    X, positive = some_classes(0)
    found = []
    for exponent in (40, 200, 400):
        with LocalDesign(np.ldexp(X, exponent), positive) as design:
            problem = TopPushProblem(design, LOSSES["logistic"], 2.0 ** (2 * exponent - 5))
            found.append(SOLVERS["newton"](problem, tol=1e-6))
    for one, exponent in zip(found, (40, 200, 400), strict=True):
        assert (one.upper, one.lower) == (found[0].upper, found[0].lower)
        np.testing.assert_array_equal(np.ldexp(one.weights, exponent - 40), found[0].weights)


def test_a_careful_solve_goes_on_where_rows_are_many(monkeypatch):
    """The same where the rows are too many to come to the driver."""
    monkeypatch.setattr(dense_fallback, "MAX_ENTRIES", 0)
    X, positive = some_classes(3)
    X *= 10.0 ** np.random.default_rng(3).uniform(-3, 3, (len(X), 1))
    with LocalDesign(X, positive) as design:
        problem = TopPushProblem(design, LOSSES["truncated_quadratic"], 1e-3, 5)
        row_scaling(problem)
        assert use_exact_scaling(problem)
        found = SOLVERS["newton"](problem, tol=1e-6)
    assert found.status is Status.CONVERGED
