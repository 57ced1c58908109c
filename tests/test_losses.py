"""Laws of the losses and their conjugates."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import reference
from toppush.problem.losses import LOSSES
from toppush.problem.numerics import TINY

pytestmark = pytest.mark.sampled(2)

EPS = np.finfo(float).eps
every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)

violations = st.floats(-30, 30)
stiffnesses = st.floats(-6, 9).map(lambda power: 10.0**power)
points = st.floats(-3, 3) | st.floats(-1e3, 1e3) | st.sampled_from([0.0, 0.5, 1.0, 1e-9, -1e-9])


def duals(loss):
    """The domain of the conjugate, as far as a violation of 30 reaches."""
    return st.floats(0, min(loss.dual_limit, 1e6))


def at(function, number):
    """A method of a loss at one number."""
    return float(function(np.array([number]))[0])


@every_loss
@given(data=st.data())
def test_value_is_the_formula(loss, data):
    t = data.draw(violations)
    assert at(loss.value, t) == pytest.approx(reference.loss(loss.name, t), rel=1e-13)


@every_loss
@given(data=st.data())
def test_conjugate_is_the_formula(loss, data):
    a = data.draw(duals(loss))
    assert at(loss.conjugate, a) == pytest.approx(reference.conjugate(loss.name, a), rel=1e-13)


@every_loss
@given(data=st.data())
def test_conjugate_is_the_greatest_gap_below_a_line(loss, data):
    a = data.draw(duals(loss))
    found = reference.conjugate_by_search(loss.name, a, high=1e7 if loss.name[0] == "t" else 60.0)
    assert at(loss.conjugate, a) == pytest.approx(found, rel=1e-9, abs=1e-9)


@every_loss
@given(data=st.data())
def test_fenchel_young_inequality(loss, data):
    t, a = data.draw(violations), data.draw(duals(loss))
    value, conjugate = at(loss.value, t), at(loss.conjugate, a)
    assert value + conjugate >= a * t - 8 * EPS * (value + abs(conjugate) + abs(a * t))


@every_loss
@given(data=st.data())
def test_fenchel_young_equality_at_the_slope(loss, data):
    t = data.draw(violations)
    a = at(loss.slope, t)
    value, conjugate = at(loss.value, t), at(loss.conjugate, a)
    size = value + abs(conjugate) + abs(a * t)
    assert value + conjugate == pytest.approx(a * t, rel=0, abs=8 * EPS * (size + 1.0))


@every_loss
@given(data=st.data())
def test_slope_by_differences(loss, data):
    t, h = data.draw(violations), 1e-5
    assume(abs(t + 1.0) > 2 * h)
    difference = (at(loss.value, t + h) - at(loss.value, t - h)) / (2 * h)
    rounding = EPS * at(loss.value, abs(t)) / h if loss.name == "logistic" else 0.0
    assert at(loss.slope, t) == pytest.approx(difference, rel=1e-7, abs=1e-9 + rounding)


@every_loss
@given(data=st.data())
def test_curvature_by_differences(loss, data):
    t, h = data.draw(violations), 1e-5
    assume(abs(t + 1.0) > 2 * h)
    difference = (at(loss.slope, t + h) - at(loss.slope, t - h)) / (2 * h)
    assert at(loss.curvature, t) == pytest.approx(difference, rel=1e-6, abs=1e-9)


def test_curvature_at_the_kink_is_that_of_the_right():
    assert at(LOSSES["truncated_quadratic"].curvature, -1.0) == 2.0


@every_loss
@given(data=st.data())
def test_convex_and_non_decreasing(loss, data):
    low, high = sorted([data.draw(violations), data.draw(violations)])
    share = data.draw(st.floats(0, 1))
    middle = min(max(share * low + (1 - share) * high, low), high)
    ends = at(loss.value, low), at(loss.value, high)
    chord = share * ends[0] + (1 - share) * ends[1]
    assert ends[0] <= ends[1]
    assert at(loss.value, middle) <= chord + 8 * EPS * (1.0 + chord) * (1.0 + abs(middle))
    assert at(loss.slope, low) <= at(loss.slope, high)
    assert at(loss.curvature, low) >= 0.0
    assert at(loss.slope, low) >= 0.0


@every_loss
def test_domain_of_the_conjugate(loss):
    outside = np.array([-5e-324, -1.0, -1e150])
    assert np.all(loss.conjugate(outside) == np.inf)
    assert at(loss.conjugate, 0.0) == 0.0
    assert at(loss.conjugate, -0.0) == 0.0
    if np.isfinite(loss.dual_limit):
        assert np.isfinite(at(loss.conjugate, loss.dual_limit))
        assert at(loss.conjugate, np.nextafter(loss.dual_limit, np.inf)) == np.inf


@every_loss
def test_slope_spans_the_domain_of_the_conjugate(loss):
    assert at(loss.slope, -800.0) == 0.0
    assert at(loss.slope, 800.0) == min(loss.dual_limit, at(loss.slope, 800.0))
    assert at(loss.slope, 1e9) == loss.dual_limit or at(loss.slope, 1e9) > 1e9


def test_conjugate_slope_at_the_ends():
    logistic, exponential = LOSSES["logistic"], LOSSES["exponential"]
    assert at(logistic.conjugate_slope, 0.0) == -np.inf
    assert at(logistic.conjugate_slope, 1.0) == np.inf
    assert at(exponential.conjugate_slope, 0.0) == -np.inf
    assert np.isnan(at(logistic.conjugate_slope, -1.0))
    assert np.isnan(at(logistic.conjugate_slope, 1.5))
    assert np.isnan(at(exponential.conjugate_slope, -1.0))
    # The paper's loss continues in a straight line, for momentum points below 0.
    assert at(LOSSES["truncated_quadratic"].conjugate_slope, -2.0) == -2.0


@every_loss
@given(data=st.data())
def test_conjugate_slope_undoes_slope(loss, data):
    t = data.draw(st.floats(-1, 15) if loss.name == "truncated_quadratic" else st.floats(-30, 15))
    a = at(loss.slope, t)
    # Near a = 1 a violation is known as far as 1 - a is: e^t roundings.
    rounding = 4 * EPS * (2.0 + abs(t) + (np.exp(t) if loss.name == "logistic" else 0.0))
    assert at(loss.conjugate_slope, a) == pytest.approx(t, rel=0, abs=rounding)


@every_loss
@given(data=st.data())
def test_conjugate_curvature_is_stated_where_it_is_one_number(loss, data):
    first, second = data.draw(st.floats(0.01, 0.5)), data.draw(st.floats(0.51, 0.99))
    rises = [
        (at(loss.conjugate_slope, a + 1e-6) - at(loss.conjugate_slope, a - 1e-6)) / 2e-6
        for a in (first, second)
    ]
    if loss.conjugate_curvature is not None:
        assert rises == pytest.approx([loss.conjugate_curvature] * 2, rel=1e-6)
    else:
        assert at(loss.conjugate_slope, 1e-300) < -600.0


def relative_rounding(loss, a, point, stiffness):
    """How far rounding the point moves the minimiser, relative to it."""
    bend = stiffness * at(loss.curvature, stiffness * (point - a))
    return 64 * EPS * (1.0 + bend / (1.0 + bend) * abs(point) / max(a, 1e-300))


@every_loss
@given(data=st.data())
def test_dual_prox_is_the_minimiser(loss, data):
    point, stiffness = data.draw(points), data.draw(stiffnesses)
    found, _ = loss.dual_prox(np.array([point]), stiffness)
    right = float(reference.dual_prox(loss.name, point, stiffness))
    rel = relative_rounding(loss, right, point, stiffness)
    assert found[0] == pytest.approx(right, rel=rel, abs=1e-300)


@every_loss
@settings(max_examples=12)
@given(data=st.data())
def test_dual_prox_derivative_by_differences(loss, data):
    point, stiffness = data.draw(points), data.draw(stiffnesses)
    assume(loss.name != "truncated_quadratic" or abs(1.0 + stiffness * point) > 1e-9)
    difference = float(reference.dual_prox_derivative(loss.name, point, stiffness))
    found, derivative = loss.dual_prox(np.array([point]), stiffness)
    rel = 4 * relative_rounding(loss, float(found[0]), point, stiffness)
    assert derivative[0] == pytest.approx(difference, rel=rel, abs=1e-60)
    assert 0.0 <= derivative[0] <= 1.0


@every_loss
def test_dual_prox_takes_a_stiffness_for_each_entry(loss, rng):
    point, stiffness = rng.normal(size=50), 10.0 ** rng.uniform(-6, 9, size=50)
    together = loss.dual_prox(point, stiffness)
    one_by_one = [loss.dual_prox(point[[i]], stiffness[i]) for i in range(50)]
    np.testing.assert_allclose(together[0], [dual[0] for dual, _ in one_by_one], rtol=1e-13)
    np.testing.assert_allclose(together[1], [fall[0] for _, fall in one_by_one], rtol=1e-13)


@every_loss
@given(data=st.data())
def test_dual_prox_stays_in_the_domain_and_is_monotone(loss, data):
    stiffness = data.draw(stiffnesses)
    point = np.sort(np.array(data.draw(st.lists(points, min_size=2, max_size=8))))
    dual, _ = loss.dual_prox(point, stiffness)
    assert np.all((dual >= 0.0) & (dual <= loss.dual_limit))
    assert np.all(np.diff(dual) >= -8 * EPS * dual[1:] * (1.0 + stiffness * np.abs(point[1:])))


HUGE = np.array([5e-324, 1e-300, 1e-16, 1.0, 36.0, 40.0, 708.0, 710.0, 1e4, 1e16, 1e100, 1e150])


@every_loss
def test_huge_and_tiny_arguments(loss):
    """No warnings (they are errors here), no NaN."""
    both = np.concatenate([-HUGE, [0.0], HUGE])
    for method in (loss.value, loss.slope, loss.curvature):
        assert np.all(method(both) >= 0.0)
    assert not np.any(np.isnan(loss.conjugate(both)))
    inside = HUGE[loss.dual_limit >= HUGE]
    assert not np.any(np.isnan(loss.conjugate_slope(inside)))
    for stiffness in (1e-6, 1.0, 1e9):
        dual, fall = loss.dual_prox(both, stiffness)
        assert np.all((dual >= 0.0) & (dual <= loss.dual_limit))
        assert np.all((fall >= 0.0) & (fall <= 1.0))


@every_loss
def test_infinity_without_a_warning_where_the_value_overflows(loss):
    overflows = loss.name != "logistic"
    assert at(loss.value, 1e300) == (np.inf if overflows else 1e300)
    assert at(loss.value, -1e300) == 0.0
    assert at(loss.conjugate, -1e300) == np.inf


def test_logistic_value_keeps_its_digits():
    logistic = LOSSES["logistic"]
    assert at(logistic.value, -700.0) == pytest.approx(np.exp(-700.0), rel=1e-12)


@every_loss
@pytest.mark.parametrize("shape", [(0,), (3,), (2, 3)])
def test_elementwise(loss, shape, rng):
    t = rng.normal(size=shape)
    a = loss.slope(t)
    for method, argument in (
        (loss.value, t),
        (loss.slope, t),
        (loss.curvature, t),
        (loss.conjugate, a),
        (loss.conjugate_slope, a),
    ):
        alone = [at(method, x) for x in argument.ravel()]
        np.testing.assert_allclose(method(argument), np.reshape(alone, shape), rtol=1e-14)


def test_names():
    assert {name: loss.name for name, loss in LOSSES.items()} == {name: name for name in LOSSES}
    assert all(loss == type(loss)() for loss in LOSSES.values())


@given(
    many=arrays(np.float64, st.integers(1, 20), elements=violations),
    by=st.floats(0.0, 3.0),
    seed=st.integers(0, 99),
)
@every_loss
def test_a_raised_mean_is_above_that_of_raised_violations(loss, many, by, seed):
    """Whatever the rows weigh and whichever of them rise."""
    rng = np.random.default_rng(seed)
    weight = rng.exponential(size=len(many))
    raised = many + by * rng.uniform(-1.0, 1.0, len(many))
    means = [weight @ loss.value(values) / weight.sum() for values in (many, raised)]
    assert means[1] <= loss.raised(means[0], by) * (1.0 + 1e-12)


@every_loss
@given(mean=st.floats(0.0, np.inf), by=st.floats(0.0, np.inf))
def test_a_raised_mean_of_any_size_is_a_bound(loss, mean, by):
    """An OverflowError where a square overflowed, and NaN for a mean of 0."""
    assert loss.raised(mean, by) * (1.0 + 4.0 * EPS) + TINY >= mean
