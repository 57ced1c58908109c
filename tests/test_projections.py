"""Projection onto the dual's domain: the nearest point, by several proofs."""

from functools import partial

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import reference
from toppush.problem.numerics import (
    ArraySums,
    clipped_mass,
    mass_above,
    project,
    projection_multipliers,
)

pytestmark = pytest.mark.sampled(2)

EPS = np.finfo(float).eps
TINIEST = 5e-324

grid = st.integers(-3, 3).map(float)
ordinary = st.floats(-100, 100) | grid
sides = st.lists(ordinary, min_size=1, max_size=12).map(np.array)


@st.composite
def points(draw, entries=sides):
    """Two sides and a k that fits."""
    positives, negatives = draw(entries), draw(entries)
    return positives, negatives, draw(st.integers(1, len(negatives)))


def size_of(*vectors):
    return max(float(np.abs(vector).max()) for vector in vectors)


def check_nearest(positives, negatives, k, rounding=64 * EPS):
    a, b = project(positives, negatives, k)
    assert a.shape == positives.shape
    assert b.shape == negatives.shape
    failures = reference.failures_to_be_nearest(positives, negatives, a, b, k)
    assert max(failures) <= rounding * (len(a) + len(b))
    return a, b


@given(points())
def test_nearest_by_exact_arithmetic(point):
    check_nearest(*point)


@given(sides, sides)
def test_equals_sorting(positives, negatives):
    a, b = project(positives, negatives)
    exact_a, exact_b = reference.project_by_sorting(positives, negatives)
    rounding = 16 * EPS * size_of(positives, negatives) + TINIEST
    assert_allclose(a, np.array(exact_a, float), rtol=0, atol=rounding)
    assert_allclose(b, np.array(exact_b, float), rtol=0, atol=rounding)


@pytest.mark.parametrize("seed", range(36))
def test_equals_a_generic_solver(seed):
    rng = np.random.default_rng(seed)
    positives = rng.normal(size=rng.integers(1, 9)) * 2.0
    negatives = rng.normal(size=rng.integers(2, 15)) * 2.0 + rng.choice([-2.0, 0.0, 2.0])
    if seed % 3 == 0:
        positives, negatives = positives.round(), negatives.round()
    k = int(rng.integers(1, len(negatives) + 1))
    a, b = cp.Variable(len(positives), nonneg=True), cp.Variable(len(negatives), nonneg=True)
    distance = cp.sum_squares(a - positives) + cp.sum_squares(b - negatives)
    domain = [cp.sum(a) == cp.sum(b), b <= cp.sum(a) / k]
    cp.Problem(cp.Minimize(distance), domain).solve(solver=cp.CLARABEL)
    found = project(positives, negatives, k)
    # Clarabel's default tolerance is 1e-8 of a squared distance up to 100: 1e-3 in the point.
    assert_allclose(found[0], a.value, rtol=0, atol=1e-3)
    assert_allclose(found[1], b.value, rtol=0, atol=1e-3)
    ours = np.sum((found[0] - positives) ** 2) + np.sum((found[1] - negatives) ** 2)
    assert ours <= distance.value + 1e-7 * (1.0 + ours)


def random_feasible(rng, n_pos, n_neg, k):
    """A point of the domain: mass to any positives, spread over k or more negatives."""
    a = rng.exponential(size=n_pos) * (rng.random(n_pos) < 0.5)
    b = np.zeros(n_neg)
    for _ in range(5):
        b[rng.permutation(n_neg)[:k]] += a.sum() / (5 * k)
    return a, b


@pytest.mark.parametrize("k", [1, 2, 5, 30])
def test_no_feasible_point_is_nearer(k, rng):
    for _ in range(20):
        positives, negatives = rng.normal(size=20), rng.normal(size=30)
        a, b = project(positives, negatives, k)
        for _ in range(20):
            other_a, other_b = random_feasible(rng, 20, 30, k)
            toward = (positives - a) @ (other_a - a) + (negatives - b) @ (other_b - b)
            assert toward <= 1e-12 * (1.0 + np.linalg.norm(other_a) + np.linalg.norm(other_b))


@given(points())
def test_feasible_and_idempotent(point):
    positives, negatives, k = point
    a, b = project(positives, negatives, k)
    rounding = 16 * EPS * (len(a) + len(b)) * size_of(positives, negatives)
    assert np.all(a >= 0.0)
    assert np.all(b >= 0.0)
    assert abs(a.sum() - b.sum()) <= rounding
    assert b.max() <= a.sum() / k + rounding
    again_a, again_b = project(a, b, k)
    assert_allclose(again_a, a, rtol=0, atol=rounding)
    assert_allclose(again_b, b, rtol=0, atol=rounding)


