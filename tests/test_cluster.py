"""Dask's partitions in place of one array: what may be given, what is refused, what is measured.

The workers are threads of this process, which start at once.
"""

import re
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import dump_svmlight_file

from holders import check_same, lazy, made, solved
from toppush import TopPush, TopPushCV, metrics, toppush_path

distributed = pytest.importorskip("distributed", reason="needs Dask, the extra [dask]")
da = pytest.importorskip("dask.array", reason="needs Dask, the extra [dask]")
dd = pytest.importorskip("dask.dataframe", reason="needs Dask, the extra [dask]")
pd = pytest.importorskip("pandas")
cluster = pytest.importorskip("toppush.designs.dask")
workers_module = sys.modules["toppush.designs.dask.workers"]
GROUPS = sys.modules["toppush.designs.dask.groups"].GROUPS

pytestmark = [pytest.mark.sampled(2), pytest.mark.filterwarnings("ignore::ResourceWarning")]

N_ROWS = 300


# What Dask may be given.


@pytest.mark.filterwarnings("ignore::toppush.PositiveClassWarning")
def test_weights_and_classes(client, rng):
    X, y = made("dense", rng)
    weight = rng.integers(0, 3, size=N_ROWS).astype(float)
    names = np.where(y, "yes", "no")
    one = solved(lazy(X, 90), da.from_array(names, chunks=130), da.from_array(weight, chunks=77))
    check_same(one, solved(X, names, weight))
    assert one.dual.size == 0


def test_data_frames_with_partitions_of_unknown_length(client, rng):
    X, y = made("dense", rng)
    table = pd.DataFrame(X, columns=[f"c{i}" for i in range(X.shape[1])])
    frame = dd.from_pandas(table.assign(y=y), npartitions=5)
    frame = frame[frame["c0"] > -1.0]
    kept = table["c0"].to_numpy() > -1.0
    ranker = TopPush().fit(frame.drop(columns="y"), frame["y"])
    check_same(ranker.solution_, solved(X[kept], y[kept]))
    assert list(ranker.feature_names_in_) == list(table.columns)
    scores = ranker.decision_function(frame.drop(columns="y")).compute()
    assert_allclose(scores, ranker.decision_function(table[kept]), atol=1e-12)
    with pytest.raises(ValueError, match="feature"):
        ranker.predict(frame.drop(columns="y").rename(columns={"c0": "other"}))
    check_same(TopPush().fit(frame.drop(columns="y"), y[kept]).solution_, ranker.solution_)


def test_persisted_rows_stay_where_they_are(client, rng):
    X, y = made("dense", rng)
    kept = lazy(X, 50).persist()
    distributed.wait(kept)
    homes = workers_module.holders_of(client, kept)
    assert set(homes) <= set(client.nthreads())
    with cluster.DaskDesign(kept, da.from_array(y, chunks=50)) as design:
        for group in design._groups:
            assert {homes[part] for part in group.partitions} == {group.address}
    check_same(solved(kept, y), solved(X, y))


@pytest.mark.filterwarnings("ignore::toppush.PositiveClassWarning")
def test_scores_and_labels_are_lazy(client, rng):
    for kind in ("dense", "CSR"):
        X, y = made(kind, rng)
        ranker = TopPush().fit(X, np.where(y, "yes", "no"))
        scores, labels = ranker.decision_function(lazy(X, 90)), ranker.predict(lazy(X, 90))
        assert isinstance(scores, da.Array)
        assert isinstance(labels, da.Array)
        assert_allclose(scores.compute(), ranker.decision_function(X), atol=1e-12)
        assert_array_equal(labels.compute(), ranker.predict(X))


def test_blocks_go_when_the_fit_ends(client, rng):
    X, y = made("dense", rng)
    before = set(GROUPS)
    with cluster.DaskDesign(lazy(X, 100), da.from_array(y, chunks=100)):
        assert set(GROUPS) - before
    while set(GROUPS) - before:  # until the workers have heard of it
        time.sleep(0.01)


# The design itself.


