"""Which of two labels is ranked first: one rule in every ranker, metric, report and command."""

import json
import pickle
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, make_scorer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import toppush
from files import made_rows, write
from reproduce.baselines import BASELINES
from reproduce.benchmark.cells import measure as benchmark_metrics
from test_cli import run
from toppush import PositiveClassWarning, TopPush, TopPushCV, compare, evaluate, files, metrics
from toppush.auto.combination import Quality
from toppush.auto.kernel import TopKernel
from toppush.auto.linear import TopLinear
from toppush.metrics import bootstrap
from toppush.metrics.positive_class import GREATER, LATER, RARER, of_two
from toppush.models.forest import TopForest
from toppush.plots import TopCurveDisplay
from toppush.report import from_estimator

pytestmark = pytest.mark.filterwarnings(
    "ignore::toppush.DegenerateWarning", "ignore::sklearn.exceptions.ConvergenceWarning"
)

RANKERS = [
    TopPush(0.1, top=0.3),
    TopPushCV([0.1, 1.0], tops=[0.3], cv=2),
    toppush.TopPushAdditive([0.1, 1.0], tops=[0.3], cv=2),
    TopLinear(),
    TopForest(5, n_jobs=1),
    TopKernel(n_jobs=1),
]
EXTRAS = {"TopPushTrees": "lightgbm", "TopPushNet": "torch"}
LONG = [
    toppush.TopPushTrees(n_members=2, max_rounds=5, n_jobs=1),
    toppush.TopPushNet(n_members=2, hidden=(4,), max_steps=5, n_jobs=1),
    toppush.TopRanker(["logistic", "forest"], n_jobs=1),
]
OURS = [*RANKERS, *(pytest.param(one, marks=pytest.mark.long) for one in LONG)]
OF_BASELINES = [
    BASELINES[name]() if name != "AccuracyAtTop" else BASELINES[name](candidates=2)
    for name in BASELINES
]
every_ranker = pytest.mark.parametrize(
    "ranker", [*OURS, *OF_BASELINES], ids=lambda one: type(one).__name__
)


def needs(ranker):
    if extra := EXTRAS.get(type(ranker).__name__):
        pytest.importorskip(extra)


@pytest.fixture(scope="module")
def rows():
    """120 rows, a quarter of them "bad", which sorts before "good"."""
    rng = np.random.default_rng(0)
    X, bad = rng.normal(size=(120, 3)), np.arange(120) % 4 == 0
    X[bad, 0] += 1.5
    return X, bad, np.where(bad, "bad", "good")


