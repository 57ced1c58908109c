"""Every measure of every draw is the library's; intervals repeat and cover."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toppush import bootstrap, metrics
from toppush.bootstrap import intervals, measure

PARAMETERS = {
    "partial_auc": [{"max_fpr": 0.3}, {"max_fpr": 1.0}],
    "precision_at_k": [{"k": 1}, {"k": 4}],
    "recall_at_k": [{"k": 3}],
    "recall_at_fpr": [{"max_fpr": 0.01}, {"max_fpr": 0.4}],
    "lift_at": [{"fraction": 0.25}],
}
CASES = [(name, given) for name in metrics.METRICS for given in PARAMETERS.get(name, [{}])]


def test_all_measures_are_there():
    assert set(bootstrap.MEASURES) == set(metrics.METRICS)


@pytest.mark.parametrize("name, parameters", CASES)
@given(
    rows=st.lists(st.tuples(st.booleans(), st.integers(0, 6)), min_size=4, max_size=25),
    seed=st.integers(0, 99),
)
def test_measures_of_draws_are_the_metrics(name, parameters, rows, seed):
    positive, score = (np.array(column) for column in zip(*rows, strict=True))
    positive[:2] = [True, False]
    order = np.argsort(-score, kind="stable")
    positive, score = positive[order], score[order].astype(float)
    last = np.flatnonzero(np.append(score[1:] != score[:-1], True))
    weights = bootstrap._draw(positive, 3, np.random.default_rng(seed))
    assert (weights[:, positive].sum(axis=1) == positive.sum()).all()
    assert (weights.sum(axis=1) == len(rows)).all()
    found = measure(name, **parameters)(bootstrap._lists(weights, positive, last))
    for value, weight in zip(found, weights.astype(int), strict=True):
        drawn = np.repeat(np.arange(len(rows)), weight)
        expected = metrics.METRICS[name](positive[drawn], score[drawn], **parameters)
        assert value == pytest.approx(expected, abs=1e-12)


def test_the_value_is_that_of_the_list_and_draws_repeat(rng, monkeypatch):
    positive, score = rng.random(300) < 0.3, rng.normal(size=300).round(1)
    wanted = {"auc": measure("auc"), "head": measure("precision_at_k", k=10)}
    found = intervals(positive, score, wanted, draws=200, seed=3)
    assert found["auc"].value == pytest.approx(metrics.auc(positive, score))
    assert found["head"].value == pytest.approx(metrics.precision_at_k(positive, score, k=10))
    assert found["auc"].low < found["auc"].value < found["auc"].high
    assert intervals(positive, score, wanted, draws=200, seed=3) == found
    assert intervals(positive, score, wanted, draws=200, seed=4) != found


def test_intervals_cover_the_truth(rng):
    """Area 0.76 of two normal classes a deviation apart, over 200 samples."""
    covered = []
    for sample in range(200):
        positive = np.arange(150) < 50
        score = rng.normal(size=150) + positive
        found = intervals(positive, score, {"auc": measure("auc")}, draws=200, seed=sample)["auc"]
        covered.append(found.low <= 0.76025 <= found.high)
    assert 0.89 <= np.mean(covered) <= 0.99
