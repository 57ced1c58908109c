"""Properties of the pairwise loss: against all pairs one by one, exact and on the grid."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from threading import Barrier, get_ident

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import reference_push
from toppush.objectives import label_rows, pairwise_gradients
from toppush.objectives.grid import ScoreGrid, gradients_on_grid, weigh
from toppush.objectives.pairs import (
    HESSIAN_FLOOR,
    depth_of,
    gradients_of_all_pairs,
    level,
    top_shares,
)

ON_GRID = 8e-4
"""Error of the grid, as a share of the greatest gradient that a row of its class may have."""

spreads = st.sampled_from([0.0, 1e-9, 0.1, 1.0, 3.0, 10.0, 100.0])
tops = st.sampled_from([1, 2, 0.01, 0.1, 0.5, 0.99, 1.0])
smoothings = st.sampled_from([0.05, 0.5, 3.0])


@st.composite
def lists(draw):
    """Rows of both classes, their scores, and what is asked of them; ties are common."""
    n_pos, n_neg = draw(st.integers(1, 6)), draw(st.integers(2, 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scores = draw(spreads) * rng.normal(size=n_pos + n_neg)
    if draw(st.booleans()):
        scores = scores.round(1)
    labels = rng.permutation(np.repeat([1, 0], [n_pos, n_neg]))
    weight = rng.integers(1, 5, len(labels)) / 2.0 if draw(st.booleans()) else None
    rows, top = label_rows(labels, weight), draw(tops)
    assume(not isinstance(top, int) or top <= rows.weight_of_negatives)
    return scores, rows, top, draw(smoothings)


def by_class(scores, rows):
    """Scores and weights of the positives, then of the negatives, as lists."""
    weight = np.ones(len(scores)) if rows.weight is None else rows.weight
    chosen = (rows.positive, ~rows.positive)
    return [vector[mask].tolist() for mask in chosen for vector in (scores, weight)]


def pair_by_pair(scores, rows, top, smoothing):
    """Gradient and hessian over all rows, from loops; the negatives' shares as well."""
    positives, costs, negatives, weights = by_class(scores, rows)
    depth = depth_of(top, sum(weights), len(weights))
    shares = reference_push.shares(negatives, weights, depth, smoothing)
    found = []
    for of in (reference_push.gradients, reference_push.curvatures):
        vector = np.empty(len(scores))
        vector[rows.positive], vector[~rows.positive] = of(positives, costs, negatives, shares)
        found.append(vector)
    return *found, np.array(shares)


def floor_of(rows):
    return HESSIAN_FLOOR * (1.0 if rows.weight is None else rows.weight)


@given(lists())
def test_all_pairs_are_the_formula(case):
    _, rows, _, _ = case
    found = gradients_of_all_pairs(*case)
    gradient, hessian, shares = pair_by_pair(*case)
    assert_allclose(top_shares(*case), shares, rtol=1e-9, atol=1e-14)
    assert_allclose(found.gradient, gradient, rtol=1e-9, atol=1e-15)
    assert_allclose(found.hessian - floor_of(rows), hessian, rtol=1e-9, atol=1e-15)
    assert (found.hessian > 0).all()


@given(lists())
def test_the_grid_is_all_pairs_within_its_error(case):
    """The gradients of both classes cancel, by either way."""
    scores, rows, _, _ = case
    found, exact = gradients_on_grid(*case), gradients_of_all_pairs(*case)
    _, costs, _, weights = by_class(scores, rows)
    weight = np.ones(len(scores)) if rows.weight is None else rows.weight
    most = top_shares(*case) / weights
    unit = np.where(rows.positive, weight, weight * most.max() * sum(costs))
    assert_array_equal(abs(found.gradient - exact.gradient) / unit < ON_GRID, True)
    assert_array_equal(abs(found.hessian - exact.hessian) / unit < ON_GRID, True)
    assert (found.hessian > 0).all()
    for gradient in (found.gradient, exact.gradient):
        size = abs(gradient).sum(dtype=float)
        assert abs(gradient.sum(dtype=float)) <= 1e-6 * size + 1e-14


@given(lists(), st.integers(0, 3))
def test_gradient_and_curvature_are_differences_of_the_value(case, row):
    """With the negatives' shares held."""
    scores, rows, _, _ = case
    found, share, step = gradients_of_all_pairs(*case), top_shares(*case), 1e-4
    cost = 1.0 if rows.weight is None else rows.weight[rows.positive]
    cost = cost * np.ones(rows.positive.sum())
    row = row % len(scores)

    def value(change):
        moved = scores.copy()
        moved[row] += change
        excess = moved[~rows.positive] - moved[rows.positive][:, None]
        return cost @ np.logaddexp(0.0, excess) @ share

    slope = (value(step) - value(-step)) / (2 * step)
    bend = (value(step) - 2 * value(0.0) + value(-step)) / step**2
    size = cost.sum() * (1.0 + np.ptp(scores))
    assert found.gradient[row] == pytest.approx(slope, abs=1e-7 * size)
    assert found.hessian[row] == pytest.approx(bend, abs=1e-5 * size)


