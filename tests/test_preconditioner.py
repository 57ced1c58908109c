"""The preconditioner of conjugate gradients: what it stands for, written out."""

from contextlib import contextmanager

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from solving import every_loss, some_rows
from toppush.designs import LocalDesign
from toppush.problem.losses import LOSSES
from toppush.problem.objective import TopPushProblem, count_top
from toppush.solvers.driver import row_scaling, solving
from toppush.solvers.newton import interior_point, kkt
from toppush.solvers.newton.interior_point import InteriorPoint
from toppush.solvers.newton.state import positives_of, state_of

LAM = 0.03
N_COLUMNS = 12


@contextmanager
def newton_system(X, positive, monkeypatch, *, name="truncated_quadratic", top=3, n_jobs=1):
    """The system a few iterations along the path, solved by conjugate gradients."""
    monkeypatch.setattr(interior_point, "FORMED", 0)
    with LocalDesign(X, positive, n_jobs=n_jobs) as design:
        problem = TopPushProblem(design, LOSSES[name], LAM, count_top(top, design.n_neg))
        with solving(design, None):
            path = InteriorPoint(problem, 1e-6, row_scaling(problem))
            path.begin()
            for _ in range(4):
                path.advance()
            yield path, path._system()


def rows_and_weights(design):
    """Rows, Newton weights and leverages of the positives and of the working set."""
    m = design.total_cost

    def of_block(block):
        part = state_of(block)
        sides = positives_of(block).rows, part.working_set.rows
        weights = part.hessian_weights / m, part.linearised.hessian_weights
        return [
            (side.exact().dense(), weight, leverage)
            for side, weight, leverage in zip(sides, weights, part.leverages, strict=True)
        ]

    blocks = design.each(of_block)
    return [
        tuple(np.concatenate([block[side][what] for block in blocks]) for what in range(3))
        for side in (0, 1)
    ]


def cap_sensitivities(block):
    return state_of(block).linearised.cap_sensitivity


def applied(operator, size):
    return np.column_stack([operator(unit) for unit in np.eye(size)])


@every_loss
@pytest.mark.parametrize("top", [1, 4])
@pytest.mark.parametrize("n_jobs", [1, 3])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_with_every_row_taken_one_by_one_it_is_the_matrix(
    kind, n_jobs, top, name, rng, monkeypatch
):
    X, positive = some_rows(rng, n_rows=60)
    monkeypatch.setattr(kkt, "_min_leverage", lambda design: 0.0)
    given = {"name": name, "top": top, "n_jobs": n_jobs}
    with newton_system(kind(X), positive, monkeypatch, **given) as (_, system):
        matrix = applied(system.multiply, N_COLUMNS)
        inverse = applied(system.precondition, N_COLUMNS)
    assert_allclose(inverse @ matrix, np.eye(N_COLUMNS), rtol=0, atol=1e-5)


@pytest.mark.parametrize("top", [1, 4])
@pytest.mark.parametrize("least", [0.05, 0.5, np.inf])
def test_light_rows_are_their_means_and_their_spread(least, top, rng, monkeypatch):
    X, positive = some_rows(rng, n_rows=60)
    monkeypatch.setattr(kkt, "_min_leverage", lambda design: least)
    with newton_system(X, positive, monkeypatch, top=top) as (path, system):
        sides = rows_and_weights(path.problem.design)
        spread = 1.0 / np.square(system.precondition.root)
        inverse, blocks = applied(system.precondition, N_COLUMNS), system.blocks
        shares = np.concatenate(path.problem.design.each(cap_sensitivities))
    border = 1.0 * blocks.coupling
    expected = np.zeros((N_COLUMNS, N_COLUMNS))
    light_spread = np.full(N_COLUMNS, LAM)
    for rows, weights, leverages in sides:
        heavy, light = leverages > least, leverages <= least
        expected += (rows[heavy].T * weights[heavy]) @ rows[heavy]
        total = weights[light].sum()
        if total > 0.0:
            mean = weights[light] @ rows[light] / total
            expected += total * np.outer(mean, mean)
            shrunk = weights[light] / (1.0 + leverages[light])
            centre = shrunk @ rows[light] / shrunk.sum()
            light_spread += shrunk @ np.square(rows[light] - centre)
    assert_allclose(spread, light_spread, rtol=1e-9)
    rows, weights, leverages = sides[1]  # what the light ones take of a cap is taken at their mean
    light = leverages <= least
    mean = weights[light] @ rows[light] / weights[light].sum()
    border[:, 2] = (shares[~light] @ rows[~light] + shares[light].sum() * mean) / top
    off = border @ np.linalg.inv(blocks.scalars) @ border.T  # what the three numbers take
    inverted = np.linalg.inv(np.diag(spread) + expected - off)
    assert_allclose(inverse, inverted, rtol=0, atol=1e-5 * np.abs(inverted).max())


@pytest.mark.parametrize("top", [1, 4])
def test_the_spread_comes_to_rest_where_leverages_and_weights_agree(top, rng, monkeypatch):
    X, positive = some_rows(rng, n_rows=60)
    monkeypatch.setattr(kkt, "ROUNDS", 200)
    with newton_system(X, positive, monkeypatch, top=top) as (path, _):
        sides, spread = rows_and_weights(path.problem.design), path.diagonal.diagonal
    agreed = np.full(N_COLUMNS, LAM)
    for rows, weights, leverages in sides:
        mean = weights @ rows / weights.sum()
        distances = (np.square(rows - mean) / spread).sum(axis=1)
        assert_allclose(leverages, weights * distances, rtol=1e-6, atol=1e-9)
        shrunk = weights / (1.0 + leverages)
        agreed += shrunk @ np.square(rows - shrunk @ rows / shrunk.sum())
    assert_allclose(spread, agreed, rtol=1e-6)


def test_as_many_rows_are_taken_as_there_is_room_for(rng, monkeypatch):
    X, positive = some_rows(rng)
    monkeypatch.setattr(LocalDesign, "most_exact", 16.0)
    with newton_system(X, positive, monkeypatch) as (_, system):
        assert system.precondition.n_exact <= 8


def test_more_rows_are_taken_where_products_cost_more(rng, monkeypatch):
    X, positive = some_rows(rng)
    with newton_system(X, positive, monkeypatch) as (path, _):
        design, taken = path.problem.design, []
        for read in (0.0, 1e-9, 1e-6, 1e-3):
            costs = design.arrays.costs._replace(read=read, step=0.0)
            monkeypatch.setattr(design.arrays, "costs", costs)
            taken.append(kkt._min_leverage(design))
    assert taken == sorted(taken, reverse=True)
    assert taken[0] > taken[-1]
