"""What moved: statistics against slow or independent code, and alarms as often as is said."""

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from toppush.metrics.quantile_sketch import QuantileSketch, even_levels, masses, top_levels
from toppush.monitor.drift import (
    Change,
    Limits,
    beyond_range,
    chi_square,
    fewer_than_before,
    grouped,
    holm,
    judged,
    kolmogorov_smirnov,
    more_than_before,
    stability_index,
    unlike_before,
)
from toppush.monitor.profile import LEVELS, CategoryProfile, NumberProfile, ScoreCounts
from toppush.monitor.verdict import ColumnNow, headline, sentences, verdict
from toppush.thresholds.calibration import ScoreScale

few = st.lists(st.integers(-4, 4).map(float), min_size=1, max_size=40)


@given(few, few)
def test_distance_is_that_of_kolmogorov_and_smirnov(before, now):
    sketch = QuantileSketch.of(np.array(before), levels=LEVELS)
    expected = max(
        abs(np.mean(np.array(before) <= one) - np.mean(np.array(now) <= one))
        for one in before + now
    )
    assert sketch.distance(sketch.count(np.array(now))) == pytest.approx(expected)


def test_distance_at_knots_is_a_little_below_that_of_all_values():
    rng = np.random.default_rng(0)
    before, now = rng.normal(size=20_000), 0.1 + rng.normal(size=5_000)
    sketch = QuantileSketch.of(before, levels=LEVELS)
    exact = stats.ks_2samp(before, now).statistic
    assert exact - 0.02 <= sketch.distance(sketch.count(now)) <= exact + 1e-9


@pytest.mark.parametrize("before, now, distance", [(500, 300, 0.08), (5_000, 90, 0.2)])
def test_probability_of_a_distance(before, now, distance):
    expected = stats.kstwo.sf(distance, round(before * now / (before + now)))
    assert kolmogorov_smirnov(distance, before, now) == pytest.approx(expected, rel=0.1)


@given(few, few)
def test_counts_of_parts_add_up_to_those_of_the_whole(one, other):
    sketch = QuantileSketch.of(np.array(one), levels=even_levels(4))
    parts = sketch.count(np.array(one)) + sketch.count(np.array(other))
    np.testing.assert_array_equal(sketch.count(np.array(one + other)), parts)
    shares = sketch.count(np.array(one)) / len(one)
    np.testing.assert_allclose(shares, sketch.fractions(), atol=1e-12)


@given(few, st.sampled_from([0.5, 3.0]))
def test_masses_of_equal_weights_are_those_of_any(values, weight):
    rows, even = np.array(values), np.full(len(values), weight)
    odd = np.append(even, 7.0)
    found, mass = masses(rows, even)
    places, expected = masses(np.append(rows, 99.0), odd)  # the last row has another weight
    np.testing.assert_array_equal(found, places[:-1])
    np.testing.assert_allclose(mass, expected[:-1])


@given(few)
def test_cells_are_all_places_in_order(values):
    sketch = QuantileSketch.of(np.array(values), levels=LEVELS)
    groups = grouped(sketch.fractions())
    assert groups[0].start == 0
    assert groups[-1].stop == len(sketch.fractions())
    assert all(one.stop == other.start for one, other in pairwise(groups))
    heavy = [share for share in sketch.fractions() if share >= 0.1]
    assert len(groups) >= min(len(heavy), 2)


def test_index_by_its_formula():
    before, now = np.array([0.5, 0.3, 0.2]), np.array([300.0, 300.0, 400.0])
    here = now / 1000
    expected = sum((here - before) * np.log(here / before))
    assert stability_index(before, now, 1e9) == pytest.approx(expected, rel=0.01)
    assert stability_index(before, 1000 * before, 1e9) == pytest.approx(0.0, abs=1e-4)