@given(lists())
def test_a_level_leaves_the_depth_above_it(case):
    scores, rows, top, smoothing = case
    _, _, negatives, weights = map(np.array, by_class(scores, rows))
    depth = depth_of(top, weights.sum(), len(weights))
    found = level(negatives, weights, depth, smoothing)
    if depth == weights.sum():
        assert found == -np.inf
        return
    above = [reference_push.sigmoid(one) for one in (negatives - found) / smoothing]
    assert weights @ above == pytest.approx(depth, rel=1e-9)


@pytest.mark.parametrize(
    "top, weight, n_rows, depth",
    [(3, 10, 10, 3), (3, 10, 20, 3), (0.25, 10, 10, 2.5), (0.01, 10, 10, 1), (0.01, 10, 20, 0.5)],
)
def test_depth(top, weight, n_rows, depth):
    assert depth_of(top, weight, n_rows) == depth


@pytest.mark.parametrize("of", [gradients_of_all_pairs, gradients_on_grid])
@pytest.mark.parametrize("top", [2, 0.001, 0.5])
def test_rows_of_no_weight_are_not_there(rng, of, top):
    scores, labels, weight = rng.normal(size=80), np.arange(80) % 4 == 0, np.arange(80) % 3
    there = weight > 0
    found = of(scores, label_rows(labels, weight), top, 0.5)
    alone = of(scores[there], label_rows(labels[there], weight[there]), top, 0.5)
    for one, other in zip(found, alone, strict=True):
        assert_allclose(one[there], other, rtol=2e-3, atol=1e-4)


@given(lists())
def test_moving_all_scores_changes_nothing(case):
    scores, *rest = case
    one, other = gradients_of_all_pairs(scores, *rest), gradients_of_all_pairs(scores + 3.0, *rest)
    assert_allclose(one.gradient, other.gradient, rtol=1e-6, atol=1e-9)
    assert_allclose(one.hessian, other.hessian, rtol=1e-6, atol=1e-9)


@given(lists())
def test_as_many_as_there_are_is_all(case):
    scores, rows, _, smoothing = case
    rows = label_rows(rows.label, None if rows.weight is None else 2.0 * rows.weight)
    count = round(rows.weight_of_negatives)
    for of in (gradients_of_all_pairs, gradients_on_grid):
        one, other = of(scores, rows, count, smoothing), of(scores, rows, 1.0, smoothing)
        assert_allclose(one.gradient, other.gradient, rtol=1e-6, atol=1e-9)
        with pytest.raises(ValueError, match=f"give a count from 1 to {count}, or"):
            of(scores, rows, count + 1, smoothing)


@given(lists())
def test_weights_of_one_are_none(case):
    scores, rows, top, smoothing = case
    plain, ones = label_rows(rows.label), label_rows(rows.label, np.ones(len(scores)))
    for of in (gradients_of_all_pairs, gradients_on_grid):
        one, other = of(scores, plain, top, smoothing), of(scores, ones, top, smoothing)
        assert_array_equal(one.gradient, other.gradient)
        assert_array_equal(one.hessian, other.hessian)


@pytest.mark.parametrize("of", [gradients_of_all_pairs, gradients_on_grid])
@pytest.mark.parametrize("top", [3, 0.3, 1.0])
def test_a_weight_is_a_number_of_equal_rows(rng, of, top):
    times = rng.integers(0, 4, 60)
    labels, scores = np.arange(60) % 4 == 0, rng.normal(size=60)
    weighted = of(scores, label_rows(labels, times), top, 0.5)
    repeated = of(scores.repeat(times), label_rows(labels.repeat(times)), top, 0.5)
    alike = times > 0
    first = (np.cumsum(times) - times)[alike]
    for one, many in zip(weighted[:2], repeated[:2], strict=True):
        assert_allclose(one[alike] / times[alike], many[first], rtol=1e-5)
        assert_array_equal(one[~alike], 0.0)


