"""Profit against brute force over every threshold, and what is expected of the best one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toppush.thresholds import profit
from toppush.thresholds.profit import best_length, profit_curve

lists = st.lists(
    st.tuples(st.booleans(), st.integers(0, 6), st.integers(0, 20), st.integers(0, 4)),
    min_size=3,
    max_size=25,
)


def split(rows):
    positive, score, value, cost = (np.array(column) for column in zip(*rows, strict=True))
    positive[:2] = [True, False]
    return positive, score.astype(float), value.astype(float), cost.astype(float)


def above(positive, score, value, cost, cut):
    taken = score > cut
    return sum(value[taken & positive]) - sum(cost[taken])


@given(lists)
def test_every_list_has_the_profit_of_its_rows(rows):
    positive, score, value, cost = split(rows)
    curve = profit_curve(positive, score, value=value, cost=cost)
    assert (curve.lengths[0], curve.true_positives[0], curve.profits[0]) == (0, 0, 0.0)
    assert curve.scores[1:].tolist() == sorted(set(score.tolist()), reverse=True)
    for length, hits, amount, lowest in zip(
        curve.lengths, curve.true_positives, curve.profits, curve.scores, strict=True
    ):
        taken = score >= lowest
        assert (length, hits) == (taken.sum(), (taken & positive).sum())
        assert amount == pytest.approx(value[taken & positive].sum() - cost[taken].sum())


@given(lists)
def test_no_threshold_earns_more_than_the_best(rows):
    positive, score, value, cost = split(rows)
    found = best_length(positive, score, value=value, cost=cost, draws=10)
    cuts = [-1.0, *np.unique(score)]
    assert found.observed == pytest.approx(max(above(*split(rows), cut) for cut in cuts))
    assert above(*split(rows), found.score) == pytest.approx(found.observed)
    assert (score > found.score).sum() == found.length
    assert (positive & (score > found.score)).sum() == found.true_positives
    assert found.everything == pytest.approx(above(*split(rows), -1.0))


@given(lists)
def test_expected_profit_is_that_of_rows_that_had_no_say(rows):
    """The same folds by loops: choose on four, measure on the fifth."""
    positive, score, value, cost = split(rows)
    gain = np.where(positive, value, 0.0) - cost
    order = np.argsort(-score, kind="stable")
    listed, gain = score[order], gain[order]
    rng, total, folds = np.random.default_rng(5), 0.0, min(profit.FOLDS, len(rows))
    for _ in range(profit.REPEATS):
        fold = rng.permutation(len(rows)) % folds
        for one in range(folds):
            cuts = [np.inf, *sorted(set(listed), reverse=True)]
            of_others = [gain[(listed >= cut) & (fold != one)].sum() for cut in cuts]
            cut = cuts[int(np.argmax(of_others))]
            total += gain[(listed >= cut) & (fold == one)].sum()
    found = best_length(positive, score, value=value, cost=cost, draws=10, seed=5)
    assert found.expected.value == pytest.approx(total / profit.REPEATS)
    assert found.expected.low <= found.expected.value <= found.expected.high


def test_numbers_are_the_same_as_columns_of_them(rng):
    positive, score = rng.random(200) < 0.2, rng.normal(size=200).round(1)
    one = best_length(positive, score, value=12, cost=2, draws=50)
    many = best_length(positive, score, value=np.full(200, 12), cost=np.full(200, 2), draws=50)
    assert one == many
    shuffled = rng.permutation(200)
    assert (
        best_length(positive[shuffled], score[shuffled], value=12, cost=2).observed == one.observed
    )


def test_a_scale_of_money_scales_everything(rng):
    positive, score = rng.random(200) < 0.2, rng.normal(size=200).round(1)
    euros = best_length(positive, score, value=12, cost=2, draws=50)
    cents = best_length(positive, score, value=1200, cost=200, draws=50)
    assert (cents.score, cents.length) == (euros.score, euros.length)
    assert cents.expected.low == pytest.approx(100 * euros.expected.low)
    assert cents.expected.high == pytest.approx(100 * euros.expected.high)


def test_where_no_look_pays_the_list_is_empty():
    found = best_length([1, 0, 0, 0], [4.0, 3.0, 2.0, 1.0], value=1, cost=2, draws=20)
    assert (found.length, found.true_positives, found.observed) == (0, 0, 0.0)
    assert found.score == 4.0


def test_the_choice_flatters_and_what_is_expected_does_not(rng):
    """Scores that know nothing: every list loses on average, and the best one seems to win."""
    observed, expected = [], []
    for _ in range(60):
        positive, score = rng.random(300) < 0.1, rng.normal(size=300)
        found = best_length(positive, score, value=9, cost=1, draws=10)
        observed.append(found.observed)
        expected.append(found.expected.value)
    assert np.mean(observed) > 5
    assert np.mean(expected) < 0


@pytest.mark.parametrize(
    "given, sentence",
    [
        ({"value": [1, 2], "cost": 1}, "value"),
        ({"value": np.nan, "cost": 1}, "value"),
        ({"value": 1, "cost": -1}, "cost must be at least 0"),
    ],
)
def test_amounts_that_cannot_be_are_refused(given, sentence):
    with pytest.raises(ValueError, match=sentence):
        profit_curve([1, 0, 1], [3.0, 2.0, 1.0], **given)
