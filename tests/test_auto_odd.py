"""TopRanker on what strangers bring: odd columns, weights, groups, and members that fail."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from toppush import TopPush, TopRanker, files, metrics
from toppush.auto import schedule
from toppush.auto.members import MEMBERS, _weight_name

QUICK = ["logistic", "forest"]
pytestmark = pytest.mark.filterwarnings("ignore:base model:UserWarning")
"""Estimators of one's own, whose limits are reported."""
N_ROWS = 200


def quick(**options):
    return TopRanker(["logistic", "forest"], effort="quick", **options)


def made(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N_ROWS, 3))
    return X, X[:, 0] + 0.5 * rng.standard_normal(N_ROWS) > 0.8


# ---- columns


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(pd.to_timedelta([np.nan, *range(1, N_ROWS)], "h")),
        pd.Series(pd.period_range("2020-01-01", periods=N_ROWS, freq="D")),
        pd.Series(np.arange(N_ROWS) % 90).astype("Int64").mask(np.arange(N_ROWS) < 3),
        pd.Series([None] * N_ROWS),
        pd.Series([1, "a"] * (N_ROWS // 2)),
    ],
    ids=["timedelta", "period", "Int64", "nothing", "mixed"],
)
def test_columns_of_odd_types_are_scored_as_they_were_fitted(column):
    X, y = made()
    table = pd.DataFrame(X, columns=list("abc")).assign(odd=column)
    ranker = quick().fit(table, y)
    assert np.isfinite(ranker.decision_function(table)).all()
    assert metrics.auc(y, ranker.out_of_fold_) > 0.8


def test_spans_of_time_are_days_and_gaps_are_missing():
    X, y = made()
    days = np.arange(N_ROWS) % 40.0
    days[:5] = np.nan
    numbers = pd.DataFrame({"a": X[:, 0], "days": days})
    spans = numbers.assign(days=pd.to_timedelta(days, "D"))
    np.testing.assert_allclose(
        quick().fit(spans, y).decision_function(spans),
        quick().fit(numbers, y).decision_function(numbers),
    )


@pytest.mark.parametrize(
    ("column", "said"),
    [([[1], [2]] * (N_ROWS // 2), r"'odd' holds \[1\]"), ([1j] * N_ROWS, "'odd' holds 1j")],
)
def test_columns_that_cannot_be_used_are_named(column, said):
    X, y = made()
    table = pd.DataFrame(X, columns=list("abc")).assign(odd=column)
    with pytest.raises((TypeError, ValueError), match=said):
        quick().fit(table, y)


def test_categories_need_columns():
    X, y = made()
    with pytest.raises(ValueError, match=r"frame.*X"):
        quick(categorical_features=[0]).fit(X.round().tolist(), y)


def test_missing_values_in_sparse_rows_are_for_trees_alone():
    pytest.importorskip("lightgbm")
    X, y = made()
    X = sparse.csr_array(np.where(X > 0.5, X, 0.0))
    plain = quick().fit(X, y)
    X.data[:10] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        plain.decision_function(X)
    ranker = TopRanker([*QUICK, "linear", "boosted"]).fit(X, y)
    assert set(ranker.left_out_) == {"logistic", "linear", "forest"}
    assert np.isfinite(ranker.decision_function(X)).all()
    trees = {"boosted", "trees", "small_trees", "shallow_trees", "target_trees"}
    assert {name for name in MEMBERS if MEMBERS[name].sparse_missing} == trees


# ---- weights and groups


@pytest.mark.parametrize("scale", [2.0**-30, 2.0**30, 2.0**300])
def test_the_unit_of_weights_does_not_matter(scale):
    X, y = made()
    weight = np.random.default_rng(0).random(N_ROWS)
    one, other = (quick().fit(X, y, weight * by) for by in (1.0, scale))
    np.testing.assert_array_equal(one.decision_function(X), other.decision_function(X))
    assert one.leaderboard_[0]["score"] == pytest.approx(other.leaderboard_[0]["score"])


def test_a_row_may_weigh_as_much_as_all_others():
    X, y = made()
    weight = np.ones(N_ROWS)
    weight[0] = 1e12
    assert np.isfinite(quick().fit(X, y, weight).decision_function(X)).all()


def test_few_groups_make_few_folds_and_unknown_ones_are_one():
    X, y = made()
    read = quick()._read_training
    assert len(read(X, y, None, np.arange(N_ROWS) % 2)[0].folds) == 2
    names = np.array([None if row % 5 == 0 else f"g{row % 5}" for row in range(N_ROWS)])
    assert quick().fit(X, y, groups=names).weights_
    with pytest.raises(ValueError, match="one group"):
        quick().fit(X, y, groups=np.zeros(N_ROWS))
    with pytest.raises(ValueError, match="inconsistent numbers"):
        quick().fit(X, y, groups=np.zeros(5))


# ---- members that fail


def test_a_member_that_fails_is_named_and_the_others_go_on():
    X, y = made()
    X[0, 0] = np.nan
    with pytest.warns(FitFailedWarning, match=r"logisticregression.*NaN"):
        ranker = TopRanker([LogisticRegression(), "forest"]).fit(X, y)
    assert list(ranker.members_) == ["forest"]
    assert "contains NaN" in ranker.left_out_["logisticregression"]
    with (
        pytest.warns(FitFailedWarning),
        pytest.raises(ValueError, match=r"logisticregression.*NaN") as found,
    ):
        TopRanker([LogisticRegression()]).fit(X, y)
    assert isinstance(found.value.__cause__, ValueError)


class Nowhere(Ridge):
    """Scores that are no numbers."""

    def predict(self, X):
        return np.where(X[:, 0] > 0, np.nan, super().predict(X))


def test_a_member_without_finite_scores_is_left_out():
    X, y = made()
    with pytest.warns(FitFailedWarning, match="not finite"):
        ranker = TopRanker([("nowhere", Nowhere()), "forest"]).fit(X, y)
    assert list(ranker.members_) == ["forest"]
    assert np.isfinite(ranker.out_of_fold_).all()


def test_weights_reach_the_last_step_of_a_pipeline():
    X, y = made()
    weight = np.where(y, 5.0, 1.0)
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    ranker = TopRanker([("own", pipeline)]).fit(X, y, weight)
    expected = make_pipeline(StandardScaler(), LogisticRegression()).fit(
        X, y, logisticregression__sample_weight=weight / weight.mean()
    )
    np.testing.assert_allclose(
        ranker.members_["own"].decision_function(X), expected.decision_function(X)
    )
    search = GridSearchCV(pipeline, {"logisticregression__C": [1.0]})
    assert _weight_name(search) == "logisticregression__sample_weight"


def test_a_member_that_takes_no_weights_is_left_out_if_there_are_some():
    X, y = made()
    members = [KNeighborsClassifier(), "forest"]
    assert "kneighborsclassifier" not in TopRanker(members).fit(X, y).left_out_
    with pytest.warns(FitFailedWarning, match="KNeighborsClassifier takes no sample_weight"):
        ranker = TopRanker(members).fit(X, y, np.ones(N_ROWS))
    assert list(ranker.members_) == ["forest"]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ([Ridge], "estimator"),
        ([("a", "b", Ridge())], "estimator"),
        ([("combination", Ridge())], "together"),
    ],
)
def test_members_that_cannot_be(asked, said):
    with pytest.raises(ValueError, match=said):
        TopRanker(asked).fit(*made())


def test_members_of_the_first_round_that_are_used_are_not_left_out(monkeypatch):
    monkeypatch.setattr(schedule, "FIRST_ROWS_IN_TIME", 50)
    ranker = quick(seconds=1e-9).fit(*made())
    assert set(ranker.members_) | set(ranker.left_out_) == set(QUICK)
    assert not set(ranker.members_) & set(ranker.left_out_)


# ---- units


class Stretched(LogisticRegression):
    """Its scores grow with the rows that it saw."""

    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        self.coef_ *= len(y) ** 3
        self.intercept_ = self.intercept_ * len(y) ** 3 + len(y)
        return self


def test_held_out_scores_have_the_unit_of_fresh_ones():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 3))
    y = X[:, 0] + 0.5 * rng.standard_normal(3000) > 0.8
    ranker = TopRanker([("own", Stretched())]).fit(X[:1000], y[:1000])
    fresh, unseen = ranker.decision_function(X[1000:]), ranker.out_of_fold_
    assert fresh.std() / unseen.std() == pytest.approx(1.0, abs=0.1)
    assert np.median(fresh) == pytest.approx(np.median(unseen), abs=0.2 * unseen.std())


