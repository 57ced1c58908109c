"""Recall at false-positive rates and published figures: what is chosen, and the table."""

import csv

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import sparse, stats
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from reproduce.commands import main
from reproduce.false_positive_rates import (
    CHOICES,
    COSTS,
    PUBLISHED,
    Choice,
    Mean,
    RatesPlan,
    key_of,
    logistic_regression,
    run_trial,
)
from reproduce.store import DONE, FAILED, Record, Store

RATES = list(PUBLISHED["diabetes"])


@pytest.fixture(scope="module")
def rows():
    X, y = load_breast_cancer(return_X_y=True)
    return sparse.csr_array(X[::2] / X.max(axis=0)), y[::2] == 0


def best_recall(y, scores, rate):
    """Every threshold tried."""
    allowed = [
        np.mean(scores[y] >= threshold)
        for threshold in [np.inf, *scores]
        if np.mean(scores[~y] >= threshold) <= rate
    ]
    return max(allowed)


def one_column(X, y, rates, seen=None):
    """A model for each rate, whose scores are those of one column."""

    class Column:
        def __init__(self, number):
            self.number = number

        def decision_function(self, rows):
            return rows[:, [self.number]].toarray().ravel()

    if seen is not None:
        seen.append(y)
    return {rate: Column(number) for number, rate in enumerate(rates)}


def test_a_trial_measures_each_rates_model_on_rows_it_has_not_seen(rows):
    X, y = rows
    X = X.copy()
    X.data = np.round(X.data, 2)  # ties
    seen = []
    choice = Choice("x", "x", "x", lambda *given: one_column(*given, seen=seen))
    found = run_trial(choice, X, y, 5, RATES)
    order = np.random.RandomState(5).permutation(y.size)  # as train_test_split draws it
    n_test = int(np.ceil(y.size / 3))
    test, train = order[:n_test], order[n_test:]
    assert np.array_equal(seen[0], y[train])
    for number, rate in enumerate(RATES):
        scores = X[test].toarray()[:, number]
        assert found[key_of(rate)] == pytest.approx(best_recall(y[test], scores, rate))


def test_every_rate_has_the_top_that_it_names(rows):
    models = CHOICES["top"].fit(*rows, RATES[2:])
    assert [model.top_ for model in models.values()] == RATES[2:]
    assert all(rate == model.scoring.params["max_fpr"] for rate, model in models.items())
    assert len(set(CHOICES["cv"].fit(*rows, RATES).values())) == 1


def test_logistic_regression_has_the_cost_with_the_best_mean_recall(rows):
    X, y = rows
    means = np.zeros((len(COSTS), len(RATES)))
    for train, test in StratifiedKFold(5).split(X, y):
        for i, cost in enumerate(COSTS):
            model = LogisticRegression(C=cost, solver="liblinear").fit(X[train], y[train])
            scores = model.decision_function(X[test])
            means[i] += [best_recall(y[test], scores, rate) for rate in RATES]
    found = logistic_regression(X, y, RATES)
    assert [model.C for model in found.values()] == [COSTS[i] for i in means.argmax(axis=0)]
    assert len({model.C for model in found.values()}) > 1


def test_the_interval_is_students(rng):
    values = rng.normal(0.5, 0.1, size=30)
    low, high = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    mean = Mean.of(values)
    assert (mean.low, mean.high) == pytest.approx((low, high))
    assert mean.compared_with(low - 1e-6).endswith("above")
    assert mean.compared_with(low + 1e-6).endswith("inside")
    assert mean.compared_with(high + 1e-6).endswith("below")
    assert mean.compared_with(mean.value - 0.25) == "+0.250 above"
    assert np.isnan(Mean.of(values[:1]).low)


@pytest.fixture
def store(tmp_path):
    """Records of three splits: one method with recalls that are known, one that failed."""
    plan = RatesPlan(["diabetes"], ["top", "lr"], 3, sizes={"diabetes": (500, 268, 8)})
    store = Store(tmp_path / "recall-at-fpr.sqlite")
    for trial in range(3):
        recalls = {key_of(rate): 0.3 + 0.01 * trial for rate in RATES}
        found = {**recalls, "seconds_fitting": 2.0}
        store.write(Record(plan.config("diabetes", "top", trial), DONE, found))
        store.write(Record(plan.config("diabetes", "lr", trial), FAILED, {}, "it broke"))
    return store


def test_the_table_from_records_by_one_command(store):
    out = store.path.parent
    words = ["recall-at-fpr", "--show", "--trials", "3", "--out", str(out)]
    ran = CliRunner().invoke(main, [*words, "--methods", "top,lr"])
    assert ran.exit_code == 0, ran.output
    assert "LR: failed (it broke)" in " ".join(ran.stdout.split())
    with open(out / "recall-at-fpr.csv", newline="") as file:
        _, *found = csv.reader(file)
    assert [float(row[1]) for row in found] == RATES
    assert {(row[2], row[3]) for row in found} == {("TopPush, top = rate", "0.310")}
    half = stats.t.ppf(0.975, 2) * 0.01 / np.sqrt(3)
    assert found[0][4] == f"{0.31 - half:.3f} to {0.31 + half:.3f}"
    assert found[0][5:] == ["0.118", "+0.192 above", "0.110", "+0.200 above"]
    assert found[2][5:] == ["0.326", "-0.016 inside", "0.331", "-0.021 inside"]
    assert found[3][5:] == ["0.471", "-0.161 below", "0.460", "-0.150 below"]


def test_refuses_sets_without_published_figures():
    plan = RatesPlan(["spambase"], ["cv"], sizes={"spambase": (1, 1, 1)})
    with pytest.raises(ValueError, match=r"'spambase'.*\['w8a'"):
        plan.configs()
