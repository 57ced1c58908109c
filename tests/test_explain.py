"""Why a row stands where it does: what columns add, what is said of it, what a pair differs in."""

import itertools
from functools import cache
from math import factorial

import numpy as np
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import dump_svmlight_file
from sklearn.ensemble import VotingClassifier
from sklearn.linear_model import LogisticRegression, Perceptron
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, PolynomialFeatures, StandardScaler

from files import EVERY_KIND, made_rows, odd_rows, quick_fit, write
from reproduce.baselines import BASELINES
from toppush import (
    TopPush,
    TopPushAdditive,
    TopPushCV,
    TopPushNet,
    TopPushTrees,
    TopRanker,
    files,
)
from toppush.explain.columns import OTHER, as_string
from toppush.explain.contributions import (
    background_places,
    highest_negatives,
    learn_reference,
    mean_contributions,
    shapley,
    some_background,
)
from toppush.explain.reasons import Explanation, Reason, explain, explain_pair
from toppush.models.base import Ranker

RANKERS = {
    "linear": TopPush(0.1, top=0.3),
    "cv": TopPushCV([0.1], tops=[0.3], cv=2),
    "additive": TopPushAdditive([0.1], tops=[0.3]),
    "trees": TopPushTrees(0.1, n_members=2, max_rounds=20, n_jobs=1),
    "auto": TopRanker(["logistic", "linear", "trees"], effort="quick", n_jobs=1),
    "net": TopPushNet(n_members=2, hidden=(8,), max_steps=30, learning_rate=0.01, n_jobs=1),
}
ENGINES = {"trees": "lightgbm", "net": "torch", "auto": "lightgbm"}


def made(n_rows=200, n_columns=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_columns)).round(2)
    return X, X[:, 0] + X[:, 1] * (X[:, 2] > 0) + rng.normal(size=n_rows) > 1.3


def unfitted(name):
    if name in ENGINES:
        pytest.importorskip(ENGINES[name], reason=f"needs {ENGINES[name]}, an extra")
    return clone(RANKERS[name])


@cache
def fitted(name):
    return unfitted(name).fit(*made())


by_ranker = pytest.mark.parametrize("name", RANKERS)


# What columns add.


@by_ranker
def test_contributions_sum_to_the_score(name):
    ranker, (X, _) = fitted(name), made(60, seed=1)
    found = ranker.contributions(X)
    assert found.shape == (60, 6)
    assert_allclose(found.sum(axis=1), ranker.decision_function(X), rtol=1e-9, atol=1e-9)


@by_ranker
def test_sparse_rows_have_the_same_contributions(name):
    X, y = made()
    X[np.abs(X) < 0.7] = 0.0
    ranker, X = unfitted(name).fit(sparse.csr_array(X), y), X[:20]
    found = ranker.contributions(sparse.csr_array(X))
    assert_allclose(found, ranker.contributions(X), atol=1e-8)


@pytest.mark.parametrize("name", ["TopPush", *list(BASELINES)[:2]])
def test_a_weighted_sum_is_weight_times_value(name):
    X, y = made()
    made_by = BASELINES | {"TopPush": lambda: TopPush(0.1, top=0.3)}
    ranker = made_by[name]().fit(X, y)
    found = ranker.contributions(X)
    assert_array_equal(found[:, :-1], X * ranker.coef_[0])
    assert_array_equal(found[:, -1], -ranker.threshold_)


# Shapley's values.


def brute_force(score, row, start):
    """Shapley's value by its definition, over all subsets of columns."""
    n = len(row)

    def with_columns(columns):
        mixed = start.copy()
        mixed[list(columns)] = row[list(columns)]
        return float(score(mixed[None, :])[0])

    found = np.zeros(n)
    for j in range(n):
        others = [k for k in range(n) if k != j]
        for size in range(n):
            weight = factorial(size) * factorial(n - size - 1) / factorial(n)
            for some in itertools.combinations(others, size):
                found[j] += weight * (with_columns((*some, j)) - with_columns(some))
    return found


