"""Searches for one number: right answers, in few rounds."""

from fractions import Fraction
from math import exp, inf, isfinite, nextafter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from toppush.problem.numerics import MAX_ROUNDS, halfway, root, top_mean

EPS = np.finfo(float).eps


class Counted:
    """A function that remembers where it was asked."""

    def __init__(self, function):
        self.function, self.asked = function, []

    def __call__(self, level):
        self.asked.append(level)
        return self.function(level)


def surplus(entries, mass):
    """sum (entry - level)_+ less a mass: non-increasing, piecewise linear."""

    def ask(level):
        above = np.maximum(entries - level, 0.0)
        return above.sum() - mass, -float(np.count_nonzero(above)), above.sum() + mass

    return Counted(ask)


def exact_level(entries, mass):
    """The level that leaves this mass above it: try every number of entries, by fractions."""
    entries, mass = sorted((Fraction(x) for x in entries), reverse=True), Fraction(mass)
    for count in range(1, len(entries) + 1):
        level = (sum(entries[:count]) - mass) / count
        if count == len(entries) or level >= entries[count]:
            return level
    raise AssertionError("the last count always ends the loop")


ordinary = st.floats(-100, 100, allow_subnormal=False).map(lambda x: round(x, 6))
magnitudes = st.floats(-280, 280).map(lambda power: 10.0**power)
wild = st.builds(lambda size, sign: sign * size, magnitudes, st.sampled_from([-1.0, 1.0]))


@given(st.lists(ordinary, min_size=1, max_size=30), st.floats(0.01, 1000), ordinary)
def test_root_of_a_piecewise_linear_function(entries, mass, guess):
    entries = np.array(entries)
    ask = surplus(entries, mass)
    level = root(ask, -inf, entries.max(), guess)
    size = np.abs(entries).max() + mass
    assert level == pytest.approx(float(exact_level(entries, mass)), rel=0, abs=16 * EPS * size)
    assert len(ask.asked) <= 24


@given(st.lists(wild, min_size=1, max_size=30), magnitudes, wild)
def test_root_at_any_scale(entries, mass, guess):
    entries = np.array(entries)
    ask = surplus(entries, mass)
    level = root(ask, -inf, entries.max(), guess)
    right = exact_level(entries, mass)
    # What rounding can resolve: the entries that stand above the level, and the mass.
    above = [abs(x) for x in entries if x > level]
    size = max([mass, abs(float(right)), *above])
    assert level == pytest.approx(float(right), rel=0, abs=64 * EPS * size)
    assert len(ask.asked) <= MAX_ROUNDS


def test_few_rounds_on_ordinary_numbers(rng):
    counts = []
    for n in (10, 1000, 100_000):
        for _ in range(10):
            entries = rng.normal(size=n)
            ask = surplus(entries, 0.1 * n)
            root(ask, -inf, entries.max(), 0.0)
            counts.append(len(ask.asked))
    assert max(counts) <= 8


SMOOTH = {
    # Value, slope and size of what cancels in the value; the root.
    "exponential": (lambda x: (exp(-x) - 1e-3, -exp(-x), exp(-x) + 1e-3), 6.907755278982137),
    "cubic": (lambda x: (27.0 - x**3, -3.0 * x * x, 27.0 + abs(x) ** 3), 3.0),
    "steep": (lambda x: (-np.tanh(1e8 * (x - 1.0)), -1e8 / np.cosh(1e8 * (x - 1)) ** 2, 1.0), 1.0),
    "flat": (lambda x: (-((x - 1.0) ** 3), -3.0 * (x - 1.0) ** 2, 0.0), 1.0),
    "inverse": (lambda x: (1e-200 / x - 1e-100, -1e-200 / x / x, 1e-100), 1e-100),
}


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("guess", [0.5, 2.0, 700.0])
@np.errstate(over="ignore")  # cosh of a far guess
def test_root_of_a_smooth_function(name, guess):
    function, right = SMOOTH[name]
    ask = Counted(function)
    level = root(ask, 1e-300, 1e3, guess)
    assert level == pytest.approx(right, rel=1e-5 if name == "flat" else 1e-12)
    assert len(ask.asked) <= MAX_ROUNDS


def test_root_where_the_slope_is_lost():
    """A step has no slope to follow; the halvings alone end within 66 rounds."""
    ask = Counted(lambda x: (1.0 if x < 3e-200 else -1.0, 0.0, 1.0))
    level = root(ask, -inf, inf, 1.0)
    assert level == pytest.approx(3e-200, rel=4 * EPS)
    assert len(ask.asked) <= 66


