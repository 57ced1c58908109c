"""The paper's method: the scale of equal weights is nothing to it, and it says when it fails."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from toppush import Status, TopPush
from toppush.problem.losses import LOSSES
from toppush.problem.solution import safe_lower_bound


def two_classes(shift=1.5):
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3 == 0
    return rng.normal(size=(60, 4)) + shift * y[:, None], y


@pytest.mark.filterwarnings("ignore::toppush.DegenerateWarning")
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("top", [1, 5])
def test_the_scale_of_equal_weights_changes_nothing(loss, top):
    X, y = two_classes()
    ranker = TopPush(0.01, top=top, loss=loss, solver="paper")
    plain = ranker.fit(X, y).solution_
    for weight in (1e-6, 3.0, 1e6):
        weighted = ranker.fit(X, y, np.full(len(y), weight)).solution_
        assert (weighted.n_iter, weighted.status) == (plain.n_iter, plain.status)
        assert weighted.upper == pytest.approx(plain.upper, rel=1e-9)
        assert weighted.weights == pytest.approx(plain.weights, rel=1e-6)


@pytest.mark.filterwarnings("ignore::toppush.DegenerateWarning")
@pytest.mark.parametrize("loss, lam", [("truncated_quadratic", 1e-28), ("exponential", 1e-16)])
def test_weights_far_worse_than_zero_are_no_success(loss, lam):
    """So small a lam makes the first step shorter than the shortest that the rule allows."""
    X, y = two_classes(shift=0.0)
    with pytest.warns(ConvergenceWarning, match="worse"):
        solution = TopPush(lam, loss=loss, solver="paper").fit(X, y).solution_
    assert solution.status is Status.DIVERGED
    assert np.isfinite(solution.weights).all()
    assert 0.0 <= solution.lower <= solution.upper < np.inf


def test_a_step_too_short_to_matter_within_tol_has_converged():
    X, y = np.random.default_rng(2).normal(size=(24, 3)), np.arange(24) == 3
    solution = TopPush(1.0, top=1.0, solver="paper").fit(X, y).solution_
    assert solution.status is Status.CONVERGED
    assert solution.relative_gap <= 1e-4


@pytest.mark.parametrize(
    "upper, lower, proven",
    [(2.0, 1.0, 1.0), (2.0, 2.25, 1.75), (2.0, -np.inf, 0.0), (2.0, -1.0, 0.0), (1.0, 3.0, 0.0)],
)
def test_bounds_that_cross_are_told_as_far_apart_as_they_crossed(upper, lower, proven):
    assert safe_lower_bound(upper, lower) == proven