def pairwise(rows):
    return rows[:, 0] * rows[:, 1] - 2 * np.sin(rows[:, 2]) * rows[:, 3] + rows[:, 3] ** 2


def tangled(rows):
    return np.exp(rows[:, :3].sum(axis=1)) + np.prod(rows, axis=1) + np.max(rows, axis=1)


def test_values_are_exact_where_two_columns_act_together():
    X, _ = made(5, 4)
    background = made(3, 4, seed=2)[0]
    found = shapley(pairwise, X, background)
    for row, values in zip(X, found, strict=True):
        expected = np.mean([brute_force(pairwise, row, start) for start in background], axis=0)
        assert_allclose(values[:-1], expected, atol=1e-12)
    assert_allclose(found[:, -1], pairwise(background).mean())


def test_values_come_close_where_many_do():
    X, _ = made(3, 4)
    background = made(2, 4, seed=2)[0]
    found = shapley(tangled, X, background, n_pairs=400)
    for row, values in zip(X, found, strict=True):
        expected = np.mean([brute_force(tangled, row, start) for start in background], axis=0)
        assert_allclose(values[:-1], expected, atol=0.05 * np.abs(expected).max())
    assert_allclose(found.sum(axis=1), tangled(X), rtol=1e-12)


def test_equal_parts_for_columns_that_act_alike():
    row, start = np.array([[2.0, 2.0, 5.0, 1.0]]), np.zeros((1, 4))
    found = shapley(lambda rows: rows[:, 0] * rows[:, 1] + rows[:, 2], row, start)[0]
    assert_allclose(found, [2.0, 2.0, 5.0, 0.0, 0.0])


def test_a_column_that_does_nothing_adds_nothing():
    X, _ = made(10, 5)
    found = shapley(lambda rows: tangled(rows[:, 1:]), X, made(4, 5, seed=2)[0])
    assert_array_equal(found[:, 0], 0.0)


def test_values_of_a_sum_are_sums_of_values():
    X, background = made(10, 4)[0], made(4, 4, seed=2)[0]
    found = shapley(lambda rows: 2.0 * tangled(rows) - pairwise(rows), X, background)
    one, other = shapley(tangled, X, background), shapley(pairwise, X, background)
    assert_allclose(found, 2.0 * one - other, atol=1e-9)


def test_a_row_is_explained_as_it_is_alone(monkeypatch):
    X, background = made(7, 4)[0], made(4, 4, seed=2)[0]
    together = shapley(tangled, X, background)
    monkeypatch.setattr("toppush.explain.contributions.NUMBERS", 30)
    alone = np.concatenate([shapley(tangled, X[[row]], background) for row in range(7)])
    assert_allclose(together, alone, atol=1e-12)


def test_gaps_equal_gaps():
    X, background = made(4, 4)[0], made(2, 4, seed=2)[0]
    X[:, 1] = background[:, 1] = np.nan
    asked = []

    def score(rows):
        asked.append(rows)
        return np.nansum(rows, axis=1)

    found = shapley(score, X, background)
    assert_array_equal(found[:, 1], 0.0)
    assert_allclose(found.sum(axis=1), np.nansum(X, axis=1))
    assert np.isnan(np.concatenate(asked)[:, 1]).all()


def test_the_background_is_of_bounded_work():
    assert len(background_places(1000, 6)) == 16
    assert len(background_places(1000, 5000)) == 2
    assert len(background_places(3, 6)) == 3
    assert some_background(sparse.csr_array(made()[0])).shape == (16, 5)


# The reference.


@pytest.mark.parametrize("n_rows, count", [(5, 5), (500, 10), (3000, 30), (150_000, 1000)])
def test_the_reference_is_one_in_a_hundred_negatives(n_rows, count):
    scores = np.random.default_rng(0).normal(size=n_rows + 3)
    positive = np.arange(n_rows + 3) < 3
    found = highest_negatives(positive, scores)
    assert_array_equal(found, 3 + np.argsort(-scores[3:])[:count])


