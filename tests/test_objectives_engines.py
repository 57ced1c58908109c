"""The pairwise loss inside LightGBM and XGBoost: each way of calling gives the same trees."""

import pickle
import re
import sys
from inspect import signature
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from toppush import metrics
from toppush.metrics import average_precision
from toppush.objectives import (
    LIGHTGBM_PARAMS,
    XGBOOST_PARAMS,
    LightGBMMetric,
    TopPushObjective,
    XGBoostMetric,
    label_rows,
    pairwise_gradients,
)

lightgbm = pytest.importorskip("lightgbm", reason="needs LightGBM, the extra [trees]")
xgboost = pytest.importorskip("xgboost", reason="needs XGBoost, the extra [xgboost]")

ROUNDS = 15
FOR_LIGHTGBM = {**LIGHTGBM_PARAMS, "num_leaves": 7, "num_threads": 1, "verbosity": -1}
FOR_XGBOOST = {**XGBOOST_PARAMS, "max_leaves": 7, "nthread": 1}


@pytest.fixture
def made(rng):
    X = rng.normal(size=(2000, 4))
    y = (X[:, 0] + X[:, 1] ** 2 + rng.normal(size=2000) > 3).astype(int)
    return X, y, rng.integers(1, 4, size=2000).astype(float)


def by_lightgbm(X, y, weight=None, objective=None):
    params = {**FOR_LIGHTGBM, "objective": objective or TopPushObjective()}
    booster = lightgbm.train(params, lightgbm.Dataset(X, y, weight=weight), ROUNDS)
    return booster.predict(X)


def by_lightgbm_classifier(X, y, weight=None, objective=None):
    objective = objective or TopPushObjective()
    ranker = lightgbm.LGBMClassifier(objective=objective, n_estimators=ROUNDS, **FOR_LIGHTGBM)
    return clone(ranker).fit(X, y, sample_weight=weight).predict(X, raw_score=True)


def by_xgboost(X, y, weight=None, objective=None):
    data = xgboost.DMatrix(X, y, weight=weight)
    booster = xgboost.train(FOR_XGBOOST, data, ROUNDS, obj=objective or TopPushObjective())
    return booster.predict(data, output_margin=True) - 0.5


def by_xgboost_classifier(X, y, weight=None, objective=None):
    objective = objective or TopPushObjective()
    ranker = xgboost.XGBClassifier(objective=objective, n_estimators=ROUNDS, **FOR_XGBOOST)
    return clone(ranker).fit(X, y, sample_weight=weight).predict(X, output_margin=True)


ENGINES = {"lightgbm": by_lightgbm, "xgboost": by_xgboost}
CLASSIFIERS = {"lightgbm": by_lightgbm_classifier, "xgboost": by_xgboost_classifier}
by_engine = pytest.mark.parametrize("engine", ENGINES)
unnamed = pytest.mark.filterwarnings("ignore:X does not have valid feature names")  # LightGBM 4.6


@unnamed
@by_engine
def test_the_classifier_is_the_training_function(engine, made):
    X, y, weight = made
    for weights in (None, weight):
        plain = ENGINES[engine](X, y, weights)
        assert_allclose(CLASSIFIERS[engine](X, y, weights), plain, atol=1e-5)
        assert average_precision(y, plain, sample_weight=weights) > 0.8


@by_engine
def test_labels_of_minus_one_are_zeros(engine, made):
    X, y, _ = made
    assert_array_equal(ENGINES[engine](X, 2 * y - 1), ENGINES[engine](X, y))


@by_engine
def test_weights_count(engine, made):
    X, y, weight = made
    assert abs(ENGINES[engine](X, y, weight) - ENGINES[engine](X, y)).max() > 0.01


def test_every_way_of_asking_is_the_push(made):
    X, y, weight = made
    scores, objective = X[:, 0], TopPushObjective(top=20, smoothing=0.3)
    plain = pairwise_gradients(scores, label_rows(y), top=20, smoothing=0.3)
    weighted = pairwise_gradients(scores, label_rows(y, weight), top=20, smoothing=0.3)
    for data in (lightgbm.Dataset(X, y).construct(), xgboost.DMatrix(X, y)):
        assert_array_equal(objective(scores, data), plain)
    for kind in (lightgbm.Dataset, xgboost.DMatrix):
        data = kind(X, y, weight=weight)
        data = data.construct() if kind is lightgbm.Dataset else data
        assert_array_equal(objective(scores, data), weighted)
    assert_array_equal(objective(y, scores), plain)
    assert_array_equal(objective(y, scores, None), plain)
    assert_array_equal(objective(y, scores, sample_weight=weight), weighted)


