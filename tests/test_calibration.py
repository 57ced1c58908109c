"""Percentile scores and probabilities, compared with slow code and simulations."""

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator

from files import DROP, ENGINES, EVERY_KIND, QUICK, made_rows, write
from toppush import files
from toppush.cli.output import percent
from toppush.files.ranking import COLUMNS
from toppush.metrics.quantile_sketch import QuantileSketch, even_levels, top_levels, translated
from toppush.modeltypes.out_of_fold import cross_fitted, stratified
from toppush.thresholds.calibration import ScoreScale, percentiles, reliability


def slow_points(score, reference, weight):
    below = sum(one for value, one in zip(reference, weight, strict=True) if value < score)
    equal = sum(one for value, one in zip(reference, weight, strict=True) if value == score)
    return 100 * (below + equal / 2) / sum(weight)


few = st.integers(-5, 5).map(float)


@given(st.lists(st.tuples(few, st.integers(0, 3)), min_size=1, max_size=30), st.lists(few))
def test_points_are_the_share_of_rows_below(rows, asked):
    reference, weight = map(np.array, zip(*rows, strict=True))
    if not weight.any():
        return
    found = percentiles(asked, reference, weight)
    expected = [slow_points(score, reference, weight) for score in asked]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n_rows, decimals", [(100_000, 9), (30_000, 2), (3_000, 1), (50, 9)])
def test_points_are_even_on_the_rows_they_come_from(n_rows, decimals):
    scores = np.random.default_rng(0).normal(size=n_rows).round(decimals)
    scale = ScoreScale.learn(np.arange(n_rows) % 7 == 0, scores)
    found = np.sort(scale.percentile(scores))
    assert found.mean() == pytest.approx(50.0, abs=0.01)
    exact = 100 * QuantileSketch.of(scores, levels=even_levels(n_rows)).fraction_below(
        np.sort(scores)
    )
    apart = np.abs(found - exact)
    from_top = 100 - exact
    assert (apart <= 0.07 * np.minimum(from_top, 100 / 7)).all()
    np.testing.assert_allclose(found[-20:], exact[-20:], atol=1e-9)


def test_points_tell_the_top_apart_and_end_at_100():
    scale = ScoreScale.learn(np.arange(100_000) >= 99_000, np.arange(100_000.0))
    assert scale.digits == 4
    found = scale.percentile([99_999.0, 99_998.0, 99_950.0, 99_500.0, 1e9]).round(scale.digits)
    np.testing.assert_allclose(found, [99.9995, 99.9985, 99.9505, 99.5005, 100.0], atol=6e-4)
    assert found[0] == 99.9995
    assert found[1] == 99.9985


def test_a_scale_survives_json_and_a_broken_one_is_refused():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=3000)
    scale = ScoreScale.learn(rng.random(3000) < 1 / (1 + np.exp(3 - scores)), scores)
    text = json.dumps(scale.as_json(), allow_nan=False)
    assert len(text) < 12_000
    known = json.loads(text)
    read = ScoreScale.from_json(known)
    np.testing.assert_allclose(read.percentile(scores), scale.percentile(scores), atol=1e-4)
    np.testing.assert_allclose(read.probability(scores), scale.probability(scores), rtol=1e-5)
    for broken in (
        {"sketch": 3},
        {"positives": [2.0] * len(known["positives"])},
        {"positives": known["positives"][1:]},
        {"calibration": known["calibration"] | {"log_odds": [1.0, 0.0]}},
        {"calibration": known["calibration"] | {"knots": ["a"]}},
        {"calibration": 3},
        {"sketch": known["sketch"] | {"knots": known["sketch"]["knots"][::-1]}},
        {"sketch": known["sketch"] | {"below": [0.5] * len(known["positives"])}},
        {"sketch": known["sketch"] | {"rows": None}},
    ):
        with pytest.raises(ValueError, match=r"no|fall|rise"):
            ScoreScale.from_json(known | broken)


@pytest.mark.parametrize("n_rows", [1, 2, 9, 300, 1_000_000])
def test_levels_of_a_list_rise(n_rows):
    levels = top_levels(n_rows)
    assert (np.diff(levels) > 0).all()
    assert levels[0] == 0.0
    assert levels[-1] <= 1.0
    assert len(levels) < 200


