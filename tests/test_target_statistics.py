"""Target statistics of categories, and the boosted trees and model files that use them."""

import pickle
from copy import copy

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score
from sklearn.pipeline import Pipeline

pytest.importorskip("lightgbm")
from files import made_rows, odd_rows, write
from toppush import TopPushTrees, TopRanker, files
from toppush.files import Columns, ModelError
from toppush.modelfile import saving
from toppush.models import trees as trees_module
from toppush.models.target_statistics import (
    N_PARTS,
    PRIOR_WEIGHT,
    encoded,
    encoded_for_training,
    learn_tables,
    parts_of,
    shares_of_others,
    smoothed_shares,
)


@st.composite
def coded_rows(draw):
    """Codes, classes, weights that are small integers, and a part for each row."""
    n_codes, n_rows = draw(st.integers(1, 6)), draw(st.integers(1, 30))

    def column(values):
        return np.array(draw(st.lists(values, min_size=n_rows, max_size=n_rows)))

    weight = column(st.integers(1, 4)).astype(float)
    part = column(st.integers(0, N_PARTS - 1))
    return column(st.integers(0, n_codes - 1)), column(st.booleans()), weight, n_codes, part


def obvious_share(code, rows, codes, positive, weight):
    """Share of positives of a category among some rows, moved towards that of all rows."""
    prior = sum(w for w, p in zip(weight, positive, strict=True) if p) / sum(weight)
    sums, counts = PRIOR_WEIGHT * prior, PRIOR_WEIGHT
    for row in rows:
        if codes[row] == code:
            sums += weight[row] * positive[row]
            counts += weight[row]
    return sums / counts


@given(coded_rows())
def test_shares_are_those_of_obvious_loops(rows):
    codes, positive, weight, n_codes, part = rows
    every = range(len(codes))
    np.testing.assert_allclose(
        smoothed_shares(codes, positive, weight, n_codes),
        [obvious_share(code, every, codes, positive, weight) for code in range(n_codes)],
    )
    of_others = [
        obvious_share(
            codes[row], [at for at in every if part[at] != part[row]], codes, positive, weight
        )
        for row in every
    ]
    np.testing.assert_allclose(
        shares_of_others(codes, positive, weight, n_codes, part), of_others, rtol=1e-12
    )


@given(coded_rows())
def test_a_weight_counts_as_so_many_rows(rows):
    codes, positive, weight, n_codes, part = rows
    copies = np.repeat(np.arange(len(codes)), weight.astype(int))
    again = codes[copies], positive[copies], np.ones(len(copies)), n_codes
    np.testing.assert_allclose(
        smoothed_shares(codes, positive, weight, n_codes), smoothed_shares(*again)
    )
    np.testing.assert_allclose(
        shares_of_others(codes, positive, weight, n_codes, part)[copies],
        shares_of_others(*again, part[copies]),
    )


@given(coded_rows(), st.randoms(use_true_random=False))
def test_names_of_categories_do_not_matter(rows, random):
    codes, positive, weight, n_codes, part = rows
    renamed = np.array(random.sample(range(n_codes), n_codes))
    np.testing.assert_allclose(
        smoothed_shares(renamed[codes], positive, weight, n_codes)[renamed],
        smoothed_shares(codes, positive, weight, n_codes),
    )
    np.testing.assert_allclose(
        shares_of_others(renamed[codes], positive, weight, n_codes, part),
        shares_of_others(codes, positive, weight, n_codes, part),
    )


@given(coded_rows(), st.integers(0, 9))
def test_each_part_has_as_many_positives(rows, seed):
    _, positive, *_ = rows
    part = parts_of(positive, seed)
    for some in (part, part[positive], part[~positive]):
        assert np.ptp(np.bincount(some, minlength=N_PARTS)) <= 1 + (some is part)


