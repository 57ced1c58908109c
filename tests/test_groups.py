"""Lists per group: each group by itself has the same measures, and means draw groups."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toppush import metrics
from toppush.thresholds.budgets import group_means, grouped_lists, mean_interval

lists = st.lists(
    st.tuples(st.booleans(), st.integers(0, 4), st.sampled_from("abcd")), min_size=4, max_size=40
)


def split(rows):
    positive, score, group = (np.array(column) for column in zip(*rows, strict=True))
    positive[:2] = [True, False]
    return positive, score.astype(float), group


@given(lists, st.integers(1, 6))
def test_every_group_is_measured_as_a_list_of_its_own(rows, budget):
    positive, score, group = split(rows)
    found = grouped_lists(positive, score, group, budget=budget, value=7, cost=2)
    assert found.names.tolist() == sorted(set(group.tolist()))
    for place, name in enumerate(found.names):
        y, s = positive[group == name], score[group == name]
        k = min(budget, len(y))
        one = {measure: values[place] for measure, values in found.metrics.items()}
        assert (found.rows[place], found.positives[place], found.reviewed[place]) == (
            len(y),
            y.sum(),
            k,
        )
        if not y.any():
            assert name in found.without_positives
            assert np.isnan(
                [one["recall"], one["average_precision"], one["positives_at_top"]]
            ).all()
            assert (one["true_positives"], one["precision"], one["profit"]) == (0, 0, -2 * k)
        elif y.all():
            assert one["true_positives"] == pytest.approx(k)
            assert one["positives_at_top"] == one["average_precision"] == 1
        else:
            assert one["precision"] == pytest.approx(metrics.precision_at_k(y, s, k=k))
            assert one["recall"] == pytest.approx(metrics.recall_at_k(y, s, k=k))
            assert one["average_precision"] == pytest.approx(metrics.average_precision(y, s))
            assert one["positives_at_top"] == pytest.approx(metrics.positives_at_top(y, s))
            assert one["profit"] == pytest.approx(7 * one["true_positives"] - 2 * k)


@given(lists)
def test_means_say_how_many_groups_they_are_of(rows):
    positive, score, group = split(rows)
    lists = grouped_lists(positive, score, group, budget=2)
    means = group_means(lists, draws=50)
    n_groups, with_positives = len(set(group)), len(set(group[positive]))
    assert means["true_positives"].groups == means["precision"].groups == n_groups
    assert means["recall"].groups == with_positives == n_groups - len(lists.without_positives)
    for name, one in means.items():
        assert one.mean.value == pytest.approx(np.nanmean(lists.metrics[name]))
    assert "profit" not in means


def test_amounts_of_rows_count_in_their_group():
    value = np.array([10.0, 20.0, 5.0, 8.0])
    found = grouped_lists([1, 0, 1, 0], [4, 3, 2, 1], [1, 1, 2, 2], budget=1, value=value, cost=3)
    assert found.metrics["profit"].tolist() == [7.0, 2.0]


def test_groups_that_are_all_alike_do_not_promise_that_all_will_be():
    found = mean_interval(np.zeros(8), (0.0, 1.0), 0.95, 4000, 0)
    assert (found.value, found.low) == (0.0, 0.0)
    # A share of 1 - 0.025^(1/8) of groups that differ shows none in eight, 25 times in 1000.
    assert found.high == pytest.approx(1 - 0.025 ** (1 / 8), abs=0.03)
    assert mean_interval(np.array([0.4]), (0.0, 1.0), 0.95, 100, 0).high == 1.0


@pytest.mark.parametrize("n_groups", [8, 40])
def test_means_over_groups_are_covered(n_groups, rng):
    """Skewed values, as counts of hits are, over 400 samples of groups."""
    held = []
    for _ in range(400):
        values = rng.poisson(2.0, n_groups).astype(float)
        one = mean_interval(values, (0.0, 50.0), 0.95, 200, 0)
        held.append(one.low <= 2.0 <= one.high)
    assert np.mean(held) >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / 400)


@pytest.mark.parametrize("groups, budget", [(["a"], 1), (["a", "b", "a"], 0)])
def test_groups_that_cannot_be_are_refused(groups, budget):
    with pytest.raises(ValueError, match="3 rows"):
        grouped_lists([1, 0, 1], [3.0, 2.0, 1.0], groups, budget=budget)
