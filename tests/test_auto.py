"""TopRanker: what it promises of members, folds, weights, tables, time and interrupts."""

import itertools
import re
import warnings
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, StratifiedKFold, TimeSeriesSplit
from sklearn.naive_bayes import GaussianNB
from sklearn.utils.estimator_checks import parametrize_with_checks

from toppush import DegenerateWarning, TopPushTrees, TopRanker, metrics
from toppush.auto import members, schedule
from toppush.auto.combination import MemberScores, Quality, choose_weights
from toppush.auto.linear import TopLinear
from toppush.auto.search import WeightedRows
from toppush.folds.splits import in_turn, nested
from toppush.models.boosting import BoostedMember, choose_rounds, others_than
from toppush.models.forest import TopForest
from toppush.tables.frames import FROM_DTYPE, FrameColumns

QUICK = ["logistic", "forest"]
F1 = "predict maximises F1, so it marks rows with probabilities below 1/2 too"
pytestmark = pytest.mark.filterwarnings("ignore:base model:UserWarning")
"""Estimators of one's own, whose limits are reported."""


def made(n_rows=400, n_columns=5, seed=0):
    """Rows whose first two columns tell the classes apart, one positive in four."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_columns))
    odds = 2.0 * X[:, 0] + X[:, 1] ** 2 + rng.standard_normal(n_rows)
    return X, odds > np.quantile(odds, 0.75)


def made_table(n_rows=300, seed=0):
    """A data frame with texts, gaps, dates and true and false, and labels."""
    rng = np.random.default_rng(seed)
    city = rng.choice(["Lyon", "Oslo", "Rome"], n_rows)
    when = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 700, n_rows), "D")
    amount = rng.lognormal(3, 2, n_rows)
    odds = (city == "Oslo") + (when.day_of_week >= 5) + 0.5 * np.log(amount)
    table = pd.DataFrame({"city": city, "when": when, "amount": amount, "new": amount > 30})
    table.loc[rng.choice(n_rows, 20, replace=False), ["city", "amount"]] = None
    table.loc[rng.choice(n_rows, 20, replace=False), "when"] = pd.NaT
    return table, np.asarray(odds + rng.standard_normal(n_rows) > 3.0)


@cache
def fitted(rows=made):
    """A combination of two members that tests share; who fits again makes a new one."""
    return TopRanker(QUICK, effort="quick").fit(*rows())


@pytest.mark.sampled(5)
@parametrize_with_checks(
    [TopRanker(QUICK, effort="quick", cv=2), TopLinear()],
    expected_failed_checks=lambda one: (
        {
            "check_sample_weight_equivalence_on_dense_data": "folds go by number, not by weight",
            "check_sample_weight_equivalence_on_sparse_data": "folds go by number, not by weight",
        }
        | ({"check_classifiers_train": F1} if isinstance(one, TopLinear) else {})
    ),
)
@pytest.mark.filterwarnings("ignore::toppush.LeakageWarning")
def test_scikit_learn_contract(estimator, check):
    check(estimator)


# ---- how lists are judged


@given(st.integers(0, 10_000))
def test_lists_are_judged_as_the_metrics_do(seed):
    rng = np.random.default_rng(seed)
    n_rows = int(rng.integers(5, 60))
    positive = rng.random(n_rows) < 0.4
    positive[:2] = True, False
    lists = rng.permutation(3 * n_rows).reshape(3, n_rows).astype(float)  # no ties
    precision, ndcg, recall = Quality(positive, np.ones(n_rows)).parts(lists)
    for place, scores in enumerate(lists):
        assert precision[place] == pytest.approx(metrics.average_precision(positive, scores))
        assert ndcg[place] == pytest.approx(metrics.ndcg(positive, scores))
        above = np.sort(scores[~positive])[::-1]
        tenth = above[9] if len(above) > 9 else -np.inf
        assert recall[place] == pytest.approx(np.mean(scores[positive] > tenth))


@given(st.integers(0, 10_000))
def test_weights_count_rows_several_times(seed):
    rng = np.random.default_rng(seed)
    positive = np.append(rng.random(20) < 0.5, [True, False])
    scores, times = rng.standard_normal((2, 22)), rng.integers(0, 4, 22)
    times[-2:] = 1
    again = np.repeat(np.arange(22), times)
    # copies of a row stand at one place, and of equals negatives come first: the same for both
    spread = scores[:, again] - 1e-9 * np.arange(len(again))
    weighted = Quality(positive, times.astype(float)).parts(scores)
    copied = Quality(positive[again], np.ones(len(again))).parts(spread)
    np.testing.assert_allclose(weighted[2], copied[2], atol=1.0)  # a block counts as a whole
    assert (weighted[0] <= 1.0 + 1e-12).all()
    assert (copied[0] <= 1.0 + 1e-12).all()


def test_of_equal_scores_negatives_come_first():
    positive = np.array([True, False, True])
    assert Quality(positive, np.ones(3)).parts(np.zeros((1, 3)))[0][0] == pytest.approx(
        (1 / 2 + 2 / 3) / 2
    )


# ---- how members are combined


@given(st.integers(0, 10_000), st.integers(1, 5))
def test_weights_are_shares(seed, n_members):
    rng = np.random.default_rng(seed)
    positive = rng.random(80) < 0.3
    positive[:2] = True, False
    lists = MemberScores(rng.standard_normal((n_members, 80)), positive, np.ones(80))
    weights = choose_weights(lists, None, seed)
    assert weights.min() >= 0.0
    assert weights.sum() == pytest.approx(1.0)
    np.testing.assert_array_equal(weights, choose_weights(lists, None, seed))


def test_noise_has_no_weight_beside_the_truth():
    rng = np.random.default_rng(0)
    positive = np.arange(500) < 100
    lists = MemberScores(
        np.array([positive + 0.3 * rng.standard_normal(500), rng.standard_normal(500)]),
        positive,
        np.ones(500),
    )
    np.testing.assert_allclose(choose_weights(lists, None, 0), [1.0, 0.0])


def test_two_halves_of_the_truth_are_combined():
    rng = np.random.default_rng(0)
    positive = np.arange(2000) < 400
    halves = positive + 1.0 * rng.standard_normal((2, 2000))
    weights = choose_weights(MemberScores(halves, positive, np.ones(2000)), None, 0)
    assert weights.min() > 0.3


def test_many_rows_are_sampled_with_all_that_is_at_the_top():
    rng = np.random.default_rng(0)
    positive = rng.random(50_000) < 0.02
    lists = MemberScores(positive + rng.standard_normal((2, 50_000)), positive, np.ones(50_000))
    some = lists.sample(rng)
    assert len(some.positive) == 6_000
    assert some.weight.sum() == pytest.approx(50_000)
    for whole, part in zip(lists.scores, some.scores, strict=True):
        np.testing.assert_array_equal(np.sort(whole)[-1000:], np.sort(part)[-1000:])
    exact = Quality(lists.positive, lists.weight).parts(lists.scores)
    about = Quality(some.positive, some.weight).parts(some.scores)
    np.testing.assert_allclose(exact, about, atol=0.02)


# ---- fits


def test_the_score_is_the_weighted_mean_of_the_members():
    (X, _), ranker = made(), fitted()
    assert sum(ranker.weights_.values()) == pytest.approx(1.0)
    total = -ranker.threshold_ + sum(
        ranker.weights_[name]
        * (one.decision_function(X) - ranker.centers_[name])
        / ranker.scales_[name]
        for name, one in ranker.members_.items()
    )
    np.testing.assert_allclose(ranker.decision_function(X), total)


def test_a_fit_repeats_to_the_bit_and_does_not_depend_on_threads():
    X, y = made()
    for n_jobs in (1, 2):
        again = TopRanker(QUICK, effort="quick", n_jobs=n_jobs).fit(X, y)
        np.testing.assert_array_equal(again.decision_function(X), fitted().decision_function(X))


def test_out_of_fold_scores_know_nothing_of_their_rows():
    """Labels without a cause are learned by heart, and still not foreseen."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((600, 5)), rng.random(600) < 0.5
    ranker = TopRanker(["forest"]).fit(X, y)
    assert metrics.auc(y, ranker.out_of_fold_) < 0.6
    assert metrics.auc(y, ranker.decision_function(X)) > 0.7