def test_vectors_over_the_rows(client, rng):
    X, y = made("dense", rng)
    with cluster.DaskDesign(lazy(X, 90), da.from_array(y, chunks=90)) as design:
        vector = rng.normal(size=N_ROWS)
        design.scatter(_keep, vector)
        assert_array_equal(design.gather(_kept), vector)
        assert design.n_rows == N_ROWS
        assert (design.n_pos, design.n_neg) == (y.sum(), (~y).sum())
        firsts = design.each(_first_negative)
        assert firsts == [0, *np.cumsum([(~y[i : i + 90]).sum() for i in range(0, 270, 90)])]


class Kept:
    """What these tests keep in a block."""

    part = None
    times = 0


def _keep(block, part):
    block.work.of(Kept).part = part


def _kept(block):
    return block.work.of(Kept).part


def _first_negative(block):
    return block.first_negative


def test_partitions_are_assigned_to_workers():
    workers = {"a": 1, "b": 3}
    assert workers_module.assigned([None] * 4, [1.0] * 4, workers) == [
        ("a", [0]),
        ("b", [1, 2, 3]),
    ]
    assert workers_module.assigned([None], [5.0], workers) == [("b", [0])]
    assert workers_module.assigned(["b", "a", "b"], [1.0] * 3, workers) == [
        ("b", [0, 2]),
        ("a", [1]),
    ]
    assert workers_module.assigned(["b", "gone"], [1.0] * 2, {"b": 1}) == [("b", [0, 1])]


# What is refused.


def test_column_chunks_are_refused(client, rng):
    X, y = made("dense", rng)
    with pytest.raises(ValueError, match=r"X\.rechunk\(\{1: -1\}\)"):
        TopPush().fit(da.from_array(X, chunks=(100, 6)), y)


def test_wrong_rows_are_named(client, rng):
    X, y = made("dense", rng)
    with pytest.raises(ValueError, match=r"300 rows.*y.*299"):
        TopPush().fit(lazy(X, 100), y[1:])
    broken = X.copy()
    broken[250, 3] = np.nan
    with pytest.raises(ValueError, match=r"partition 2.*X cannot.*NaN"):
        TopPush().fit(lazy(broken, 100), y)
    with pytest.raises(ValueError, match=r"sample_weight.*finite"):
        TopPush().fit(lazy(X, 100), y, -np.ones(N_ROWS))
    with pytest.raises(ValueError, match="classification"):
        TopPush().fit(lazy(X, 100), np.arange(N_ROWS) % 3)
    with pytest.raises(ValueError, match="continuous"):
        TopPush().fit(lazy(X, 100), X[:, 0])
    with pytest.raises(ValueError, match="device='cuda'"):
        TopPush(device="cuda").fit(lazy(X, 100), y)


def test_a_partition_that_cannot_be_computed_is_named(client, rng):
    X, y = made("dense", rng)

    def fail(part, block_info=None):
        if block_info[0]["chunk-location"][0] == 1:
            raise OSError("the disk is gone")
        return part

    with pytest.raises(cluster.LostRows, match=r"partition 1.*X"):
        TopPush().fit(lazy(X, 100).map_blocks(fail, dtype=float, meta=np.empty((0, 0))), y)


def test_a_client_is_needed(rng, monkeypatch):
    def none():
        raise ValueError("No global client found and no address provided")

    monkeypatch.setattr(workers_module, "get_client", none)
    X, y = made("dense", rng)
    with pytest.raises(ValueError, match="Dask"):
        TopPush().fit(lazy(X, 100), y)


# Measures.


MEASURES = {
    "partial_auc": {"max_fpr": 0.1},
    "precision_at_k": {"k": 20},
    "recall_at_k": {"k": 20},
    "recall_at_fpr": {"max_fpr": 0.05},
    "lift_at": {"fraction": 0.1},
}


