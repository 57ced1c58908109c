"""TopPushTrees: the contract, members and folds, categories, gaps, and bad input."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, make_classification
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import check_random_state
from sklearn.utils.estimator_checks import parametrize_with_checks

pytest.importorskip("lightgbm")
from toppush import TopPushTrees, metrics

WEIGHTS = "rows are held out by number, so weights and copies of rows do not give the same folds"
F1 = "predict maximises F1, so it marks rows with probabilities below 1/2 too"
XFAIL = {
    "check_sample_weight_equivalence_on_dense_data": WEIGHTS,
    "check_sample_weight_equivalence_on_sparse_data": WEIGHTS,
}


def small(**options):
    return TopPushTrees(**{"n_members": 4, "max_rounds": 12, "n_jobs": 1} | options)


@pytest.mark.sampled(2)
@parametrize_with_checks(
    [small(max_rounds=20), small(max_rounds=20, loss="binary")],
    expected_failed_checks=lambda estimator: (
        XFAIL | ({"check_classifiers_train": F1} if estimator.loss == "pairwise" else {})
    ),
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def rows():
    X, y = make_classification(600, 12, n_informative=5, weights=[0.9], flip_y=0.05, random_state=1)
    return X, y.astype(bool)


@pytest.fixture(scope="module")
def fitted(rows):
    return small().fit(*rows)


@pytest.fixture(scope="module")
def table(rows):
    """Numbers with gaps, texts with gaps, flags; the label depends on the texts."""
    X, y = rows
    rng = np.random.default_rng(0)
    town = np.where(y & (rng.random(len(y)) < 0.8), "oslo", rng.choice(["rome", "bonn"], len(y)))
    frame = pd.DataFrame(X[:, :3], columns=["one", "two", "three"])
    frame.loc[::7, "one"] = np.nan
    frame["town"] = town.astype(object)
    frame.loc[::11, "town"] = None
    frame["kind"] = pd.Categorical(rng.choice(["a", "b"], len(y)))
    frame["flag"] = rng.random(len(y)) < 0.5
    return frame, y


def test_a_fit_repeats_to_the_bit_with_any_number_of_threads(rows, fitted):
    for n_jobs in (1, 2):
        again = small(n_jobs=n_jobs).fit(*rows)
        assert again.texts_ == fitted.texts_
        np.testing.assert_array_equal(again.out_of_fold_, fitted.out_of_fold_)
    assert small(random_state=1).fit(*rows).texts_ != fitted.texts_


def test_out_of_fold_scores_are_by_members_that_did_not_see_the_row(rows):
    X, y = rows
    ranker = small(n_members=4, max_rounds=5).fit(X, y)  # one choice of rounds
    every = np.array([one.predict(X, raw_score=True) for one in ranker._models()])
    known = ranker.out_of_fold_
    assert np.isfinite(known).all()
    folds = StratifiedKFold(4, shuffle=True, random_state=check_random_state(0).randint(2**31 - 1))
    spread = known[next(iter(folds.split(y, y)))[1]].std()
    for scores, (_, held) in zip(every, folds.split(y, y), strict=True):
        slope, at = np.polyfit(scores[held], known[held], 1)  # one line for a member's rows
        assert slope > 0
        np.testing.assert_allclose(slope * scores[held] + at, known[held], atol=1e-9)
        assert known[held].std() == pytest.approx(spread)
        assert known[held].mean() == pytest.approx(known.mean(), abs=1e-9)  # no labels are used
    member = np.zeros(len(y), dtype=int)
    for number, (_, held) in enumerate(folds.split(y, y)):
        member[held] = number
    # A row's label is not in its out-of-fold score: a fit to other labels of a fold leaves it.
    fold = member == 0
    other = y.copy()
    other[fold] = np.random.default_rng(0).permutation(y[fold])
    refit = small(n_members=4).fit(X, other)
    assert metrics.auc(y, refit._models()[1].predict(X)) > 0.8


@pytest.mark.parametrize("loss", ["pairwise", "binary"])
def test_out_of_fold_scores_are_in_the_unit_of_the_others(rows, loss):
    X, y = rows
    train, held = np.arange(0, len(y), 2), np.arange(1, len(y), 2)
    ranker = small(n_members=1, cv=[(train, held)], loss=loss).fit(X, y)
    assert np.isnan(ranker.out_of_fold_[train]).all()
    scores = ranker.decision_function(X[held])
    np.testing.assert_allclose(ranker.out_of_fold_[held], scores, atol=1e-8)


def test_contributions_sum_to_the_score(rows, fitted):
    X, _ = rows
    found = fitted.contributions(X)
    assert found.shape == (len(X), X.shape[1] + 1)
    np.testing.assert_allclose(found.sum(axis=1), fitted.decision_function(X), atol=1e-6)
    assert fitted.feature_importances_.sum() == pytest.approx(1.0)


def test_sparse_rows_are_ranked_as_dense_ones(rows, fitted):
    X, y = rows
    sparser = X * (np.abs(X) > 0.5)
    dense = small().fit(sparser, y)
    for kind in (sparse.csr_array, sparse.csc_matrix):
        ranker = small().fit(kind(sparser), y)
        np.testing.assert_allclose(
            ranker.decision_function(kind(sparser)), dense.decision_function(sparser), atol=1e-9
        )
        np.testing.assert_allclose(
            ranker.contributions(kind(sparser)), dense.contributions(sparser), atol=1e-9
        )


def test_columns_with_few_entries_are_left_out_and_cost_nothing(rows):
    """A model of rows with millions of columns names those alone that a tree can split by."""
    X, y = rows
    wide = sparse.csr_array((len(y), 100_000))
    wide = sparse.hstack([sparse.csr_array(X), wide], format="csr")
    ranker = small().fit(wide, y)
    np.testing.assert_array_equal(ranker.columns_, np.arange(X.shape[1]))
    few = small().fit(sparse.csr_array(X), y)
    assert ranker.texts_ == few.texts_
    assert ranker.feature_importances_.shape == (wide.shape[1],)
    parts = ranker.contributions(wide[:5])
    np.testing.assert_allclose(parts.sum(axis=1), ranker.decision_function(wide[:5]), atol=1e-6)


def test_categories_and_gaps_need_no_preparation(table):
    frame, y = table
    ranker = small().fit(frame, y)
    assert ranker.categories_ == {3: ["bonn", "oslo", "rome"], 4: ["a", "b"]}
    assert list(ranker.feature_names_in_) == list(frame.columns)
    assert ranker.score(frame, y) > 0.7
    assert ranker.feature_importances_.argmax() == 3
    without = small().fit(frame.drop(columns="town"), y)
    assert metrics.auc(y, ranker.out_of_fold_) > metrics.auc(y, without.out_of_fold_)


def test_frames_of_other_libraries_and_arrays_of_codes_say_the_same(table):
    frame, y = table
    scores = small().fit(frame, y).decision_function(frame)
    others = pl.from_pandas(frame.assign(kind=frame["kind"].astype(str)))
    by_polars = small().fit(others, y)
    np.testing.assert_array_equal(by_polars.decision_function(others), scores)
    values = frame.to_numpy(dtype=object)
    for wanted in ([3, 4], [False] * 3 + [True, True, False], [3, -2]):
        ranker = small(categorical_features=wanted).fit(values, y)
        np.testing.assert_array_equal(ranker.decision_function(values), scores)
    named = small(categorical_features=["town", "kind"]).fit(frame, y)
    np.testing.assert_array_equal(named.decision_function(frame), scores)


def test_unknown_categories_count_as_gaps(table):
    frame, y = table
    ranker = small().fit(frame, y)
    gap, unknown = frame.copy(), frame.copy()
    gap["town"] = None
    unknown["town"] = "paris"
    np.testing.assert_array_equal(ranker.decision_function(gap), ranker.decision_function(unknown))


def test_rows_of_weight_zero_do_not_count(rows):
    X, y = rows
    keep = np.arange(len(y)) % 3 > 0
    weighted = small().fit(X, y, sample_weight=keep.astype(float))
    dropped = small().fit(X[keep], y[keep], sample_weight=np.ones(keep.sum()))
    assert weighted.texts_ == dropped.texts_
    assert np.isnan(weighted.out_of_fold_[~keep]).all()
    np.testing.assert_array_equal(weighted.out_of_fold_[keep], dropped.out_of_fold_)


@pytest.mark.parametrize("loss", ["pairwise", "binary"])
def test_weights_change_the_list(rows, loss):
    X, y = rows
    heavy = np.where(X[:, 0] > 0, 20.0, 1.0)
    plain = small(loss=loss).fit(X, y)
    weighted = small(loss=loss).fit(X, y, sample_weight=heavy)
    part = X[:, 0] > 0
    assert not np.allclose(plain.decision_function(X), weighted.decision_function(X))
    assert metrics.auc(y[part], weighted.decision_function(X[part])) > 0.9


def test_few_positives_share_their_folds(rows):
    X, y = rows
    few = y.copy()
    few[np.flatnonzero(y)[2:]] = False
    ranker = small(n_members=5).fit(X, few)
    assert len(ranker.texts_) == 5
    assert np.isfinite(ranker.out_of_fold_).all()


def test_a_round_without_a_split_is_not_the_last():
    """The few columns that a split may choose from may be those that tell nothing."""
    X = np.zeros((200, 10))
    X[:, 0] = np.arange(200) % 5
    X[0, 1:] = 1.0
    ranker = small(max_rounds=40).fit(X, X[:, 0] == 4)
    assert ranker.score(X, X[:, 0] == 4) == 1.0


def test_columns_that_tell_nothing_give_equal_scores(rows):
    _, y = rows
    ranker = small().fit(np.ones((len(y), 3)), y)
    assert np.ptp(ranker.decision_function(np.ones((5, 3)))) == 0.0


def test_one_member_knows_a_quarter(rows):
    X, y = rows
    ranker = small(n_members=1).fit(X, y)
    assert np.isfinite(ranker.out_of_fold_).mean() == pytest.approx(0.25, abs=0.01)


def test_an_interrupted_fit_leaves_the_last_one(rows, monkeypatch):
    X, y = rows
    ranker = small().fit(X, y)
    before = ranker.decision_function(X)

    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("toppush.models.trees.grow", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ranker.fit(X[:300], y[:300])
    np.testing.assert_array_equal(ranker.decision_function(X), before)


def test_it_can_be_pickled_and_cloned(rows, fitted):
    X, _ = rows
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.decision_function(X), fitted.decision_function(X))
    assert not hasattr(clone(fitted), "texts_")


def test_the_line_counts_members(rows, capsys):
    small(verbose=1).fit(*rows)
    assert "trees: 4 of 4 members" in capsys.readouterr().out


def test_it_ranks_better_than_chance_on_rows_it_has_not_seen():
    X, y = load_breast_cancer(return_X_y=True)
    ranker = small(n_members=4, max_rounds=60).fit(X[:400], y[:400])
    assert ranker.score(X[400:], y[400:]) > 0.99


BAD = {
    "no two rows": (lambda X, y: (X, np.arange(len(y)) == 5), "class True has 1 rows"),
    "one class": (lambda X, y: (X, np.zeros(len(y))), "two classes"),
    "infinite": (lambda X, y: (np.where(np.indices(X.shape).any(0), X, np.inf), y), "infinity"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_rows_are_refused(rows, name):
    change, match = BAD[name]
    with pytest.raises(ValueError, match=match):
        small().fit(*change(*rows))


def test_bad_settings_are_refused(rows, table):
    X, y = rows
    frame, _ = table
    with pytest.raises(ValueError, match="top=10000"):
        small(top=10_000).fit(X, y)
    with pytest.raises(ValueError, match="'twon'"):
        small(categorical_features=["twon"]).fit(frame, y)
    with pytest.raises(ValueError, match=r"2 columns.*X.*6"):
        small(categorical_features=[True, False]).fit(frame, y)
    with pytest.raises(ValueError, match="frame"):
        small(categorical_features=[0]).fit(sparse.csr_array(X), y)
    with pytest.raises(ValueError, match=r"column 'town'.*'.*'"):
        small(categorical_features=["kind"]).fit(frame, y)
    with pytest.raises(ValueError, match="found -1"):
        small().fit(X, y, sample_weight=-np.ones(len(y)))
    ranker = small().fit(frame, y)
    with pytest.raises(ValueError, match="feature names"):
        ranker.decision_function(frame.rename(columns={"one": "uno"}))


def test_without_the_engine_the_extra_is_named(rows, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(ImportError, match=r"'toppush\[trees\]'"):
        small().fit(*rows)


def test_rows_elsewhere_are_refused(rows):
    dask = pytest.importorskip("dask.array")
    X, y = rows
    with pytest.raises(ValueError, match=r"TopPushTrees.*TopPush"):
        small().fit(dask.from_array(X), y)