@pytest.mark.long
def test_the_combination_is_no_worse_than_its_members_on_breast_cancer():
    X, y = load_breast_cancer(return_X_y=True)
    ranker = TopRanker(effort="quick").fit(X, y)
    board = {row["name"]: row for row in ranker.leaderboard_}
    assert set(board) == {"combination", *members.EFFORTS["quick"].members} - {"text"}
    assert board["combination"]["score"] >= max(row["score"] for row in board.values()) - 0.01
    for row in board.values():
        low, high = row["average_precision_low"], row["average_precision_high"]
        assert low <= row["average_precision"] <= high
        assert row["seconds"] >= 0.0
        assert row["size"] > 0
    assert board["combination"]["average_precision"] == pytest.approx(
        metrics.average_precision(y, ranker.out_of_fold_), abs=1e-3
    )


def test_weights_of_zero_are_rows_that_are_not_there():
    X, y = made()
    weight = np.ones(len(y))
    weight[::3] = 0.0
    kept = weight > 0
    folds = list(GroupKFold(3).split(X, y, np.arange(len(y)) % 7))
    place = np.cumsum(kept) - 1
    fewer = [tuple(place[part[kept[part]]] for part in fold) for fold in folds]
    whole = TopRanker(QUICK, effort="quick", cv=folds).fit(X, y, weight)
    part = TopRanker(QUICK, effort="quick", cv=fewer).fit(X[kept], y[kept])
    np.testing.assert_allclose(whole.decision_function(X), part.decision_function(X), atol=1e-6)
    assert np.isnan(whole.out_of_fold_[~kept]).all()


