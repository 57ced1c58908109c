"""Reports of rankers that are no weighted sum: what columns add, curves, or a sentence."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from files import made_rows
from toppush import TopPush, TopPushAdditive, TopPushTrees, TopRanker, metrics
from toppush.explain.reasons import explain
from toppush.files import Columns
from toppush.report import Features, from_estimator
from toppush.report import estimator as report_estimator
from toppush.report.contributions import (
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
    texts = additive[0].feature_categories()
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
    assert "Mean absolute contributions" in page
    assert "age = " in page
    assert "Logistic regression with scikit-learn" in page  # which cannot take gaps itself


def test_a_ranker_that_cannot_tell_says_so(rng):
    X = rng.normal(size=(120, 3))
    y = X[:, 0] + rng.normal(size=120) > 1
    page = from_estimator(SVC().fit(X, y), X, y)
    assert "The score of SVC is not a sum over the columns" in page
    assert 'id="alarms"' not in page
    assert 'id="reasons"' not in page


def test_the_first_rows_have_their_reasons(additive):
    table, y = rows(200, seed=1)
    page = from_estimator(additive, table, y)
    scores = additive.decision_function(table)
    first = int(np.argsort(-scores)[0])
    negatives = np.flatnonzero(~y)[np.argsort(-scores[~y])[:10]]
    assert re.search(r"10.*highest-ranked", page)
    against = pa.table(table).take(negatives)
    why = explain(additive, table, 4, against=against)[first]
    card = page.partition(f"<strong>1.</strong> Row {first + 1},")[2].partition("</li>")[0]
    for reason in why.raised_by:
        assert f"{reason.label}</dt>" in card
        assert f">{reason.contribution:+.2g}</span>" in card
    assert card.count('class="bar"') == len(why.raised_by)
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


@pytest.fixture
def built(monkeypatch):
    """What pages would be made from; none is drawn."""
    kept = []
    monkeypatch.setattr(report_estimator, "build", lambda y, s, **page: kept.append(page))
    return kept


def numbers(n_rows=160):
    rng = np.random.default_rng(5)
    y = rng.random(n_rows) < 0.3
    return np.column_stack([rng.normal(size=n_rows) + y, rng.normal(size=n_rows)]), y


def frame_of(X, index=None):
    return pd.DataFrame(X, columns=["age", "amount"], index=index)


def as_polars(X):
    return pytest.importorskip("polars").DataFrame({"age": X[:, 0], "amount": X[:, 1]})


FORMS = {
    "frame": frame_of,
    "labels in another order": lambda X: frame_of(X, np.arange(len(X))[::-1]),
    "labels that are texts": lambda X: frame_of(X, [f"row {row}" for row in range(len(X))]),
    "equal labels": lambda X: frame_of(X, np.zeros(len(X), int)),
    "polars": as_polars,
    "arrow": lambda X: pa.Table.from_pandas(frame_of(X), preserve_index=False),
    "csr": sparse.csr_array,
    "coo": sparse.coo_matrix,
    "lists": np.ndarray.tolist,
}


@pytest.fixture(scope="module")
def rankers():
    X, y = numbers()
    known = {"linear": TopPush(0.1, top=0.3), "auto": TopRanker(["logistic", "forest"], cv=2)}
    return {name: ranker.fit(frame_of(X[:80]), y[:80]) for name, ranker in known.items()}


@pytest.mark.sampled(3)
@pytest.mark.filterwarnings("ignore:X does not have valid feature names", "ignore:Weights of zero")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["linear", "auto"])
def test_rows_are_taken_by_position_whatever_holds_them(name, form, rankers, built):
    """Row labels of a frame are neither positions nor looked at."""
    X, y = numbers()
    for make in (frame_of, FORMS[form]):
        from_estimator(rankers[name], make(X[80:]), y[80:], make(X[:80]), y[:80])
    plain, page = built
    assert page["model"].features.rows.keys() == plain["model"].features.rows.keys()
    for row in plain["model"].features.rows:
        ours, theirs = (one["model"].features.contributions(row) for one in (page, plain))
        np.testing.assert_allclose(ours, theirs, atol=1e-12)
        values = [page["model"].features.value(row, column) for column in range(2)]
        np.testing.assert_allclose(values, X[80:][row])
    np.testing.assert_allclose(page["baseline"].scores, plain["baseline"].scores, atol=1e-6)
    first, second = (
        [why.row for why in kept["model"].reasons.explanations] for kept in (page, plain)
    )
    assert first == second


@pytest.mark.parametrize("index", [None, range(200, 0, -1)], ids=["plain", "turned"])
def test_the_first_example_of_the_docs_takes_a_frame(index, built, tmp_path, monkeypatch):
    """Of texts, dates and missing values, as TopRanker takes them."""
    monkeypatch.chdir(tmp_path)
    table, y = rows(400)
    frame = table.to_pandas().assign(day=np.arange(400) * np.timedelta64(1, "h"))
    frame["day"] += np.datetime64("2024-01-01", "ns")
    X_train, X_test, y_train, y_test = frame[:200], frame[200:], y[:200], y[200:]
    X_test = X_test.set_index(pd.Index(index)) if index is not None else X_test
    world = {"ranker": TopRanker(["logistic", "forest"], cv=2).fit(X_train, y_train)}
    world |= {"X_test": X_test, "y_test": y_test, "X_train": X_train, "y_train": y_train}
    text = (Path(__file__).parents[1] / "docs" / "report.md").read_text(encoding="utf-8")
    example = re.search(r"```python\n(.*?)```", text, re.S).group(1)
    exec(example.replace("report.write", "print"), world)
    [page] = built
    scores = world["ranker"].decision_function(X_test)
    first = np.argsort(-scores, kind="stable")[0]
    assert page["preview"].iloc[0].equals(X_test.iloc[first])
    assert 0.3 < metrics.average_precision(y_test, page["baseline"].scores) < 1.0
    assert set(page["model"].features.names) == set(frame.columns)
