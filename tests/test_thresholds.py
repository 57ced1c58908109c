"""The threshold's promise: by the exact law, by simulation, and refused where it cannot hold."""

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toppush.metrics.thresholds import NotEnoughNegatives, negatives_needed, threshold_at_fpr

rates = st.sampled_from([0.01, 0.03, 0.1, 0.25, 0.5])
confidences = st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99])


def violation(order, n, rate):
    """P(Binomial(n, 1 - rate) >= order), in exact arithmetic."""
    above = Fraction(rate)
    return sum(comb(n, j) * (1 - above) ** j * above ** (n - j) for j in range(order, n + 1))


@given(st.integers(1, 150), rates, confidences)
def test_the_order_is_the_least_that_keeps_the_promise(n, rate, confidence):
    scores = np.random.default_rng(n).permutation(n).astype(float)
    allowed = Fraction(1) - Fraction(confidence)
    if violation(n, n, rate) > allowed:
        with pytest.raises(NotEnoughNegatives, match=f"and there are {n}"):
            threshold_at_fpr(scores, max_fpr=rate, confidence=confidence)
        return
    found = threshold_at_fpr(scores, max_fpr=rate, confidence=confidence)
    assert violation(found.order, n, rate) <= allowed
    # One order less breaks it, or keeps it by an equality that rounding hides.
    assert found.order == 1 or violation(found.order - 1, n, rate) >= allowed
    assert found.violation == pytest.approx(float(violation(found.order, n, rate)), rel=1e-9)
    assert found.score == found.order - 1.0


@given(rates, confidences)
def test_how_many_are_needed(rate, confidence):
    needed = negatives_needed(rate, confidence)
    assert (1 - Fraction(rate)) ** needed <= 1 - Fraction(confidence)
    assert (1 - Fraction(rate)) ** (needed - 1) > 1 - Fraction(confidence)


@pytest.mark.parametrize("n, rate, confidence", [(59, 0.05, 0.95), (400, 0.02, 0.9)])
def test_the_promise_is_kept_as_often_as_stated(n, rate, confidence, rng):
    """Over many samples of uniform scores, where the rate above t is 1 - t."""
    kept = [
        1 - threshold_at_fpr(rng.random(n), max_fpr=rate, confidence=confidence).score <= rate
        for _ in range(1500)
    ]
    expected = 1 - threshold_at_fpr(rng.random(n), max_fpr=rate, confidence=confidence).violation
    deviation = np.sqrt(expected * (1 - expected) / len(kept))
    assert abs(np.mean(kept) - expected) < 4 * deviation
    assert expected >= confidence


def test_ties_only_make_it_safer(rng):
    """Of few distinct scores, rows above the threshold, not at it, are at most the rate."""
    true = np.array([0.7, 0.2, 0.06, 0.03, 0.01])
    above = np.append(np.cumsum(true[::-1])[::-1][1:], 0.0)
    kept = []
    for _ in range(1000):
        scores = rng.choice(5, 200, p=true)
        kept.append(above[int(threshold_at_fpr(scores, max_fpr=0.05).score)] <= 0.05)
    assert np.mean(kept) >= 0.95


@pytest.mark.parametrize("rate, confidence", [(0.0, 0.9), (1.0, 0.9), (0.1, 1.0), (0.1, -1.0)])
def test_shares_out_of_range(rate, confidence):
    with pytest.raises(ValueError, match="must be above 0 and below 1"):
        threshold_at_fpr(np.arange(100.0), max_fpr=rate, confidence=confidence)


def test_scores_must_be_numbers():
    with pytest.raises(ValueError, match="without NaN"):
        threshold_at_fpr([0.0, np.nan], max_fpr=0.5)
