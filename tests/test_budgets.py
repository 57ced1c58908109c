"""Forecasts of hits and thresholds for a budget: against exact laws, brute force and simulation."""

from fractions import Fraction
from math import comb, factorial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import betabinom

from toppush.thresholds import budgets
from toppush.thresholds.budgets import (
    beta_binomial_quantile,
    expected_true_positives,
    future_count,
    positives_above,
    positives_in_first,
    threshold_for_budget,
)
from toppush.thresholds.guarantees import NoGuarantee

lists = st.lists(st.tuples(st.booleans(), st.integers(0, 6)), min_size=4, max_size=25)


def split(rows):
    positive, score = (np.array(column) for column in zip(*rows, strict=True))
    positive[:2] = [True, False]
    return positive, score.astype(float)


def not_exceeded(count, rows, a, b):
    """P(X <= count) for a beta-binomial X with whole a and b, in exact arithmetic."""

    def beta(x, y):
        return Fraction(factorial(x - 1) * factorial(y - 1), factorial(x + y - 1))

    return sum(comb(rows, k) * beta(k + a, rows - k + b) for k in range(count + 1)) / beta(a, b)


@given(
    st.integers(1, 60), st.integers(1, 20), st.integers(1, 40), st.sampled_from([0.025, 0.5, 0.9])
)
def test_quantiles_are_those_of_the_exact_law(rows, a, b, level):
    found = beta_binomial_quantile(level, rows, a, b)
    assert float(not_exceeded(found, rows, a, b)) >= level - 1e-9
    assert found == 0 or float(not_exceeded(found - 1, rows, a, b)) < level + 1e-9


def test_quantiles_of_many_rows_are_as_exact():
    found = beta_binomial_quantile(0.975, 200_000, 30, 5000)
    assert betabinom.cdf(found, 200_000, 30, 5000) == pytest.approx(0.975, abs=1e-3)


@given(st.integers(1, 40), st.data())
def test_a_future_count_is_expected_within_its_limits(of, data):
    count, rows = data.draw(st.integers(0, of)), data.draw(st.integers(1, 80))
    found = future_count(count, of, rows)
    assert 0 <= found.low <= found.expected <= found.high <= rows
    mirrored = future_count(of - count, of, rows)
    assert (mirrored.low, mirrored.high) == (rows - found.high, rows - found.low)


def test_limits_of_a_future_count_hold(rng):
    """Thatcher's limits: each end fails in at most 2.5 %, for any rate."""
    for rate, known, rows in ((0.02, 200, 300), (0.3, 50, 40), (0.001, 500, 5000)):
        seen, future = rng.binomial(known, rate, 1500), rng.binomial(rows, rate, 1500)
        limits = {one: future_count(one, known, rows) for one in set(seen.tolist())}
        low = np.mean([limits[one].low > new for one, new in zip(seen, future, strict=True)])
        high = np.mean([limits[one].high < new for one, new in zip(seen, future, strict=True)])
        assert max(low, high) <= 0.025 + 4 * np.sqrt(0.025 * 0.975 / 1500)


@given(lists, st.integers(-1, 7), st.integers(1, 50))
def test_hits_above_a_score_count_the_rows_above_it(rows, cut, future):
    positive, score = split(rows)
    above = int((positive & (score > cut)).sum())
    assert positives_above(positive, score, cut, rows=future) == future_count(
        above, len(rows), future
    )


@given(lists, st.integers(1, 5))
def test_what_is_expected_of_a_list_is_its_share_of_the_known_one(rows, times):
    """As long a list of as many rows holds as many hits, ties in proportion; so do multiples."""
    positive, score = split(rows)
    length = max(1, len(rows) // 3)
    above = score > np.sort(score)[::-1][length - 1]
    tie = score == np.sort(score)[::-1][length - 1]
    part = (length - above.sum()) / tie.sum()
    hits = (positive & above).sum() + part * (positive & tie).sum()
    new = {"rows": times * len(rows), "length": times * length, "draws": 20}
    found = expected_true_positives(positive, score, **new)
    assert found.expected == pytest.approx(times * hits)
    assert 0 <= found.low <= found.expected <= found.high <= times * length


def test_a_list_of_all_rows_forecasts_the_count_of_positives(rng):
    """Nothing hangs on the scores then, and the exact limits are known."""
    positive, score = np.arange(400) < 40, rng.normal(size=400)
    found = expected_true_positives(positive, score, rows=200, length=200, draws=4000)
    exact = future_count(40, 400, 200)
    assert found.expected == exact.expected
    assert found.low == pytest.approx(exact.low, abs=1)
    assert found.high == pytest.approx(exact.high, abs=1)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=7))
def test_heads_of_a_drawn_population_hold_what_lies_above_them(cells):
    """With the unseen row before all others, by plain interpolation."""
    rng = np.random.default_rng(len(cells))
    positives, negatives = rng.standard_gamma(np.array([*cells, (1, 1)], float).T)
    unseen, ends = rng.exponential(), rng.random(6)
    for label, (share, last) in zip(
        (0.0, 1.0), budgets._precisions(positives, negatives, unseen, ends), strict=True
    ):
        weight = np.cumsum([0.0, unseen, *(positives + negatives)])
        depth = ends * weight[-1]
        hits = np.cumsum([0.0, unseen * label, *positives])
        assert share == pytest.approx(np.interp(depth, weight, hits) / depth)
        beyond = np.interp(depth + 1e-9, weight, hits) - np.interp(depth, weight, hits)
        assert last == pytest.approx(beyond / 1e-9, abs=1e-5)