def test_other_labels_are_noticed(made):
    """What is kept from round to round hangs on the labels, not on who holds them."""
    X, y, _ = made
    objective, scores = TopPushObjective(), X[:, 0]
    labels = y.astype(np.float32)
    objective(labels, scores)
    labels[:50] = 1 - labels[:50]
    assert_array_equal(objective(labels, scores), pairwise_gradients(scores, label_rows(labels)))


def test_it_can_be_pickled_and_copied_without_rows(made):
    X, y, _ = made
    objective = TopPushObjective(top=3, smoothing=0.25)
    objective(y, X[:, 0])
    again = pickle.loads(pickle.dumps(objective))
    assert len(pickle.dumps(objective)) < 300
    assert repr(again) == repr(objective) == "TopPushObjective(top=3, smoothing=0.25)"
    assert_array_equal(again(y, X[:, 0]), objective(y, X[:, 0]))


@by_engine
def test_what_is_refused_comes_as_a_sentence(engine, made):
    X, y, _ = made
    with pytest.raises(ValueError, match="classes"):
        ENGINES[engine](X, np.ones_like(y))
    with pytest.raises(ValueError, match="relabel"):
        ENGINES[engine](X, y * 2)
    with pytest.raises(ValueError, match=r"count.*1"):
        ENGINES[engine](X, y, objective=TopPushObjective(top=5000))


@pytest.mark.parametrize("top", [0, -3, 0.0, 1.01, float("nan")])
def test_a_top_out_of_range(top):
    with pytest.raises(ValueError, match=r"top=.*count.*share"):
        TopPushObjective(top=top)


@pytest.mark.parametrize("smoothing", [0, -1.0, float("inf"), float("nan")])
def test_no_smoothing(smoothing):
    with pytest.raises(ValueError, match=r"0.*finite"):
        TopPushObjective(smoothing=smoothing)


def test_several_scores_for_a_row_are_refused(made):
    X, y, _ = made
    with pytest.raises(ValueError, match="num_class"):
        TopPushObjective()(y, X)


@unnamed
@pytest.mark.parametrize("way", [by_lightgbm, by_lightgbm_classifier])
def test_lightgbm_on_several_machines_is_refused(way, made, monkeypatch):
    """The network itself is left out: what is seen of it is the booster's word."""
    X, y, _ = made

    def connect(booster, **_):
        booster._network = True
        return booster

    monkeypatch.setattr(lightgbm.Booster, "set_network", connect)
    monkeypatch.setattr(lightgbm.Booster, "free_network", lambda booster: booster)
    monkeypatch.setitem(FOR_LIGHTGBM, "machines", "10.0.0.1:1,10.0.0.2:1")
    with pytest.raises(ValueError, match=r"2 machines.*xgboost\.dask"):
        way(X, y)
    monkeypatch.setitem(FOR_LIGHTGBM, "machines", "10.0.0.1:1")
    assert way(X, y).shape == y.shape


# Early stopping.

MEASURES = {
    "positives_at_top": {},
    "top_recall": {"n_false": 3},
    "average_precision": {},
    "ndcg": {},
    "ranking_loss": {},
}
by_measure = pytest.mark.parametrize("name", MEASURES)


@by_measure
def test_metrics_are_those_of_toppush(name, made):
    X, y, weight = made
    scores, parameters = X[:, 0], MEASURES[name]
    more = not name.endswith("_loss")
    here = {
        weighted: getattr(metrics, name)(
            y, scores, sample_weight=weight if weighted else None, **parameters
        )
        for weighted in (False, True)
    }
    for_lightgbm, for_xgboost = (
        LightGBMMetric(name, **parameters),
        XGBoostMetric(name, **parameters),
    )
    rows = lightgbm.Dataset(X, y, weight=weight).construct()
    assert for_lightgbm(scores, rows) == (name, here[True], more)
    assert for_lightgbm(y, scores, None) == (name, here[False], more)
    assert for_xgboost(scores, xgboost.DMatrix(X, y, weight=weight)) == (name, here[True])
    assert for_xgboost(scores, xgboost.DMatrix(X, y)) == (name, here[False])
    assert for_xgboost(y, scores, sample_weight=weight) == here[True]
    assert pickle.loads(pickle.dumps(for_xgboost))(y, scores) == here[False]