@given(points(), st.randoms(use_true_random=False))
def test_permutation_equivariant(point, random):
    positives, negatives, k = point
    order, other = list(range(len(positives))), list(range(len(negatives)))
    random.shuffle(order)
    random.shuffle(other)
    a, b = project(positives, negatives, k)
    moved_a, moved_b = project(positives[order], negatives[other], k)
    rounding = 16 * EPS * (len(a) + len(b)) * size_of(positives, negatives)
    assert_allclose(moved_a, a[order], rtol=0, atol=rounding)
    assert_allclose(moved_b, b[other], rtol=0, atol=rounding)


@pytest.mark.parametrize("power", [-200, -30, -1, 1, 7, 300])
@pytest.mark.parametrize("decimals", [0, 1, 15])
def test_powers_of_two_scale_exactly(power, decimals, rng):
    for n_pos, n_neg in ((1, 1), (3, 50), (200, 30)):
        positives = rng.normal(size=n_pos).round(decimals)
        negatives = rng.normal(size=n_neg).round(decimals)
        a, b = project(positives, negatives)
        scaled_a, scaled_b = project(np.ldexp(positives, power), np.ldexp(negatives, power))
        assert_array_equal(scaled_a, np.ldexp(a, power))
        assert_array_equal(scaled_b, np.ldexp(b, power))


@given(points(), st.floats(-250, 250))
def test_positively_homogeneous(point, power):
    positives, negatives, k = point
    factor = 10.0**power
    a, b = project(positives, negatives, k)
    scaled_a, scaled_b = project(factor * positives, factor * negatives, k)
    rounding = 32 * EPS * (len(a) + len(b)) * size_of(positives, negatives) * factor + TINIEST
    assert_allclose(scaled_a, factor * a, rtol=0, atol=rounding)
    assert_allclose(scaled_b, factor * b, rtol=0, atol=rounding)


@given(points(), st.data())
def test_nonexpansive(point, data):
    positives, negatives, k = point
    draw_other = partial(st.lists, ordinary)
    other_positives = np.array(data.draw(draw_other(min_size=(n := len(positives)), max_size=n)))
    other_negatives = np.array(data.draw(draw_other(min_size=(n := len(negatives)), max_size=n)))
    here, there = project(positives, negatives, k), project(other_positives, other_negatives, k)
    apart = np.hypot(*(np.linalg.norm(x - y) for x, y in zip(here, there, strict=True)))
    before = np.hypot(
        np.linalg.norm(positives - other_positives), np.linalg.norm(negatives - other_negatives)
    )
    size = size_of(positives, negatives, other_positives, other_negatives)
    assert apart <= before + 64 * EPS * size * (len(positives) + len(negatives))


@given(points())
def test_points_of_the_polar_cone_go_to_zero(point):
    """Where no positive and k negatives together lean into the domain, 0 is nearest."""
    positives, negatives, k = point
    positives = positives - positives.max() - reference.top_mean(negatives, k) - 1.0
    a, b = project(positives, negatives, k)
    assert_array_equal(a, np.zeros(len(a)))
    assert_array_equal(b, np.zeros(len(b)))


@pytest.mark.parametrize("k", [1, 2, 4])
@pytest.mark.parametrize(
    "positives, negatives",
    [
        ([0.0], [0.0] * 4),
        ([1.0] * 5, [1.0] * 4),
        ([0.1] * 7, [-0.1] * 9),
        ([0.3, 0.3, 0.1], [0.1, 0.1, 0.1, 0.3, 0.3]),
        ([-1.0], [5.0, 5.0, 5.0, 5.0, -5.0]),
        ([7.0], [-1.0, -1.0, -2.0, -2.0]),
    ],
)
def test_ties(positives, negatives, k):
    a, b = check_nearest(np.array(positives), np.array(negatives), k)
    for entries, landed in ((positives, a), (negatives, b)):
        for entry in set(entries):
            assert np.ptp(landed[np.array(entries) == entry]) == 0.0


@pytest.mark.parametrize("k", [1, 3, 40])
@pytest.mark.parametrize("decimals", [0, 1, 2])
def test_rounded_entries(k, decimals, rng):
    for _ in range(20):
        check_nearest(rng.normal(size=25).round(decimals), rng.normal(size=40).round(decimals), k)


