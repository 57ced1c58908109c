"""Every measure of every draw is the library's; intervals repeat, are invariant and cover."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, binom, norm

from benchmarks import coverage
from toppush import metrics
from toppush.metrics import bootstrap
from toppush.metrics.bootstrap import intervals, metric_at
from toppush.metrics.paired import side_by_side

PARAMETERS = {
    "partial_auc": [{"max_fpr": 0.3}, {"max_fpr": 1.0}, {"max_fpr": 0.3, "standardized": True}],
    "precision_at_k": [{"k": 1}, {"k": 4}],
    "recall_at_k": [{"k": 3}],
    "recall_at_fpr": [{"max_fpr": 0.01}, {"max_fpr": 0.4}, {"max_fpr": 1.0}],
    "top_recall": [{}, {"n_false": 2.5}],
    "lift_at": [{"fraction": 0.25}],
}
CASES = [(name, given) for name in metrics.METRICS for given in PARAMETERS.get(name, [{}])]
rows_of_lists = st.lists(st.tuples(st.booleans(), st.integers(0, 6)), min_size=4, max_size=25)


def split(rows):
    positive, score = (np.array(column) for column in zip(*rows, strict=True))
    positive[:2] = [True, False]
    return positive, score.astype(float)


def populations(positive, lists, draws=3, seed=0):
    cells = bootstrap.Cells.of(positive, lists)
    weights, unseen = cells.draw(draws, np.random.default_rng(seed))
    ends = [list(bootstrap._populations(weights, unseen, cells, one)) for one in cells.runs()]
    return cells, weights, unseen, ends


@pytest.mark.parametrize("name, parameters", CASES)
@given(rows=rows_of_lists, seed=st.integers(0, 99))
def test_measures_of_draws_are_the_metrics(name, parameters, rows, seed):
    """Of the list with the weights of a draw and the two unseen rows at its ends."""
    positive, score = split(rows)
    cells, weights, unseen, [ends] = populations(positive, [score], seed=seed)
    for curve, (top, bottom) in zip(ends, ((1, 0), (0, 1)), strict=True):
        found = metric_at(name, **parameters).of(curve)
        for draw in range(3):
            label = np.concatenate([[not top], cells.positive, [not bottom]])
            place = np.concatenate([[9.0], -cells.places[0].astype(float) / 9, [-9.0]])
            weight = np.concatenate([unseen[top, draw], weights[draw], unseen[bottom, draw]])
            expected = metrics.METRICS[name](label, place, sample_weight=weight, **parameters)
            assert found[draw] == pytest.approx(expected, abs=1e-9)


@given(rows=rows_of_lists, other=st.integers(0, 99))
def test_a_draw_has_as_many_rows_of_each_class(rows, other):
    positive, score = split(rows)
    lists = [score, np.random.default_rng(other).permutation(score)]
    cells, weights, unseen, ends = populations(positive, lists)
    assert cells.rows.sum() == len(rows)
    for class_, members in enumerate((cells.positive, ~cells.positive)):
        total = weights[:, members].sum(axis=1) + unseen[class_, :, 0]
        assert total == pytest.approx((positive if class_ == 0 else ~positive).sum())
    for worse, better in ends:
        assert (metrics.auc.of(worse) <= metrics.auc.of(better) + 1e-12).all()


@given(rows=rows_of_lists)
def test_joined_rows_lose_nothing(rows):
    """Places rise as scores fall, and only negatives without a positive between them share one."""
    positive, score = split(rows)
    places = bootstrap._joined_places(positive, score)
    for i in range(len(rows)):
        for j in range(len(rows)):
            low, high = sorted((score[i], score[j]))
            between = positive & (score >= low) & (score <= high)
            joined = low == high or not between.any()
            assert (places[i] == places[j]) == joined
            assert score[i] <= score[j] or places[i] <= places[j]


@given(rows=rows_of_lists, places=st.lists(st.integers(1, 20), min_size=1, max_size=1))
def test_mean_recall_is_the_binomial_sum(rows, places):
    """A positive is before the j-th of n negatives if fewer than j fall at or above it."""
    positive, score = split(rows)
    _, _, _, [ends] = populations(positive, [score])
    n_neg, place = int((~positive).sum()), places[0]
    for curve in ends:
        found = bootstrap._mean_recall(curve, np.full(bootstrap.NODES, float(place)))
        rate = np.minimum(curve.false_positives[:, 1:] / n_neg, 1.0)
        before = binom.cdf(place - 1, n_neg, rate)
        expected = (np.diff(curve.true_positives) * before).sum(axis=1) / curve.n_pos
        assert found == pytest.approx(expected, abs=1.01 / bootstrap.NODES)


def test_one_threshold_has_the_interval_of_clopper_and_pearson():
    """All positives at one score: recall at a rate is whether the share of negatives exceeds it."""
    positive = np.arange(140) < 40
    score = np.where(positive, 0.0, np.where(np.arange(140) < 43, 1.0, -1.0))  # 3 above of 100
    found = intervals(positive, score, {"auc": metric_at("auc")}, draws=20_000)["auc"]
    low, high = beta.ppf(0.025, 3, 98), beta.ppf(0.975, 4, 97)
    # The unseen positive, one of 41, is below or above all negatives.
    assert 1 - high - 0.15 < found.low < 1 - high
    assert found.high == pytest.approx(1 - low, abs=0.004)


def test_a_perfect_list_promises_little():
    """With n negatives below, a rate of 3.7 / n above is not excluded: exp(-3.7) is 2.5 %."""
    positive = np.arange(200) < 50
    wanted = {"top": metric_at("positives_at_top"), "loss": metric_at("top_loss")}
    found = intervals(positive, -np.arange(200.0), wanted, draws=4000)
    assert (found["top"].value, found["top"].high) == (1.0, 1.0)
    assert found["top"].low == pytest.approx(0.025, abs=0.01)
    assert found["loss"].high == pytest.approx(1 - found["top"].low, abs=1e-12)
    assert (found["loss"].value, found["loss"].low) == (0.0, 0.0)


@pytest.mark.parametrize("name, parameters", CASES)
def test_the_value_is_that_of_the_list_and_within(name, parameters, rng):
    positive, score = rng.random(300) < 0.3, rng.normal(size=300).round(1)
    found = intervals(positive, score, {"one": metric_at(name, **parameters)}, draws=200)["one"]
    assert found.value == pytest.approx(metrics.METRICS[name](positive, score, **parameters))
    assert found.low <= found.value <= found.high


def test_draws_repeat_and_only_the_order_of_scores_counts(rng):
    positive, score = rng.random(300) < 0.3, rng.normal(size=300).round(1)
    wanted = {"auc": metric_at("auc"), "head": metric_at("precision_at_k", k=10)}
    found = intervals(positive, score, wanted, draws=200, seed=3)
    assert intervals(positive, np.exp(score), wanted, draws=200, seed=3) == found
    assert intervals(positive, score, wanted, draws=200, seed=4) != found
    shuffled = rng.permutation(300)
    assert intervals(positive[shuffled], score[shuffled], wanted, draws=200, seed=3) == found


def test_draws_in_parts_are_the_same(rng, monkeypatch):
    """In what blocks draws are made does not show in how many there are."""
    positive, score = rng.random(100) < 0.3, rng.normal(size=100)
    monkeypatch.setattr(bootstrap, "ENTRIES", 1000)
    found = intervals(positive, score, {"auc": metric_at("auc")}, draws=205)["auc"]
    assert found.low < found.value < found.high


def test_each_of_two_lists_has_the_interval_it_has_alone(rng):
    positive, score = rng.random(200) < 0.3, rng.normal(size=200)
    other = score + rng.normal(size=200)
    wanted = {"top": metric_at("positives_at_top"), "ap": metric_at("average_precision")}
    found = side_by_side(positive, {"a": score, "b": other}, wanted, draws=200)
    assert found.values["a"] == intervals(positive, score, wanted, draws=200)
    for name, apart in found.differences["a", "b"].items():
        assert apart.value == found.values["a"][name].value - found.values["b"][name].value
        assert apart.low <= apart.value <= apart.high
    mirrored = side_by_side(positive, {"a": other, "b": score}, wanted, draws=200)
    low, high = mirrored.difference("a", "b", "ap").low, found.difference("a", "b", "ap").high
    assert low == pytest.approx(-high, abs=0.03)


def test_unknown_measures_are_refused():
    with pytest.raises(ValueError, match="'mean'"):
        metric_at("mean")


@pytest.mark.slow
@pytest.mark.parametrize("case", coverage.CASES, ids=str)
def test_every_measure_is_covered(case):
    """At least 92 of 100 intervals at 95 % hold the mean: 95 less the error of 300 lists."""
    for row in coverage.covered(case, 300, seed=1):
        found = dict(zip(coverage.COLUMNS, row, strict=True))
        assert found["coverage"] >= 0.92, found


@pytest.mark.slow
@pytest.mark.parametrize("case, other", coverage.PAIRS, ids=str)
def test_every_difference_is_covered(case, other):
    for row in coverage.pair_covered(case, other, 200, seed=1):
        found = dict(zip(coverage.COLUMNS, row, strict=True))
        assert found["coverage"] >= 0.92, found


def test_the_top_and_the_whole_are_covered():
    """Where resampled rows held the mean of Pos@Top in four lists of five, over 100 lists."""
    rng = np.random.default_rng(0)
    wanted = {"top": metric_at("positives_at_top"), "auc": metric_at("auc")}
    positive = np.arange(600) < 100
    drawn = [rng.normal(size=600) + 2 * positive for _ in range(2000)]
    target = {
        "top": np.mean([metrics.positives_at_top(positive, score) for score in drawn]),
        "auc": norm.cdf(2 / np.sqrt(2)),
    }
    found = [intervals(positive, score, wanted, draws=100) for score in drawn[:100]]
    for name, mean in target.items():
        assert np.mean([one[name].low <= mean <= one[name].high for one in found]) >= 0.95
