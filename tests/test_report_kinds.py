"""Reports of rankers that are no weighted sum: what columns add, curves, or a sentence."""

import json
import re

import numpy as np
import pyarrow as pa
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from files import made_rows
from toppush import TopPush, TopPushAdditive, TopPushKernel, TopPushTrees
from toppush.estimators.explaining import explain
from toppush.files import Columns
from toppush.report import Features, from_estimator
from toppush.report.explained import (
    Explained,
    Influence,
    by_column,
    largest_curves,
    largest_influences,
)


def rows(n_rows, seed=0):
    table = made_rows(n_rows, seed=seed)
    y = np.array(table.pop("fraud")) == "yes"
    del table["id"]
    return pa.table(table), y


def coded(ranker):
    table, y = rows(300)
    return make_pipeline(Columns(form="codes"), ranker).fit(table, y)


@pytest.fixture(scope="module")
def additive():
    return coded(TopPushAdditive([0.1], tops=[0.3], categorical_features=[2]))


def specs(page):
    text = re.search(r'id="specs">(.*?)</script>', page, re.S).group(1)
    return json.loads(text)


def test_features_of_a_column_are_told_as_one(rng):
    amounts = rng.normal(size=(7, 4))
    names, found = by_column(amounts, ["a", "b", "a", "c"])
    assert names == ["a", "b", "c"]
    expected = np.column_stack([amounts[:, 0] + amounts[:, 2], amounts[:, 1], amounts[:, 3]])
    np.testing.assert_allclose(found, expected)


def test_the_largest_influences_come_first():
    told = Explained(["a", "b", "c"], {}, np.array([1.0, 3.0, 0.0]), {})
    assert largest_influences(told, 5) == [Influence("b", 3.0, 0.75), Influence("a", 1.0, 0.25)]


def test_curves_of_an_additive_ranker(additive):
    table, y = rows(200, seed=1)
    page = from_estimator(additive, table, y)
    assert "The score is a sum of one curve for each column" in page
    drawn = specs(page)
    assert [name for name in drawn if name.startswith("curve-")] == [
        f"curve-{number}" for number in range(4)
    ]
    ranker = additive[-1]
    sizes = np.abs(ranker.contributions(additive[0].transform(table))[:, :-1]).mean(axis=0)
    texts = additive[0].feature_texts()
    names = {"age": 0, "income": 1, "city": 2, "member": 3}
    curves = {one.name: one for one in largest_curves(ranker, names, sizes, texts)}
    cities = dict(zip(curves["city"].values, curves["city"].amounts, strict=True))
    assert set(cities) == {"Lyon", "Oslo", "Rome", "São Paulo", "(missing)"}
    assert max(cities, key=cities.get) == "Rome"
    assert curves["age"].missing is not None
    assert curves["income"].missing is None  # no training row lacks it


def test_what_columns_add_sums_to_the_score(additive):
    table, y = rows(200, seed=1)
    page = from_estimator(additive, table, y)
    scores = additive.decision_function(table)
    alarms = np.argsort(-np.where(y, -np.inf, scores))
    above = scores[alarms[0]] - scores.mean()
    assert f"<td>{above:.4g}</td>" in page


def test_trees_are_explained_by_their_contributions():
    pytest.importorskip("lightgbm")
    trees = coded(TopPushTrees(0.1, n_members=2, categorical_features=[2], max_rounds=20))
    table, y = rows(200, seed=1)
    page = from_estimator(trees, table, y, *rows(300))
    assert "Shapley values" in page
    assert "What columns add, in the mean" in page
    assert "age = " in page
    assert "Logistic regression with scikit-learn" in page  # which cannot take gaps itself


def test_a_ranker_that_cannot_tell_says_so(rng):
    X = rng.normal(size=(120, 3))
    y = X[:, 0] + rng.normal(size=120) > 1
    page = from_estimator(SVC().fit(X, y), X, y)
    assert "The score of SVC is no sum over the columns" in page
    assert 'id="alarms"' not in page
    assert 'id="reasons"' not in page


def test_a_kernel_is_explained_by_its_contributions(rng):
    X = rng.normal(size=(120, 3))
    y = X[:, 0] + rng.normal(size=120) > 1
    kernel = TopPushKernel([0.1], tops=[0.3], widths=[1.0], n_components=20).fit(X, y)
    page = from_estimator(kernel, X, y)
    assert "Shapley values" in page
    assert "How far from the optimum" in page


def test_the_first_rows_have_their_reasons(additive):
    table, y = rows(200, seed=1)
    page = from_estimator(additive, table, y)
    scores = additive.decision_function(table)
    first = int(np.argsort(-scores)[0])
    negatives = np.flatnonzero(~y)[np.argsort(-scores[~y])[:10]]
    assert "the mean of the 10 highest-ranked negatives of this list" in page
    against = pa.table(table).take(negatives)
    why = explain(additive, table, 4, against=against)[first]
    card = page.partition(f"<strong>1.</strong> Row {first + 1},")[2].partition("</li>")[0]
    for reason in why.lifted:
        assert f"{reason.told}</dt>" in card
        assert f">{reason.lift:+.2g}</span>" in card
    assert card.count('class="bar"') == len(why.lifted)
    assert "Held back" not in card


def test_the_reasons_of_weights_are_the_drivers(rng):
    """What a report says of false alarms is what the ranker says, less its mean over the rows."""
    X = rng.normal(size=(120, 3))
    y = X[:, 0] + rng.normal(size=120) > 1
    ranker = TopPush(0.1, top=0.3).fit(X, y)
    features = Features.of(X, ranker.coef_, rows=range(5))
    added = ranker.contributions(X)[:, :-1]
    for row in range(5):
        np.testing.assert_allclose(features.contributions(row), added[row] - added.mean(axis=0))