def caught(function):
    """What a call gives, and how often it warns of a positive class."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = function()
    return found, [one for one in said if issubclass(one.category, PositiveClassWarning)]


# The rule.


@given(st.lists(st.text("abc", min_size=1, max_size=2), min_size=2, max_size=2, unique=True),
       st.integers(0, 3), st.integers(0, 3))  # fmt: skip
def test_of_two_strings_the_rarer(pair, first, second):
    counts = dict(zip(pair, (first, second), strict=True))
    found, why = of_two(pair, counts.__getitem__)
    assert found == sorted(pair, key=lambda one: (-counts[one], one))[-1]
    assert why == (LATER if first == second else RARER)


@pytest.mark.parametrize(
    "pair", [(0, 1), (-1, 1), (False, True), (0.5, 2.5), ("0", "1"), ("9", "10"), ("false", "True")]
)
def test_of_two_numbers_the_greater(pair):
    assert of_two(pair[::-1], dict(zip(pair, (1, 9), strict=True)).__getitem__) == (
        pair[1],
        GREATER,
    )


# Rankers.


@every_ranker
def test_every_ranker_takes_the_rarer_string_and_says_so_once(ranker, rows):
    needs(ranker)
    X, bad, y = rows
    by_rule, said = caught(lambda: clone(ranker).fit(X, y))
    plain = clone(ranker).fit(X, bad)
    named, silent = caught(lambda: clone(ranker).set_params(positive="bad").fit(X, y))
    assert len(said) == 1
    assert not silent
    assert re.search("'bad'.* 30 .* 90 .*'good'", str(said[0].message))
    assert not Path(said[0].filename).is_relative_to(Path(toppush.__file__).parent)
    for one in (by_rule, named):
        assert one.classes_.tolist() == ["good", "bad"]
        assert one.positive_class_ == "bad"
        assert_array_equal(one.decision_function(X), plain.decision_function(X))
        assert_array_equal(one.predict(X) == "bad", plain.predict(X))
        assert one.score(X, y) == plain.score(X, bad)
    assert_array_equal(pickle.loads(pickle.dumps(named)).predict(X), named.predict(X))


@every_ranker
def test_every_ranker_takes_the_class_that_is_named(ranker, rows):
    needs(ranker)
    X, bad, y = rows
    turned = clone(ranker).set_params(positive="good").fit(X, y)
    assert turned.classes_.tolist() == ["bad", "good"]
    assert_array_equal(turned.decision_function(X), clone(ranker).fit(X, ~bad).decision_function(X))
    of_numbers = clone(ranker).set_params(positive=0).fit(X, bad.astype(int))
    assert of_numbers.classes_.tolist() == [1, 0]
    with pytest.raises(ValueError, match=r"'worse'.*'bad', 'good'"):
        clone(ranker).set_params(positive="worse").fit(X, y)


def test_a_path_takes_the_class_that_is_named(rows):
    X, bad, y = rows
    named = toppush.toppush_path(X, y, lams=[0.1], positive="good")
    assert_array_equal(named.coefs, toppush.toppush_path(X, ~bad, lams=[0.1]).coefs)


@pytest.mark.parametrize("labels", [(" yes", "yes"), ("no", " yes", "yes")])
def test_labels_that_differ_by_blanks_are_refused(labels):
    y = np.array(labels * 4)
    for judge in (lambda: TopPush().fit(np.arange(len(y))[:, None], y),
                  lambda: metrics.auc(y[:8], np.arange(8))):  # fmt: skip
        with pytest.raises(ValueError, match=r"' yes', .*'yes'|two classes"):
            judge()


SCORINGS = {
    "average_precision": "average_precision",
    "roc_auc": "roc_auc",
    "own": metrics.scorer("auc"),
    "named": make_scorer(
        average_precision_score, response_method="decision_function", pos_label="bad"
    ),
}


@pytest.mark.parametrize("scoring", SCORINGS)
@pytest.mark.parametrize("ranker", RANKERS[1:3], ids=lambda one: type(one).__name__)
def test_any_scoring_chooses_by_the_positive_class(ranker, scoring, rows):
    X, bad, y = rows
    by_bools = "average_precision" if scoring == "named" else SCORINGS[scoring]
    plain = clone(ranker).set_params(scoring=by_bools).fit(X, bad)
    found, said = caught(
        lambda: clone(ranker).set_params(scoring=SCORINGS[scoring], positive="bad").fit(X, y)
    )
    assert found.best_score_ == pytest.approx(plain.best_score_, rel=1e-12)
    assert found.lam_ == plain.lam_
    assert not said


def test_tools_of_scikit_learn_score_by_our_scorer(rows):
    X, bad, y = rows
    ranker = make_pipeline(StandardScaler(), TopPush(0.1, top=0.3))
    named = clone(ranker).set_params(toppush__positive="bad")
    for name in ("average_precision", "top_loss", "recall_at_10_false_positives"):
        scoring = metrics.scorer(name)
        expected = cross_val_score(ranker, X, bad, scoring=scoring, cv=3)
        found = cross_val_score(named, X, y, scoring=scoring, cv=3, error_score="raise")
        assert_array_equal(found, expected)
    grid = {"toppush__lam": [0.1, 1.0]}
    search = GridSearchCV(named, grid, scoring=metrics.scorer("auc"), cv=3).fit(X, y)
    plain = GridSearchCV(ranker, grid, scoring=metrics.scorer("auc"), cv=3).fit(X, bad)
    assert_array_equal(search.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"])
    assert metrics.scorer("auc")(search, X, y) == metrics.scorer("auc")(plain, X, bad)


def test_our_scorer_asks_which_class_others_rank_first(rows):
    X, bad, y = rows
    other = LogisticRegression().fit(X, y)
    with pytest.raises(ValueError, match=r"'bad' and 'good'.*pos_label"):
        metrics.scorer("auc")(other, X, y)
    found = metrics.scorer("auc", pos_label="bad")(other, X, y)
    assert found == metrics.auc(bad, -other.decision_function(X))


def test_our_scorer_passes_weights_on(rows):
    X, _, y = rows
    ranker, weight = TopPush(0.1, top=0.3, positive="bad").fit(X, y), np.arange(1.0, 121.0)
    assert metrics.scorer("auc")(ranker, X, y, sample_weight=weight) == metrics.auc(
        y, ranker.decision_function(X), sample_weight=weight, pos_label="bad"
    )


# Metrics and reports.


def test_metrics_follow_the_rule_and_say_so(rows):
    X, bad, y = rows
    for name in ("auc", "positives_at_top", "average_precision"):
        measure = metrics.METRICS[name]
        found, said = caught(lambda measure=measure: measure(y, X[:, 0]))
        assert found == measure(bad, X[:, 0]) == measure(y, X[:, 0], pos_label="bad")
        assert len(said) == 1
        assert "pos_label='bad'" in str(said[0].message)


def test_labels_that_do_not_say_which_rows_are_positive_are_refused(rows):
    X, _, y = rows
    measures = {"auc": bootstrap.metric_at("auc")}
    for judge in (
        lambda: bootstrap.intervals(y, X[:, 0], measures),
        lambda: metrics.paired.side_by_side(y, {"a": X[:, 0], "b": X[:, 1]}, measures),
        lambda: bootstrap.intervals(np.where(y == "bad", 2, 1), X[:, 0], measures),
    ):
        with pytest.raises(ValueError, match="positive"):
            judge()


def test_evaluate_and_compare_agree_on_the_class(rows):
    X, bad, y = rows
    ours = TopPush(0.1, top=0.3, positive="bad").fit(X, y)
    other = LogisticRegression().fit(X, y)
    expected = evaluate(other, X, y, positive="bad", draws=20)
    assert expected.measures == evaluate(-other.decision_function(X), y=bad, draws=20).measures
    for lists in ({"ours": ours, "other": other}, {"other": other, "ours": ours}):
        both, said = caught(lambda lists=lists: compare(lists, X, y, draws=20))
        assert not said
        assert both.positive_class == "bad"
        assert both["other"]["auc"] == expected["auc"]
        assert "30 positive ('bad')" in repr(both)
    by_rule, said = caught(lambda: evaluate(other, X, y, draws=20))
    assert by_rule.measures == expected.measures
    assert len(said) == 1
    assert "30 positive ('bad')" in repr(by_rule)
    of_scores, said = caught(lambda: evaluate(X[:, 0], y=y, draws=20))
    assert (of_scores.positive == bad).all()
    assert len(said) == 1
    with pytest.raises(ValueError, match=r"'worse'.*'bad', 'good'"):
        evaluate(other, X, y, positive="worse", draws=20)


def test_a_few_rows_do_not_turn_a_ranker_round(rows):
    """In rows where the other class is rarer, a ranker's own class stays the positive one."""
    X, bad, y = rows
    ours = TopPush(0.1, top=0.3, positive="bad").fit(X, y)
    few = np.flatnonzero(bad).tolist() + np.flatnonzero(~bad)[:5].tolist()
    found, said = caught(lambda: evaluate(ours, X[few], y[few], draws=20))
    assert not said
    assert_array_equal(found.positive, bad[few])
    assert ours.score(X[few], y[few]) == found["average_precision"].value


