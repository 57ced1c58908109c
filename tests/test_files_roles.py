"""Columns of weights, groups and times; folds by them; options that every kind shares."""

import json
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from files import DROP, made_rows, quick_fit, write
from toppush import TopPush, TopRanker, files, metrics
from toppush.cli import main
from toppush.files import DataError
from toppush.files.fitting import read_training_file
from toppush.folds.splits import folds_by_role, folds_by_time
from toppush.modeltypes import OptionError
from toppush.tables.rows import Roles, RoleValues

pytestmark = pytest.mark.filterwarnings("ignore::toppush.DegenerateWarning")
FIXED = {"lam": 0.1, "top": 0.3}


def more_rows(n_rows=300, seed=0):
    rng = np.random.default_rng(seed)
    when = [
        datetime(2024, 1, 1) + timedelta(hours=int(one)) for one in rng.integers(0, 999, n_rows)
    ]
    return made_rows(n_rows, seed) | {
        "weight": rng.integers(0, 4, n_rows).tolist(),
        "client": [f"client {one}" for one in rng.integers(0, 60, n_rows)],
        "when": [one.isoformat() for one in when],
    }


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return write(tmp_path_factory.mktemp("roles") / "train.csv", more_rows())


@pytest.fixture
def many(rng):
    positive = rng.random(200) < 0.3
    return positive, rng.integers(0, 40, 200), rng.integers(0, 50, 200).astype(float)


# ---- folds


def test_no_fold_parts_a_group(many):
    positive, groups, _ = many
    found = folds_by_role(positive, RoleValues(groups=groups), 4, 0)
    assert sorted(np.concatenate([test for _, test in found])) == list(range(200))
    for train, test in found:
        assert not set(groups[train]) & set(groups[test])
        assert len(train) + len(test) == 200


@given(st.integers(0, 10_000), st.integers(2, 6))
def test_folds_hold_out_what_is_later(seed, n_folds):
    rng = np.random.default_rng(seed)
    positive, time = rng.random(120) < 0.4, rng.integers(0, 90, 120).astype(float)
    found = folds_by_time(positive, time, n_folds)
    seen = np.concatenate([test for _, test in found])
    assert len(seen) == len(set(seen))
    for train, test in found:
        assert len(train) == 0 or time[train].max() < time[test].min()
    assert time[seen].max() == time.max()


def test_times_part_the_positives_evenly(rng):
    time = rng.permutation(1000).astype(float)
    positive = time % 10 == 0
    counts = [int(positive[test].sum()) for _, test in folds_by_time(positive, time, 4)]
    assert max(counts) - min(counts) <= 1


def test_folds_that_cannot_be_are_refused(many):
    positive, groups, time = many
    with pytest.raises(DataError, match=r"--groups.*--time"):
        folds_by_role(positive, RoleValues(groups=groups, time=time), 4, 0)
    with pytest.raises(DataError, match=r"50 folds.*--groups.*40 groups"):
        folds_by_role(positive, RoleValues(groups=groups), 50, 0)
    with pytest.raises(DataError, match="--groups"):
        folds_by_role(positive, RoleValues(groups=positive.astype(int)), 2, 0)
    with pytest.raises(DataError, match="--time"):
        folds_by_role(positive, RoleValues(time=positive.astype(float)), 3, 0)


# ---- weights


def test_weights_reach_the_fit(table):
    drop = [*DROP, "client", "when"]
    model = files.fit(table, label="fraud", drop=drop, sample_weight="weight", threads=1, **FIXED)
    rows = read_training_file(table, label="fraud", drop=[*drop, "weight"])
    X = model.pipeline[:-1].transform(rows.rows.X)
    alone = TopPush(0.1, top=0.3, n_jobs=1).fit(X, rows.positive, more_rows()["weight"])
    np.testing.assert_allclose(model.ranker.coef_, alone.coef_)
    plain = TopPush(0.1, top=0.3, n_jobs=1).fit(X, rows.positive)
    assert not np.allclose(alone.coef_, plain.coef_, rtol=0.01)


def test_measures_of_a_fit_are_weighted(table):
    model = files.fit(
        table, label="fraud", drop=[*DROP, "client", "when"], sample_weight="weight", **FIXED
    )
    rows = more_rows()
    positive, scores = files.labelled(model, table)
    weighted = metrics.summary(positive, scores, sample_weight=rows["weight"])
    assert model.about["training"] == pytest.approx(weighted)
    assert weighted["average_precision"] != metrics.average_precision(positive, scores)
    assert "weight" not in [one["name"] for one in model.about["columns"]["named"]]