def test_rows_without_a_score_are_no_reference():
    scores = np.array([5.0, np.nan, 3.0, 9.0])
    assert_array_equal(highest_negatives(np.array([0, 0, 0, 1]), scores), [0, 2])


def test_the_mean_is_taken_in_parts(monkeypatch):
    ranker, (X, _) = fitted("linear"), made(50, seed=1)
    whole = ranker.contributions(X).mean(axis=0)
    monkeypatch.setattr("toppush.explain.contributions.PART_NUMBERS", 20)
    assert_allclose(mean_contributions(ranker, X), whole)


# What is said of a row.


@by_ranker
def test_lifts_sum_to_the_score_above_the_reference(name):
    ranker, (X, _) = fitted(name), made(30, seed=1)
    against = made(40, seed=2)[0]
    reference = ranker.decision_function(against).mean()
    for one in ranker.explain(X, 5, against=against):
        total = sum(reason.contribution for reason in (*one.raised_by, *one.lowered_by))
        assert one.difference == pytest.approx(one.score - reference)
        assert total == pytest.approx(one.difference, abs=1e-2 * abs(one.difference) + 1e-2)
        assert all(reason.contribution > 0 for reason in one.raised_by)
        assert all(reason.contribution < 0 for reason in one.lowered_by)


def test_the_largest_lifts_are_named_with_values():
    ranker, (X, _) = fitted("linear"), made(30, seed=1)
    against = made(40, seed=2)[0]
    away = ranker.coef_[0] * (X - against.mean(axis=0))
    for row, one in enumerate(ranker.explain(X, 2, against=against)):
        expected = [j for j in np.argsort(-away[row])[:2] if away[row, j] > 0]
        assert one.row == row
        assert [reason.column for reason in one.raised_by] == [f"x{j}" for j in expected]
        assert [float(reason.value) for reason in one.raised_by] == list(X[row, expected])
        assert_allclose([reason.contribution for reason in one.raised_by], away[row, expected])


def test_a_row_is_held_back_by_what_the_next_one_has_more_of():
    ranker, (X, _) = fitted("linear"), made(30, seed=1)
    found = ranker.explain(X, 5)
    order = np.argsort(-ranker.decision_function(X))
    assert found[order[0]].above is None
    assert found[order[0]].held_back == ()
    for above, row in itertools.pairwise(order):
        behind = ranker.coef_[0] * (X[row] - X[above])
        assert found[row].above == above
        for reason in found[row].held_back:
            assert reason.contribution == pytest.approx(behind[int(reason.column[1:])])
            assert reason.contribution < 0


def test_a_list_in_parts_is_the_same_list(monkeypatch):
    ranker, (X, _) = fitted("additive"), made(30, seed=1)
    whole = ranker.explain(X)
    monkeypatch.setattr("toppush.explain.contributions.PART_NUMBERS", 20)
    assert [str(one) for one in ranker.explain(X)] == [str(one) for one in whole]


@by_ranker
def test_pairs_are_antisymmetric(name):
    ranker, (X, _) = fitted(name), made(2, seed=1)
    one, other = ranker.explain_pair(X[0], X[1]), ranker.explain_pair(X[1], X[0])
    total = sum(part.contribution for part in one.differences) + one.rest
    assert total == pytest.approx(one.score - one.other)
    assert (one.score, one.other, one.rest) == (other.other, other.score, -other.rest)
    for here, there in zip(one.differences, other.differences, strict=True):
        assert here.column == there.column
        assert (here.value, here.other, here.contribution) == (
            there.other,
            there.value,
            -there.contribution,
        )


def test_a_row_and_itself():
    ranker, (X, _) = fitted("linear"), made(2, seed=1)
    assert ranker.explain_pair(X[0], X[0]).differences == ()
    assert str(ranker.explain_pair(X[0], X[0])) == "no column makes a difference"
    with pytest.raises(ValueError, match="has 2"):
        ranker.explain_pair(X, X[0])


