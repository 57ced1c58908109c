"""CatBoost and XGBoost as base models: the same trees as LightGBM's, scores, files and exports."""

import json
import pickle
import subprocess
import sys
import threading
from dataclasses import replace
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

pytest.importorskip("lightgbm")
import lightgbm

from toppush import TopRanker, files, metrics
from toppush.auto.members import MEMBERS
from toppush.modelfile.saving import export_onnx
from toppush.models import catboost_trees, lightgbm_text, xgboost_trees
from toppush.models.engines import EngineRows, set_of_left
from toppush.models.lightgbm_text import Tree, first_up_to, written

CLASSES = {"catboost": catboost_trees.TopCatBoost, "xgboost": xgboost_trees.TopXGBoost}
by_engine = pytest.mark.parametrize("engine", CLASSES)
GAPS = 0.1


def small(engine, **options):
    if find_spec(engine) is None:
        pytest.skip(f"needs {engine}, an extra")
    return CLASSES[engine](**{"n_members": 4, "max_rounds": 15, "n_jobs": 1, "depth": 3} | options)


def rows_of(seed, n_rows=300):
    """Two columns of numbers, and one of few and one of many categories, all with gaps."""
    rng = np.random.default_rng(seed)
    X = np.column_stack(
        [
            rng.normal(size=n_rows),
            rng.integers(0, 9, n_rows) / 3.0,
            rng.integers(0, 4, n_rows),
            rng.integers(0, 40, n_rows),
        ]
    )
    score = X[:, 0] + (X[:, 2] == 1) + np.sin(7.0 * X[:, 3]) + rng.normal(size=n_rows)
    X[rng.random(X.shape) < GAPS] = np.nan
    return X, score > np.quantile(score, 0.75)


CATEGORIES = [2, 3]


@pytest.fixture(scope="module", params=CLASSES)
def fitted(request):
    return small(request.param, categorical_features=CATEGORIES).fit(*rows_of(0))


# --- trees of an engine as trees of LightGBM


@st.composite
def trees(draw):
    """A tree of numbers and sets of categories in random shape, of three columns."""
    n_nodes = draw(st.integers(0, 6))
    children = np.full((2, n_nodes), n_nodes)
    free = [(side, 0) for side in (0, 1)] if n_nodes else []
    for node in range(1, n_nodes):
        side, parent = free.pop(draw(st.integers(0, len(free) - 1)))
        children[side, parent] = node
        free += [(0, node), (1, node)]
    for leaf, (side, parent) in enumerate(free):
        children[side, parent] = ~leaf
    feature = np.array([draw(st.integers(0, 2)) for _ in range(n_nodes)], np.int64)
    finite = st.floats(-(2.0**90), 2.0**90, width=32)
    threshold = np.array([draw(finite) for _ in range(n_nodes)], np.float64)
    missing_left = np.array([draw(st.booleans()) for _ in range(n_nodes)], bool)
    decision = np.where(missing_left, 10, 8)
    sets = []
    for node in np.flatnonzero(feature == 2):
        threshold[node], decision[node] = len(sets), 9
        sets.append(np.flatnonzero(draw(st.lists(st.booleans(), min_size=70, max_size=70))))
    value = np.array([draw(finite) for _ in range(n_nodes + 1)], np.float64)
    return Tree(feature, threshold, decision, *children, value, sets)


def scored_slowly(tree, row):
    """The leaf value of a row, by a loop."""
    node = 0 if len(tree.left) else ~0
    while node >= 0:
        value, border = row[tree.feature[node]], tree.threshold[node]
        if tree.decision[node] & 1:
            left = not np.isnan(value) and int(value) in tree.sets[int(border)]
        else:
            left = bool(tree.decision[node] & 2) if np.isnan(value) else value <= border
        node = tree.left[node] if left else tree.right[node]
    return tree.value[~node]