def test_out_of_fold_measures_are_weighted(table):
    model = quick_fit(
        "trees", table, label="fraud", drop=[*DROP, "client", "when"], sample_weight="weight"
    )
    weight, unseen = np.array(more_rows()["weight"]), model.ranker.out_of_fold_
    known = ~np.isnan(unseen)
    positive = np.array(more_rows()["fraud"]) == "yes"
    expected = metrics.summary(positive[known], unseen[known], sample_weight=weight[known])
    found = dict(model.about["out_of_fold"])
    assert found.pop("rows") == known.sum()
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(
    "weight, said",
    [
        ([1.0, -1.0, 1.0], "row 2.*column w.*missing"),
        ([1.0, 2.0, None], "row 3.*column w.*missing"),
        ([0.0, 0.0, 0.0], "column w.*0"),
        (["a", "b", "c"], "column w"),
    ],
)
def test_weights_that_cannot_be(weight, said, tmp_path):
    path = write(tmp_path / "t.parquet", {"x": [1, 2, 3], "w": weight, "label": [0, 1, 0]})
    with pytest.raises(DataError, match=said):
        files.fit(path, sample_weight="w", **FIXED)


def test_roles_that_cannot_be(table, tmp_path):
    with pytest.raises(DataError, match=r"column 'wieght'.*'weight'\?\)"):
        files.fit(table, label="fraud", sample_weight="wieght", **FIXED)
    with pytest.raises(DataError, match="column weight"):
        files.fit(table, label="fraud", sample_weight="weight", groups="weight", **FIXED)
    with pytest.raises(DataError, match="column fraud"):
        files.fit(table, label="fraud", groups="fraud", **FIXED)
    np.savez(tmp_path / "t.npz", X=np.eye(4), y=[0, 1, 0, 1])
    with pytest.raises(DataError, match="names"):
        files.fit(tmp_path / "t.npz", sample_weight="w", **FIXED)
    missing = {"x": [1, 2, 3], "g": ["a", None, "b"], "label": [0, 1, 0]}
    path = write(tmp_path / "t.parquet", missing)
    with pytest.raises(DataError, match=r"row 2.*column g.*missing"):
        files.fit(path, groups="g", **FIXED)
    with pytest.raises(DataError, match=r"row 2.*column g.*missing"):
        read_training_file(
            write(tmp_path / "u.parquet", missing | {"g": [1.0, None, 2.0]}), roles=Roles(time="g")
        )


# ---- fits by groups and times


@pytest.mark.parametrize("role", ["groups", "time"])
def test_a_column_that_makes_folds_is_no_feature_and_is_told(role, table, tmp_path):
    column = {"groups": "client", "time": "when"}[role]
    others = {"client", "when", "weight"} - {column}
    model = files.fit(table, label="fraud", drop=[*DROP, *others], lam=0.1, cv=3, **{role: column})
    assert {one["name"] for one in model.about["columns"]["named"]} == {
        "age", "income", "city", "member",
    }  # fmt: skip
    assert model.about["data"][role] == column
    assert model.ranker.cv == 3
    files.save(model, tmp_path / "m")
    assert files.load(tmp_path / "m").ranker.cv == 3


def test_folds_by_groups_choose(table, monkeypatch):
    """The very folds reach the ranker, drop or no drop."""
    seen = []
    from toppush.models.linear_cv import TopPushCV

    fit = TopPushCV.fit
    monkeypatch.setattr(
        TopPushCV, "fit", lambda self, *given: seen.append(self.cv) or fit(self, *given)
    )
    files.fit(table, label="fraud", drop=[*DROP, "client"], groups="client", lam=0.1, cv=3)
    clients = np.array(more_rows()["client"])
    (folds,) = seen
    assert len(folds) == 3
    for train, test in folds:
        assert not set(clients[train]) & set(clients[test])


def test_kinds_that_draw_their_own_folds_say_so(table):
    with pytest.raises(OptionError, match="--time"):
        quick_fit("trees", table, label="fraud", time="when")
    with pytest.raises(OptionError, match="--groups"):
        quick_fit("net", table, label="fraud", groups="client")
    drop = [*DROP, "when", "weight"]
    model = quick_fit("trees", table, label="fraud", drop=drop, groups="client", cv=3)
    assert model.ranker.cv == 3