def test_pages_state_the_class(rows, monkeypatch, tmp_path):
    X, _, y = rows
    facts = []
    keep = lambda *rows, **page: facts.append(page["facts"]["Positive class"]) or "page"  # noqa: E731
    monkeypatch.setattr("toppush.report.estimator.build", keep)
    monkeypatch.setattr("toppush.report.page.build", keep)
    ours = TopPush(0.1, top=0.3, positive="bad").fit(X, y)
    other = LogisticRegression().fit(X, y)
    from_estimator(ours, X, y)
    from_estimator(other, X, y, positive="bad")
    from_estimator(other, X, y, positive="good")
    evaluate(other, X, y, positive="bad", draws=20).report(tmp_path / "page.html")
    assert facts == ["bad", "bad", "good", "bad"]


@pytest.mark.long
def test_displays_follow_a_ranker(rows):
    pytest.importorskip("matplotlib")
    X, bad, y = rows
    ours = TopPush(0.1, top=0.3, positive="bad").fit(X, y)
    display, said = caught(lambda: TopCurveDisplay.from_estimator(ours, X, y))
    plain = TopCurveDisplay.from_predictions(bad, ours.decision_function(X))
    assert_array_equal(display.recall, plain.recall)
    assert display.pos_label == "bad"
    assert not said


@pytest.mark.long
def test_labels_of_dask_follow_the_rule(rows):
    da, distributed = pytest.importorskip("dask.array"), pytest.importorskip("distributed")
    X, _, y = rows
    with distributed.Client(processes=False, dashboard_address=None):
        parts = da.from_array(X, chunks=(40, 3)), da.from_array(y, chunks=40)
        far, said = caught(lambda: TopPush(0.1, top=0.3).fit(*parts))
        scores = far.decision_function(parts[0])
        assert metrics.auc(parts[1], scores, pos_label="bad") == far_auc(far, X, y)
        assert caught(lambda: metrics.auc(parts[1], scores))[0] == far_auc(far, X, y)
    assert len(said) == 1
    assert far.classes_.tolist() == ["good", "bad"]


def far_auc(ranker, X, y):
    return pytest.approx(metrics.auc(y == "bad", X @ ranker.coef_[0]), rel=1e-12)


