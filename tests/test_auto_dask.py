"""TopRanker on rows of Dask: the same lists as of the rows in one place, and who is left out."""

import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold

from holders import lazy
from toppush import TopRanker, files
from toppush.auto import dask as auto_dask
from toppush.auto import dask_folds, linear
from toppush.auto import dask_xgboost as xgboost_on_dask
from toppush.auto.members import EFFORTS
from toppush.folds.scores import in_order, joined
from toppush.objectives import TopPushObjective
from toppush.system.errors import ModelError

distributed = pytest.importorskip("distributed", reason="needs Dask, the extra [dask]")
da = pytest.importorskip("dask.array", reason="needs Dask, the extra [dask]")
dd = pytest.importorskip("dask.dataframe", reason="needs Dask, the extra [dask]")
pd = pytest.importorskip("pandas")

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore::ResourceWarning")]

N_ROWS, N_FOLDS, CHUNK = 240, 2, 70


def rows(rng, n_rows=N_ROWS):
    """Positives at both ends of a column, and further along another."""
    X = rng.normal(size=(n_rows, 4))
    return X, X[:, 0] + X[:, 1] ** 2 + 0.5 * rng.normal(size=n_rows) > 1.8


def table(rng):
    """Texts, gaps, dates and numbers."""
    X, y = rows(rng)
    X[rng.random(X.shape) < 0.1] = np.nan
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    told = y ^ (rng.random(N_ROWS) < 0.1)  # not always right, or the fit warns of leakage
    frame["text"] = np.where(rng.random(N_ROWS) < 0.7, told.astype(str), "other")
    frame.loc[::9, "text"] = None
    frame["day"] = pd.to_datetime("2024-01-01") + pd.to_timedelta(np.arange(N_ROWS), "D")
    frame.loc[200:, "text"] = "late"  # no earlier partition has it
    return frame, y


def first_empty(frame, y):
    """Rows from the sixtieth on and their labels, in partitions of which the first is empty."""
    spread = dd.from_pandas(frame.assign(y=y, place=np.arange(N_ROWS)), npartitions=4)
    spread = spread[spread["place"] >= 60]
    return spread.drop(columns=["y", "place"]), spread["y"]


def in_turn(y, n_folds=N_FOLDS):
    """Folds to which the rows of a class are assigned in turn."""
    fold = np.empty(len(y), int)
    for side in (y, ~y):
        fold[side] = np.arange(side.sum()) % n_folds
    return [(np.flatnonzero(fold != one), np.flatnonzero(fold == one)) for one in range(n_folds)]


def check_same(there, here, X):
    """Two rankers, up to the rounding of sums."""
    assert there.weights_ == here.weights_
    assert_allclose(there.out_of_fold_, here.out_of_fold_, atol=1e-6)
    assert_allclose(there.decision_function(X), here.decision_function(X), atol=1e-6)
    for one, other in zip(there.leaderboard_, here.leaderboard_, strict=True):
        timeless = set(one) - {"seconds", "size"}
        assert {key: one[key] for key in timeless} == pytest.approx(
            {key: other[key] for key in timeless}
        )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", ["dense", "CSR", "CSR of ones"])
@pytest.mark.parametrize("weighted", [False, True])
def test_as_the_rows_in_one_place(client, rng, kind, weighted):
    X, y = rows(rng)
    if kind != "dense":
        X[rng.random(X.shape) < 0.5] = 0.0
        X = sparse.csr_array(X if kind == "CSR" else X > 0.5, dtype=float)
    weight = rng.integers(0, 3, N_ROWS).astype(float) if weighted else None
    there = TopRanker(["linear"], cv=N_FOLDS).fit(lazy(X, CHUNK), y, weight)
    here = TopRanker(["linear"], cv=in_turn(y)).fit(X, y, weight)
    check_same(there, here, X)
    assert there.members_["linear"].form_ == "scaled" or kind != "CSR of ones"
    scores = there.decision_function(lazy(X, 50))
    assert isinstance(scores, da.Array)
    assert_allclose(scores.compute(), there.decision_function(X), atol=1e-12)