@pytest.mark.parametrize("weighted, ties", [(False, False), (True, True)])
def test_measures_of_lazy_scores_are_exact(client, weighted, ties, rng):
    y = rng.random(N_ROWS) < 0.2
    scores = rng.normal(size=N_ROWS) + y
    scores = np.round(scores, 1) if ties else scores
    weight = rng.integers(0, 3, size=N_ROWS) + 0.5 * y if weighted else None
    for name, measure in metrics.METRICS.items():
        given = {"sample_weight": weight, **MEASURES.get(name, {})}
        found = measure(y, da.from_array(scores, chunks=90), **given)
        assert found == pytest.approx(measure(y, scores, **given), rel=1e-12), name
    assert metrics.auc(~y, da.from_array(scores, chunks=90), pos_label=False) == pytest.approx(
        metrics.auc(~y, scores, pos_label=False)
    )


def test_the_curve_holds_a_point_for_each_run(client):
    y = np.array([1, 0, 0, 0, 1, 1, 0, 0])
    scores = np.array([9.0, 8.0, 7.0, 6.0, 5.0, 5.0, 5.0, 1.0])
    curve = metrics.top_curve(y, da.from_array(scores, chunks=3))
    assert_array_equal(curve.thresholds, [np.inf, 9.0, 6.0, 5.0, 1.0])
    assert_array_equal(curve.true_positives, [0, 1, 1, 3, 3])
    assert_array_equal(curve.false_positives, [0, 0, 3, 4, 5])


def test_lists_that_cannot_be_measured(client, rng):
    scores = da.from_array(rng.normal(size=10), chunks=4)
    with pytest.raises(ValueError, match="two classes"):
        metrics.auc(np.arange(10), scores)
    with pytest.raises(ValueError, match="pos_label"):
        metrics.auc(np.arange(10) % 2, scores, pos_label=7)
    with pytest.raises(ValueError, match="10 rows and y_true 9"):
        metrics.auc(np.arange(9) % 2, scores)
    with pytest.raises(ValueError, match="NaN"):
        metrics.auc(np.arange(10) % 2, da.where(scores > 0.0, scores, np.nan))
    with pytest.raises(ValueError, match=r"positives.*0"):
        metrics.auc(np.arange(10) % 2, scores, sample_weight=1.0 - np.arange(10) % 2)


# Cross-validation.


@pytest.mark.parametrize("top", [1, 0.1])
def test_a_path_begins_at_the_dual_that_the_workers_keep(client, top, rng):
    X, y = made("dense", rng, n_rows=300, n_columns=5)
    given = {"lams": [1.0, 0.3, 0.1, 0.03], "tops": (top,)}
    there = toppush_path(lazy(X, 90).persist(), y, **given).solutions[0]
    here = toppush_path(X, y, **given).solutions[0]
    for one, other in zip(there, here, strict=True):
        assert one.upper == pytest.approx(other.upper, rel=2e-4)
    assert sum(one.n_iter for one in there) <= sum(one.n_iter for one in here) + 2
    alone = [TopPush(lam, top=top).fit(X, y).n_iter_ for lam in given["lams"]]
    assert sum(one.n_iter for one in there) < sum(alone)


@pytest.mark.long
@pytest.mark.parametrize(
    "scoring", [None, pytest.param("average_precision", marks=pytest.mark.long)]
)
def test_cross_validation_is_the_local_one_on_the_same_folds(client, scoring, rng):
    X, y = made("dense", rng, n_rows=200, n_columns=4)
    weight = rng.integers(1, 3, size=200).astype(float)
    fold = np.empty(200, int)
    for side in (y, ~y):
        fold[side] = np.arange(side.sum()) % 2
    folds = [(np.flatnonzero(fold != one), np.flatnonzero(fold == one)) for one in range(2)]
    given = {"lams": [1.0, 0.1], "tops": [1, 0.1], "scoring": scoring, "tol": 1e-3}
    one = TopPushCV(cv=2, **given).fit(lazy(X, 70).persist(), y, weight)
    other = TopPushCV(cv=folds, **given).fit(X, y, weight)
    for name in ("mean_test_score", "rank_test_score"):
        assert_allclose(one.cv_results_[name], other.cv_results_[name], rtol=1e-6)
    assert (one.lam_, one.top_) == (other.lam_, other.top_)
    check_same(one.solution_, other.solution_)
    assert_allclose(one.coef_, other.coef_, rtol=0, atol=1e-6)
    assert_allclose(one.threshold_, other.threshold_, rtol=1e-6)