EXTREMES = {
    "subnormal": lambda x: np.ldexp(np.rint(x * 2**20), -1074),
    "1e-300": lambda x: x * 1e-300,
    "1e300": lambda x: x * 1e300,
    "a quarter of the largest": lambda x: np.sign(x) * np.finfo(float).max / 4,
    "one giant": lambda x: np.where(np.arange(len(x)) == len(x) // 2, 1e300, x),
    "one giant below zero": lambda x: np.where(np.arange(len(x)) == len(x) // 2, -1e300, x),
    "all sizes": lambda x: x * 10.0 ** np.linspace(-300, 300, len(x)),
    "nearly equal": lambda x: 1.0 + EPS * np.rint(x),
    "ordinary": lambda x: x,
}


@pytest.mark.parametrize("k", [1, 2, 17])
@pytest.mark.parametrize("left", EXTREMES)
@pytest.mark.parametrize("right", EXTREMES)
def test_extremes(left, right, k, rng):
    positives, negatives = EXTREMES[left](rng.normal(size=11)), EXTREMES[right](rng.normal(size=17))
    # Subnormal numbers have fewer digits: 21 bits here.
    rounding = 2.0**-16 if left == right == "subnormal" else 64 * EPS
    check_nearest(positives, negatives, k, rounding)


def test_smallest_numbers_of_all():
    """On a grid of four numbers each entry is right to one of them."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        positives, negatives = rng.integers(-4, 5, size=(2, 6)) * TINIEST
        exact = reference.project_by_sorting(positives, negatives)
        for found, right in zip(project(positives, negatives), exact, strict=True):
            assert_allclose(found / TINIEST, np.array([x / TINIEST for x in right]), atol=1.0)


@given(points())
def test_for_one_negative_the_cap_never_binds(point):
    positives, negatives, _ = point
    a, b = project(positives, negatives, 1)
    rounding = 16 * EPS * (len(a) + len(b)) * size_of(positives, negatives)
    assert b.max() <= a.sum() + rounding


def test_a_cap_that_does_not_bind_changes_nothing(rng):
    n_checked = 0
    for _ in range(40):
        positives, negatives = rng.normal(size=9) + 1.0, rng.normal(size=14)
        a, b = project(positives, negatives, 1)
        for k in range(2, int(a.sum() / b.max()) + 1):
            capped_a, capped_b = project(positives, negatives, k)
            assert_allclose(capped_a, a, rtol=0, atol=1e-13)
            assert_allclose(capped_b, b, rtol=0, atol=1e-13)
            n_checked += 1
    assert n_checked > 40


def test_cap_of_all_spreads_evenly(rng):
    """b_j <= (sum a)/n and sum b = sum a leave one b: all equal."""
    positives, negatives = rng.normal(size=9) + 1.0, rng.normal(size=14) + 1.0
    a, b = project(positives, negatives, 14)
    assert_allclose(b, np.full(14, a.sum() / 14), rtol=1e-13)


def test_more_negatives_in_the_top_leave_a_smaller_domain(rng):
    for _ in range(10):
        positives, negatives = rng.normal(size=9), rng.normal(size=14)
        distances = []
        for k in range(1, 15):
            a, b = project(positives, negatives, k)
            distances.append(np.sum((a - positives) ** 2) + np.sum((b - negatives) ** 2))
        assert np.all(np.diff(distances) >= -1e-12)


def test_inputs_are_left_alone_and_may_be_integers():
    positives, negatives = np.array([3, 1]), np.array([2, -1, 0])
    kept = positives.copy(), negatives.copy()
    a, b = project(positives, negatives, 2)
    assert a.dtype == b.dtype == np.float64
    assert_array_equal(positives, kept[0])
    assert_array_equal(negatives, kept[1])
    check_nearest(positives.astype(float), negatives.astype(float), 2)


@pytest.mark.parametrize(
    "positives, negatives, k, sentence",
    [
        ([], [1.0], 1, "entries.*0.*1"),
        ([1.0, 2.0], [], 1, "entries.*2.*0"),
        ([1.0], [1.0, 2.0], 0, "1.*2.*0"),
        ([1.0], [1.0, 2.0], 3, "1.*2.*3"),
        ([np.nan], [1.0], 1, "NaN.*infinite"),
        ([1.0], [1.0, np.nan], 2, "NaN.*infinite"),
        ([np.inf], [1.0], 1, "NaN.*infinite"),
        ([1.0], [-np.inf], 1, "NaN.*infinite"),
    ],
)
def test_bad_input(positives, negatives, k, sentence):
    with pytest.raises(ValueError, match=sentence):
        project(np.array(positives), np.array(negatives), k)


class CountingSums(ArraySums):
    """Sides that count how often the positives are asked."""

    def __init__(self, positives, negatives):
        super().__init__(positives, negatives)
        object.__setattr__(self, "asked", [])

    def positives(self, alpha):
        self.asked.append(alpha)
        return super().positives(alpha)


@pytest.mark.parametrize("k, at_most", [(1, 8), (2, 40), (50, 40)])
def test_rounds_do_not_grow_with_size(k, at_most, rng):
    for size in (100, 10_000, 1_000_000):
        counting = CountingSums(rng.normal(size=size), rng.normal(size=size))
        projection_multipliers(counting, k)
        assert len(counting.asked) <= at_most


@pytest.mark.parametrize("kind", ["one giant", "one giant below zero", "all sizes", "nearly equal"])
def test_rounds_are_few_for_any_spread(kind, rng):
    make = EXTREMES[kind]
    for _ in range(20):
        counting = CountingSums(make(rng.normal(size=50)), make(rng.normal(size=50)))
        projection_multipliers(counting)
        assert len(counting.asked) <= 24


def test_rounds_are_few_when_a_side_is_constant(rng):
    """As at the first step of a solve, where every positive has the same target."""
    for _ in range(200):
        n_pos, n_neg = rng.integers(1, 12, size=2)
        counting = CountingSums(np.full(n_pos, rng.normal()), rng.normal(size=n_neg))
        projection_multipliers(counting)
        assert len(counting.asked) <= 24


def test_a_good_guess_saves_rounds(rng):
    positives, negatives = rng.normal(size=10_000), rng.normal(size=10_000)
    multipliers = projection_multipliers(ArraySums(positives, negatives))
    counting = CountingSums(positives, negatives)
    again = projection_multipliers(counting, guess=multipliers.alpha)
    assert again.alpha == pytest.approx(multipliers.alpha, rel=1e-12)
    assert len(counting.asked) <= 2


@pytest.mark.parametrize("guess", [-1e300, -1.0, 0.0, 1e-300, 1e300])
@pytest.mark.parametrize("k", [1, 3])
def test_a_bad_guess_does_no_harm(guess, k, rng):
    positives, negatives = rng.normal(size=30), rng.normal(size=30)
    right = projection_multipliers(ArraySums(positives, negatives), k)
    found = projection_multipliers(ArraySums(positives, negatives), k, guess=guess)
    assert found == pytest.approx(right, rel=1e-12)


@given(points(), st.sampled_from(["top", "bottom", "zero", "far", "near zero"]), grid)
def test_any_guess_does(point, kind, far):
    """Also one at which neither side has mass, or only one of them."""
    positives, negatives, k = point
    guess = {
        "top": positives.max(),
        "bottom": -negatives.max(),
        "zero": 0.0,
        "far": far * 1e300,
        "near zero": far * 1e-300,
    }[kind]
    multipliers = projection_multipliers(ArraySums(positives, negatives), k, guess=guess)
    a = np.maximum(positives - multipliers.alpha, 0.0)
    b = np.clip(negatives + multipliers.beta, 0.0, multipliers.cap)
    failures = reference.failures_to_be_nearest(positives, negatives, a, b, k)
    assert max(failures) <= 64 * EPS * (len(a) + len(b))


@given(sides, ordinary, st.floats(0, 50) | st.just(np.inf))
def test_sums_are_those_of_loops(entries, beta, cap):
    mass, count = mass_above(entries, -beta)
    assert mass == pytest.approx(sum(max(x + beta, 0.0) for x in entries), rel=1e-13)
    assert count == sum(x + beta > 0.0 for x in entries)
    clipped = clipped_mass(entries, beta, cap)
    inside = [x for x in entries if x > -beta and not x > cap - beta]
    above = [x for x in entries if x > -beta and x > cap - beta]
    size = EPS * 64 * (np.abs(entries).sum() + len(entries) * (abs(beta) + min(cap, 100.0)))
    clip = sum(min(max(x + beta, 0.0), cap) for x in entries)
    assert clipped.mass == pytest.approx(clip, rel=0, abs=size)
    assert clipped.n_free == len(inside)
    assert clipped.n_capped == len(above)
    cut = sum(x + beta - cap for x in above)
    assert clipped.excess == pytest.approx(cut, rel=0, abs=size)


def test_sums_over_many_chunks(rng):
    entries = rng.normal(size=100_003)
    mass, count = mass_above(entries, 0.5)
    assert mass == pytest.approx(np.maximum(entries - 0.5, 0.0).sum(), rel=1e-12)
    assert count == np.count_nonzero(entries > 0.5)