@pytest.mark.filterwarnings("ignore::toppush.PositiveClassWarning")
def test_tables_with_texts_gaps_and_dates(client, rng):
    frame, y = table(rng)
    labels = pd.Series(np.where(y, "yes", "no"))
    spread = dd.from_pandas(frame, npartitions=4)
    there = TopRanker(["linear"], cv=N_FOLDS).fit(spread, dd.from_pandas(labels, npartitions=4))
    here = TopRanker(["linear"], cv=in_turn(y)).fit(frame, labels)
    check_same(there, here, frame)
    assert there.categories_ == here.categories_
    assert there.dates_ == here.dates_
    assert list(there.feature_names_in_) == list(frame.columns)
    assert list(there.classes_) == ["no", "yes"]
    few = spread[spread["a"] > 0.5]  # of partitions of unknown length
    assert_allclose(
        there.decision_function(few).compute(),
        there.decision_function(frame[frame["a"] > 0.5]),
        atol=1e-12,
    )
    with pytest.raises(ValueError, match="feature"):
        there.decision_function(spread.rename(columns={"a": "other"}))


@pytest.mark.long
def test_partitions_may_be_empty_or_of_one_class(client, rng):
    frame, y = table(rng)
    order = np.argsort(y, kind="stable")
    frame, y = frame.iloc[order].reset_index(drop=True), y[order]
    X, labels = first_empty(frame, y)  # the next are negative
    there = TopRanker(["linear"], cv=N_FOLDS).fit(X, labels)
    here = TopRanker(["linear"], cv=in_turn(y[60:])).fit(frame[60:], y[60:])
    check_same(there, here, frame)
    assert_allclose(
        there.decision_function(X).compute(), there.decision_function(frame[60:]), atol=1e-12
    )


def test_who_cannot_is_named(client, rng):
    X, y = rows(rng)
    ranker = TopRanker(cv=N_FOLDS).fit(lazy(X, CHUNK), y)
    assert list(ranker.members_) == ["linear"]
    assert set(ranker.left_out_) == set(EFFORTS["normal"].members) - {"linear", "text"}
    assert "rows in memory" in ranker.left_out_["forest"]
    assert "processes of their own" in ranker.left_out_["trees"]  # the workers are threads
    with pytest.raises(ValueError, match="members"):
        TopRanker([("linear", LogisticRegression())]).fit(lazy(X, CHUNK), y)


def test_without_xgboost(client, rng, monkeypatch):
    X, y = rows(rng)
    monkeypatch.setattr("toppush.auto.dask_xgboost.find_spec", lambda name: None)
    with pytest.raises(ValueError, match="xgboost"):
        TopRanker(["trees"], cv=N_FOLDS).fit(lazy(X, CHUNK), y)


def test_what_cannot_be_is_refused(client, rng):
    X, y = rows(rng)
    only_first_fold = np.ones(N_ROWS)
    only_first_fold[np.flatnonzero(y)[1::2]] = 0.0
    for options, given, words in (
        ({"cv": KFold(3)}, {}, "give the number of folds"),
        ({}, {"groups": np.arange(N_ROWS)}, "for a Dask collection leave them out"),
        ({}, {"sample_weight": np.arange(N_ROWS) - 1.0}, "must be finite and at least 0"),
        ({}, {"sample_weight": only_first_fold}, "folds have rows of one class alone"),
    ):
        with pytest.raises(ValueError, match=words):
            TopRanker(["linear"], **{"cv": N_FOLDS, **options}).fit(lazy(X, CHUNK), y, **given)
    ranker = TopRanker(["linear"]).fit(X, y)
    with pytest.raises(ValueError, match=r"X.*Dask"):
        ranker.contributions(lazy(X, CHUNK))
    one = np.zeros(N_ROWS)
    one[3] = 1.0
    with pytest.raises(ValueError, match=r"class 1\.0.*1 rows"):
        TopRanker(["linear"]).fit(lazy(X, CHUNK), one)


def test_any_ranker_scores_rows_of_dask(client, rng):
    frame, y = table(rng)
    ranker = TopRanker(["logistic", "forest"], cv=N_FOLDS).fit(frame, y)
    spread = dd.from_pandas(frame, npartitions=3)
    assert_allclose(
        ranker.decision_function(spread).compute(), ranker.decision_function(frame), atol=1e-12
    )
    assert_array_equal(ranker.predict(spread).compute(), ranker.predict(frame))
    probabilities = ranker.predict_proba(spread)
    assert probabilities.shape[1] == 2
    assert_allclose(probabilities.compute(), ranker.predict_proba(frame), rtol=1e-9)
    assert ranker.score(spread, y) == pytest.approx(ranker.score(frame, y))