@by_measure
def test_lightgbm_stops_by_them(name, made):
    X, y, _ = made
    rows = lightgbm.Dataset(X[:1000], y[:1000])
    held_out = lightgbm.Dataset(X[1000:], y[1000:], reference=rows)
    params = {**FOR_LIGHTGBM, "objective": TopPushObjective(), "early_stopping_round": 5}
    measure, seen = LightGBMMetric(name, **MEASURES[name]), {}
    record = lightgbm.record_evaluation(seen)
    booster = lightgbm.train(
        params, rows, 40, valid_sets=[held_out], feval=measure, callbacks=[record]
    )
    values = np.array(seen["valid_0"][name]) * (1 if measure.maximize else -1)
    assert list(seen["valid_0"]) == [name]
    assert booster.best_iteration == values.argmax() + 1


@by_measure
def test_xgboost_stops_by_them(name, made):
    X, y, _ = made
    rows, held_out = xgboost.DMatrix(X[:1000], y[:1000]), xgboost.DMatrix(X[1000:], y[1000:])
    measure, seen = XGBoostMetric(name, **MEASURES[name]), {}
    booster = xgboost.train(
        FOR_XGBOOST, rows, 40, obj=TopPushObjective(),
        custom_metric=measure, evals=[(held_out, "held")], evals_result=seen,
        callbacks=[measure.early_stopping(5)], verbose_eval=False,
    )  # fmt: skip
    values = np.array(seen["held"][name]) * (1 if measure.maximize else -1)
    assert booster.num_boosted_rounds() == values.argmax() + 1


def test_classifiers_stop_by_them(made):
    X, y, _ = made
    one = lightgbm.LGBMClassifier(objective=TopPushObjective(), n_estimators=40, **FOR_LIGHTGBM)
    one.set_params(early_stopping_round=5)
    measure = LightGBMMetric("average_precision")
    held = {"eval_X": X[1000:], "eval_y": y[1000:]}
    if "eval_X" not in signature(one.fit).parameters:  # LightGBM 4.6
        held = {"eval_set": [(X[1000:], y[1000:])]}
    one.fit(X[:1000], y[:1000], **held, eval_metric=measure)
    assert 1 <= one.best_iteration_ <= 40
    measure = XGBoostMetric("average_precision")
    other = xgboost.XGBClassifier(
        objective=TopPushObjective(), n_estimators=40, eval_metric=measure,
        callbacks=[measure.early_stopping(5)], **FOR_XGBOOST,
    )  # fmt: skip
    other.fit(X[:1000], y[:1000], eval_set=[(X[1000:], y[1000:])], verbose=False)
    seen = other.evals_result()["validation_0"]["average_precision"]
    assert other.get_booster().num_boosted_rounds() == np.argmax(seen) + 1


def test_xgboost_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "xgboost.callback", None)
    with pytest.raises(ImportError, match=r"'toppush\[xgboost\]'"):
        XGBoostMetric("ndcg").early_stopping(5)


def test_metrics_that_do_not_exist_are_refused():
    with pytest.raises(ValueError, match="'precision'"):
        LightGBMMetric("precision")
    with pytest.raises(TypeError, match=r"missing.*'max_fpr'"):
        XGBoostMetric("recall_at_fpr")


# The page.


def blocks():
    """What the page about objectives tells people to run."""
    pages = sorted((Path(__file__).resolve().parent.parent / "docs").glob("nonlinear*.md"))
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    found = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    return [block for block in found if "TopPushObjective" in block]


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(block, marks=[pytest.mark.long] if "dask" in block else [], id=str(number))
        for number, block in enumerate(blocks())
    ],
)
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore:Port 8787 is already in use:UserWarning")  # by anybody here
def test_what_the_page_says_runs(block):
    names = {"__name__": "__main__"}
    exec(block.replace("300", "10"), names)
    assert type(names["booster"]).__name__ == "Booster"


def test_the_page_has_a_block_for_each_engine():
    assert len(blocks()) == 3