def test_the_own_reference_is_used_until_the_next_fit():
    X, y = made()
    ranker = TopPush(0.1, top=0.3).fit(X, y)
    learn_reference(ranker, X, y)
    negatives = highest_negatives(y, ranker.decision_function(X))
    assert_allclose(ranker.reference_, ranker.contributions(X[negatives]).mean(axis=0))
    above = ranker.decision_function(X) - ranker.decision_function(X[negatives]).mean()
    assert_allclose([one.difference for one in ranker.explain(X)], above)
    away = ranker.contributions(X) - ranker.contributions(X).mean(axis=0)
    assert_allclose(
        [one.above_average[0].contribution for one in ranker.explain(X) if one.above_average],
        [row.max() for row in away[:, :-1] if row.max() > 1e-3 * np.abs(row).max()],
    )
    middle = (ranker.reference_.sum() + ranker.usual_.sum()) / 2
    assert [one.is_typical for one in ranker.explain(X)] == list(
        ranker.decision_function(X) > middle
    )
    ranker.fit(X, y)
    assert not hasattr(ranker, "reference_")
    assert not hasattr(ranker, "usual_")


def test_words():
    lifted = Reason("amount", "912.5", 1.34), Reason("age", None, 0.2)
    why = Explanation(0, 1.0, 2.0, lifted, (), (), (Reason("city", "Lyon", -0.41),), 3)
    assert (
        str(why)
        == "amount 912.5 (+1.3), age missing (+0.2); behind the row above by city Lyon (-0.41)"
    )
    assert [reason.label for reason in lifted] == ["amount = 912.5", "age is missing"]
    assert why.flat(3) == {
        "why": str(why),
        "why_1_column": "amount",
        "why_1_value": "912.5",
        "why_1_contribution": 1.34,
        "why_2_column": "age",
        "why_2_value": None,
        "why_2_contribution": 0.2,
        "why_3_column": None,
        "why_3_value": None,
        "why_3_contribution": None,
        "held_back_column": "city",
        "held_back_value": "Lyon",
        "held_back_contribution": -0.41,
    }
    low = Explanation(0, 1.0, -2.0, (), (Reason("age", "61", -1.0),), (), (), None)
    assert str(low) == "no column raises it, lowered by age 61 (-1)"
    alike = Explanation(0, 1.0, -2.0, (), (), lifted[:1], (), None, is_typical=True)
    assert str(alike) == "like the top negatives by amount 912.5 (+1.3)"


@pytest.mark.parametrize(
    "value, text",
    [
        (912.5, "912.5"),
        (61.0, "61"),
        (1234567.0, "1234567"),
        (0.1 + 0.2, "0.3"),
        (7, "7"),
        (True, "true"),
        (np.bool_(False), "false"),
        ("Lyon", "Lyon"),
        (None, None),
        (np.nan, None),
    ],
)
def test_values_as_text(value, text):
    assert as_string(value) == text


# Tables.


@pytest.fixture(scope="module")
def table():
    rows = made_rows(300)
    y = np.array(rows.pop("fraud")) == "yes"
    del rows["id"]
    return pa.table(rows), y


def test_what_a_column_becomes_is_told_of_the_column(table):
    rows, y = table
    ranker = make_pipeline(files.Columns(), MaxAbsScaler(), TopPush(0.1, top=0.3)).fit(rows, y)
    names = ["age", "income", "city", "member"]
    owners = [str(name).split("=")[0].split(" is")[0] for name in ranker[0].get_feature_names_out()]
    added = ranker[-1].contributions(ranker[:-1].transform(rows))[:, :-1]
    added -= added.mean(axis=0)
    for row, one in enumerate(explain(ranker, rows, 4)):
        for reason in (*one.raised_by, *one.lowered_by):
            assert reason.column in names
            of_column = [name == reason.column for name in owners]
            assert reason.contribution == pytest.approx(added[row, of_column].sum(), abs=1e-9)
            assert reason.value == as_string(rows[reason.column][row].as_py())


