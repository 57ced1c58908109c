"""Calibrated probabilities and the threshold of `predict`, compared with slow code."""

import copy
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import (
    average_precision_score,
    brier_score_loss,
    get_scorer,
    log_loss,
    make_scorer,
    roc_auc_score,
)

from files import made_rows, write
from toppush import TopPushTrees, TopRanker, files, metrics
from toppush.auto.kernel import TopKernel
from toppush.auto.linear import TopLinear
from toppush.modelfile.saving import export_onnx
from toppush.models.forest import TopForest
from toppush.modeltypes.out_of_fold import learned_scale
from toppush.system.errors import ModelError
from toppush.thresholds.probabilities import STEP, Calibration, calibrate

few = st.integers(-6, 6).map(float)
labelled = st.lists(st.tuples(few, st.booleans(), st.integers(0, 3)), min_size=1, max_size=40)


def slow_loss(calibration, positive, scores):
    """Negative log likelihood of Platt's targets, and the cost of the changes of slope."""
    n_pos, n_neg = sum(positive), len(positive) - sum(positive)
    total = 0.0
    for label, score in zip(positive, scores, strict=True):
        target = (n_pos + 1) / (n_pos + 2) if label else 1 / (n_neg + 2)
        odds = np.interp(score, calibration.knots, calibration.log_odds)
        total -= target * np.log(1 / (1 + np.exp(-odds)))
        total -= (1 - target) * np.log(1 - 1 / (1 + np.exp(-odds)))
    slopes = np.diff(calibration.log_odds) / np.diff(calibration.knots)
    steps = np.diff(np.log(slopes[:-1]))  # the last one is beyond the rows
    return total + (steps**2).sum() / (2 * STEP**2)


def slow_f1(probability, marked):
    return 2 * probability[marked].sum() / (marked.sum() + probability.sum())


def truth(scores):
    return 1 / (1 + np.exp(4 - 2 * scores))


def drawn(n_rows, seed=0):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=n_rows)
    return rng.random(n_rows) < truth(scores), scores


def table(n_rows, seed=0):
    """Rows of which one in ten is positive, and their numbers are noisy."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 4))
    return X, rng.random(n_rows) < 1 / (1 + np.exp(4 - 2 * X[:, 0] - X[:, 1] ** 2))


# ---- from scores to probabilities


@pytest.mark.parametrize("seed", range(5))
def test_no_other_log_odds_fit_better(seed):
    rng = np.random.default_rng(seed)
    scores = rng.permutation(60) / 7.0  # each its own cell
    positive = rng.random(60) < 1 / (1 + np.exp(4 - scores))
    calibration = Calibration.learn(positive, scores)
    least = slow_loss(calibration, positive, scores)
    for size in (0.3, 0.03, 0.003):
        for _ in range(30):
            moved = calibration.log_odds + size * rng.normal(size=len(calibration.knots))
            if (np.diff(moved) > 0).all():
                other = replace(calibration, log_odds=moved)
                assert slow_loss(other, positive, scores) > least - 1e-5


@given(labelled, st.floats(0.01, 100.0), st.floats(-50.0, 50.0))
def test_probabilities_rise_strictly_and_depend_on_ratios_alone(rows, factor, shift):
    scores, positive, weight = map(np.array, zip(*rows, strict=True))
    if not weight.any():
        return
    asked = np.linspace(-9, 9, 73)
    found = Calibration.learn(positive, scores, weight).probability(asked)
    assert (np.diff(found) > 0).all()
    assert (found > 0).all()
    assert (found < 1).all()
    if len(np.unique(scores[weight > 0])) == 1:
        return  # the slope is that of the prior
    scaled = Calibration.learn(positive, factor * scores + shift, 1e-6 * weight)
    assert_allclose(scaled.probability(factor * asked + shift), found, rtol=0.02, atol=1e-3)
    counted = weight > 0
    without = Calibration.learn(positive[counted], scores[counted], weight[counted])
    assert_allclose(without.probability(asked), found, rtol=1e-6)


@given(labelled)
def test_rows_of_far_scores_keep_their_order_and_are_not_certain(rows):
    scores, positive, _ = map(np.array, zip(*rows, strict=True))
    asked = np.append(np.sort(scores), [20.0, 1e3, 1e9, 1e300])
    found = Calibration.learn(positive, scores).probability(asked)
    assert (np.diff(found) >= 0).all()
    assert 0 < found[0] <= found[-1] < 1
    assert 1 - found[-1] > 0.9 / (len(rows) + 1)


@pytest.mark.parametrize("n_positives", [2, 5, 15])
def test_few_positives_that_rank_first_are_not_certain(n_positives):
    scores = np.sort(np.random.default_rng(n_positives).normal(size=500))
    found = Calibration.learn(np.arange(500) >= 500 - n_positives, scores).probability(scores)
    assert 0.15 < found[-n_positives:].mean() < (n_positives + 1) / (n_positives + 2)
    assert found[:400].max() < 0.05
    assert found[-1] < 0.998
    assert found.sum() == pytest.approx(n_positives, abs=1.5)


def test_many_rows_show_a_slope_that_changes():
    """Odds that rise only above 1: one line cannot follow both parts."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=30_000)

    def bent(scores):
        return 1 / (1 + np.exp(2.0 - 0.1 * scores - 3 * np.maximum(scores - 1, 0)))

    calibration = Calibration.learn(rng.random(30_000) < bent(scores), scores)
    asked = np.linspace(-2, 3, 51)
    assert_allclose(calibration.probability(asked), bent(asked), atol=0.07)


