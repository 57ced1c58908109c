"""The bounds of Theorem 3: their numbers, their laws, and where the printed proof fails."""

from dataclasses import FrozenInstanceError
from itertools import pairwise, product
from math import e, exp, log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reproduce.theory import halfspace_bound, printed_bound, top_bound
from toppush import metrics

DATA = {"empirical_loss": 0.02, "n_pos": 10_000, "n_neg": 40_000, "n_features": 10}
BOUNDS = {
    "mended": (top_bound, {**DATA, "radius": 2.0}),
    "printed": (printed_bound, {**DATA, "radius": 2.0}),
    "halfspaces": (halfspace_bound, DATA),
}
every_bound = pytest.mark.parametrize("bound, given_", BOUNDS.values(), ids=BOUNDS)
balls = pytest.mark.parametrize("bound", [top_bound, printed_bound])


def test_mended_by_hand():
    # t = log 40, s = 0.01; E = 8 / (0.49 * 200).
    bound = top_bound(**DATA, radius=2.0)
    assert bound.empirical_term == pytest.approx(0.02 / 0.49**2)
    assert bound.deviation_term == pytest.approx(sqrt((log(40) + 10 * log(801)) / 20_000))
    union, mean = log(400_000), 8 / 98
    assert bound.delta == pytest.approx(
        mean + sqrt(2 * union / 40_000 * (0.25 + 2 * mean)) + union / 120_000
    )
    assert bound.probability_bound == pytest.approx(0.14269, abs=1e-5)
    assert bound.delta == pytest.approx(0.09807, abs=1e-5)


def test_printed_by_hand():
    # t = log 40, G = 10; G rho / sqrt(m) = 0.2; 4 G (rho + 1) / sqrt(n) = 0.6.
    bound = printed_bound(**DATA, radius=2.0)
    assert bound.empirical_term == 0.02
    root = sqrt((2 * log(40) + 20 * log(18) + 10 * log(10_000)) / 10_000)
    assert bound.deviation_term == pytest.approx(0.2 + root)
    union = log(400_000)
    assert bound.delta == pytest.approx(0.6 + 10 * union / 120_000 + 40 * sqrt(2 * union / 40_000))


def test_halfspaces_by_hand():
    # v = 11, t = log 40.
    bound = halfspace_bound(**DATA)
    root = sqrt(2 * 11 * log(e * 10_000 / 11) / 10_000)
    assert bound.deviation_term == pytest.approx(root + sqrt(log(40) / 20_000))
    splits = 11 * log(e * 80_000 / 11)
    assert bound.delta == pytest.approx(2 * (splits + log(80)) / (40_000 * log(2)))


@every_bound
@given(data=st.data())
def test_monotone(bound, given_, data):
    name = data.draw(st.sampled_from(sorted(given_)))
    whole = {"n_pos": 12, "n_neg": 1, "n_features": 1}
    # The printed cover loses its meaning for a radius below 1/9.
    values = st.integers(whole[name], 10**7) if name in whole else st.floats(0.12, 100)
    low, high = sorted(data.draw(st.tuples(values, values)))
    before, after = bound(**{**given_, name: low}), bound(**{**given_, name: high})
    if name == "n_pos":
        assert after.probability_bound <= before.probability_bound
    elif name == "n_neg":
        assert after.delta <= before.delta
        assert after.probability_bound == before.probability_bound
    else:
        assert after.probability_bound >= before.probability_bound
        assert after.delta >= before.delta


@every_bound
def test_more_confidence_costs_more(bound, given_):
    rising = [bound(**given_, confidence=c) for c in (0.5, 0.9, 0.99)]
    assert [b.confidence for b in rising] == [0.5, 0.9, 0.99]
    for low, high in pairwise(rising):
        assert low.probability_bound < high.probability_bound
        assert low.delta < high.delta


def test_the_margin_trades_the_loss_against_delta():
    small, large = (top_bound(**DATA, radius=2.0, margin=margin) for margin in (0.2, 0.6))
    assert small.empirical_term < large.empirical_term
    assert small.delta > large.delta
    assert top_bound(**DATA, radius=2.0, margin=0.005).vacuous  # narrower than the net


# ------------------------------------------------------------- vacuous or not


@every_bound
def test_small_data_say_nothing_and_it_is_said(bound, given_):
    small = bound(**{**given_, "n_pos": 20, "n_neg": 50})
    assert small.vacuous
    needed = {"n_pos": small.n_pos_needed, "n_neg": small.n_neg_needed}
    assert f"{needed['n_pos']:,} positives and {needed['n_neg']:,} negatives" in str(small)
    assert str(small).startswith("Vacuous: the bound is ")


@every_bound
def test_the_rows_needed_are_the_fewest(bound, given_):
    small = bound(**{**given_, "n_pos": 20, "n_neg": 50})
    enough = {**given_, "n_pos": small.n_pos_needed, "n_neg": small.n_neg_needed}
    assert not bound(**enough).vacuous
    assert bound(**{**enough, "n_pos": small.n_pos_needed - 1}).probability_bound >= 1
    assert bound(**{**enough, "n_neg": small.n_neg_needed - 1}).delta >= 1


def test_the_theorem_never_asks_for_fewer_than_it_assumes():
    easy = top_bound(empirical_loss=0, n_pos=12, n_neg=10, n_features=1, radius=1.0)
    assert easy.probability_bound < 1 < easy.delta
    assert easy.n_pos_needed == 12