def test_values_are_those_of_the_data_frame(table):
    pytest.importorskip("lightgbm", reason="needs lightgbm, an extra")
    rows, y = table
    frame = rows.to_pandas()
    ranker = TopPushTrees(0.1, n_members=2, max_rounds=10, n_jobs=1).fit(frame, y)
    for one in ranker.explain(frame):
        for reason in (*one.raised_by, *one.lowered_by, *one.held_back):
            assert reason.value == as_string(rows[reason.column][one.row].as_py())


def test_features_that_nobody_can_tell_of_are_refused():
    X, y = made()
    ranker = make_pipeline(PolynomialFeatures(2), TopPush(0.1, top=0.3)).fit(X, y)
    with pytest.raises(ValueError, match="after PolynomialFeatures"):
        explain(ranker, X)
    with pytest.raises(ValueError, match="LogisticRegression"):
        explain(LogisticRegression().fit(X, y), X)


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_a_model_of_a_file_knows_its_reference(tmp_path, kind):
    rows = made_rows(300)
    model = quick_fit(kind, write(tmp_path / "a.csv", rows), label="fraud", drop=["id"])
    files.save(model, tmp_path / "model.toppush")
    again = files.load(tmp_path / "model.toppush")
    new = pa.table({name: odd_rows(40)[name] for name in ("age", "income", "city", "member")})
    found = again.explain(new)
    assert [str(one) for one in found] == [str(one) for one in model.explain(new)]
    scores = model.decision_function(new.to_batches()[0])
    assert_allclose([one.difference for one in found], scores - model.ranker.reference_.sum())
    assert again.explain_pair(new.slice(0, 1), new.slice(1, 1)).score == pytest.approx(scores[0])


def test_columns_of_a_matrix_have_the_numbers_of_its_file(tmp_path):
    X, y = made()
    dump_svmlight_file(X, y, str(tmp_path / "a.svm"), zero_based=False)
    model = files.fit(tmp_path / "a.svm", lam=0.1, top=0.3)
    named = {reason.column for one in model.explain(X) for reason in one.raised_by}
    assert named <= {f"number {place}" for place in range(1, 6)}


@pytest.mark.parametrize(
    "forged",
    [np.zeros(3), np.full(8, np.nan), np.zeros((1, 8)), np.array(["a"] * 8), [0.0] * 8],
    ids=["short", "gaps", "flat", "texts", "list"],
)
def test_a_forged_reference_is_refused(tmp_path, forged):
    rows = made_rows(100)
    model = quick_fit("linear", write(tmp_path / "a.csv", rows), label="fraud", drop=["id"])
    model.ranker.usual_ = forged
    with pytest.raises(files.ModelError, match="usual_ is not"):
        files.save(model, tmp_path / "model.toppush")


# Whether the columns that are named are those that count: benchmarks/explain.py in small.


def typical_scores(ranker, X, named, typical):
    """Scores of rows whose named columns, those of each, have typical values."""
    mixed = X.copy()
    for row, columns in enumerate(named):
        mixed[row, columns] = typical[columns]
    return ranker.decision_function(mixed)


def test_typical_values_take_all_lifts_away_from_a_weighted_sum():
    ranker, (X, y) = fitted("linear"), made(200, seed=1)
    negatives = X[highest_negatives(y, ranker.decision_function(X))]
    found = ranker.explain(X, 2, against=negatives)
    named = [[int(one.column[1:]) for one in why.raised_by] for why in found]
    now = typical_scores(ranker, X, named, negatives.mean(axis=0))
    lost = [sum(one.contribution for one in why.raised_by) for why in found]
    assert_allclose(now, ranker.decision_function(X) - lost, atol=1e-9)


