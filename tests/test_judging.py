"""`toppush.evaluate`, `toppush.compare` and lists side by side."""

import json
import re
from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import toppush
from files import made_rows, write
from test_cli import run
from toppush.metrics import METRICS, average_precision, bootstrap
from toppush.metrics.bootstrap import metric_at, metrics_of, panel
from toppush.metrics.paired import side_by_side
from toppush.report import from_estimator

FEW = {name: metric_at(name) for name in ("average_precision", "auc", "top_loss")}


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(600, 6, weights=[0.8], flip_y=0.1, random_state=0)
    return X[:300], y[:300], X[300:], y[300:]


@pytest.fixture(scope="module")
def logistic(data):
    X, y, _, _ = data
    return make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)


def test_an_estimator_and_its_scores_are_one(data, logistic):
    _, _, X, y = data
    one = toppush.evaluate(logistic, X, y, draws=50)
    two = toppush.evaluate(logistic.decision_function(X), y=y, draws=50)
    odds = toppush.evaluate(logistic.predict_proba(X)[:, 1], y=y, draws=50)
    assert one.measures == two.measures == odds.measures
    assert one["average_precision"].value == average_precision(y, logistic.decision_function(X))
    assert set(one.measures) == set(panel(300, int((y == 0).sum())))
    assert one.name == "LogisticRegression"


@pytest.mark.parametrize(
    "ranker",
    [
        RandomForestClassifier(10, random_state=0),
        LinearRegression(),
        GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2),
        toppush.TopPush(0.1, top=0.3),
    ],
    ids=lambda one: type(one).__name__,
)
def test_any_estimator_is_taken(ranker, data):
    X, y, X_new, y_new = data
    found = toppush.evaluate(ranker.fit(X, y), X_new, y_new, draws=20)
    assert found["auc"].value > 0.7
    assert len(found.scores) == 300


def test_the_positive_label_may_be_named(data, logistic):
    _, _, X, y = data
    named = np.where(y == 1, "bad", "good")
    fitted = LogisticRegression().fit(X, named)
    found = toppush.evaluate(fitted, X, named, positive="bad", draws=20)
    other = toppush.evaluate(-fitted.decision_function(X), y=named == "bad", draws=20)
    assert found.measures == other.measures


def test_printing_shows_every_measure_and_fits_a_terminal(data, logistic):
    _, _, X, y = data
    found = toppush.evaluate(logistic, X, y, draws=20)
    lines = repr(found).splitlines()
    assert len(lines) == len(found.measures) + 2
    assert max(map(len, lines)) <= 80
    assert "300 rows" in lines[0]


@pytest.mark.long
def test_an_evaluation_gives_thresholds_and_pages(data, logistic, tmp_path):
    _, _, X, y = data
    found = toppush.evaluate(logistic, X, y, draws=20)
    score = found.threshold(0.05).score
    assert (found.scores[y == 0] > score).mean() <= 0.05
    found.report(tmp_path / "page.html", title="Anyone's list")
    assert "Anyone&#39;s list" in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (([1.0, 2.0],), "labels.*y"),
        (([1.0, 2.0, 3.0], None, [0, 1]), "scores"),
        (([1.0, np.nan], None, [0, 1]), "row 1"),
        (([1.0, 2.0], None, [1, 1]), "both classes are needed|the classes are 1"),
        ((LogisticRegression(), None, [0, 1]), "score"),
    ],
)
def test_what_cannot_be_judged_is_told(arguments, said):
    with pytest.raises(ValueError, match=said):
        toppush.evaluate(*arguments)


# --- side by side


def made_lists(n_rows=300, seed=0, n_lists=3):
    rng = np.random.default_rng(seed)
    positive = rng.random(n_rows) < 0.2
    common = rng.normal(size=n_rows)
    lists = {
        f"list {number}": (2 - number) * positive + common + rng.normal(size=n_rows).round(1)
        for number in range(n_lists)
    }
    return positive, lists


def test_values_are_those_of_each_list_alone():
    positive, lists = made_lists()
    found = side_by_side(positive, lists, FEW, draws=60)
    for name, scores in lists.items():
        assert found.values[name] == bootstrap.intervals(positive, scores, FEW, draws=60)


