"""A solver or a loss that a file of its own registers works everywhere that names one."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

from toppush import Status, TopPush, TopPushCV
from toppush.designs import Block
from toppush.problem.losses import LOSSES, Logistic
from toppush.problem.objective import balanced_dual, certify
from toppush.problem.solution import Solution, closed
from toppush.solvers import SOLVERS, Solver
from toppush.solvers.driver import follow, solving


class Subgradient:
    """Steps of 1/(lam t) against a subgradient, whose means are a dual point."""

    def __init__(self, problem, tol):
        self.problem, self.tol, self.n_steps = problem, tol, 0
        self.upper, self.lower = np.inf, 0.0

    def begin(self):
        self.weights = np.zeros(self.problem.design.n_features)
        self.advance()

    def advance(self):
        problem, design = self.problem, self.problem.design
        design.apply(Block.score, self.weights)
        high, _ = design.max(lambda block: (block.scores[1].max(initial=-np.inf), 0.0))
        self.n_steps += 1
        push = design.sum(_subgradient, problem.loss, high, 1.0 / self.n_steps)
        self.weights = push / problem.scale
        self.certificate = certify(problem, self.weights, _mean_dual)
        self.upper, self.lower = self.certificate.upper, self.certificate.lower

    def state(self):
        return self.upper, self.lower, self.weights, self.certificate.threshold

    def status(self):
        return Status.CONVERGED if closed(self.upper, self.lower, self.tol) else None


class Part:
    dual = 0.0, 0.0


def _subgradient(block, loss, high, share):
    """Mix this point's dual into the mean of those before; X' times the mean."""
    part, (positives, negatives) = block.work.of(Part), block.scores
    pull = block.cost * loss.slope(high - positives)
    top = np.where(negatives == high, pull.sum() / np.sum(negatives == high), 0.0)
    part.dual = tuple(
        old + share * (new - old) for old, new in zip(part.dual, (pull, top), strict=True)
    )
    return block.dual_combination(*part.dual)


def _mean_dual(block):
    return block.work.of(Part).dual


def subgradient_method(problem, *, tol, max_iter, start=None, callback=None):
    with solving(problem.design, callback) as history:
        method = Subgradient(problem, tol)
        status = follow(method, history, max_iter=max_iter)
        dual = problem.design.over_rows(balanced_dual, _mean_dual, method.certificate.balance)
        upper, lower, *answer = method.state()
        found = Solution(*answer, dual, upper, lower, len(history), status)
    return history.complete(found)


@pytest.fixture
def mine(monkeypatch):
    monkeypatch.setitem(SOLVERS, "mine", Solver(subgradient_method))
    return "mine"


@pytest.fixture
def rows(rng):
    y = np.arange(90) % 3 == 0
    return rng.normal(size=(90, 3)) + 1.5 * y[:, None], y


@pytest.mark.parametrize("loss", ["truncated_quadratic", "logistic"])
def test_a_solver_that_joins_is_found_by_its_name(loss, mine, rows):
    exact = TopPush(1.0, loss=loss, tol=1e-8).fit(*rows).solution_
    found = TopPush(1.0, loss=loss, solver=mine, tol=0.05).fit(*rows).solution_
    assert found.status is Status.CONVERGED
    assert found.n_iter == len(found.history) > 1
    assert found.lower <= exact.upper
    assert exact.lower <= found.upper <= exact.upper * 1.06


def test_what_a_solver_cannot_is_said(mine, rows):
    with pytest.raises(ValueError, match=r"'newton', 'paper', 'mine'.*Got 'none'"):
        TopPush(solver="none").fit(*rows)
    with pytest.warns(ConvergenceWarning, match="max_iter came first"):
        TopPush(10.0, solver=mine, tol=0.0, max_iter=20).fit(*rows)


@pytest.mark.parametrize("warm_startable", [True, False])
def test_an_earlier_solution_is_given_to_who_can_use_it(warm_startable, rows, monkeypatch):
    starts = []

    def noting(problem, *, start, **options):
        starts.append(start)
        return SOLVERS["newton"](problem, start=start, **options)

    monkeypatch.setitem(SOLVERS, "noting", Solver(noting, warm_startable=warm_startable))
    ranker = TopPush(solver="noting", warm_start=True).fit(*rows).fit(*rows)
    assert starts[0] is None
    assert (starts[1] is not None) == warm_startable
    assert ranker.solution_.status is Status.CONVERGED


@dataclass(frozen=True)
class TwiceLogistic(Logistic):
    """2 l(t); its conjugate is 2 l*(a/2)."""

    name: ClassVar[str] = "twice_logistic"
    dual_limit: ClassVar[float] = 2.0

    def value(self, violation):
        return 2.0 * super().value(violation)

    def slope(self, violation):
        return 2.0 * super().slope(violation)

    def curvature(self, violation):
        return 2.0 * super().curvature(violation)

    def conjugate(self, dual):
        return 2.0 * super().conjugate(0.5 * dual)

    def conjugate_slope(self, dual):
        return super().conjugate_slope(0.5 * dual)

    def dual_prox(self, point, stiffness):
        half, fall = super().dual_prox(0.5 * point, 2.0 * stiffness)
        return 2.0 * half, fall


@pytest.fixture
def twice(monkeypatch):
    monkeypatch.setitem(LOSSES, TwiceLogistic.name, TwiceLogistic())
    return TwiceLogistic.name


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_loss_that_joins_is_found_by_its_name(solver, twice, rows):
    """Twice the loss and twice lam is twice the objective."""
    one = TopPush(0.1, top=5, loss="logistic", solver=solver).fit(*rows)
    two = TopPush(0.2, top=5, loss=twice, solver=solver).fit(*rows)
    assert_allclose(two.coef_, one.coef_, rtol=0, atol=2e-2 * np.abs(one.coef_).max())
    assert two.solution_.upper == pytest.approx(2.0 * one.solution_.upper, rel=1e-3)


def test_a_loss_that_joins_is_chosen_from(twice, rows):
    assert TopPushCV([0.1, 1.0], loss=twice, tops=[3]).fit(*rows).coef_.shape == (1, 3)


def test_a_loss_that_joins_is_a_choice_of_the_command(twice):
    testing = pytest.importorskip("click.testing", reason="needs click, the extra [cli]")
    from toppush.cli.fit import fit

    shown = testing.CliRunner().invoke(fit, ["--help"])
    assert shown.exit_code == 0
    assert twice in shown.output