@settings(deadline=None, max_examples=60)
@given(st.lists(trees(), min_size=1, max_size=3), st.integers(0, 2**32 - 1))
def test_written_trees_are_read_again_and_score_as_they_are(some, seed):
    rng = np.random.default_rng(seed)
    rows = np.column_stack([rng.normal(size=(40, 2)), rng.integers(0, 80, 40)])
    rows[rng.random(rows.shape) < 0.2] = np.nan
    weights = [rng.random(len(tree.value)) for tree in some]
    text = written(some, weights, 3)
    for tree, again in zip(some, lightgbm_text.parsed(text).trees, strict=True):
        for name in ("feature", "threshold", "decision", "left", "right", "value"):
            assert_array_equal(getattr(again, name), getattr(tree, name))
        for codes, own in zip(again.sets, tree.sets, strict=True):
            assert_array_equal(codes, own)
    booster = lightgbm.Booster(model_str=text)
    slow = [sum(scored_slowly(tree, row) for tree in some) for row in rows]
    assert_allclose(booster.predict(rows, raw_score=True), slow, rtol=1e-12, atol=1e-12)


@given(st.floats(-(2.0**120), 2.0**120, width=32), st.integers(-3, 3))
def test_borders_in_single_precision_part_double_numbers_alike(border, steps):
    single = np.array([border], np.float32)
    first = first_up_to(single)
    value = first
    for _ in range(abs(steps)):
        value = np.nextafter(value, np.copysign(np.inf, steps))
    assert (value <= first) == (value.astype(np.float32) <= single)


@given(st.lists(st.booleans(), min_size=1, max_size=9), st.booleans())
def test_sets_send_each_category_and_missing_ones_as_the_engine_does(right, missing_right):
    codes, exchanged = set_of_left(np.array(right), missing_right)
    for code, goes_right in enumerate([*right, missing_right]):
        is_left = code < len(right) and code in codes  # others are missing, and go right
        assert goes_right == (is_left if exchanged else not is_left)


def test_catboost_scores_as_the_converted_trees_do(monkeypatch):
    small("catboost")
    X, y = rows_of(1)
    models, convert = [], catboost_trees._trees

    def spy(model, pool, n_codes, width):
        models.append((model, n_codes, convert(model, pool, n_codes, width)))
        return models[-1][-1]

    monkeypatch.setattr(catboost_trees, "_trees", spy)
    ranker = small("catboost", depth=4, categorical_features=CATEGORIES).fit(X, y)
    unknown = X.copy()
    unknown[::5, 3] = np.nan
    rows = ranker._coded(unknown)
    for model, n_codes, (*converted,) in models:
        own = model.predict(
            catboost_trees._features(rows.astype(np.float32), n_codes), "RawFormulaVal"
        )
        text = written(*zip(*converted, strict=True), X.shape[1])
        assert_allclose(lightgbm.Booster(model_str=text).predict(rows), own, atol=1e-12)
    assert any(tree.sets for _, _, trees in models for tree, _ in trees)


def test_xgboost_scores_as_the_converted_trees_do(monkeypatch):
    ranker = small("xgboost", depth=4, categorical_features=CATEGORIES)
    import xgboost

    X, y = rows_of(2)
    models, read = [], json.loads

    def spy(data):
        models.append(bytes(data))
        return read(data)

    monkeypatch.setattr(xgboost_trees, "json", SimpleNamespace(loads=spy))
    ranker.fit(X, y)
    rows = ranker._coded(X)
    n_codes = {column: len(known) for column, known in ranker.categories_.items()}
    matrix = xgboost_trees._matrix(EngineRows(rows.astype(np.float32), y, None, n_codes))
    for data in models:
        own = xgboost.Booster(model_file=bytearray(data)).predict(matrix, output_margin=True)
        record = read(data)["learner"]["gradient_booster"]["model"]["trees"]
        converted = [xgboost_trees._tree(each, n_codes) for each in record]
        text = written(*zip(*converted, strict=True), X.shape[1])
        apart = lightgbm.Booster(model_str=text).predict(rows) - own  # the base score
        assert_allclose(apart, apart.mean(), atol=1e-5)
    assert len(models) == 4