def test_differences_have_two_sides():
    positive, lists = made_lists()
    found = side_by_side(positive, lists, FEW, draws=60)
    for one, other in combinations(lists, 2):
        there, back = found.difference(one, other, "auc"), found.difference(other, one, "auc")
        assert (there.value, there.low, there.high) == (-back.value, -back.high, -back.low)
        assert there.low <= there.value <= there.high


def test_more_lists_make_wider_differences():
    """All pairs hold at once, so each of them is wider; the same draws serve all."""
    positive, lists = made_lists(n_lists=2)
    two = side_by_side(positive, lists, FEW, draws=400).difference("list 0", "list 1", "auc")
    more = lists | {"again": lists["list 1"], "once more": lists["list 0"]}
    found = side_by_side(positive, more, FEW, draws=400).difference("list 0", "list 1", "auc")
    assert found.low < two.low
    assert found.high > two.high


def test_the_first_of_a_loss_is_the_lowest():
    positive, lists = made_lists()
    found = side_by_side(positive, lists, FEW, draws=60)
    best = min(lists, key=lambda name: METRICS["top_loss"](positive, lists[name]))
    assert found.order("top_loss")[0] == best
    assert found.lead("top_loss").difference.value >= 0


def test_equal_lists_are_level_and_better_ones_ahead():
    positive, lists = made_lists(1500)
    good = lists["list 0"] + 3 * positive
    found = side_by_side(positive, {"good": good, "chance": lists["list 2"]}, FEW, draws=200)
    assert found.lead().is_clear
    assert re.search("average_precision", found.lead().sentence(0.95))
    assert ", significant " in found.lead().sentence(0.95)
    same = side_by_side(positive, {"a": good, "b": good}, FEW, draws=60).lead()
    assert not same.is_clear
    assert "a and b tie" in same.sentence(0.95)


def test_many_long_lists_do_not_overflow():
    """The codes of places of a row in all lists would exceed 64 bits."""
    rng = np.random.default_rng(0)
    positive = rng.random(4000) < 0.5
    lists = {str(number): rng.normal(size=4000) for number in range(7)}
    cells = bootstrap.Cells.of(positive, list(lists.values()))
    assert cells.rows.sum() == 4000
    assert len(cells.rows) > 3900
    assert cells.positive.sum() == positive.sum()


def test_one_list_is_not_compared():
    with pytest.raises(ValueError, match="lists"):
        side_by_side([True, False], {"a": [1, 2]}, FEW)


def test_estimators_and_scores_stand_side_by_side(data, logistic):
    _, _, X, y = data
    chance = np.random.default_rng(0).normal(size=300)
    found = toppush.compare({"chance": chance, "logistic": logistic}, X, y, draws=100)
    assert found.lead.first == "logistic"
    assert found["logistic"]["auc"].value > found["chance"]["auc"].value
    assert found.difference("logistic", "chance").value > 0
    assert max(map(len, repr(found).splitlines()[:-1])) <= 90
    assert repr(found).splitlines()[-1].startswith("logistic is ahead by average_precision")
    named = toppush.compare({"a": chance, "b": chance}, y=y, by="precision_at_k(10)", draws=20)
    assert named.lead.by == "precision_at_k(10)"
    with pytest.raises(ValueError, match="'preccision'"):
        toppush.compare({"a": chance, "b": chance}, y=y, by="preccision")


def test_rankers_must_agree_on_the_positive_class(data, logistic):
    _, _, X, y = data
    named = np.where(y == 1, "bad", "good")
    both = {
        label: toppush.TopPush(top=1.0, positive=label).fit(X, named) for label in ("bad", "good")
    }
    with pytest.raises(ValueError, match="'bad', 'good'"):
        toppush.compare(both, X, named, draws=20)
    toppush.compare(both, X, named, positive="bad", draws=20)


def test_the_panel_is_what_rows_can_show():
    few, many = panel(20, 10), panel(200_000, 100_000)
    assert "precision_at_k(10)" in few
    assert "precision_at_k(50)" not in few
    assert set(few) < set(many)
    assert metrics_of(few)["precision_at_k(10)"] == metric_at("precision_at_k", k=10)