@every_bound
def test_no_rows_mend_a_great_loss(bound, given_):
    hopeless = bound(**{**given_, "empirical_loss": 1.0})
    assert hopeless.vacuous
    assert hopeless.n_pos_needed is None
    assert "no number of rows would help" in str(hopeless)


def test_a_bound_that_speaks():
    bound = top_bound(**DATA, radius=2.0)
    assert not bound.vacuous
    assert str(bound) == (
        "With confidence 0.95, at most 0.143 of new positives have 0.0981 or more of the "
        "negatives at or above them."
    )
    with pytest.raises(FrozenInstanceError):
        bound.delta = 0.0


# -------------------------------------------------- the steps of the argument


def quadratic(margin):
    return np.maximum(1 + margin, 0) ** 2


def test_lemma_1_is_false_as_printed():
    # d = 1, w = rho = 1, every positive at 0.9, every negative at 0: nothing is random.
    loss = quadratic(0.0 - 0.9)
    h_loss = quadratic(0.0 - 0.9)  # the mean over new negatives is the same number
    delta = printed_bound(
        empirical_loss=loss, n_pos=12, n_neg=10**10, n_features=1, radius=1.0
    ).delta
    share_at_delta = float(h_loss >= delta)
    assert share_at_delta == 1.0 > loss == pytest.approx(0.01)


@given(seed=st.integers(0, 2**32 - 1), margin=st.sampled_from([0.4, 0.5, 0.6]))
def test_few_positives_are_within_the_margin_after_a_move_to_the_net(seed, margin):
    """Step 1 of the mended proof: share of rows not clear at w' <= factor times loss at w."""
    rng = np.random.default_rng(seed)
    pos, neg = (in_ball(rng, 144, 3) for _ in range(2))
    weights = 4 * rng.random() * np.array([1.0, 0.0, 0.0])
    pos[:, 0] = np.abs(pos[:, 0])  # so that the loss is often small
    moved = weights + in_ball(rng, 1, 3)[0] / 24
    loss = quadratic(np.max(neg @ weights) - pos @ weights).mean()
    unclear = np.mean(pos @ moved <= np.max(neg @ moved) + margin)
    bound = top_bound(
        empirical_loss=loss, n_pos=144, n_neg=144, n_features=3, radius=5.0, margin=margin
    )
    assert unclear <= bound.empirical_term


def in_ball(rng, n_rows, n_cols):
    rows = rng.normal(size=(n_rows, n_cols))
    lengths = rng.random((n_rows, 1)) ** (1 / n_cols)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True) * lengths


@pytest.mark.parametrize("n_rows", [1, 2, 3, 6, 20])
def test_half_lines_split_no_more_often_than_counted(n_rows):
    """exp(m (deviation - sqrt(t/2m))^2 / 2) is the count of splits in the bound."""
    splits = {
        tuple(sign * (i - cut) > 0 for i in range(n_rows))
        for sign, cut in product([1, -1], np.arange(-0.5, n_rows))
    }
    bound = halfspace_bound(empirical_loss=0, n_pos=n_rows, n_neg=1, n_features=1)
    root = bound.deviation_term - sqrt(log(40) / (2 * n_rows))
    assert len(splits) <= exp(n_rows * root**2 / 2) * (1 + 1e-9)


def test_halfspaces_hold_on_a_known_population():
    """Uniform scores on a line: P_b is exact, the bound non-trivial and above it every time."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        pos, neg = rng.uniform(0.5, 2, size=2_000), rng.random(500)
        y = np.repeat([1, 0], [len(pos), len(neg)])
        loss = metrics.top_loss(y, np.concatenate([pos, neg]))
        bound = halfspace_bound(empirical_loss=loss, n_pos=2_000, n_neg=500, n_features=1)
        # h_b(x) = 1 - x on [0, 1], so h_b >= delta means x <= 1 - delta.
        truth = (1 - bound.delta - 0.5) / 1.5
        assert 0 < truth <= bound.probability_bound < 1
        assert 1 - neg.max() < bound.delta < 1


# --------------------------------------------------------------------- errors


@every_bound
@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"empirical_loss": -0.1}, r"empirical_loss.*0.*finite.*-0\.1"),
        ({"empirical_loss": float("nan")}, "empirical_loss.*0.*finite"),
        ({"n_pos": 0}, "n_pos at least 1"),
        ({"n_neg": 0}, "n_neg.*1.*0"),
        ({"n_features": 0}, "n_features.*1.*0"),
        ({"confidence": 1.0}, r"0.*1.*1\.0"),
        ({"confidence": 0.0}, r"0.*1.*0\.0"),
    ],
)
def test_refuses(bound, given_, wrong, message):
    with pytest.raises(ValueError, match=message):
        bound(**{**given_, **wrong})


@balls
def test_refuses_what_the_theorem_excludes(bound):
    with pytest.raises(ValueError, match=r"n_pos.*12.*11"):
        bound(**{**DATA, "n_pos": 11}, radius=1.0)
    for radius in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(ValueError, match=r"0.*finite"):
            bound(**DATA, radius=radius)


@pytest.mark.parametrize("margin", [0.0, 1.0, -0.5])
def test_refuses_margins(margin):
    with pytest.raises(ValueError, match=r"between.*0.*1"):
        top_bound(**DATA, radius=1.0, margin=margin)