@pytest.mark.parametrize("top", [5, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("far", [1e3, 1e6, 1e12, 1e100])
@pytest.mark.parametrize("share", [0.01, 0.9])
def test_rows_far_below_take_no_sharpness_from_the_others(rng, top, far, share):
    """As a score of -1e6 that is to mean never: the grid leaves the gap out."""
    labels, scores = np.arange(400) % 4 == 0, 3 * rng.normal(size=400)
    never = rng.random(400) < share
    near = gradients_on_grid(np.where(never, -80.0, scores), label_rows(labels), top, 0.5)
    distant = gradients_on_grid(np.where(never, -far, scores), label_rows(labels), top, 0.5)
    assert_allclose(distant.gradient, near.gradient, atol=2 * ON_GRID)
    assert_allclose(distant.hessian, near.hessian, atol=2 * ON_GRID)


def test_many_pairs_go_by_the_grid_and_few_do_not(rng):
    labels, scores = np.arange(1000) % 4 == 0, rng.normal(size=1000)
    rows = label_rows(labels)
    assert_array_equal(
        pairwise_gradients(scores, rows).gradient,
        gradients_on_grid(scores, rows, 0.1, 0.5).gradient,
    )
    few, rows = scores[:200], label_rows(labels[:200])
    exact = gradients_of_all_pairs(few, rows, 0.1, 0.5)
    assert_array_equal(pairwise_gradients(few, rows).gradient, exact.gradient)


def test_a_grid_holds_all_weight(rng):
    scores, weight = rng.normal(size=500), rng.random(500)
    rows = label_rows(np.arange(500) % 3 == 0, weight)
    grid = ScoreGrid.over(scores.min(), scores.max(), 1 / 64)
    masses = weigh(scores, rows, grid)
    assert masses.positives.sum() == pytest.approx(weight[::3].sum())
    mean = masses.negatives @ grid.points / masses.negatives.sum()
    assert mean == pytest.approx(np.average(scores, weights=weight * ~rows.positive))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("n_rows", [10, 1000])
def test_scores_that_are_no_numbers_are_refused(bad, n_rows):
    scores = np.zeros(n_rows)
    scores[3] = bad
    with pytest.raises(ValueError, match="infinite"):
        pairwise_gradients(scores, label_rows(np.arange(n_rows) % 2))


@pytest.mark.parametrize(
    "labels, weight, words",
    [
        ([0, 1, 2], None, r"labels.*0.*1.*-1.*\+1.*\[0.*1.*2\]"),
        ([0, 1, -1], None, "relabel"),
        ([0.0, 1.0, np.nan], None, "relabel"),
        ([[0, 1]], None, "one for each row"),
        ([0, 1], [1.0], "1 weights.*2 rows"),
        ([0, 1], [1.0, -1.0], "infinite.*missing"),
        ([0, 1], [1.0, np.nan], "infinite.*missing"),
    ],
)
def test_rows_that_cannot_be_read_are_refused(labels, weight, words):
    with pytest.raises(ValueError, match=words):
        label_rows(labels, weight)


@pytest.mark.parametrize("n_rows", [4, 1000])
def test_one_class_is_refused(n_rows):
    for labels, weight in ((np.ones(n_rows), None), (np.arange(n_rows) % 2, np.arange(n_rows) % 2)):
        with pytest.raises(ValueError, match="classes"):
            gradients_on_grid(np.zeros(n_rows), label_rows(labels, weight), 0.1, 0.5)
        with pytest.raises(ValueError, match="classes"):
            pairwise_gradients(np.zeros(n_rows), label_rows(labels, weight))


@pytest.mark.parametrize("top", [0, 9, -1, 0.0, 1.5, float("nan")])
def test_a_top_out_of_range_is_refused(top):
    with pytest.raises(ValueError, match=r"count.*1.*5"):
        pairwise_gradients(np.zeros(10), label_rows(np.arange(10) % 2), top=top)


class Threads:
    """Workers that are threads and wait for each other."""

    def __init__(self, size):
        self.size, self._barrier, self._parts = size, Barrier(size), {}

    def _all(self, numbers):
        self._parts[get_ident()] = numbers
        self._barrier.wait()
        found = [self._parts[key] for key in sorted(self._parts)]
        self._barrier.wait()
        return found

    def add(self, numbers):
        return np.sum(self._all(numbers), axis=0)

    def greatest(self, numbers):
        return np.max(self._all(numbers), axis=0)

    def together(self):
        return nullcontext()


@pytest.mark.parametrize("far", [0.0, 1e7])
def test_rows_on_several_workers_have_the_gradients_of_one(rng, far):
    """Also where one worker has no rows, one has one class, and gaps are left out."""
    scores, weight = rng.normal(size=3000), rng.random(3000)
    scores[-700:] -= far
    labels = np.append(np.ones(300), rng.random(2700) < 0.1)
    whole = gradients_on_grid(scores, label_rows(labels, weight), 0.1, 0.5)
    parts, workers = [slice(0, 300), slice(300, 300), slice(300, 3000)], Threads(3)

    def work(part):
        rows = label_rows(labels[part], weight[part])
        return pairwise_gradients(scores[part], rows, workers=workers)

    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(work, parts))
    for vectors, one in zip(zip(*found, strict=True), whole, strict=True):
        assert_allclose(np.concatenate(vectors), one, rtol=1e-5, atol=1e-9)