def test_new_rows_have_the_shares_of_all_training_rows(rng):
    X = np.column_stack([rng.normal(size=300), rng.integers(0, 4, 300).astype(float)])
    X[::9, 1] = np.nan
    positive, train = rng.random(300) < 0.3, np.arange(200)
    tables = learn_tables(X, {1: ["a", "b", "c", "d"]}, positive, None, [(train, None)])
    codes = np.where(np.isnan(X[:, 1]), 4, X[:, 1]).astype(int)
    counts = np.array([np.sum(codes == code) for code in range(5)])
    shares = smoothed_shares(codes[train], positive[train], np.ones(200), 5)
    np.testing.assert_allclose(tables[1], [np.log1p(counts), shares])
    rows = encoded(X, tables, 0)
    np.testing.assert_array_equal(rows[:, 0], X[:, 0])
    np.testing.assert_allclose(rows[:, 1:], np.column_stack([shares, np.log1p(counts)])[codes])
    training = encoded_for_training(X, tables, 0, train, positive, None, seed=3)
    np.testing.assert_array_equal(training[200:], rows[200:])
    of_others = shares_of_others(
        codes[train], positive[train], np.ones(200), 5, parts_of(positive[train], 3)
    )
    np.testing.assert_array_equal(training[:200, 1], of_others)


# ---- boosted trees


def target(**options):
    settings = {"n_members": 4, "max_rounds": 20, "n_jobs": 1, "category_encoding": "target"}
    return TopPushTrees(**settings | options)


@pytest.fixture(scope="module")
def table():
    """A frame of numbers and strings, with missing values; the label depends on the town."""
    rng = np.random.default_rng(0)
    town = rng.choice([f"town {number}" for number in range(40)], 700)
    rate = dict(zip(sorted(set(town)), rng.beta(0.5, 2.0, 40), strict=True))
    frame = pd.DataFrame({"age": rng.normal(size=700), "town": town.astype(object)})
    frame["size"] = pd.Categorical(rng.choice(["S", "M"], 700))
    y = rng.random(700) < [rate[name] for name in town]
    frame.loc[::13, "age"] = np.nan
    frame.loc[::17, "town"] = None
    return frame, y


@pytest.fixture(scope="module")
def fitted(table):
    return target().fit(*table)


def test_categories_that_decide_are_used(table, fitted):
    _, y = table
    assert fitted.category_statistics_[1].shape == (5, 41)
    assert fitted.category_statistics_[2].shape == (5, 3)
    importances = fitted.feature_importances_
    assert importances.shape == (3,)
    assert importances.argmax() == 1
    assert importances.sum() == pytest.approx(1.0)
    order = np.random.default_rng(0).permutation(len(y))
    assert average_precision_score(y, fitted.out_of_fold_) > 1.3 * average_precision_score(
        y, fitted.out_of_fold_[order]
    )


def test_contributions_are_those_of_the_columns(table, fitted):
    frame, _ = table
    added = fitted.contributions(frame)
    assert added.shape == (700, 4)
    np.testing.assert_allclose(added.sum(axis=1), fitted.decision_function(frame), atol=1e-9)
    assert np.abs(added[:, 1]).mean() > np.abs(added[:, 2]).mean()


def test_a_fit_repeats_and_survives_pickling(table, fitted, monkeypatch):
    frame, y = table
    scores = fitted.decision_function(frame)
    again = target(n_jobs=2).fit(frame, y)
    assert again.texts_ == fitted.texts_
    np.testing.assert_array_equal(again.out_of_fold_, fitted.out_of_fold_)
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(fitted)).decision_function(frame), scores
    )
    monkeypatch.setattr(trees_module, "PART_NUMBERS", 64)
    np.testing.assert_array_equal(fitted.decision_function(frame), scores)
    np.testing.assert_array_equal(target().fit(frame, y).out_of_fold_, fitted.out_of_fold_)


def test_frames_of_other_libraries_and_other_names_give_the_same_scores(table, fitted):
    frame, y = table
    by_polars = pl.from_pandas(frame.assign(size=frame["size"].astype(str)))
    ranker = target().fit(by_polars, y)
    np.testing.assert_array_equal(
        ranker.decision_function(by_polars), fitted.decision_function(frame)
    )
    names = {name: name[::-1] for name in frame["town"].dropna().unique()}  # in another order
    renamed = frame.assign(town=frame["town"].map(names))
    np.testing.assert_array_equal(
        target().fit(renamed, y).decision_function(renamed), fitted.decision_function(frame)
    )


