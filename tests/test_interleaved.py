"""Solves on one design do not see each other's state, one after another or one within another."""

from collections import Counter
from threading import Thread

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from toppush.designs import LocalDesign, local
from toppush.problem.losses import LOSSES
from toppush.problem.objective import TopPushProblem
from toppush.solvers import SOLVERS, solve

pytestmark = pytest.mark.sampled(2)

OUTER = {"lam": 0.05, "loss": "truncated_quadratic", "k": 5}
INNER = {"lam": 3.0, "loss": "logistic", "k": 1}
KINDS = {
    "dense": lambda X: X,
    "CSR": sparse.csr_array,
    "float32, far from the origin": lambda X: (X + 300.0).astype(np.float32),
    "rows of many sizes": lambda X: X * np.geomspace(1e-4, 1e4, len(X))[:, None],
    "wide": lambda X: sparse.hstack([X, sparse.eye_array(len(X), 1100)], format="csr"),
}


@pytest.fixture(params=KINDS)
def rows(request, rng, monkeypatch):
    monkeypatch.setattr(local, "SMALL", 0)
    positive = rng.random(200) < 0.3
    return KINDS[request.param](rng.normal(size=(200, 8)) + 0.8 * positive[:, None]), positive


def solved(design, solver, *, lam, loss, k, callback=None):
    problem = TopPushProblem(design, LOSSES[loss], lam, k)
    return solve(problem, solver=solver, tol=1e-7, max_iter=60, callback=callback)


def check_equal(one, other):
    assert_array_equal(one.weights, other.weights)
    assert_array_equal(one.dual, other.dual)
    assert (one.upper, one.lower, one.n_iter, one.status) == (
        other.upper,
        other.lower,
        other.n_iter,
        other.status,
    )


def at_third(action):
    """A watcher that acts at the third iteration."""

    def watch(history, weights, threshold):
        if len(history) == 3:
            action()
        return False

    return watch


@pytest.mark.parametrize("inner", SOLVERS)
@pytest.mark.parametrize("outer", SOLVERS)
def test_a_solve_within_a_solve_leaves_it_alone(outer, inner, rows):
    with LocalDesign(*rows) as design:
        alone = solved(design, outer, **OUTER)
    with LocalDesign(*rows) as design:
        alone_inner = solved(design, inner, **INNER)
    found = []
    with LocalDesign(*rows) as design:
        around = solved(
            design,
            outer,
            **OUTER,
            callback=at_third(lambda: found.append(solved(design, inner, **INNER))),
        )
    check_equal(around, alone)
    check_equal(found[0], alone_inner)


def test_a_solve_within_that_fails_leaves_the_outer_alone(rows):
    def failing():
        with pytest.raises(KeyError):
            solved(design, "newton", **INNER, callback=lambda *_: {}["watcher"])

    with LocalDesign(*rows) as design:
        alone = solved(design, "newton", **OUTER)
    with LocalDesign(*rows) as design:
        check_equal(solved(design, "newton", **OUTER, callback=at_third(failing)), alone)


def test_what_is_known_of_the_rows_serves_the_next_solve(rng):
    """The mean difference and most of the Gram matrix are read once."""
    positive = rng.random(400) < 0.3
    X = rng.normal(size=(400, 8)) + 0.8 * positive[:, None]
    with LocalDesign(X, positive) as design:
        first, second = (solved(design, "newton", **OUTER) for _ in range(2))
    assert second.history[0].data_passes < first.history[0].data_passes
    assert second.upper == pytest.approx(first.upper, rel=1e-7)


def test_a_solve_after_one_that_was_cut_off_is_as_good_as_new(rows):
    with LocalDesign(*rows) as design:
        alone = solved(design, "newton", **OUTER)
    with LocalDesign(*rows) as design:
        with pytest.raises(KeyError):
            solved(design, "newton", **INNER, callback=at_third(lambda: {}["watcher"]))
        after = solved(design, "newton", **OUTER)
    assert after.status is alone.status
    assert after.upper == pytest.approx(alone.upper, rel=2e-7)


def test_a_solve_of_another_thread_is_refused(rng):
    positive = np.arange(60) % 3 == 0
    X, errors = rng.normal(size=(60, 3)) + positive[:, None], []

    def elsewhere():
        try:
            solved(design, "newton", **INNER)
        except RuntimeError as error:
            errors.append(str(error))

    def wait_for_another():
        thread = Thread(target=elsewhere)
        thread.start()
        thread.join()

    with LocalDesign(X, positive) as design:
        solved(design, "newton", **OUTER, callback=at_third(wait_for_another))
    assert ["another thread" in error for error in errors] == [True]


def test_a_solve_within_a_solve_on_a_cluster(client, rng):
    """What the outer one set aside lies with the blocks, and a block made anew finds it there."""
    da = pytest.importorskip("dask.array")
    dask = pytest.importorskip("toppush.designs.dask.design")
    positive = rng.random(90) < 0.3
    X = rng.normal(size=(90, 4)) + 0.8 * positive[:, None]
    lazy = da.from_array(X, chunks=(30, 4)), da.from_array(positive, chunks=30)

    def within():
        solved(design, "newton", **INNER)
        design._replace_lost([design._groups[0]], Counter())

    with dask.DaskDesign(*lazy) as design:
        alone = solved(design, "newton", **OUTER)
    with dask.DaskDesign(*lazy) as design:
        check_equal(solved(design, "newton", **OUTER, callback=at_third(within)), alone)