def test_forecasts_repeat_and_only_the_order_counts(rng):
    positive, score = rng.random(300) < 0.2, rng.normal(size=300).round(1)
    first = positives_in_first(positive, score, [5, 20], rows=100, draws=200, seed=3)
    assert (
        positives_in_first(positive, np.exp(score), [5, 20], rows=100, draws=200, seed=3) == first
    )
    shuffled = rng.permutation(300)
    again = positives_in_first(
        positive[shuffled], score[shuffled], [5, 20], rows=100, draws=200, seed=3
    )
    assert again == first
    assert first[0].expected <= first[1].expected


def test_forecasts_of_a_list_hold(rng):
    """Hits in the first 20 of 200 new rows, over 100 lists with ties."""
    held = []
    for _ in range(100):
        positive = rng.random(800) < 0.1
        score = (2 * (rng.normal(size=800) + 1.5 * positive)).round() / 2
        found = expected_true_positives(positive[:600], score[:600], rows=200, length=20, draws=150)
        best = np.lexsort((rng.random(200), -score[600:]))[:20]
        held.append(found.low <= positive[600:][best].sum() <= found.high)
    assert np.mean(held) >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / 100)


@given(st.integers(2, 60), st.integers(1, 10), st.integers(1, 200))
def test_a_budget_is_kept_on_average(known, budget, rows):
    """Above the k-th highest of n scores are k R / (n + 1) rows; above the next, too many."""
    scores = np.random.default_rng(known).permutation(known).astype(float)
    if budget * (known + 1) < rows:
        with pytest.raises(NoGuarantee, match=f"there are {known}"):
            threshold_for_budget(scores, budget=budget, rows_per_day=rows)
        return
    found = threshold_for_budget(scores, budget=budget, rows_per_day=rows)
    place = found.above + 1
    if found.above == known:
        assert budget >= rows
    else:
        assert place * rows <= budget * (known + 1) * (1 + 1e-9)
        assert budget < rows
        assert place == known or (place + 1) * rows > budget * (known + 1) * (1 - 1e-9)


@given(st.integers(5, 60), st.integers(1, 8), st.integers(10, 60))
def test_a_budget_is_kept_on_a_share_of_the_days(known, budget, rows):
    scores = np.random.default_rng(known).permutation(known).astype(float)
    given = {"budget": budget, "rows_per_day": rows, "confidence": 0.8}
    try:
        found = threshold_for_budget(scores, **given)
    except NoGuarantee:
        assert not_exceeded(budget, rows, 1, known) < 0.8
        return
    place = found.above + 1
    assert not_exceeded(budget, rows, place, known - place + 1) >= 0.8 - 1e-9
    if place < known:
        assert not_exceeded(budget, rows, place + 1, known - place) < 0.8 + 1e-9


def test_how_many_rows_a_budget_needs():
    """With so many it can be kept, with one fewer it cannot."""
    for confidence in (None, 0.9):
        given = {"budget": 3, "rows_per_day": 1000, "confidence": confidence}
        with pytest.raises(NoGuarantee) as refused:
            threshold_for_budget(np.arange(10.0), **given)
        needed = int(str(refused.value).split("needs at least ")[1].split(" ")[0].replace(",", ""))
        assert threshold_for_budget(np.arange(float(needed)), **given).above == 0
        with pytest.raises(NoGuarantee):
            threshold_for_budget(np.arange(float(needed - 1)), **given)


def test_ties_stay_out_of_a_budget_as_a_whole():
    scores = np.repeat([3.0, 2.0, 1.0], [2, 50, 48])
    found = threshold_for_budget(scores, budget=20, rows_per_day=100)
    assert (found.score, found.above) == (2.0, 2)


def test_a_budget_for_every_row_takes_them_all():
    found = threshold_for_budget([1.0, 2.0], budget=5, rows_per_day=5)
    assert found.above == 2
    assert found.rows.high == 5


@pytest.mark.parametrize(
    "given, sentence",
    [
        ({"rows": 10}, "either"),
        ({"rows": 10, "length": 3, "above": 0.0}, "either"),
        ({"rows": 10, "length": 11}, "at most 10"),
        ({"rows": 0, "above": 0.0}, "number"),
        ({"rows": 10, "length": 2.5}, "length"),
    ],
)
def test_what_cannot_be_forecast_is_refused(given, sentence):
    with pytest.raises(ValueError, match=sentence):
        expected_true_positives([1, 0, 1], [3.0, 2.0, 1.0], **given)


def test_scores_of_a_budget_must_be_numbers():
    with pytest.raises(ValueError, match="without NaN"):
        threshold_for_budget([0.0, np.nan], budget=1, rows_per_day=2)