def test_unknown_categories_count_as_missing(table, fitted):
    frame, _ = table
    missing, unknown = frame.assign(town=None), frame.assign(town="nowhere")
    np.testing.assert_array_equal(
        fitted.decision_function(missing), fitted.decision_function(unknown)
    )


@pytest.mark.parametrize("n_members, n_tables", [(1, 1), (3, 3), (7, 4)])
def test_members_of_a_fold_share_its_statistics(table, n_members, n_tables):
    frame, y = table
    folds = [(np.flatnonzero(np.arange(700) % 4 != k), np.arange(k, 700, 4)) for k in range(4)]
    ranker = target(n_members=n_members, cv=folds, max_rounds=5).fit(frame, y)
    assert len(ranker.texts_) == n_members
    assert {len(known) for known in ranker.category_statistics_.values()} == {1 + n_tables}
    held = ~np.isnan(ranker.out_of_fold_)
    assert held.sum() == sum(len(rows) for _, rows in folds[:n_tables])
    added = ranker.contributions(frame[:50])
    np.testing.assert_allclose(added.sum(axis=1), ranker.decision_function(frame[:50]), atol=1e-9)


def test_rows_of_weight_zero_do_not_count(table):
    frame, y = table
    kept = np.arange(len(y)) % 3 > 0
    weighted = target().fit(frame, y, sample_weight=kept.astype(float))
    categories = weighted.categories_
    dropped = target().fit(frame[kept], y[kept], sample_weight=np.ones(kept.sum()))
    assert dropped.categories_ == categories
    assert weighted.texts_ == dropped.texts_
    np.testing.assert_array_equal(weighted.out_of_fold_[kept], dropped.out_of_fold_)


def test_without_categories_nothing_is_encoded(rng):
    X, y = rng.normal(size=(200, 3)), rng.random(200) < 0.3
    ranker = target().fit(X, y)
    assert ranker.category_statistics_ == {}
    assert ranker.texts_ == target(category_encoding="native").fit(X, y).texts_


def test_few_positives_are_enough(table):
    frame, y = table
    few = y.copy()
    few[np.flatnonzero(y)[2:]] = False
    assert np.isfinite(target().fit(frame, few).out_of_fold_).all()


def test_labels_without_signal_give_out_of_fold_scores_at_chance():
    """Shares that contain a row's own label rank pure noise far above chance."""
    values, chance, naive = [], [], []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = rng.integers(0, 500, (1500, 1)).astype(float)
        y = rng.random(1500) < 0.2
        ranker = target(categorical_features=[0], max_rounds=30, random_state=seed).fit(X, y)
        values.append(average_precision_score(y, ranker.out_of_fold_))
        chance += [average_precision_score(y, rng.random(1500)) for _ in range(20)]
        shares = smoothed_shares(X[:, 0].astype(int), y, np.ones(1500), 500)
        naive.append(average_precision_score(y, shares[X[:, 0].astype(int)]))
    error = np.std(chance) / np.sqrt(len(values))
    assert abs(np.mean(values) - np.mean(chance)) < 3.0 * error
    assert np.mean(naive) > np.mean(chance) + 20.0 * error


# ---- TopRanker


def test_the_base_model_is_left_out_of_rows_without_categories(table):
    frame, y = table
    ranker = TopRanker(["logistic", "target_trees"], effort="quick").fit(frame[["age"]], y)
    assert set(ranker.left_out_) == {"target_trees"}
    ranker = TopRanker(["target_trees"], effort="quick", n_jobs=1).fit(frame, y)
    assert not ranker.left_out_
    added = ranker.contributions(frame)
    np.testing.assert_allclose(added.sum(axis=1), ranker.decision_function(frame), atol=1e-9)


# ---- model files and exports


@pytest.fixture(scope="module")
def model():
    """A pipeline of columns and trees, and rows with missing and unknown categories."""
    rows = pa.table(made_rows(400)).drop(["id"])
    y = np.array(rows["fraud"].to_pylist()) == "yes"
    columns = Columns(form="codes").fit(rows.drop(["fraud"]))
    ranker = target(categorical_features=columns.coded, n_members=3, max_rounds=30)
    ranker.fit(columns.transform(rows), y)
    return files.Model(Pipeline([("columns", columns), ("ranker", ranker)]))