def test_weights_are_those_of_the_population():
    positive, scores = drawn(20_000)
    weight = np.where(positive, 1.0, 0.25)  # as if three quarters of the negatives were dropped
    rng = np.random.default_rng(1)
    kept = positive | (rng.random(20_000) < 0.25)
    by_weight = Calibration.learn(positive, scores, weight).probability(scores)
    by_rows = Calibration.learn(positive[kept], scores[kept]).probability(scores)
    assert_allclose(by_weight, by_rows, atol=0.05)


@given(labelled)
def test_the_threshold_has_the_greatest_expected_f1(rows):
    scores, positive, weight = map(np.array, zip(*rows, strict=True))
    if not weight.any():
        return
    threshold, calibration = calibrate(positive, scores, weight)
    repeated = np.repeat(scores - threshold, weight)
    probability = calibration.probability(repeated)
    best = max(slow_f1(probability, repeated >= score) for score in np.unique(repeated))
    assert slow_f1(probability, repeated > 0) == pytest.approx(best)


@pytest.mark.parametrize("n_rows", [300, 3_000])
def test_the_threshold_is_about_as_good_on_new_rows_as_the_best(n_rows):
    positive, scores = drawn(n_rows, seed=3)
    threshold, _ = calibrate(positive, scores)
    new = np.linspace(-4, 4, 4001)
    density = np.exp(-(new**2) / 2)
    found = np.cumsum((density * truth(new))[::-1])
    f1 = (2 * found / (np.cumsum(density[::-1]) + found[-1]))[::-1]
    assert f1[np.searchsorted(new, threshold)] > 0.97 * f1.max()


def test_unknown_scores_are_left_out():
    positive, scores = drawn(400)
    unknown = np.where(np.arange(400) < 50, np.nan, scores)
    threshold, calibration = calibrate(positive, unknown, np.ones(400))
    without = calibrate(positive[50:], scores[50:])
    assert threshold == without[0]
    assert_array_equal(calibration.probability(scores), without[1].probability(scores))


# ---- rankers