# --- the ranker


def test_it_ranks_and_its_contributions_sum_to_the_scores(fitted):
    X, y = rows_of(0)
    new, labels = rows_of(5)
    assert metrics.auc(labels, fitted.decision_function(new)) > 0.7
    assert np.isfinite(fitted.out_of_fold_).all()
    assert metrics.auc(y, fitted.out_of_fold_) > 0.7
    parts = fitted.contributions(X)
    assert_allclose(parts.sum(axis=1), fitted.decision_function(X), atol=1e-9)
    assert fitted.feature_importances_.sum() == pytest.approx(1.0)
    assert (fitted.feature_importances_ > 0).all()


def test_a_pickled_ranker_scores_the_same(fitted):
    X, _ = rows_of(0)
    again = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(again.decision_function(X), fitted.decision_function(X))


def test_a_fit_repeats_to_the_bit_with_any_number_of_threads(fitted):
    for n_jobs in (1, 3, 6):
        again = clone(fitted).set_params(n_jobs=n_jobs).fit(*rows_of(0))
        assert again.texts_ == fitted.texts_
        assert_array_equal(again.out_of_fold_, fitted.out_of_fold_)
    other = clone(fitted).set_params(random_state=1).fit(*rows_of(0))
    assert other.texts_ != fitted.texts_


@by_engine
def test_out_of_fold_scores_do_not_know_their_labels(engine):
    X, _ = rows_of(3, 600)
    y = np.random.default_rng(8).random(600) < 0.3  # by chance
    ranker = small(engine, max_rounds=60, depth=5, learning_rate=0.3).fit(X, y)
    assert metrics.auc(y, ranker.decision_function(X)) > 0.6
    assert metrics.auc(y, ranker.out_of_fold_) == pytest.approx(0.5, abs=0.1)


@by_engine
def test_weights_count_and_rows_of_weight_0_do_not(engine):
    X, y = rows_of(4)
    weight = np.where(X[:, 0] > 0, 5.0, 1.0)
    weight[np.isnan(X[:, 0])] = 0.0
    ranker = small(engine).fit(X, y, sample_weight=weight)
    plain = small(engine).fit(X, y)
    assert np.isnan(ranker.out_of_fold_[weight == 0.0]).all()
    assert ranker.texts_ != plain.texts_
    same = small(engine).fit(X, y, sample_weight=np.full(len(y), 3.0))
    assert_allclose(same.decision_function(X), plain.decision_function(X), atol=1e-4)


@by_engine
def test_columns_without_information_give_equal_scores(engine):
    y = np.arange(90) % 3 == 0
    scores = small(engine).fit(np.ones((90, 2)), y).decision_function(np.zeros((3, 2)))
    assert_array_equal(scores, scores[0])


@by_engine
def test_nothing_is_printed_or_written(engine, tmp_path, monkeypatch, capfd):
    ranker = small(engine)
    monkeypatch.chdir(tmp_path)
    ranker.fit(*rows_of(0))
    assert not list(tmp_path.iterdir())
    assert capfd.readouterr() == ("", "")


@by_engine
def test_training_ends_when_its_result_is_not_needed(engine):
    from toppush.system import threads

    ranker = small(engine, max_rounds=100_000, learning_rate=1e-6)
    X, y = rows_of(0)
    cancelled = threading.Event()
    cancelled.set()
    token = threads._cancelled.set(cancelled)
    try:
        with pytest.raises(threads.Cancelled):
            ranker.fit(X, y)
    finally:
        threads._cancelled.reset(token)
    assert not hasattr(ranker, "texts_")