def new_rows():
    return pa.table(odd_rows()).drop(["id", "fraud"])


def onnx_scores(content, table):
    runtime = pytest.importorskip("onnxruntime")
    feeds = {}
    for name in table.column_names:
        values = table[name].to_pylist()
        cells = [value or "" if name == "city" else np.nan if value is None else float(value)
                 for value in values]  # fmt: skip
        feeds[name] = np.array(cells, object if name == "city" else float)[:, None]
    return runtime.InferenceSession(content).run(None, feeds)[0]


def test_model_files_and_onnx_give_the_same_scores(model):
    rows = new_rows()
    (batch,) = rows.to_batches()
    scores = model.decision_function(batch)
    again = saving.from_bytes(saving.to_bytes(model))
    np.testing.assert_array_equal(again.decision_function(batch), scores)
    assert [each.score for each in again.explain(batch)] == pytest.approx(scores)
    np.testing.assert_allclose(onnx_scores(saving.onnx_bytes(again), rows), scores, atol=1e-6)


def test_a_file_is_fitted_ranked_explained_and_exported(tmp_path):
    path = write(tmp_path / "train.csv", made_rows(400))
    model = files.fit(
        path, label="fraud", drop=["id"], effort="quick", members=["target_trees"], threads=1
    )
    files.save(model, tmp_path / "m")
    again = files.load(tmp_path / "m")
    assert set(again.ranker.members_) == {"target_trees"}
    rows = new_rows()
    (batch,) = rows.to_batches()
    scores = model.decision_function(batch)
    np.testing.assert_array_equal(again.decision_function(batch), scores)
    np.testing.assert_allclose(onnx_scores(saving.onnx_bytes(again), rows), scores, atol=1e-6)
    assert len(files.rank(again, write(tmp_path / "new.csv", odd_rows()), explain=2)) == 200


def changed(change):
    """A change of the statistics of column 2, the city."""

    def forge(ranker):
        ranker.category_statistics_ = {2: change(ranker.category_statistics_[2])}

    return forge


@pytest.mark.parametrize(
    "forge",
    [
        changed(lambda known: known[:, :-1]),
        changed(lambda known: known[:1]),
        changed(lambda known: known.ravel()),
        changed(lambda known: known.astype(object)),
        changed(lambda known: known * np.nan),
        changed(lambda known: known.astype(np.int64)),
        changed(lambda known: known.tolist()),
        lambda ranker: vars(ranker).update(category_statistics_=[1]),
        lambda ranker: vars(ranker).update(category_statistics_={}),
        lambda ranker: vars(ranker).update(category_statistics_={1: np.zeros((4, 5))}),
        lambda ranker: vars(ranker).update(categories_={2: [0.0]}),
        lambda ranker: vars(ranker).update(columns_=np.array([0, 1, 2, 3])),
        lambda ranker: vars(ranker).update(
            categories_={9: [0.0]}, category_statistics_={9: np.zeros((4, 2))}
        ),
    ],
)
def test_forged_statistics_are_refused(forge, model):
    ranker = copy(model.ranker)
    forge(ranker)
    with pytest.raises(ModelError):
        saving.to_bytes(files.Model(Pipeline([*model.pipeline.steps[:-1], ("ranker", ranker)])))


def test_trees_that_split_by_categories_are_refused_with_statistics(model):
    """The sets of categories of other trees would be read as shares."""
    (batch,) = pa.table(made_rows(400)).to_batches()
    X = model.columns.transform(batch)
    X = np.column_stack([X, np.zeros(len(X))])
    y = np.array(made_rows(400)["fraud"]) == "yes"
    other = target(category_encoding="native", categorical_features=[2], n_members=3).fit(X, y)
    ranker = copy(model.ranker)
    ranker.texts_ = other.texts_
    with pytest.raises(ModelError, match="categories"):
        saving.to_bytes(files.Model(Pipeline([*model.pipeline.steps[:-1], ("ranker", ranker)])))