def test_chi_square_is_that_of_a_table_of_counts():
    before, now = np.array([500.0, 300.0, 200.0]), np.array([40.0, 50.0, 30.0])
    expected = stats.chi2_contingency(np.stack([before, now]), correction=False).pvalue
    assert chi_square(before, now) == pytest.approx(expected)
    rare = np.append(before, [1.0, 1.0]), np.append(now, [1.0, 0.0])
    joined = np.append(before, 2.0), np.append(now, 1.0)
    assert chi_square(*rare) == pytest.approx(chi_square(*joined))
    assert chi_square(np.array([10.0]), np.array([5.0])) == 1.0


@given(*[st.integers(1, 60)] * 2, st.data())
def test_shares_are_compared_by_fishers_test(before, now, data):
    hits_before, hits = data.draw(st.integers(0, before)), data.draw(st.integers(0, now))
    table = [[hits, now - hits], [hits_before, before - hits_before]]
    greater, less = (stats.fisher_exact(table, one).pvalue for one in ("greater", "less"))
    given = hits_before, before, hits, now
    assert more_than_before(*given) == pytest.approx(greater, abs=1e-9)
    assert fewer_than_before(*given) == pytest.approx(less, abs=1e-9)
    assert unlike_before(*given) == pytest.approx(min(1, 2 * min(greater, less)), abs=1e-9)


def test_values_beyond_the_range_are_as_rare_as_is_said():
    rng = np.random.default_rng(0)
    counts = []
    for _ in range(4_000):
        before, now = rng.random(50), rng.random(30)
        counts.append(np.sum((now < before.min()) | (now > before.max())))
    for beyond in (1, 3, 5):
        share = np.mean(np.array(counts) >= beyond)
        assert share == pytest.approx(beyond_range(beyond, 50, 30), abs=0.025)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_against_its_definition(p):
    found = holm(p)
    ranked = sorted(range(len(p)), key=lambda at: p[at])
    least = 0.0
    for place, at in enumerate(ranked):
        least = max(least, min(1.0, p[at] * (len(p) - place)))
        assert found[at] == pytest.approx(least)


def test_a_change_counts_if_it_is_large_and_no_luck():
    given = [
        Change("values", 0.3, 0.1, 1e-6),
        Change("values", 0.3, 0.1, 0.02),
        Change("values", 0.01, 0.1, 1e-300),
    ]
    assert [one.drifted for one in judged(given, 0.01)] == [True, False, False]


# ---- columns


def column(rng, n_rows, kind):
    """Values of a kind, as floats or as places of texts."""
    if kind == "normal":
        return rng.normal(size=n_rows)
    if kind == "rounded":
        return rng.lognormal(3, 1, n_rows).round()
    if kind == "flag":
        return (rng.random(n_rows) < 0.03).astype(float)
    return np.minimum(rng.zipf(1.5, n_rows) - 1, 400)


KINDS = ("normal", "rounded", "flag", "categories")


def before_of(values, kind, gaps=0.0):
    if kind == "categories":
        mass = np.bincount(values, minlength=401).astype(float)
        texts = [f"t{place}" for place in range(401)]
        return CategoryProfile.of(
            [texts[at] for at in np.flatnonzero(mass)], mass[mass > 0], gaps, len(values)
        )
    return NumberProfile(QuantileSketch.of(values, levels=LEVELS), gaps)


def counts_of(before, values):
    if isinstance(before, NumberProfile):
        return before.sketch.count(values)
    return counted_texts(before, values, known=None)


def counted_texts(before, values, known):
    """Counts of texts by loops."""
    counts = before.nothing()
    for value in values:
        name = f"t{value}"
        if name in before.categories:
            counts[before.categories.index(name)] += 1
        elif known is not None and name not in known:
            counts[-1] += 1
        else:
            counts[-2] += 1
    return counts


def alarms(changes, limits=None):
    return [one.what for one in judged(changes, (limits or Limits()).alpha) if one.drifted]


