"""Rows on disk: the same answers as in memory, and no more memory than allowed."""

import ctypes
import math
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from holders import check_same, made, peak_of, saved, small_parts, solved, write_arrow
from toppush import TopPush, on_disk
from toppush.designs import LocalDesign
from toppush.designs.disk import rows as disk
from toppush.designs.rows import MaskedRows
from toppush.solvers.newton import interior_point
from toppush.system import memory

pytestmark = pytest.mark.sampled(2)

N_ROWS, N_COLUMNS = 300, 12


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Some sixty rows to a block, so that every product reads five of them."""
    small_parts(monkeypatch)


def no_room(monkeypatch):
    """Leave no memory for copies: products with some of the rows read all of them."""
    plan = disk.OnDisk.plan
    monkeypatch.setattr(disk.OnDisk, "plan", lambda *sizes: plan(*sizes)._replace(room=0))


# Products.


def test_a_product_reads_the_file_once_and_a_few_rows_only_what_is_near(tmp_path, rng):
    X, positive = made("dense", rng)
    far = saved(X, tmp_path)
    with far.design(positive) as design:
        rows = design.blocks[0].rows
        u = rng.normal(size=N_ROWS)
        for product in (
            lambda: rows.scores(rng.normal(size=N_COLUMNS)),
            lambda: rows.combine_all(u, u, u),
            lambda: rows.hessian_product(rng.normal(size=N_COLUMNS), u, 1.0),
            lambda: rows.gram(np.arange(N_ROWS), u),
        ):
            before = far.bytes_read
            product()
            assert far.bytes_read - before == X.nbytes
        before = far.bytes_read
        rows.subset(np.array([3, 200, 201, 270]))
        assert far.bytes_read - before == 4 * X[0].nbytes


# Fits.


@pytest.mark.parametrize("formed", [True, False])
@pytest.mark.parametrize("room", [True, False])
@pytest.mark.parametrize("kind, loss", [("dense", "truncated_quadratic"), ("CSR", "logistic")])
def test_without_room_for_copies(kind, loss, room, formed, tmp_path, rng, monkeypatch):
    """Formed systems and CG, with copies of the positives and the band and without."""
    X, y = made(kind, rng)
    given = {"lam": 0.01, "top": 5, "loss": loss, "tol": 1e-6}
    right = solved(X, y, **given)
    monkeypatch.setattr(disk, "exact_rows_in", lambda *sizes: math.inf)
    if not formed:
        monkeypatch.setattr(interior_point, "FORMED", 0)
        monkeypatch.setattr(disk.DiskDesign, "most_formed", 0)
    if not room:
        no_room(monkeypatch)
    found = solved(saved(X, tmp_path), y, **given)
    assert found.upper == pytest.approx(right.upper, rel=1e-6)
    assert_allclose(found.weights, right.weights, rtol=0, atol=1e-3 * np.abs(right.weights).max())


def test_copies_are_made_while_there_is_room(tmp_path, rng, monkeypatch):
    X, y = made("dense", rng)
    plan, far = disk.OnDisk.plan, saved(X, tmp_path)
    few = np.arange(20)
    cases = ((8.0, True, True), (1.0, False, True), (0.01, False, False))
    for share, positives_copied, band_copied in cases:
        room = int(share * X[y].nbytes)
        monkeypatch.setattr(
            disk.OnDisk, "plan", lambda *sizes, room=room: plan(*sizes)._replace(room=room)
        )
        with far.design(y) as design:
            (block,) = design.blocks
            positives = block.positive_rows(alone=False)
            band = block.negative_rows(few)
            grown = block.negative_rows(np.arange(30), band)
            assert isinstance(positives, MaskedRows) != positives_copied
            assert isinstance(band, MaskedRows) != band_copied
            w = rng.normal(size=N_COLUMNS)
            assert_allclose(positives.scores(w), X[y] @ w)
            assert_allclose(grown.scores(w), X[~y][:30] @ w)


def test_an_iteration_reads_the_rows_once_or_twice(tmp_path, rng, monkeypatch):
    """Once for the scores; if the positives do not fit, again for the Newton matrix.

    And once more for the gradient, if the loss is not quadratic.
    """
    X, y = made("dense", rng, share=0.75)
    far, given = saved(X, tmp_path), {"lam": 0.01, "tol": 1e-6}

    def reads(**given):
        before = far.bytes_read
        n_iter = solved(far, y, **given).n_iter
        return (far.bytes_read - before) / X.nbytes, n_iter

    once, n_iter = reads(**given)
    assert once <= n_iter + 4  # the means, the first scores, the positives, rows of the band
    plan, room = disk.OnDisk.plan, 2 * int(X[~y].nbytes)
    monkeypatch.setattr(disk.OnDisk, "plan", lambda *sizes: plan(*sizes)._replace(room=room))
    found, n_iter = reads(**given)
    assert once + 0.5 < found <= 2 * n_iter + 4
    found, n_iter = reads(loss="logistic", **given)
    assert 2 * n_iter < found <= 3 * n_iter + 4
    found, n_iter = reads(solver="paper", max_iter=40, lam=0.01, tol=0.0)
    assert 2 * n_iter <= found <= 3 * n_iter


# Memory.


@pytest.mark.long
@pytest.mark.parametrize("solver, top", [("newton", 1), ("newton", 0.01), ("paper", 1)])
@pytest.mark.parametrize(
    "share, room",
    [
        (0.1, True),
        (0.5, False),
        pytest.param(0.5, True, marks=pytest.mark.long),
        pytest.param(0.1, False, marks=pytest.mark.long),
    ],
)
def test_no_more_memory_than_planned(share, solver, top, room, tmp_path, monkeypatch):
    """Vectors, buffers and copies together stay below what the plan counts."""
    rng, n_rows = np.random.default_rng(0), 40_000
    monkeypatch.setattr(disk, "BLOCK", 1 << 19)
    monkeypatch.setattr(disk, "SMALLEST_BLOCK", 1 << 19)
    X = rng.normal(size=(n_rows, 40))
    y = rng.random(n_rows) < share
    X[y, :5] += 1.0
    np.save(tmp_path / "rows.npy", X)
    row, positive = 8 * n_rows, 8 * int(y.sum())
    counted = (
        disk.ROW_VECTORS * row + disk.POSITIVE_VECTORS * positive + disk.BLOCKS_HELD * (1 << 19)
    )
    counted += 8 * (disk.FEATURE_VECTORS * 40 + disk.FEATURE_MATRICES * 40**2)
    spare = 24 << 20 if room else 0
    monkeypatch.setattr(disk, "resident", lambda: 0)
    monkeypatch.setattr(disk, "WORKSPACE", 0)
    far = on_disk.open(tmp_path / "rows.npy", counted + spare)
    del X
    given = {"lam": 0.01, "solver": solver, "top": top, "max_iter": 12}
    peak = peak_of(lambda: solved(far, y, **given))
    assert peak <= counted + spare + (1 << 20), f"{(peak - counted - spare) / row:.2f} vectors"
    assert far.bytes_read >= 5 * 8 * 40 * n_rows


def test_a_limit_that_cannot_be_kept_is_refused(tmp_path, rng):
    X, y = made("dense", rng)
    np.save(tmp_path / "rows.npy", X)
    far = on_disk.open(tmp_path / "rows.npy", 1 << 20)
    with pytest.raises(ValueError, match=r"memory_limit=1.*MiB.*300 rows"):
        TopPush().fit(far, y)
    ranker = TopPush(0.1, top=0.1).fit(X, y)
    with pytest.raises(ValueError, match="give at least"):
        ranker.decision_function(far)


@pytest.mark.parametrize(
    "size, right",
    [(1000, 1000), ("2GiB", 2 << 30), ("500 MB", 500_000_000), ("1.5g", 1.5e9), ("64kib", 65536)],
)
def test_sizes(size, right):
    assert on_disk.read_bytes(size) == right


@pytest.mark.parametrize("size", ["", "much", "-1GiB", 0, "2 GiBs"])
def test_sizes_that_mean_nothing(size):
    with pytest.raises(ValueError, match="is no size"):
        on_disk.read_bytes(size)


# Files.


def test_resident_memory_is_about_what_the_system_says():
    psutil = pytest.importorskip("psutil")
    assert disk.resident() == pytest.approx(psutil.Process().memory_info().rss, rel=0.2)


def test_resident_memory_where_there_is_no_proc_and_on_windows(monkeypatch):
    def answer(process, counters, size):
        assert (process, size) == (7, ctypes.sizeof(memory.MemoryCounters))
        ctypes.cast(counters, ctypes.POINTER(memory.MemoryCounters))[0].WorkingSetSize = 12345
        return 1

    kernel = SimpleNamespace(
        GetCurrentProcess=mock.Mock(return_value=7), K32GetProcessMemoryInfo=mock.Mock(wraps=answer)
    )
    now = memory.resident()
    with monkeypatch.context() as patch:
        patch.setattr(memory.sys, "platform", "win32")
        patch.setattr(memory.ctypes, "windll", SimpleNamespace(kernel32=kernel), raising=False)
        patch.setattr(memory, "resource", None)
        assert memory.resident() == 12345
        kernel.K32GetProcessMemoryInfo = mock.Mock(return_value=0)
        with pytest.raises(OSError, match="Windows"):
            memory.resident()
    monkeypatch.setattr(memory, "Path", mock.Mock(side_effect=FileNotFoundError))
    assert memory.resident() >= 0.8 * now


def test_what_is_not_finite_is_refused(tmp_path, rng):
    X, y = made("dense", rng)
    X[221, 4] = np.nan
    far = saved(X, tmp_path)
    with pytest.raises(ValueError, match=r"NaN.*186.*247"):
        TopPush().fit(far, y)


def test_columns_that_are_not_there_are_refused(tmp_path, rng):
    X, y = made("CSR", rng)
    far = saved(X, tmp_path)
    short = on_disk.open(tmp_path / "rows.folder", "64GiB", n_features=N_COLUMNS - 1)
    assert short.shape[1] == far.shape[1] - 1
    with pytest.raises(ValueError, match=r"column 11.*11"):
        TopPush().fit(short, y)


def test_files_that_cannot_be_used(tmp_path, rng):
    X, _ = made("dense", rng)

    def refused(name, match, error=ValueError, **options):
        with pytest.raises(error, match=match):
            on_disk.open(tmp_path / name, "1GiB", **options)

    refused("none.npy", "there is no file", FileNotFoundError)
    np.save(tmp_path / "columns.npy", np.asfortranarray(X))
    refused("columns.npy", "stored by columns")
    np.save(tmp_path / "whole.npy", X.astype(np.int32))
    refused("whole.npy", "float32 or float64")
    np.save(tmp_path / "flat.npy", X[0])
    refused("flat.npy", "rows and columns are needed")
    (tmp_path / "text.npy").write_text("no numbers")
    refused("text.npy", "no NPY file")
    np.save(tmp_path / "cut.npy", X)
    with (tmp_path / "cut.npy").open("r+b") as file:
        file.truncate(3000)
    refused("cut.npy", "is shorter")
    sparse.save_npz(tmp_path / "small.npz", sparse.csr_array(X))
    refused("small.npz", "compressed")
    sparse.save_npz(tmp_path / "csc.npz", sparse.csc_array(X), compressed=False)
    refused("csc.npz", "holds a csc matrix")
    (tmp_path / "folder").mkdir()
    refused("folder", "lacks data, indices, indptr")
    for name, values in (("data", X[0]), ("indices", np.arange(12)), ("indptr", [0, 5, 3, 12])):
        np.save(tmp_path / "folder" / f"{name}.npy", values)
    refused("folder", "n_features")
    refused("folder", "no CSR matrix", n_features=12)


def test_a_file_that_shrinks_while_it_is_read(tmp_path, rng):
    X, y = made("dense", rng)
    far = saved(X, tmp_path)
    with far.design(y) as design:
        design.blocks[0].rows.scores(np.zeros(N_COLUMNS))
        with (tmp_path / "rows.npy").open("r+b") as file:
            file.truncate(3000)
        with pytest.raises(OSError, match="bytes early"):
            design.blocks[0].rows.scores(np.zeros(N_COLUMNS))


def test_arrow_columns(tmp_path, rng):
    X, y = made("dense", rng)
    write_arrow(tmp_path / "rows.arrow", X, compression="lz4")
    names = ["column 3", "column 0"]
    some = on_disk.open(tmp_path / "rows.arrow", "64GiB", columns=names)
    assert some.shape == (N_ROWS, 2)
    w = rng.normal(size=2)
    assert_allclose(some.scores_of_all(w), X[:, [3, 0]] @ w)
    with pytest.raises(ValueError, match="has no columns"):
        on_disk.open(tmp_path / "rows.arrow", "64GiB", columns=["missing"])
    pa = pytest.importorskip("pyarrow")
    from pyarrow import feather

    given = solved(on_disk.open(tmp_path / "rows.arrow", "64GiB"), y, lam=0.01, tol=1e-6)
    check_same(given, solved(X, y, lam=0.01, tol=1e-6))
    feather.write_feather(pa.table({"a": [1.0, None], "b": [1.0, 2.0]}), tmp_path / "gaps.arrow")
    with pytest.raises(ValueError, match="missing values"):
        on_disk.open(tmp_path / "gaps.arrow", "64GiB").scores_of_all(np.ones(2))
    feather.write_feather(pa.table({"a": [1.0, 2.0], "b": [1, 2]}), tmp_path / "mixed.arrow")
    with pytest.raises(ValueError, match=r"types \['double', 'int64'\]"):
        on_disk.open(tmp_path / "mixed.arrow", "64GiB")


def test_a_device_is_refused(tmp_path, rng):
    X, y = made("dense", rng)
    with pytest.raises(ValueError, match=r"device='cuda'.*float64"):
        TopPush(device="cuda").fit(saved(X, tmp_path), y)


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")
def test_large_data_within_a_limit(tmp_path):
    """A fresh process that is allowed less than the file stays below it."""
    rng, n_rows = np.random.default_rng(0), 400_000
    X = rng.standard_normal((n_rows, 250), dtype=np.float32)
    y = X[:, 0] + X[:, 1] + rng.standard_normal(n_rows, dtype=np.float32) > 3.0
    np.save(tmp_path / "rows.npy", X)
    np.save(tmp_path / "y.npy", y)
    script = (
        "import re, sys, numpy as np\n"
        "from toppush import TopPush, on_disk\n"
        "X = on_disk.open(sys.argv[1] + '/rows.npy', '300MiB')\n"
        "TopPush(top=0.01, max_iter=4).fit(X, np.load(sys.argv[1] + '/y.npy'))\n"
        "status = open('/proc/self/status').read()\n"
        "print(X.bytes_read, int(re.search(r'VmHWM:\\s+(\\d+)', status)[1]) << 10)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    n_read, peak = map(int, ran.stdout.split())
    assert n_read > 5 * X.nbytes > 5 * peak
    assert peak <= 300 << 20, f"{peak / 2**20:.0f} MiB for a file of {X.nbytes / 2**20:.0f} MiB"


def test_the_best_plan_uses_the_usual_block(tmp_path, rng):
    far = saved(made("dense", rng)[0], tmp_path)
    assert far.plan(0, 0).block == disk.BLOCK
    assert math.isinf(LocalDesign(*made("dense", rng)).most_exact)
    assert "300 x 12 rows of float64 on disk" in repr(far)