# --- on the command line


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    table = made_rows(300)
    rng = np.random.default_rng(0)
    good = (np.array(table["fraud"]) == "yes") + rng.normal(size=300)
    table |= {"good": good.tolist(), "low": (-good).tolist(), "chance": rng.normal(size=300)}
    return write(tmp_path_factory.mktemp("lists") / "scored.csv", table)


def compared(*arguments):
    return json.loads(run("compare", *arguments, "--json", "--draws", "100").stdout)


def test_columns_are_compared(scored):
    found = compared(scored, "--label", "fraud", "--scores", "chance,good")
    assert found["lead"]["first"] == "good"
    assert found["lead"]["more_than_noise"]
    assert found["values"]["good"]["auc"]["value"] > 0.6
    assert [(one["first"], one["second"]) for one in found["differences"]] == [("chance", "good")]
    said = run("compare", scored, "--label", "fraud", "--scores", "chance,good", "--draws", "50")
    assert re.search("average_precision", said.stdout)
    assert_array_equal([len(line) <= 80 for line in said.stdout.splitlines() if "─" in line], True)


def test_a_turned_column_is_the_same_list(scored):
    turned = ("--scores", "good", "--scores", "low", "--lower-is-better", "low")
    found = compared(scored, "--label", "fraud", *turned)
    assert found["values"]["good"] == found["values"]["low"]


def test_models_stand_beside_columns(scored, tmp_path):
    from toppush import files

    rows = write(tmp_path / "t.csv", made_rows(150, seed=5))
    model = files.fit(rows, label="fraud", drop=["id"], lam=0.1, top=0.3)
    files.save(model, tmp_path / "m.toppush")
    found = compared(
        scored, "--scores", "good", "--with", tmp_path / "m.toppush", "--label", "fraud"
    )
    positive, scores = files.labelled(model, scored)
    assert found["values"]["m.toppush"]["auc"]["value"] == METRICS["auc"](positive, scores)
    other = ("--positive", "no", "--label", "fraud")
    wrong = run(
        "compare", scored, "--scores", "good", "--with", tmp_path / "m.toppush", *other, code=1
    )
    assert "another positive label" in wrong.stderr


@pytest.mark.parametrize(
    ("arguments", "said", "code"),
    [
        (("--scores", "good"), "named", 2),
        (("--scores", "good,chance", "--cv", "3"), "--cv", 2),
        (("--metric", "auc"), "--metric", 2),
        (("--scores", "good,chance", "--lower-is-better", "age"), "not in --scores", 2),
        (("--scores", "good,chanse"), r"'chance'\?", 1),
        (("--scores", "good,city"), "column city", 1),
        (("--scores", "good,age"), "column age.*missing", 1),
        (("--scores", "good,chance", "--metric", "area"), "'area'", 1),
    ],
)
def test_lists_that_cannot_be_compared_are_told(arguments, said, code, scored):
    assert re.search(said, run("compare", scored, "--label", "fraud", *arguments, code=code).stderr)


# --- pages


@pytest.mark.long
@pytest.mark.parametrize(
    ("ranker", "tells"),
    [
        (RandomForestClassifier(5, random_state=0), False),
        (LinearRegression(), True),
        (PoissonRegressor(), False),  # its weights make the logarithm of what it predicts
        (make_pipeline(StandardScaler(), LogisticRegression()), True),
    ],
    ids=lambda one: type(one).__name__,
)
def test_any_estimator_has_a_page(ranker, tells, data):
    X, y, X_new, y_new = data
    page = from_estimator(ranker.fit(X, y), X_new, y_new, X, y)
    assert ("is not a sum over the columns" in page) != tells
    assert "Comparison with logistic regression" in page


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::toppush.PositiveClassWarning")
@pytest.mark.parametrize("positive", ["bad", "good"])
def test_a_page_of_either_class(positive, data):
    X, y, X_new, y_new = data
    names = np.array(["good", "bad"])
    ranker = make_pipeline(StandardScaler(), toppush.TopPush(0.1, top=0.3)).fit(X, names[y])
    page = from_estimator(ranker, X_new, names[y_new], positive=positive)
    n_positive = int((names[y_new] == positive).sum())
    assert f"of all {n_positive:,} positives among 300 rows" in page
    assert ("gives scores for the other class" in page) == (positive == "good")