@pytest.mark.parametrize("kind", KINDS)
def test_what_moves_is_found_and_what_does_not_is_not(kind):
    rng = np.random.default_rng(0)
    before = before_of(column(rng, 5_000, kind), kind, gaps=0.05)
    fresh, limits = column(rng, 3_000, kind), Limits()
    gaps = 0.05 * 3_000 / 0.95
    assert alarms(before.changes(counts_of(before, fresh), gaps, limits)) == []
    assert "missing" in alarms(before.changes(counts_of(before, fresh), 600.0, limits))
    assert "missing" in alarms(before.changes(counts_of(before, fresh), 0.0, limits))
    if kind == "categories":
        moved = np.where(rng.random(3_000) < 0.3, 7, fresh)
    else:
        moved = 1 - fresh if kind == "flag" else 2 * fresh + fresh.std()
    assert "values" in alarms(before.changes(counts_of(before, moved), gaps, limits))


def test_unknown_texts_and_values_beyond_the_range_are_found():
    rng = np.random.default_rng(0)
    values = column(rng, 5_000, "categories")
    before, known = before_of(values, "categories"), {f"t{one}" for one in values}
    fresh = column(rng, 2_000, "categories")
    assert "unknown categories" not in alarms(
        before.changes(counted_texts(before, fresh, known), 0, Limits())
    )
    new = np.where(rng.random(2_000) < 0.05, 999, fresh)
    assert "unknown categories" in alarms(
        before.changes(counted_texts(before, new, known), 0, Limits())
    )
    numbers = before_of(rng.random(5_000), "normal")
    beyond = np.where(rng.random(2_000) < 0.04, 1.5, rng.random(2_000))
    assert alarms(numbers.changes(numbers.sketch.count(beyond), 0, Limits())) == ["range"]


@pytest.mark.parametrize("kind", KINDS)
def test_cells_are_shares_with_names_of_their_own(kind):
    rng = np.random.default_rng(0)
    before = before_of(column(rng, 5_000, kind), kind)
    cells = before.bins(counts_of(before, column(rng, 3_000, kind)))
    assert sum(cell.before for cell in cells) == pytest.approx(1.0)
    assert sum(cell.now for cell in cells) == pytest.approx(1.0)
    assert len({cell.name for cell in cells}) == len(cells) > 1


@pytest.mark.parametrize("kind", KINDS)
def test_summaries_survive_json_in_a_few_kilobytes_and_broken_ones_are_refused(kind):
    rng = np.random.default_rng(0)
    before = before_of(column(rng, 5_000, kind), kind, gaps=0.25)
    text = json.dumps(before.as_json(), allow_nan=False)
    assert len(text) < 4_000
    known = json.loads(text)
    read, now = type(before).from_json(known), column(rng, 3_000, kind)
    for one, other in zip(
        before.changes(counts_of(before, now), 9, Limits()),
        read.changes(counts_of(read, now), 9, Limits()),
        strict=True,
    ):
        assert one.effect == pytest.approx(other.effect, abs=1e-5)
    for broken in (
        {"missing": 2.0},
        {"missing": None},
        {"sketch": 1, "fractions": "x"},
        {"categories": 1, "sketch": {}},
    ):
        with pytest.raises(ValueError, match=r"no|not|lengths"):
            type(before).from_json(known | broken)


# ---- the whole


def drawn(rng, n_rows):
    """Scores and labels of rows."""
    scores = rng.normal(size=n_rows)
    return scores, rng.random(n_rows) < 1 / (1 + np.exp(4 - 2 * scores))