def test_of_many_rows_some_are_listed(client, rng, monkeypatch):
    """The fits are those to all rows."""
    monkeypatch.setattr(dask_folds, "MOST_SAMPLED", N_ROWS // 3)
    monkeypatch.setattr(auto_dask, "TOL", 1e-3)
    monkeypatch.setattr(linear, "TOL", 1e-3)
    X, y = rows(rng)
    ranker = TopRanker(["linear"], cv=N_FOLDS).fit(lazy(X, CHUNK), y)
    listed = ~np.isnan(ranker.out_of_fold_)
    for side in (y, ~y):
        first = np.arange(side.sum()) % (3 * N_FOLDS) < N_FOLDS
        assert_array_equal(listed[side], first)
    assert ranker.leaderboard_[0]["rows"] == N_ROWS
    member = ranker.members_["linear"]
    again, _ = linear.fit_weights(
        "push",
        linear.Curves.from_arrays(member.curves_).transform(X),
        linear.WeightedRows(X, y, None, np.zeros(4, bool)),
        tuple(member.penalty_),
    )
    assert_allclose(member.coef_[0], again, atol=1e-6 * np.abs(again).max())


@pytest.mark.long
def test_a_linear_ranker_can_be_saved(client, rng, tmp_path):
    X, y = rows(rng)
    ranker = TopRanker(["linear"], cv=N_FOLDS).fit(lazy(X, CHUNK), y)
    files.save(ranker, tmp_path / "model.toppush")
    read = files.load(tmp_path / "model.toppush")
    assert_array_equal(read.decision_function(X), ranker.decision_function(X))


# Trees on processes.


@pytest.fixture(scope="module")
def processes():
    """A client of two workers, each in a process of its own."""
    pytest.importorskip("xgboost", reason="needs XGBoost, the extra [xgboost]")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_trees_grow_on_the_workers(processes, rng, tmp_path, monkeypatch):
    monkeypatch.setattr("toppush.auto.dask_xgboost.MAX_ROUNDS", 20)
    frame, y = table(rng)
    spread, labels = first_empty(frame, y)
    frame, y = frame[60:], y[60:]
    ranker = TopRanker(["trees", "boosted"], cv=N_FOLDS).fit(spread, labels)
    assert not ranker.left_out_
    board = {row["name"]: row for row in ranker.leaderboard_}
    assert set(board) == {"trees", "boosted", "combination"}
    assert min(row["average_precision"] for row in board.values()) > 1.5 * y.mean()
    assert not np.isnan(ranker.out_of_fold_).any()
    for member in ranker.members_.values():
        assert len(member.boosters_) == N_FOLDS
        assert {one.dtype for one in member.boosters_} == {np.dtype(np.uint8)}
    scores = ranker.decision_function(frame)
    assert_allclose(ranker.decision_function(spread).compute(), scores, atol=1e-6)
    assert_allclose(ranker.contributions(frame).sum(axis=1), scores, atol=1e-5)
    assert_array_equal(pickle.loads(pickle.dumps(ranker)).decision_function(frame), scores)
    with pytest.raises(ModelError, match="XGBoostTrees"):
        files.save(ranker, tmp_path / "model.toppush")


def test_rounds_for_the_rows_of_a_fold_are_chosen_by_the_others(rng):
    """Folds stop after different numbers of rounds."""
    xgboost = pytest.importorskip("xgboost")
    X, y = rows(rng, 60)
    columns, shape = SimpleNamespace(categorical=[]), SimpleNamespace(shape=X.shape)
    trainer = xgboost_on_dask.BinaryTrainer(SimpleNamespace(columns=columns, rows=shape), 0)

    def n_rounds(rankers):
        return [[one.num_boosted_rounds() for one in ranker._models()] for ranker in rankers]

    grown = []
    for (_, held), quality in zip(
        in_turn(y, 3), ([1, 5, 2, 2], [1, 2, 3, 4, 9, 4], [7, 1, 0]), strict=True
    ):
        booster = xgboost.train({}, xgboost.DMatrix(X, y), len(quality))
        grown.append(xgboost_on_dask.FoldBooster(booster, held, np.array(quality)))
    assert n_rounds([trainer.whole(grown)]) == [[4, 5, 3]]
    assert n_rounds(trainer.final(grown)) == [[4], [5], [3]]
    assert n_rounds(trainer.unseen(grown)) == [[4], [1], [3]]


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("loss", ["pairwise", "binary"])
def test_the_trees_are_those_of_one_process(processes, rng, loss, monkeypatch):
    """Of few values a column, so that XGBoost cuts it in the same places however rows lie.

    The rounds are those that the workers chose: which of two NDCGs is greater can depend on the
    order of sums.
    """
    xgboost = pytest.importorskip("xgboost")
    monkeypatch.setattr(xgboost_on_dask, "MAX_ROUNDS", 12)
    grown = []
    choose = xgboost_on_dask.choose_rounds
    monkeypatch.setattr(
        xgboost_on_dask, "choose_rounds", lambda folds: (grown.append(folds), choose(folds))[1]
    )
    X = rng.integers(0, 20, size=(600, 4)).astype(float)
    y = X[:, 0] + (X[:, 1] - 10) ** 2 / 5 + 3 * rng.normal(size=600) > 25
    name = {"pairwise": "trees", "binary": "boosted"}[loss]
    there = TopRanker([name], cv=N_FOLDS).fit(lazy(X, 150), y)
    curves = np.array([one.quality for one in grown[0]])
    n_common, n_chosen = curves.mean(axis=0).argmax() + 1, curves[::-1].argmax(axis=1) + 1
    parts, grid = [], 2e-3  # on several workers the push is taken on a grid of scores
    params = {**xgboost_on_dask.PARAMS, "seed": there._seed(), "nthread": 1}
    order = np.empty(len(y), int)  # a row's place in its class
    for side in (y, ~y):
        order[side] = np.arange(side.sum())
    for number, (train, held) in enumerate(in_turn(y)):
        again = order % (8 * N_FOLDS) == (number + 1) % N_FOLDS
        train = np.setdiff1d(train, np.flatnonzero(again))
        unseen = xgboost.DMatrix(X[held], y[held])
        objective = {
            "pairwise": {"obj": TopPushObjective(xgboost_on_dask.TOP)},
            "binary": {"params": {**params, "objective": "binary:logistic"}},
        }[loss]
        booster = xgboost.train(
            dtrain=xgboost.DMatrix(X[train], y[train]),
            num_boost_round=xgboost_on_dask.MAX_ROUNDS,
            **{"params": params, **objective},
        )
        chosen, common = (
            booster.predict(unseen, output_margin=True, iteration_range=(0, n)).astype(float)
            for n in (n_chosen[number], n_common)
        )
        parts.append((held, in_order(common, chosen)))
        model = xgboost.Booster(model_file=bytearray(there.members_[name].boosters_[number]))
        assert model.num_boosted_rounds() == n_common
        assert_allclose(model.predict(unseen, output_margin=True), common, atol=grid)
    here = joined(parts, len(y))
    scaled = there.out_of_fold_ * there.scales_[name]
    assert_allclose(scaled - scaled.mean(), here - here.mean(), atol=grid)
    assert 0 < np.std(there.expected_scores_) < np.std(there.out_of_fold_)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_held_out_rows_are_not_seen(processes, rng, monkeypatch):
    """Labels at random: who has seen a row ranks it right, who has not cannot."""
    monkeypatch.setattr("toppush.auto.dask_xgboost.PATIENCE", 1000)
    monkeypatch.setattr("toppush.auto.dask_xgboost.MAX_ROUNDS", 40)
    X, y = rng.normal(size=(600, 5)), rng.random(600) < 0.3
    ranker = TopRanker(["trees"], cv=N_FOLDS).fit(lazy(X, 150), y)
    assert ranker.leaderboard_[0]["average_precision"] < 0.45
    assert ranker.score(X, y) > 0.6


@pytest.mark.parametrize(
    "member, value", [("linear", 1e300), ("linear", -1e39), ("boosted", np.inf)]
)
def test_magnitudes_of_all_rows_are_checked(client, rng, member, value, monkeypatch):
    """Not only those of the few rows by which settings are chosen."""
    monkeypatch.setattr(dask_folds, "SEARCH_ROWS", 20)
    X, y = rows(rng)
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    frame.loc[5, "c"], frame.loc[::9, "a"] = value, np.nan
    with pytest.raises(ValueError, match=r"^the largest magnitude.*column 'c' \("):
        TopRanker([member], cv=2).fit(dd.from_pandas(frame, npartitions=4), y)
    with pytest.raises(ValueError, match=r"^the largest magnitude.*column 2 \("):
        TopRanker([member], cv=2).fit(da.from_array(frame.to_numpy(), chunks=(CHUNK, 4)), y)