def test_cross_validation_that_would_gather_rows_is_refused(client, rng):
    X, y = made("dense", rng)
    with pytest.raises(ValueError, match="number"):
        TopPushCV(cv=[(np.arange(200), np.arange(200, 300))]).fit(lazy(X, 100), y)
    with pytest.raises(ValueError, match="leave"):
        TopPushCV(scoring="roc_auc").fit(lazy(X, 100), y)
    with pytest.raises(ValueError, match="fewer"):
        TopPushCV(cv=200).fit(lazy(X, 100), y)


# Files.


def test_parts_in_parquet(client, tmp_path, rng):
    X, y = made("dense", rng)
    table = pd.DataFrame(X, columns=[f"c{i}" for i in range(X.shape[1])]).assign(label=y)
    for number, start in enumerate(range(0, N_ROWS, 150)):
        table[start : start + 150].to_parquet(tmp_path / f"part-{number}.parquet")
    rows, labels = cluster.read_parquet(tmp_path / "*.parquet", label="label")
    assert rows.npartitions == 2
    check_same(solved(rows, labels), solved(X, y))
    few, _ = cluster.read_parquet(sorted(tmp_path.iterdir()), label="label", columns=["c3", "c1"])
    assert list(few.columns) == ["c3", "c1"]
    with pytest.raises(ValueError, match="column 'y'"):
        cluster.read_parquet(tmp_path / "*.parquet", label="y")


@pytest.mark.skipif(
    pd.__version__ < "3", reason="Dask loses two persisted parts of one Parquet source by pandas 2"
)
def test_the_block_on_the_page_runs_to_its_last_line(client, tmp_path, monkeypatch, rng):
    """Dask may read y in fewer partitions than X, as it does here."""
    X, y = made("dense", rng)
    (tmp_path / "rows").mkdir()
    table = pd.DataFrame(X, columns=[f"c{i}" for i in range(X.shape[1])]).assign(y=y)
    for number, part in enumerate(np.array_split(np.arange(N_ROWS), 3)):
        table.iloc[part].to_parquet(tmp_path / "rows" / f"{number}.parquet")
    page = (Path(__file__).parent.parent / "docs" / "scaling.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(from distributed.*?)```", page, re.DOTALL)
    *lines, last = block.replace('Client("tcp://scheduler:8786")', "client").splitlines()
    monkeypatch.chdir(tmp_path)
    names = {"client": client}
    exec("\n".join(lines), names)
    scores = names["ranker"].decision_function(table.drop(columns="y"))
    assert eval(last, names) == pytest.approx(metrics.positives_at_top(y, scores))


def test_parts_in_libsvm(client, tmp_path, rng):
    X, y = made("CSR", rng)
    for number, start in enumerate(range(0, N_ROWS, 150)):
        part = slice(start, start + 150)
        path = tmp_path / f"part-{number}.svm"
        dump_svmlight_file(X[part], y[part], str(path), zero_based=False)
    rows, labels = cluster.read_libsvm(tmp_path / "*.svm")
    assert rows.shape[1] == X.shape[1]
    check_same(solved(rows, labels), solved(X, y), rel=1e-7)
    wide, _ = cluster.read_libsvm(sorted(tmp_path.iterdir()), n_features=20, dtype=np.float32)
    assert wide.shape[1] == 20
    assert wide.dtype == np.float32
    with pytest.raises(FileNotFoundError, match="matches"):
        cluster.read_libsvm(tmp_path / "*.none")


@pytest.mark.long
def test_a_local_cluster_listens_on_loopback_alone():
    """Its scheduler, workers, nannies and pages."""
    psutil = pytest.importorskip("psutil", reason="needs psutil, of the extra [reproduce]")
    me = psutil.Process()
    before = _listening(me)
    with cluster.connected("local") as client:
        client.submit(sum, [1, 2]).result()
        found = _listening(me).union(*map(_listening, me.children(recursive=True))) - before
    assert len(found) >= 3  # scheduler, its page, a worker
    assert {address.ip for address in found} == {"127.0.0.1"}


def _listening(process):
    return {one.laddr for one in process.net_connections("inet") if one.status == "LISTEN"}