@pytest.mark.filterwarnings("ignore::toppush.LeakageWarning", "ignore:.*change over time")
@pytest.mark.parametrize("member", ["logistic", "boosted", "trees", "forest"])
def test_members_learn_from_the_latest_rows_too(member, rng):
    """Folds by time never train on them; a list of tomorrow's rows must."""
    if member in ("boosted", "trees"):
        pytest.importorskip("lightgbm")
    time, positive = np.arange(400.0), rng.random(400) < 0.4
    X = np.column_stack([rng.normal(size=400), (time >= 300) & positive])
    ranker = TopRanker([member], effort="quick", cv=folds_by_time(positive, time, 3), n_jobs=1)
    ranker.fit(X, positive)
    assert np.isnan(ranker.out_of_fold_[:60]).all()
    without, having = ranker.decision_function([[0.0, 0.0], [0.0, 1.0]])
    assert having > without
    unseen = ranker.out_of_fold_[~positive]
    seen = ranker.decision_function(X[~positive])
    assert abs(np.nanmean(unseen) - seen.mean()) < 2 * np.nanstd(unseen)


def test_members_that_draw_their_own_folds_do_not_see_groups(rng):
    pytest.importorskip("torch")
    X, y = rng.normal(size=(80, 2)), rng.random(80) < 0.4
    ranker = TopRanker(["logistic", "net"], effort="quick", n_jobs=1)
    ranker.fit(X, y, groups=np.arange(80) // 2)
    assert ranker.left_out_ == {"net": "it draws its own folds"}


# ---- scoring and tol


def test_scoring_is_by_name(table):
    drop = [*DROP, "client", "when", "weight"]
    for name in ("ndcg", "roc_auc"):
        model = files.fit(table, label="fraud", drop=drop, top=0.3, cv=2, scoring=name, tol=1e-2)
        assert model.about["fit"]["cv_measure"] == name
        assert model.ranker.tol == 1e-2
    with pytest.raises(OptionError, match=r"'ndgc'.*'ndcg'\?\)"):
        files.fit(table, label="fraud", scoring="ndgc")
    with pytest.raises(OptionError, match="'recall_at_k'"):
        files.fit(table, label="fraud", scoring="recall_at_k")
    with pytest.raises(OptionError, match=r"--tol.*--model"):
        files.fit(table, label="fraud", model="additive", tol=1e-2)


def test_a_named_scorer_is_weighted(rng):
    """Rows of weight 0 do not count, also in measures of scikit-learn."""
    from toppush import TopPushCV

    X, y = rng.normal(size=(120, 3)), rng.random(120) < 0.4
    kept = rng.random(120) < 0.7
    folds = [(np.arange(60), np.arange(60, 120)), (np.arange(60, 120), np.arange(60))]
    ranker = TopPushCV([0.1], tops=[0.3], scoring="roc_auc", cv=folds, n_jobs=1)
    found = ranker.fit(X, y, kept.astype(float)).cv_results_["mean_test_score"]
    place = np.cumsum(kept) - 1
    some = [tuple(place[part[kept[part]]] for part in fold) for fold in folds]
    fewer = ranker.set_params(cv=some).fit(X[kept], y[kept]).cv_results_["mean_test_score"]
    np.testing.assert_allclose(found, fewer, atol=1e-3)


# ---- commands


def test_fit_tells_of_roles(table, tmp_path):
    ran = CliRunner().invoke(
        main,
        ["fit", str(table), "-o", str(tmp_path / "m"), "--label", "fraud", "--drop", "id,client",
         "--model", "linear", "--sample-weight", "weight", "--time", "when", "--lam", "0.1",
         "--top", "30%"],
    )  # fmt: skip
    assert ran.exit_code == 0, ran.output
    assert "Sample weights: weight." in ran.output
    assert "folds hold out later rows: when." in ran.output


def test_compare_weighs_and_keeps_groups_together(table):
    pytest.importorskip("torch")  # for the network that is left out
    ran = CliRunner().invoke(
        main,
        ["compare", str(table), "--label", "fraud", "--drop", "id,when", "--sample-weight",
         "weight", "--groups", "client", "--cv", "2", "--scoring", "average_precision", "--json",
         "--methods", "logistic regression,LightGBM,TopPush net"],
    )  # fmt: skip
    assert ran.exit_code == 0, ran.output
    found = json.loads(ran.stdout)
    assert "draws its own folds" in found["left_out"]["TopPush net"]
    assert len(found["folds"]["logistic regression"]["AP"]) == 2
    assert len(found["folds"]["LightGBM"]["AP"]) == 2
    columns = pa.table(more_rows())
    roles = Roles(sample_weight="weight", groups="client")
    drop = ["id", "when"]
    training = read_training_file(table, label="fraud", drop=drop, roles=roles)
    assert training.rows.X.column_names == ["age", "income", "city", "member"]
    np.testing.assert_array_equal(training.held.weight, columns["weight"].to_numpy())