def test_default_folds_are_of_the_rows_that_count():
    X, y = made(2000)
    for seed in range(10):
        weight = np.ones(len(y))
        weight[np.random.default_rng(seed).permutation(np.flatnonzero(y))[6:]] = 0.0
        kept = weight > 0
        groups = np.arange(len(y))
        for of_rows in (None, groups):
            whole = TopRanker()._read_training(X, y, weight, of_rows)[0]
            fewer = None if of_rows is None else groups[kept]
            part = TopRanker()._read_training(X[kept], y[kept], None, fewer)[0]
            for one, other in zip(whole.folds, part.folds, strict=True):
                np.testing.assert_array_equal(one[0], other[0])
                np.testing.assert_array_equal(one[1], other[1])


def test_groups_stay_in_one_fold():
    X, y = made()
    groups = np.arange(len(y)) // 10
    folds = TopRanker(QUICK)._read_training(X, y, None, groups)[0].folds
    for train, held in folds:
        assert not set(groups[train]) & set(groups[held])


def test_folds_of_time_leave_the_first_rows_without_a_score():
    X, y = made()
    ranker = TopRanker(QUICK, effort="quick", cv=TimeSeriesSplit(3)).fit(X, y)
    assert np.isnan(ranker.out_of_fold_[:100]).all()
    assert not np.isnan(ranker.out_of_fold_[100:]).any()


def test_folds_without_both_classes_are_refused():
    X, y = made()
    with pytest.raises(ValueError, match="class"):
        TopRanker(QUICK, cv=2).fit(X, y, groups=y)


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix, sparse.csc_array])
def test_sparse_rows(kind):
    X, y = made()
    X = np.where(X > 0.5, X, 0.0)
    ranker = TopRanker(QUICK, effort="quick").fit(kind(X), y)
    assert ranker.decision_function(kind(X)).shape == (len(y),)
    assert metrics.auc(y, ranker.out_of_fold_) > 0.6


# ---- tables


def test_tables_come_as_they_are():
    table, y = made_table()
    ranker = TopRanker(["logistic", "boosted", "forest"], effort="quick").fit(table, y)
    assert ranker.dates_ == {1: ["days", "month", "day", "weekday"]}
    assert ranker.categories_ == {0: ["Lyon", "Oslo", "Rome"]}
    assert metrics.auc(y, ranker.out_of_fold_) > 0.7
    odd = table.head(3).copy()
    odd.loc[odd.index[0], "city"] = "Atlantis"
    assert np.isfinite(ranker.decision_function(odd)).all()


def test_times_around_a_change_of_the_clock_are_read_in_utc():
    hours = pd.Series(pd.date_range("2024-03-30", "2024-04-01", freq="h", tz="UTC"))
    utc = pd.DataFrame({"when": hours})
    columns = FrameColumns.of(utc, FROM_DTYPE)
    local = pd.DataFrame({"when": hours.dt.tz_convert("Europe/Berlin")})
    np.testing.assert_array_equal(columns.numbers(local), columns.numbers(utc))


@pytest.mark.parametrize("form", ["polars", "zoned", "category"])
def test_other_tables_give_the_same(form):
    table, y = made_table()
    expected = fitted(made_table).decision_function(table)
    if form == "polars":
        polars = pytest.importorskip("polars")
        table = polars.from_pandas(table)
    elif form == "zoned":
        table["when"] = table["when"].dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")
    else:
        table["city"] = table["city"].astype("category")
    np.testing.assert_allclose(
        TopRanker(QUICK, effort="quick").fit(table, y).decision_function(table), expected, atol=1e-9
    )