RANKERS = {
    "TopRanker": lambda **options: TopRanker(["logistic", "forest"], effort="quick", **options),
    "TopLinear": TopLinear,
    "TopKernel": TopKernel,
    "TopForest": lambda **options: TopForest(40, **options),
    "TopPushTrees": lambda **options: TopPushTrees(n_members=4, max_rounds=30, **options),
}


@pytest.mark.parametrize("name", RANKERS)
def test_rankers_give_probabilities_in_the_order_of_their_scores(name):
    if name == "TopPushTrees":
        pytest.importorskip("lightgbm")
    X, y = table(1500)
    new, labels = table(4000, seed=1)
    ranker = RANKERS[name]().fit(X, y)
    scores, probability = ranker.decision_function(new), ranker.predict_proba(new)
    assert probability.shape == (4000, 2)
    assert_allclose(probability.sum(axis=1), 1.0)
    assert len(np.unique(probability[:, 1])) == pytest.approx(len(np.unique(scores)), rel=1e-3)
    assert (np.diff(probability[np.argsort(scores, kind="stable"), 1]) >= 0).all()
    assert_array_equal(ranker.predict(new), scores > 0)
    assert probability[:, 1].mean() == pytest.approx(labels.mean(), abs=0.03)
    always = np.full(len(labels), y.mean())
    assert log_loss(labels, probability) < 0.9 * log_loss(labels, always)
    first = np.argsort(-scores)[:200]
    assert probability[first, 1].mean() == pytest.approx(labels[first].mean(), abs=0.2)
    marked, best = scores > 0, scores > np.quantile(scores, 1 - labels.mean())
    assert slow_f1(labels, marked) > 0.9 * slow_f1(labels, best)


def test_weighted_rows_change_probabilities_and_the_threshold():
    X, y = table(1500)
    plain = TopLinear().fit(X, y)
    weighted = TopLinear().fit(X, y, np.where(y, 5.0, 1.0))
    odds = [p[:, 1] / p[:, 0] for p in (plain.predict_proba(X), weighted.predict_proba(X))]
    assert np.median(odds[1] / odds[0]) == pytest.approx(5.0, rel=0.3)
    assert weighted.predict(X).mean() > plain.predict(X).mean()


@pytest.fixture(scope="module")
def mail():
    """Labels as strings, of which the later in sorted order is ranked first."""
    X, y = table(600)
    return X, np.where(y, "spam", "ham")


def test_scikit_learn_scores_probabilities(mail):
    X, y = mail
    ranker = TopLinear(positive="spam").fit(X, y)
    assert_array_equal(ranker.classes_, ["ham", "spam"])
    found = ranker.predict_proba(X)
    assert get_scorer("neg_log_loss")(ranker, X, y) == pytest.approx(-log_loss(y, found))
    assert get_scorer("roc_auc")(ranker, X, y) == pytest.approx(roc_auc_score(y, found[:, 1]))
    brier = make_scorer(brier_score_loss, response_method="predict_proba", pos_label="spam")
    expected = brier_score_loss(y == "spam", found[:, 1])
    assert brier(ranker, X, y) == pytest.approx(expected)
    calibrated = CalibratedClassifierCV(ranker, method="isotonic", cv=3).fit(X, y)
    assert calibrated.score(X, y) > 0.85


def test_a_class_that_is_named_is_the_second_column(mail):
    X, y = mail
    other = np.where(y == "spam", "bad", "good")
    ranker, named = TopLinear().fit(X, y == "spam"), TopLinear(positive="bad").fit(X, other)
    assert_array_equal(named.classes_, ["good", "bad"])
    assert_array_equal(named.predict_proba(X), ranker.predict_proba(X))
    assert_array_equal(named.predict(X) == "bad", ranker.predict(X))
    found = named.predict_proba(X)[:, 1]
    precision = make_scorer(
        average_precision_score, response_method="predict_proba", pos_label="bad"
    )
    expected = metrics.average_precision(other, found, pos_label="bad")
    assert precision(named, X, other) == pytest.approx(expected, rel=1e-6)