def test_root_stays_between_the_ends():
    for low, high in ((1.0, 2.0), (-2.0, -1.0)):
        at_high = root(lambda x: (1.0, -1.0, 1.0), low, high, 0.0)
        at_low = root(lambda x: (-1.0, -1.0, 1.0), low, high, 0.0)
        assert low <= at_low == pytest.approx(low, rel=2 * EPS)
        assert high >= at_high == pytest.approx(high, rel=2 * EPS)


def test_root_ends_once_a_step_is_smaller_than_rounding():
    """Newton lands on the root; the value there is rounding, though not below its estimate."""
    on_positives = np.full(11, 0.5146358339391987)
    on_negatives = np.array([-0.64913009, -0.34961627082358204])

    def imbalance(shift):
        left, right = np.maximum(on_positives - shift, 0), np.maximum(on_negatives + shift, 0)
        slope = -np.count_nonzero(left) - np.count_nonzero(right)
        return left.sum() - right.sum(), float(slope), left.sum() + right.sum()

    ask = Counted(imbalance)
    level = root(ask, -on_negatives[1], on_positives[0], 0.0)
    assert level == pytest.approx((11 * on_positives[0] - on_negatives[1]) / 12, rel=1e-12)
    assert len(ask.asked) <= 10


floats = st.floats(allow_nan=False)


@given(floats, floats)
def test_halfway_lies_between(one, other):
    low, high = sorted([one, other])
    middle = halfway(low, high)
    assert low <= middle <= high
    if nextafter(low, inf) < high:
        assert low < middle < high


@given(floats, floats, floats, floats)
def test_halfway_is_monotone(a, b, c, d):
    (low, lower), (high, higher) = sorted([a, b], reverse=True), sorted([c, d])
    assert halfway(lower, high) <= halfway(low, high) <= halfway(low, higher)


def test_halfway_of_everything_is_zero():
    assert halfway(-inf, inf) == 0.0
    assert halfway(-1e300, 1e300) == 0.0
    assert halfway(1.0, 4.0) == 2.0


@given(floats, floats, floats)
def test_halvings_end(one, other, goal):
    low, high = sorted([one, other])
    n_halvings = 0
    while nextafter(low, inf) < high:
        middle = halfway(low, high)
        low, high = (middle, high) if middle < goal else (low, middle)
        n_halvings += 1
    assert n_halvings <= 65


def excess(numbers):
    def ask(level):
        above = np.maximum(numbers - level, 0.0)
        return float(above.sum()), float(np.count_nonzero(above))

    return Counted(ask)


tied = st.integers(-3, 3).map(float)


@given(st.lists(tied | ordinary, min_size=1, max_size=30), st.data())
def test_top_mean_is_that_of_sorting(numbers, data):
    k = data.draw(st.integers(1, len(numbers)))
    numbers = np.array(numbers)
    ask = excess(numbers)
    mean, level = top_mean(ask, k, numbers.min(), numbers.max())
    size = np.abs(numbers).max()
    assert mean == pytest.approx(reference.top_mean(numbers, k), rel=0, abs=64 * EPS * size)
    # The level attains it, and lies between the k-th and the next number.
    attained = level + np.maximum(numbers - level, 0.0).sum() / k
    assert attained == pytest.approx(mean, rel=0, abs=8 * EPS * len(numbers) * size)
    assert len(ask.asked) <= 60


@pytest.mark.parametrize("n", [1, 2, 7])
def test_top_mean_of_equal_numbers(n):
    for k in range(1, n + 1):
        ask = excess(np.full(n, 0.1))
        assert top_mean(ask, k, 0.1, 0.1) == (0.1, 0.1)
        assert len(ask.asked) == 1


@given(st.lists(wild, min_size=1, max_size=20), st.data())
def test_top_mean_at_any_scale(numbers, data):
    k = data.draw(st.integers(1, len(numbers)))
    numbers = np.array(numbers)
    ask = excess(numbers)
    mean, level = top_mean(ask, k, numbers.min(), numbers.max())
    exact = reference.top_mean([Fraction(x) for x in numbers], k)
    assert isfinite(level)
    size = max(abs(Fraction(x)) for x in numbers)
    assert abs(Fraction(mean) - exact) <= Fraction(64 * EPS) * size
    assert len(ask.asked) <= MAX_ROUNDS + 1


def test_top_mean_in_few_rounds(rng):
    for n in (100, 10_000, 1_000_000):
        numbers = rng.normal(size=n)
        for k in (1, 2, n // 100, n // 2, n):
            ask = excess(numbers)
            mean, _ = top_mean(ask, k, numbers.min(), numbers.max())
            assert mean == pytest.approx(np.sort(numbers)[n - k :].mean(), rel=1e-12, abs=1e-12)
            assert len(ask.asked) <= 40