# Recall at 10 false positives.


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9)), min_size=2, max_size=60))
def test_recall_at_10_false_positives_is_that_of_the_tables(made):
    positive, scores = (np.array(column) for column in zip(*made, strict=True))
    positive[:2] = [True, False]
    found = metrics.recall_at_10_false_positives(positive, scores)
    assert found == pytest.approx(
        Quality(positive, np.ones(len(positive))).parts(scores[None])[2][0]
    )
    assert found == pytest.approx(benchmark_metrics(positive, scores.astype(float))["recall_10"])


# Files and commands.


@pytest.fixture
def blanks(tmp_path):
    """A table in which some labels have blanks around them."""
    made = made_rows(300)
    for row in range(0, 300, 50):
        made["fraud"][row] = f" {made['fraud'][row]}"
    made["fraud"][7] += " "
    write(tmp_path / "rows.csv", made)
    write(tmp_path / "rows.parquet", made)
    write(tmp_path / "plain.csv", made_rows(300))
    return tmp_path


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
def test_blanks_around_labels_are_left_out_and_counted(name, blanks):
    options = {"label": "fraud", "drop": ["id"], "lam": 0.1, "top": 0.3}
    plain = files.fit(blanks / "plain.csv", **options)
    with pytest.warns(UserWarning, match="^7 labels"):
        found = files.fit(blanks / name, positive=" yes", **options)
    assert found.label.others == ("no",)
    assert_array_equal(found.ranker.coef_, plain.ranker.coef_)
    with pytest.warns(UserWarning, match="^7 labels"):
        positive = files.labelled(found, blanks / name)[0]
    assert_array_equal(positive, files.labelled(plain, blanks / "plain.csv")[0])
    with pytest.warns(UserWarning, match="^7 labels"):
        files.check(found, blanks / name)


def test_errors_about_rows_of_a_csv_file_name_the_line(blanks):
    made = made_rows(300)
    options = {"label": "fraud", "drop": ["id"], "lam": 0.1, "top": 0.3}
    model = files.fit(blanks / "plain.csv", **options)
    made["id"][3] = "two\nlines"  # row 4 takes lines 5 and 6
    made["fraud"][9] = "maybe"
    write(blanks / "third.csv", made)
    write(blanks / "third.parquet", made)
    made["fraud"][9] = None
    write(blanks / "gap.csv", made)
    with pytest.raises(files.DataError) as raised:
        files.fit(blanks / "gap.csv", **options)
    assert (raised.value.line, raised.value.row) == (12, None)
    with pytest.raises(files.DataError) as raised:
        files.labelled(model, blanks / "third.csv")
    assert (raised.value.line, raised.value.row) == (12, None)
    made["fraud"][2], made["fraud"][9] = None, "maybe"
    write(blanks / "both.csv", made)
    with pytest.raises(files.DataError) as raised:
        files.check(model, blanks / "both.csv")
    assert (raised.value.line, raised.value.row) == (12, None)
    with pytest.raises(files.DataError) as raised:
        files.labelled(model, blanks / "third.parquet")
    assert (raised.value.line, raised.value.row) == (None, 10)


@pytest.mark.long
def test_commands_name_the_class_once_and_print_the_headline_metric(blanks):
    model = blanks / "m"
    fitted = run("fit", blanks / "plain.csv", "-o", model, "--label", "fraud", "--drop", "id",
                 "--lam", 0.1, "--top", 0.3)  # fmt: skip
    assert fitted.output.count("= yes") == 1
    assert "PositiveClassWarning" not in fitted.output
    ran = run("evaluate", model, blanks / "plain.csv", "--draws", 20)
    assert "recall_at_10_false_positives" in ran.stdout
    ran = run("evaluate", model, blanks / "plain.csv", "--draws", 20, "--json")
    measures = {one["metric"]: one for one in json.loads(ran.stdout)["metrics"]}
    positive, scores = files.labelled(files.load(model), blanks / "plain.csv")
    expected = metrics.recall_at_10_false_positives(positive, scores)
    assert measures["recall_at_10_false_positives"]["value"] == expected
    for command in (("rank",), ("explain", "--row", 1), ("check",)):
        ran = run(command[0], model, blanks / "plain.csv", *command[1:])
        assert ran.stdout.startswith("Positive: fraud = yes")


def test_a_model_of_a_file_ranks_its_own_class_first(blanks):
    model = files.fit(blanks / "plain.csv", label="fraud", drop=["id"], lam=0.1, top=0.3)
    rows, positive, _ = files.scoring.labelled_rows(model, blanks / "plain.csv")
    few = np.flatnonzero(positive).tolist() + np.flatnonzero(~positive)[:5].tolist()
    y = np.where(positive, "yes", "no")[few]
    assert_array_equal(evaluate(model, rows.take(few), y, draws=20).positive, positive[few])