def test_a_text_among_numbers_is_named():
    table, _ = made_table()
    table["amount"] = "much"
    with pytest.raises(ValueError, match="'amount' holds 'much'"):
        fitted(made_table).decision_function(table)


# ---- explanations


@pytest.mark.parametrize("rows", ["table", "array", "sparse"])
def test_contributions_add_up(rows):
    X, y = made_table() if rows == "table" else made()
    X = sparse.csr_array(np.where(X > 0.5, X, 0.0)) if rows == "sparse" else X
    members = ["logistic", "linear", "boosted", "trees", "forest", "kernel"]
    ranker = TopRanker(members, effort="quick").fit(X, y)
    some = X.head(50) if rows == "table" else X[:50]
    added = ranker.contributions(some)
    assert added.shape == (50, X.shape[1] + 1)
    np.testing.assert_allclose(added.sum(axis=1), ranker.decision_function(some), atol=1e-6)


def test_a_forest_credits_the_columns_it_asked():
    X, y = made()
    forest = TopForest(40).fit(X, y)
    added = np.abs(forest.contributions(X)).mean(axis=0)
    assert added[0] > 3 * added[2:-1].max()


# ---- members of one's own


def test_estimators_of_ones_own():
    X, y = made()
    ranker = TopRanker([GaussianNB(), ("two", LogisticRegression()), "forest"]).fit(X, y)
    assert {row["name"] for row in ranker.leaderboard_} == {
        "gaussiannb", "two", "forest", "combination"
    }  # fmt: skip
    np.testing.assert_allclose(
        ranker.contributions(X).sum(axis=1), ranker.decision_function(X), atol=1e-9
    )


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["treees"], "'treees'"),
        (["forest", "forest"], "'forest' twice"),
        ([], "members"),
        ([3], "estimator"),
    ],
)
def test_members_that_are_none(asked, said):
    with pytest.raises(ValueError, match=said):
        TopRanker(asked).fit(*made())


def test_members_without_their_engine_are_named(monkeypatch):
    monkeypatch.setattr(members, "find_spec", lambda name: None)
    ranker = TopRanker(effort="quick").fit(*made())
    assert "toppush[trees]" in ranker.left_out_["boosted"]
    with pytest.raises(ValueError, match="lightgbm"):
        TopRanker(["boosted"]).fit(*made())