def test_intervals_know_no_weights():
    X, y = made()
    plain = quick().fit(X, y, np.full(N_ROWS, 3.0)).leaderboard_[0]
    assert plain["average_precision_low"] <= plain["average_precision"]
    weighted = quick().fit(X, y, 1.0 + np.arange(N_ROWS)).leaderboard_[0]
    assert weighted["average_precision_low"] is weighted["average_precision_high"] is None


@pytest.mark.filterwarnings("error")
def test_a_ranker_of_a_table_is_saved_and_opened(tmp_path):
    X, y = made()
    table = pd.DataFrame(X, columns=list("abc")).assign(
        when=pd.date_range("2024-01-01", periods=N_ROWS), city=["Oslo", "Rome"] * (N_ROWS // 2)
    )
    ranker = quick().fit(table, y)
    files.save(ranker, tmp_path / "m.toppush")
    opened = files.load(tmp_path / "m.toppush").ranker
    np.testing.assert_array_equal(opened.decision_function(table), ranker.decision_function(table))
    assert opened.leaderboard_ == ranker.leaderboard_


def test_what_is_no_date_is_named():
    X, y = made()
    table = pd.DataFrame({"a": X[:, 0], "when": pd.date_range("2024-01-01", periods=N_ROWS)})
    ranker = quick().fit(table, y)
    with pytest.raises(ValueError, match=r"'when'.*'soon'"):
        ranker.decision_function(table.assign(when="soon"))
    missing = table.assign(when=pd.array([pd.NA] * N_ROWS, dtype="string"))
    assert np.isfinite(ranker.decision_function(missing)).all()


@pytest.mark.long
def test_texts_of_their_own_in_every_row_are_not_learned():
    X, y = made()
    table = pd.DataFrame(X, columns=list("abc")).assign(id=[f"T{row}" for row in range(N_ROWS)])
    with pytest.warns(UserWarning, match="'id'"):
        ranker = quick().fit(table, y)
    assert ranker.categories_ == {3: []}
    assert np.abs(ranker.contributions(table)[:, 3]).max() < 1e-9
    assert len(quick(categorical_features=["id"]).fit(table, y).categories_[3]) == N_ROWS


@pytest.mark.parametrize("ranker", [quick(), TopPush()])
def test_labels_that_are_missing_are_said(ranker):
    X, y = made()
    labels = np.where(y, "yes", "no").astype(object)
    labels[3] = None
    with pytest.raises(ValueError, match="compared"):
        ranker.fit(X, labels)
