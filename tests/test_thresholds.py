"""The threshold's promise: by the exact law, by simulation, and refused where it cannot hold."""

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toppush.thresholds.guarantees import (
    NoGuarantee,
    NotEnoughNegatives,
    depths_to_test,
    negatives_needed,
    threshold_at_fpr,
    threshold_at_precision,
    threshold_at_recall,
)

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
    with pytest.raises(ValueError, match=r"above.*0.*1"):
        threshold_at_fpr(np.arange(100.0), max_fpr=rate, confidence=confidence)


def test_scores_must_be_numbers():
    with pytest.raises(ValueError, match="without NaN"):
        threshold_at_fpr([0.0, np.nan], max_fpr=0.5)


lists = st.lists(st.tuples(st.booleans(), st.integers(0, 9)), min_size=10, max_size=120)


def split(rows):
    positive, score = (np.array(column) for column in zip(*rows, strict=True))
    positive[:2] = [True, False]
    return positive, score.astype(float)


@given(lists, st.sampled_from([0.3, 0.5, 0.8]))
def test_recall_takes_the_fewest_positives_that_keep_the_promise(rows, recall):
    """Too few are missed of n_pos if P(Binomial(n_pos, recall) >= those taken) is small."""
    positive, score = split(rows)
    n_pos = int(positive.sum())
    enough = [k for k in range(n_pos + 1) if violation(k, n_pos, 1 - Fraction(recall)) <= 0.1]
    if not enough:
        with pytest.raises(NoGuarantee, match=f"and there are {n_pos};"):
            threshold_at_recall(positive, score, min_recall=recall, confidence=0.9)
        return
    found = threshold_at_recall(positive, score, min_recall=recall, confidence=0.9)
    falling = np.sort(score[positive])[::-1]
    taken = score > found.score
    assert taken.tolist() == (score >= falling[enough[0] - 1]).tolist()
    assert (found.rows, found.true_positives) == (taken.sum(), (taken & positive).sum())
    assert found.observed == pytest.approx(found.true_positives / n_pos)


@given(lists, st.sampled_from([0.3, 0.5, 0.8]))
def test_precision_takes_the_longest_tested_list_that_is_sure(rows, precision):
    """By exact sums at every depth, whose shares of the doubt add up to no more than it."""
    positive, score = split(rows)
    depths = depths_to_test(len(rows), precision, 0.8)
    falling = np.sort(score)[::-1]
    parts = [Fraction(1, j) for j in range(1, len(depths) + 1)]
    sure = []
    for depth, part in zip(depths.astype(int), parts, strict=True):
        above = score > falling[depth]
        hits, length = int((positive & above).sum()), int(above.sum())
        if violation(hits, length, 1 - Fraction(precision)) <= Fraction(0.2) * part / sum(parts):
            sure.append((length, hits, float(falling[depth])))
    if not sure:
        with pytest.raises(NoGuarantee):
            threshold_at_precision(positive, score, min_precision=precision, confidence=0.8)
        return
    found = threshold_at_precision(positive, score, min_precision=precision, confidence=0.8)
    assert (found.rows, found.true_positives, found.score) == max(sure)
    assert found.observed == pytest.approx(found.true_positives / found.rows)


def test_tested_depths_are_known_before_the_list():
    depths = depths_to_test(5000, 0.9, 0.95)
    assert depths[0] == negatives_needed(0.1, 0.95) == 29
    assert depths[-1] < 5000 <= 1.25 * depths[-1] + 2
    assert len(depths_to_test(29, 0.9, 0.95)) == 0


def test_precision_that_falls_and_rises_is_promised_no_more_often(rng):
    """Few scores, in the midst of the list a bad one: its precision is known at each."""
    share, good = np.array([0.1, 0.1, 0.2, 0.6]), np.array([0.75, 0.5, 0.97, 0.05])
    precision = np.cumsum(share * good) / np.cumsum(share)
    promised, broken = 0, 0
    for _ in range(400):
        place = rng.choice(4, 600, p=share)
        positive = rng.random(600) < good[place]
        try:
            found = threshold_at_precision(positive, -place, min_precision=0.7, confidence=0.8)
        except NoGuarantee:
            continue
        promised += 1
        broken += precision[int(-found.score) - 1] < 0.7
    assert promised > 100
    assert broken <= 0.2 * 400


def test_a_precision_that_cannot_be_promised_says_what_would_help():
    """All of 40 are hits: nearly sure. Half of them: never."""
    good, falling = np.arange(60) < 40, -np.arange(60.0)
    with pytest.raises(NoGuarantee, match="29 rows") as said:
        threshold_at_precision(good, falling, min_precision=0.9)
    needed = int(str(said.value).split("about ")[1].split(" suffice")[0])
    times = -(-needed // 60)
    many, falling = np.repeat(good, times), -np.arange(60.0 * times)
    assert threshold_at_precision(many, falling, min_precision=0.9).rows > 29
    for positive, sentence in (
        (np.arange(100) % 2 == 0, "which is not above it"),
        (np.arange(20) < 10, "at least 29 rows that score above all others"),
    ):
        with pytest.raises(NoGuarantee, match=sentence):
            threshold_at_precision(positive, -np.arange(float(len(positive))), min_precision=0.9)


@pytest.mark.parametrize("find", [threshold_at_precision, threshold_at_recall])
def test_promised_shares_out_of_range(find):
    name = "min_precision" if find is threshold_at_precision else "min_recall"
    with pytest.raises(ValueError, match=f"{name} must be above 0 and below 1"):
        find([1, 0], [1.0, 0.0], **{name: 1.0})