def checked(seed, n_before, n_now, shift=0.0, lost=0.0):
    """A verdict on 20 columns, scores and labels."""
    rng = np.random.default_rng(seed)
    columns = []
    for number in range(20):
        kind = KINDS[number % 4]
        before = before_of(column(rng, n_before, kind), kind)
        counts = counts_of(before, column(rng, n_now, kind))
        columns.append(ColumnNow(f"c{number}", before, counts, 0.0))
    scores, positive = drawn(rng, n_before)
    scale = ScoreScale.learn(positive, scores)
    scores, positive = drawn(rng, n_now)
    positive &= rng.random(n_now) >= lost
    scores = scores + shift
    counts, hits = scale.sketch.count(scores), scale.sketch.count(scores[positive])
    return verdict(columns, ScoreCounts(scale, counts, counts, hits), Limits())


@pytest.mark.parametrize("n_now", [50, 2_000])
def test_rows_of_the_same_make_hardly_ever_alarm(n_now):
    assert sum(bool(checked(seed, 2_000, n_now).drifted()) for seed in range(10)) <= 1


@pytest.mark.long
@pytest.mark.parametrize("n_before, n_now", [(300, 100), (1_000, 1_000), (2_000, 40)])
def test_false_alarms_are_as_rare_as_alpha_says(n_before, n_now):
    """At most 1 in 100 checks alarms; of 200, more than 7 are that rare themselves."""
    rounds = 200
    count = sum(bool(checked(seed, n_before, n_now).drifted()) for seed in range(rounds))
    assert count <= stats.binom.ppf(0.999, rounds, Limits().alpha)


@pytest.mark.parametrize(("times", "ahead", "alarms"), [(1.6, 0.0, False), (4.0, 500.0, True)])
def test_the_top_is_held_against_what_fits_can_tell(times, ahead, alarms):
    """Out-of-fold scores give the share at the top to a fifth; in-sample scores are higher."""
    scores = np.arange(20_000.0)
    scale = ScoreScale.learn(np.zeros(len(scores), bool), scores)
    fitted = QuantileSketch.of(scores + ahead, levels=top_levels(len(scores)))
    now = np.concatenate([scores, np.full(round(0.01 * (times - 1) * len(scores)), 1e6)])
    held = ScoreCounts(
        scale, scale.sketch.count(now), fitted=fitted, fitted_counts=fitted.count(now)
    )
    moved = [one.what for one in judged(held.changes(Limits(factor=1.5)), 0.01) if one.drifted]
    assert moved == ["top"] * alarms


def test_scores_that_moved_and_precision_that_fell_are_told():
    found = checked(0, 5_000, 5_000, shift=0.8)
    assert {one.what for one in found.drifted("scores")} == {"scores", "top"}
    assert "the scores" in headline(found)
    found = checked(0, 5_000, 5_000, lost=0.6)
    assert [one.what for one in found.drifted()] == ["precision"] * len(found.drifted())
    assert found.drifted("precision")
    assert not found.drifted("columns", "scores")
    assert "fell" in sentences(found)[0]
    part = found.parts[-2]
    assert part.low < part.observed < part.high < part.precision


def test_a_verdict_is_plain_json_with_the_most_moved_first():
    rng = np.random.default_rng(0)
    columns = []
    for shift in (0.0, 0.4, 3.0):
        before = before_of(rng.normal(size=3_000), "normal")
        columns.append(
            ColumnNow(f"by {shift}", before, before.sketch.count(shift + rng.normal(size=2_000)), 0)
        )
    scale = ScoreScale.learn(*drawn(rng, 3_000)[::-1])
    found = verdict(columns, ScoreCounts(scale, scale.sketch.count(drawn(rng, 2_000)[0])), Limits())
    assert [one.name for one in found.columns] == ["by 3.0", "by 0.4", "by 0.0"]
    assert [bool(one.drifted) for one in found.columns] == [True, True, False]
    told = json.loads(json.dumps(found.as_json(), allow_nan=False))
    assert told["columns"][0]["drifted"] == ["values", "range"]
    assert told["labelled"] is False
    assert headline(found) == "Drifted: 2 of 3 columns."
    assert sentences(found)[0] == "Columns that drifted: by 3.0, by 0.4."