def truth(scores):
    return 1 / (1 + np.exp(4 - 2 * scores))


@pytest.mark.parametrize("n_rows, allowed", [(1_000, 0.05), (10_000, 0.03)])
def test_probabilities_are_calibrated_and_at_the_top_not_above_what_is_observed(n_rows, allowed):
    """In the mean over simulated fits: over all rows, and among the first 30 of 10,000."""
    everywhere, first = [], []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        scores, fresh = rng.normal(size=n_rows), rng.normal(size=10_000)
        scale = ScoreScale.learn(rng.random(n_rows) < truth(scores), scores)
        apart = scale.probability(fresh) - truth(fresh)
        everywhere.append(apart.mean())
        first.append(apart[np.argsort(-fresh)[:30]].mean())
    assert abs(np.mean(everywhere)) < 0.005
    assert -2 * allowed < np.mean(first) < allowed


def test_the_first_rows_hold_what_was_predicted_as_often_as_the_interval_says():
    held = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        scores, fresh = rng.normal(size=20_000), rng.normal(size=20_000)
        scale = ScoreScale.learn(rng.random(20_000) < truth(scores), scores)
        positive = rng.random(20_000) < truth(fresh)
        held += [one.holds for one in reliability(positive, fresh, scale.probability(fresh))[:4]]
    assert np.mean(held) > 0.88  # of 95: what is predicted is learned from as many rows


def test_reliability_counts_the_first_rows():
    rng = np.random.default_rng(0)
    positive, scores = rng.random(250) < 0.3, rng.normal(size=250).round(1)
    predicted = rng.random(250)
    found = reliability(positive, scores, predicted)
    assert [one.first for one in found] == [10, 30, 100, 250]
    order = sorted(range(250), key=lambda row: (-scores[row], row))
    for one in found:
        rows = order[: one.first]
        assert one.observed == pytest.approx(np.mean(positive[rows]))
        assert one.predicted == pytest.approx(np.mean(predicted[rows]))
        assert one.low < one.observed < one.high


def test_precision_of_the_first_part_of_the_list():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=5_000)
    positive = rng.random(5_000) < truth(scores)
    scale = ScoreScale.learn(positive, scores)
    order = np.argsort(-scores)
    for k in (1, 7, 20, 300, 5_000):
        expected = positive[order[:k]].mean()
        assert scale.precision(k / 5_000) == pytest.approx(expected, abs=0.02)
    assert scale.precision(1.0) == pytest.approx(scale.prevalence)


# ---- models


@pytest.fixture(scope="module")
def train(tmp_path_factory):
    return write(tmp_path_factory.mktemp("scale") / "train.csv", made_rows(1500))


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_every_kind_knows_what_its_scores_mean(kind, train, tmp_path):
    if kind in ENGINES:
        pytest.importorskip(ENGINES[kind])
    model = files.fit(train, model=kind, label="fraud", drop=DROP, **QUICK[kind])
    assert model.scale.held_out
    assert not model.scale_text
    files.save(model, tmp_path / "m.toppush")
    model = files.load(tmp_path / "m.toppush")
    found = files.rank(model, write(tmp_path / "new.csv", made_rows(1500, seed=1)))
    assert tuple(found.column_names) == COLUMNS
    given = {name: found[name].to_numpy() for name in COLUMNS}
    assert all((np.diff(given[name]) <= 0).all() for name in ("percentile", "probability", "score"))
    np.testing.assert_allclose(given["percentile"], model.percentile(given["score"]), atol=0.006)
    np.testing.assert_allclose(given["probability"], model.probability(given["score"]), rtol=1e-3)
    # Fresh rows of the same make: percentiles are even, and probabilities add up to the positives.
    assert given["percentile"].mean() == pytest.approx(50, abs=4)
    assert given["probability"].mean() == pytest.approx(0.15, abs=0.03)