def test_a_member_that_is_better_is_said():
    """Chosen by the top alone, the whole list may suffer."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 2))
    y = X[:, 0] + 0.5 * rng.standard_normal(3000) > 1.0

    class Backwards(LogisticRegression):
        def decision_function(self, X):
            return -super().decision_function(X)

    ranker = TopRanker([("good", LogisticRegression()), ("bad", Backwards())], scoring="top_loss")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ranker.fit(X, y)
    bad = list(ranker._board.members).index("bad")
    ranker._board = replace(ranker._board, combined=ranker._board.scores.scores[bad])
    assert set(ranker._board.better_members()) == {"good"}
    with pytest.warns(UserWarning, match="held-out"):
        ranker._warn_if_behind()


# ---- choices are judged on other rows than those that made them


@given(st.integers(0, 10_000), st.integers(3, 5))
def test_a_fold_has_no_say_in_what_scores_it(seed, n_folds):
    """Other labels in a fold leave the weights, penalties and rounds for its rows as they are."""
    rng = np.random.default_rng(seed)
    positive = np.arange(120) % 3 == 0
    folds = list(
        StratifiedKFold(n_folds, shuffle=True, random_state=seed).split(positive, positive)
    )
    lists = MemberScores(rng.standard_normal((3, 120)) + positive, positive, np.ones(120))
    fold, rows = int(rng.integers(n_folds)), np.arange(120)
    held = folds[fold][1]
    other = positive.copy()
    other[held] = rng.permutation(positive[held])

    chosen = [
        choose_weights(replace(lists, positive=labels).part(turn.choosing), None, seed)
        for labels in (positive, other)
        for turn in in_turn(folds, labels)
        if turn.fold == fold
    ]
    np.testing.assert_array_equal(*chosen)
    curves = rng.random((n_folds, 6))
    grown = [
        BoostedMember("", part, curve, rows[:6], 6)
        for (_, part), curve in zip(folds, curves, strict=True)
    ]
    others = others_than(fold, grown)
    assert others == [place for place in range(n_folds) if place != fold]
    assert choose_rounds(grown)(others) == int(np.argmax(curves[others].mean(axis=0)))


@settings(max_examples=10)
@given(st.integers(0, 10_000))
def test_linear_settings_for_a_fold_do_not_depend_on_its_labels(seed):
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((90, 3)), rng.permutation(np.arange(90) < 30)
    folds = list(StratifiedKFold(3, shuffle=True, random_state=seed).split(X, y))
    turned = y.copy()
    turned[folds[1][1]] = rng.permutation(y[folds[1][1]])
    chosen = [
        TopLinear()._search(WeightedRows(X, labels, None, np.zeros(3, bool)), folds).best_in(1)
        for labels in (y, turned)
    ]
    assert chosen[0] == chosen[1]


@given(st.integers(0, 10_000), st.integers(1, 5))
def test_rows_that_choose_and_rows_that_are_judged_are_apart(seed, n_folds):
    rng = np.random.default_rng(seed)
    positive = rng.permutation(np.arange(60) < 20)
    everything = np.arange(60)
    folds = [(np.setdiff1d(everything, held), held)
             for held in np.array_split(rng.permutation(60), n_folds + 1)][:n_folds]  # fmt: skip
    turns = list(in_turn(folds, positive))
    judged = np.concatenate([turn.judged for turn in turns])
    assert sorted(judged) == sorted(np.concatenate([held for _, held in folds]))
    for turn in turns:
        assert not np.isin(turn.choosing, turn.judged).any()
        for train, choosing in nested(folds, turn, positive):
            assert not np.isin(turn.judged, choosing).any()
            assert not np.isin(train, choosing).any()
            assert n_folds == 2 or not np.isin(turn.judged, train).any()


@pytest.mark.parametrize(
    "effort",
    [pytest.param("quick", marks=pytest.mark.long), pytest.param("normal", marks=pytest.mark.slow)],
)
def test_noise_is_not_ranked_better_than_chance(effort):
    """Two standard errors, of 20 data sets; benchmarks/noise_leaderboard.py has more."""
    found = {}
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X, y = rng.standard_normal((300, 10)), rng.permutation(np.arange(300) < 60)
        for row in TopRanker(effort=effort, random_state=seed, n_jobs=1).fit(X, y).leaderboard_:
            found.setdefault(row["name"], []).append(row["average_precision"])
    chance = 0.2143
    for name, values in found.items():
        assert np.mean(values) < chance + 2.0 * np.std(values) / np.sqrt(len(values)), name


@pytest.mark.long
def test_rounds_are_not_chosen_by_the_rows_they_score():
    """Stopped by the fold that they are judged on, trees have .27 on this noise; chance is .214."""
    values = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X, y = rng.standard_normal((300, 10)), rng.permutation(np.arange(300) < 60)
        ranker = TopPushTrees(n_members=4, random_state=seed, n_jobs=1).fit(X, y)
        values.append(metrics.average_precision(y, ranker.out_of_fold_))
    assert np.mean(values) < 0.245


# ---- time, halving, interrupts


def test_losers_of_the_first_round_are_dropped(monkeypatch):
    monkeypatch.setattr(schedule, "FIRST_ROWS", 200)
    X, y = made(2000)
    noise = ("noise", RandomForestClassifier(1, max_depth=1, max_features=1, random_state=0))
    ranker = TopRanker(["logistic", "forest", noise]).fit(X, y)
    if "noise" in ranker.left_out_:
        assert "behind on" in ranker.left_out_["noise"]
    assert {"logistic", "forest"} & set(ranker.members_)
    assert all(row["rows"] == 2000 for row in ranker.leaderboard_)


def test_a_member_without_rivals_is_fitted_once(monkeypatch):
    monkeypatch.setattr(schedule, "FIRST_ROWS", 200)
    shown = []
    monkeypatch.setattr(
        schedule.Schedule, "_show", lambda self, name, place, total, n_rows: shown.append(n_rows)
    )
    TopRanker(["logistic", "text"]).fit(*made(2000))
    assert shown == [2000]


def test_no_member_begins_when_time_is_over(monkeypatch):
    X, y = made()
    clock = itertools.count(0.0, 10.0)
    monkeypatch.setattr(schedule.time, "perf_counter", lambda: next(clock))
    ranker = TopRanker(["logistic", "forest", "boosted"], seconds=15.0).fit(X, y)
    assert list(ranker.members_) == ["logistic"]
    assert set(ranker.left_out_.values()) == {"there was no time left"}


def test_a_constant_ranking_is_reported():
    X, y = made()
    with pytest.warns(DegenerateWarning, match="order of rows is arbitrary") as caught:
        TopRanker(QUICK, effort="quick").fit(np.ones_like(X), y)
    assert caught[0].filename == __file__


def test_reading_the_rows_takes_part_of_the_time(monkeypatch):
    now, read = [0.0], TopRanker._read_training

    def slow(ranker, *given):
        now[0] += 20.0
        return read(ranker, *given)

    monkeypatch.setattr(schedule.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(TopRanker, "_read_training", slow)
    X, y = made()
    ranker = TopRanker(["logistic", "forest"], seconds=15.0).fit(X, y)
    assert ranker.left_out_ == {"forest": "there was no time left"}
    assert TopRanker(["logistic", "forest"], seconds=25.0).fit(X, y).left_out_ == {}


def interrupt(*given):
    raise KeyboardInterrupt


def unchanged(ranker, before):
    return vars(ranker).keys() == before.keys() and all(
        value is before[name] for name, value in vars(ranker).items()
    )


class Interrupted(LogisticRegression):
    def fit(self, X, y, sample_weight=None):
        interrupt()


@pytest.mark.parametrize("n_rows", [400, 6000], ids=["all rows", "some rows"])
def test_an_interrupt_changes_nothing_although_a_member_is_done(n_rows, monkeypatch):
    monkeypatch.setattr(schedule, "FIRST_ROWS", 200)
    X, y = made(n_rows)
    ranker = TopRanker(["logistic"]).fit(*made())
    ranker.set_params(members=["logistic", ("never", Interrupted())])
    before = dict(vars(ranker))
    with pytest.raises(KeyboardInterrupt):
        ranker.fit(X, y)
    assert unchanged(ranker, before)


def test_an_interrupt_when_all_members_are_done_changes_nothing(monkeypatch):
    ranker = TopRanker(["logistic"]).fit(*made())
    before = dict(vars(ranker))
    monkeypatch.setattr(TopRanker, "_warn_if_behind", interrupt)
    with pytest.raises(KeyboardInterrupt):
        ranker.fit(*made(500))
    assert unchanged(ranker, before)


def test_progress_shows_members_and_ends_with_the_weights(capsys):
    TopRanker(QUICK, effort="quick", verbose=1).fit(*made())
    shown = capsys.readouterr().out
    assert re.search(r"400 rows.*1.*2 members", shown)
    assert "s left" in shown
    assert "combined:" in shown


def test_refused_rows_leave_the_fit_as_it_was():
    X, y = made()
    ranker = TopRanker(["logistic"]).fit(X, y)
    before = ranker.decision_function(X)
    X[0, 0] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        ranker.fit(X, y)
    np.testing.assert_array_equal(ranker.decision_function(X[1:]), before[1:])


# ---- few positives


@pytest.mark.filterwarnings("default:the ranking cannot be trusted:UserWarning")
@pytest.mark.parametrize("n_positives", [5, 29, 30])
def test_few_positives_are_reported_with_the_interval(n_positives):
    X, _ = made(300)
    y = np.arange(300) < n_positives
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        ranker = TopRanker(["logistic"]).fit(X, y)
    told = [str(one.message) for one in said if "trusted" in str(one.message)]
    assert len(told) == (n_positives < 30)
    if told:
        row = ranker.leaderboard_[0]
        assert f"{n_positives} positives" in told[0]
        for name in ("", "_low", "_high"):
            assert f"{row['average_precision' + name]:.3f}" in told[0]


def drifting(n_rows, seed=0):
    """Rows in the order of time; which of 20 columns tells the class changes over time."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, 20))
    y = rng.random(n_rows) < 0.3
    at = np.arange(n_rows) * 20 // n_rows
    X[np.arange(n_rows), at] += 3.0 * y
    return np.column_stack([X, np.arange(n_rows)]), y


@pytest.mark.filterwarnings("error")
def test_rows_that_change_over_time_are_reported():
    pytest.importorskip("lightgbm")
    X, y = drifting(1500)
    later = [(np.arange(n), np.arange(n, n + 300)) for n in (600, 900, 1200)]
    with pytest.warns(UserWarning, match="change over time"):
        TopRanker(["boosted"], cv=later).fit(X, y)
    stable = np.random.default_rng(1).permutation(len(y))
    TopRanker(["boosted"], cv=later).fit(X[stable], y[stable])
    TopRanker(["boosted"]).fit(X, y)