INTERRUPTED = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it in the background
import os, signal, sys, threading
import {engine}  # its import may swallow an interrupt
sys.path.insert(0, {tests!r})
from test_engines import rows_of, small
ranker = small({engine!r}, max_rounds=2_000_000, learning_rate=1e-4, n_jobs={n_jobs})
from toppush.models import boosting, catboost_trees, xgboost_trees
catboost_trees.PARAMETERS["early_stopping_rounds"] = xgboost_trees.PATIENCE = 2_000_000
threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    ranker.fit(*rows_of(0))
except KeyboardInterrupt:
    print("interrupted", hasattr(ranker, "texts_"))
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
@pytest.mark.parametrize("n_jobs", [1, 3])
@by_engine
def test_ctrl_c_ends_a_fit(engine, n_jobs):
    small(engine)
    code = INTERRUPTED.format(tests=str(__file__).rpartition("/")[0], engine=engine, n_jobs=n_jobs)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert ran.stdout.strip() == "interrupted False", ran.stderr


# --- as base models


@pytest.fixture(scope="module")
def table():
    X, y = rows_of(6, 400)
    frame = pd.DataFrame(X, columns=["one", "two", "kind", "town"])
    for name, prefix in (("kind", "k"), ("town", "t")):
        known = frame[name].notna()
        frame[name] = frame[name].astype(object)
        frame.loc[known, name] = [f"{prefix}{value:.0f}" for value in frame.loc[known, name]]
    return frame, y


@pytest.fixture(scope="module", params=CLASSES)
def combined(request, table):
    small(request.param)
    return TopRanker(["logistic", request.param], effort="quick").fit(*table)


def test_a_combination_is_saved_and_scores_without_the_engine(
    combined, table, tmp_path, monkeypatch
):
    frame, _ = table
    files.save(combined, tmp_path / "model.toppush")
    for engine in CLASSES:
        monkeypatch.setitem(sys.modules, engine, None)
    ranker = files.load(tmp_path / "model.toppush").ranker
    assert_allclose(ranker.decision_function(frame), combined.decision_function(frame), atol=1e-12)
    parts = ranker.contributions(frame)
    assert_allclose(parts.sum(axis=1), combined.decision_function(frame), atol=1e-9)
    assert ranker.unexplained_ == []


@by_engine
def test_onnx_with_categories_gives_the_same_scores(engine, table, tmp_path):
    small(engine)
    runtime = pytest.importorskip("onnxruntime")
    frame, y = table
    frame.assign(y=y.astype(int)).to_csv(tmp_path / "train.csv", index=False)
    model = files.fit(tmp_path / "train.csv", label="y", model="auto", members=[engine])
    export_onnx(model, tmp_path / "model.onnx")
    session = runtime.InferenceSession(tmp_path / "model.onnx")
    new = frame.head(60).copy()
    new.loc[3, "town"] = "never seen"
    feed = {
        name: new[[name]].to_numpy(np.float64)
        if name in ("one", "two")
        else new[[name]].fillna("").to_numpy(object)
        for name in new
    }
    (scores,) = session.run(["score"], feed)
    assert_allclose(scores.ravel(), model.decision_function(new), atol=1e-6)


@by_engine
def test_a_missing_engine_is_named_with_its_extra_and_without_a_warning(
    engine, table, monkeypatch, capsys
):
    monkeypatch.setattr(
        "toppush.auto.members.find_spec", lambda name: None if name == engine else find_spec(name)
    )
    ranker = TopRanker(["logistic", engine], effort="quick", verbose=1).fit(*table)
    assert f"pip install 'toppush[{engine}]'" in ranker.left_out_[engine]
    assert f"left out: {engine} ({engine} is not installed" in capsys.readouterr().out


def test_a_member_that_takes_longer_than_the_time_left_is_not_begun(table, monkeypatch):
    """A fit may be known to take a multiple of the time of LightGBM's log loss."""
    slow = replace(MEMBERS["forest"], compared=("boosted", 1e6))
    monkeypatch.setitem(MEMBERS, "forest", slow)
    ranker = TopRanker(["boosted", "forest"], effort="quick", seconds=600).fit(*table)
    assert ranker.left_out_ == {"forest": "there was no time left"}
    assert MEMBERS["catboost"].compared is not None