def test_few_positives_have_cautious_probabilities(tmp_path):
    rows = made_rows(60)
    older = np.argsort([-(one or 0.0) for one in rows["age"]])
    rows["fraud"] = ["yes" if place in older[:8] else "no" for place in range(60)]
    model = files.fit(write(tmp_path / "t.csv", rows), label="fraud", drop=DROP, lam=1e-3, top=0.3)
    found = files.rank(model, write(tmp_path / "n.csv", made_rows(10)))
    assert found["probability"].null_count == 0
    assert min(found["probability"].to_pylist()) > 0.0
    assert max(found["probability"].to_pylist()) < 0.95


def test_one_positive_leaves_optimistic_scores(tmp_path):
    rows = made_rows(60)
    rows["fraud"] = ["yes" if place < 1 else "no" for place in range(60)]
    model = files.fit(write(tmp_path / "t.csv", rows), label="fraud", drop=DROP, lam=0.1, top=0.3)
    assert not model.scale.held_out
    assert "optimistic" in model.scale_text


def test_models_without_a_scale_rank_as_before_and_say_so(train, tmp_path):
    model = files.fit(train, label="fraud", drop=DROP, lam=0.1, top=0.3)
    del model.about["scores"]
    assert model.percentile([1.0]) is None
    assert model.probability([1.0]) is None
    assert "fit it again" in model.scale_text
    found = files.rank(model, write(tmp_path / "n.csv", made_rows(10)))
    assert found.column_names == ["rank", "score", "row"]


def test_a_forged_scale_is_refused(train):
    model = files.fit(train, label="fraud", drop=DROP, lam=0.1, top=0.3)
    for forged in (3, {}, {"sketch": []}, model.about["scores"] | {"positives": None}):
        model.__dict__.pop("scale", None)
        model.about["scores"] = forged
        with pytest.raises(files.ModelError, match="scores"):
            model.percentile([0.0])


def test_percent_is_for_people():
    shown = [percent(share) for share in (0.0001234, 0.01, 0.5, 0.8333, 0.999, 0.99999, 1.0)]
    assert shown == ["0.0123%", "1%", "50%", "83.3%", "99.9%", "99.99%", "100%"]
    values = [float(one.rstrip("%")) for one in shown]
    assert all(one < other for one, other in pairwise(values))


@given(st.lists(few, min_size=1, max_size=30), st.lists(few, min_size=1, max_size=30))
def test_values_go_over_into_another_unit_by_their_place(one, other):
    source, target = (
        QuantileSketch.of(np.array(some), levels=even_levels(99)) for some in (one, other)
    )
    asked = np.sort(np.array([*one, -9.0, 9.0]))
    found = translated(asked, source, target)
    assert (np.diff(found) >= -1e-12).all()
    same = translated(asked, source, source)
    np.testing.assert_allclose(same, asked, atol=1e-9)
    scaled = QuantileSketch.of(3 * np.array(one) + 5, levels=even_levels(99))
    np.testing.assert_allclose(
        translated(asked[1:-1], source, scaled), 3 * asked[1:-1] + 5, atol=1e-9
    )


class Unlike(BaseEstimator):
    """The first column as the score, in another unit at every fit."""

    def fit(self, X, y, sample_weight=None):
        held_out = 0 if sample_weight is None else int(np.argmin(sample_weight))
        self.factor_ = 10.0 ** (held_out % 7 - 3)
        return self

    def decision_function(self, X):
        return self.factor_ * (X[:, 0] + self.factor_)


def test_fits_to_folds_speak_the_unit_of_the_whole(rng):
    X = rng.normal(size=(600, 1)).round(1)
    positive, weights = rng.random(600) < 0.3, (rng.random(600) < 0.9).astype(float)
    ranker = Unlike().fit(X, positive)
    folds = stratified(positive, weights, 0)
    found = cross_fitted(ranker, Unlike(), X, positive, weights, folds)
    np.testing.assert_array_equal(np.isnan(found), weights == 0)
    scores = ranker.decision_function(X)
    np.testing.assert_allclose(found[weights > 0], scores[weights > 0], rtol=1e-6, atol=1e-6)
    some = cross_fitted(ranker, Unlike(), X, positive, weights, folds[:1])
    assert np.isnan(some).mean() == pytest.approx(0.82, abs=0.02)