@pytest.mark.parametrize("name", ["additive", "trees", "auto"])
def test_named_columns_matter_more_than_others(name, rng):
    ranker, (X, y) = fitted(name), made(200, seed=1)
    scores = ranker.decision_function(X)
    first, negatives = np.argsort(-scores)[:60], X[highest_negatives(y, scores)]
    found = ranker.explain(X[first], 2, against=negatives)
    named = [[int(one.column[1:]) for one in why.raised_by] for why in found]
    by_chance = [rng.permutation(X.shape[1])[: len(columns)] for columns in named]
    typical, told = np.median(negatives, axis=0), np.array([bool(one) for one in named])
    falls, falls_by_chance = (
        np.mean((typical_scores(ranker, X[first], one, typical) < scores[first])[told])
        for one in (named, by_chance)
    )
    assert told.mean() > 0.5
    assert falls > 0.65
    assert falls > falls_by_chance + 0.2


def test_a_ranker_need_not_tell():
    class Silent(Ranker):
        def fit(self, X, y):
            self.classes_ = np.unique(y)
            return self

        def decision_function(self, X):
            return X[:, 0]

    X, y = made()
    ranker = Silent().fit(X, y)
    learn_reference(ranker, X, y)
    assert not hasattr(ranker, "reference_")
    with pytest.raises(ValueError, match="Silent"):
        ranker.explain(X)


# Base models of a combination that cannot share out their scores.


class PredictsAlone:
    """A regressor that is no estimator of scikit-learn."""

    def get_params(self, deep=True):
        return {}

    def set_params(self):
        return self

    def fit(self, X, y):
        self.weights = np.linalg.lstsq(X, y.astype(float))[0]
        return self

    def predict(self, X):
        return X @ self.weights


OWN = {
    "predict_proba": GaussianNB(),
    "decision_function": Perceptron(),
    "predict": PredictsAlone(),
    "pipeline": make_pipeline(StandardScaler(), LogisticRegression()),
    "search": GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, scoring="roc_auc"),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("others", [[], ["logistic"]], ids=["alone", "with another"])
def test_what_base_models_cannot_share_out_is_other(name, others, rng):
    y = rng.random(150) < 0.3
    X = rng.normal(size=(150, 3)) + y[:, None]
    with pytest.warns(UserWarning, match="model 'own'"):
        ranker = TopRanker([("own", OWN[name]), *others]).fit(X, y)
    assert ranker.unexplained_ == ["own"] * ("own" in ranker.members_)
    added = ranker.contributions(X)
    assert_allclose(added.sum(axis=1), ranker.decision_function(X), atol=1e-9)
    learn_reference(ranker, X, y)
    for why in explain(ranker, X[:4], n_columns=4):
        lifts = {reason.column: reason.contribution for reason in (*why.raised_by, *why.lowered_by)}
        assert sum(lifts.values()) == pytest.approx(why.difference, rel=1e-2, abs=1e-6)
        if not others:
            assert set(lifts) == {OTHER}
    pair = explain_pair(ranker, X[0], X[1], n_columns=4)
    told = sum(part.contribution for part in pair.differences)
    assert told + pair.rest == pytest.approx(pair.score - pair.other, abs=1e-9)
    if not others:
        assert [str(part) for part in pair.differences] == [f"{OTHER} ({told:+.2g})"]


def test_rankers_of_toppush_in_pipelines_are_shared_out(rng):
    y = rng.random(150) < 0.3
    X = rng.normal(size=(150, 3)) + y[:, None]
    own = make_pipeline(StandardScaler(), TopPush(0.1, top=0.1))
    with pytest.warns(UserWarning, match="model 'pipeline'"):
        ranker = TopRanker([own]).fit(X, y)
    assert ranker.unexplained_ == []
    added = ranker.contributions(X)
    assert np.ptp(added[:, -1]) < 1e-12
    assert_allclose(added.sum(axis=1), ranker.decision_function(X), atol=1e-9)


def test_estimators_without_scores_are_refused_before_the_fit():
    hard = VotingClassifier([("a", LogisticRegression())])
    for estimator in (hard, StandardScaler()):
        with pytest.raises(ValueError, match="scores"):
            TopRanker([estimator]).fit([[0.0], [1.0]] * 10, [0, 1] * 10)