def test_the_calibration_display_takes_rankers(mail):
    pytest.importorskip("matplotlib").use("Agg")
    from sklearn.calibration import CalibrationDisplay

    X, y = mail
    ranker = TopLinear(positive="spam").fit(X, y)
    display = CalibrationDisplay.from_estimator(ranker, X, y, n_bins=3)
    assert_array_equal(display.y_prob, ranker.predict_proba(X)[:, 1])


# ---- model files


@pytest.fixture(scope="module")
def ranker():
    X, y = table(500)
    return TopRanker(["logistic", "forest"], effort="quick").fit(X, y)


def test_a_saved_ranker_has_the_same_probabilities(ranker, tmp_path):
    X, _ = table(200, seed=1)
    files.save(ranker, tmp_path / "m")
    model = files.load(tmp_path / "m")
    assert_array_equal(model.ranker.predict_proba(X), ranker.predict_proba(X))
    scores = model.decision_function(X)
    assert_array_equal(model.probability(scores), ranker.predict_proba(X)[:, 1])
    assert "No percentile" in model.scale_text
    assert "probabilities" not in model.scale_text


def test_the_command_line_has_the_probabilities_of_the_ranker(tmp_path):
    train = write(tmp_path / "train.csv", made_rows(400))
    model = files.fit(train, label="fraud", drop=("id",), effort="quick", members=("logistic",))
    files.save(model, tmp_path / "m")
    model = files.load(tmp_path / "m")
    ranked = files.rank(model, write(tmp_path / "new.csv", made_rows(50, seed=1)))
    calibration = model.ranker.calibration_
    expected = calibration.probability(ranked["score"].to_numpy())
    assert_allclose(ranked["probability"].to_numpy(), expected, rtol=1e-3)
    assert_allclose(model.scale.probability([0.0, 1.0]), calibration.probability([0.0, 1.0]))


def test_a_scale_of_a_ranker_without_probabilities_learns_them():
    X, y = table(500)
    ranker = TopLinear().fit(X, y)
    expected = ranker.calibration_.probability(np.linspace(-3, 3, 9))
    del ranker.calibration_
    scale = learned_scale(ranker, None, X, y)
    assert_allclose(scale.probability(np.linspace(-3, 3, 9)), expected, rtol=1e-3)


@pytest.mark.parametrize(
    "forged",
    [
        {"log_odds": np.array([1.0, 0.0])},
        {"log_odds": np.array([0.0, np.nan])},
        {"knots": np.array([0.0])},
        {"knots": np.array([1.0, 0.0])},
        {"knots": "knots"},
        {"log_odds": np.array([-800.0, 0.0])},
        {"rows": 0.0},
        {"rows": None},
    ],
)
def test_forged_calibrations_are_refused(ranker, forged, tmp_path):
    known = {"knots": np.array([0.0, 1.0]), "log_odds": np.array([0.0, 1.0]), "rows": 9.0}
    broken = copy.copy(ranker)
    broken.calibration_ = Calibration(**known)
    files.save(broken, tmp_path / "m")
    broken.calibration_ = Calibration(**known | forged)
    with pytest.raises(ModelError, match="calibration"):
        files.save(broken, tmp_path / "m")


def test_onnx_gives_the_same_probabilities(ranker, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    X, _ = table(300, seed=1)
    X[:3] *= 100.0
    path = tmp_path / "m.onnx"
    files.save(ranker, tmp_path / "m")
    export_onnx(files.load(tmp_path / "m"), path)
    session = onnxruntime.InferenceSession(path)
    assert [output.name for output in session.get_outputs()] == ["score", "probability"]
    score, probability = session.run(None, {"X": X})
    assert_allclose(score, ranker.decision_function(X), atol=1e-6)
    assert_allclose(probability, ranker.predict_proba(X)[:, 1], atol=1e-6)
