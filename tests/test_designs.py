"""Row blocks: right products, no copies, the same sums whoever runs them."""

import subprocess
import sys
import threading
from operator import add

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from holders import HOLDERS, small_parts, with_wide_indices
from toppush.designs import Block, LocalDesign, local
from toppush.designs import in_memory as kinds_of_rows
from toppush.designs.in_memory import DenseRows, SparseRows
from toppush.problem.numerics import Clipped

N_ROWS, N_COLS = 61, 17


def dense_values(seed=7):
    """Numbers of 24 bits, so that float32 holds them exactly; many zeros, some empty rows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_ROWS, N_COLS)).astype(np.float32).astype(np.float64)
    X[rng.random(X.shape) < 0.6] = 0.0
    X[[0, 5, 6, N_ROWS - 1]] = 0.0
    return X


LOCAL = {holder.name: holder for holder in HOLDERS if holder.in_memory}
every_kind = pytest.mark.parametrize("kind", LOCAL)
every_split = pytest.mark.parametrize("n_jobs", [1, 2, 5, 100])


@pytest.fixture
def small_blocks(monkeypatch):
    small_parts(monkeypatch)


@pytest.fixture
def made(kind, tmp_path):
    """The matrix as this kind, and its values."""
    X = dense_values()
    return LOCAL[kind].held(X, tmp_path), X


def all_scores(design, weights):
    return design.gather(lambda block: block.rows.scores(weights))


def combined(design, coefficients):
    parts = np.split(coefficients, np.cumsum([b.rows.shape[0] for b in design.blocks])[:-1])
    given = dict(zip(map(id, design.blocks), parts, strict=True))
    return design.sum(lambda block: block.rows.combine(given[id(block)]))


positive = np.arange(N_ROWS) % 3 == 0


@every_kind
@pytest.mark.parametrize("n_jobs", [1, 5])
@pytest.mark.usefixtures("small_blocks")
def test_blocks_are_views(made, n_jobs):
    X, _ = made
    stored = X.data if sparse.issparse(X) else X
    for block in LocalDesign(X, positive, n_jobs=n_jobs).blocks:
        if isinstance(block.rows, DenseRows):
            assert np.shares_memory(block.rows.X, stored)
        else:
            views = [block.rows._rows, *(columns for _, columns in block.rows._columns)]
            assert all(view.nnz == 0 or np.shares_memory(view.data, stored) for view in views)
            if X.indices.dtype == np.int32:
                assert all(v.nnz == 0 or np.shares_memory(v.indices, X.indices) for v in views)
            assert all(view.indices.dtype == view.indptr.dtype == np.int32 for view in views)


@pytest.mark.usefixtures("small_blocks")
def test_wide_indices_are_narrowed_once():
    X = with_wide_indices(dense_values())
    rows = [block.rows for block in LocalDesign(X, positive, n_jobs=1).blocks]
    assert np.shares_memory(rows[0]._rows.indices, rows[0]._columns[0][1].indices)
    assert X.indices.dtype == np.int64


def test_wide_indices_stay_where_they_are_needed(monkeypatch):
    X = sparse.csr_array((2, 2**40), dtype=np.float64)
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    monkeypatch.setattr(local, "WIDE", 2**50)
    assert local.compact(X) == (X, None)


def test_small_matrices_that_are_hardly_sparse_become_dense():
    values = dense_values()
    for X in (sparse.csr_array(values), sparse.csr_matrix(values.astype(np.float32))):
        rows = LocalDesign(X, positive).blocks[0].rows
        assert isinstance(rows, DenseRows)
        assert rows.X.dtype == X.dtype
        assert_array_equal(rows.X, X.toarray())
    few = sparse.csr_array(np.eye(N_ROWS))
    assert isinstance(LocalDesign(few, positive).blocks[0].rows, SparseRows)


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_empty_columns_of_wide_data_are_dropped(index, monkeypatch, rng):
    """The products are those of all columns, and weights come back over all of them."""
    monkeypatch.setattr(local, "WIDE", 100)
    monkeypatch.setattr(local, "SMALL", 0)
    values = np.zeros((N_ROWS, 1000))
    used = np.sort(rng.permutation(1000)[:N_COLS])
    values[:, used] = dense_values()
    X = sparse.csr_array(values)
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    weights, u = rng.normal(size=1000), rng.normal(size=N_ROWS)
    with LocalDesign(X, positive, n_jobs=1) as design:
        assert design.n_features == N_COLS
        assert np.shares_memory(design.blocks[0].rows._rows.data, X.data)
        assert_allclose(all_scores(design, design.narrow(weights)), values @ weights, atol=1e-13)
        assert_allclose(design.widen(combined(design, u)), values.T @ u, atol=1e-13)
        assert_array_equal(design.widen(design.narrow(weights))[used], weights[used])


def test_all_columns_of_wide_data_may_be_empty(monkeypatch):
    monkeypatch.setattr(local, "WIDE", 100)
    with LocalDesign(sparse.csr_array((N_ROWS, 1000)), positive) as design:
        narrow = design.narrow(np.ones(1000))
        assert narrow.shape == (design.n_features,)
        assert_array_equal(all_scores(design, narrow), np.zeros(N_ROWS))
        assert_array_equal(design.widen(combined(design, np.ones(N_ROWS))), np.zeros(1000))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_combine_of_few_rows_is_that_of_all(dtype, monkeypatch, rng):
    """Rows whose coefficient is zero are not read; the parts that are copied may be tiny."""
    monkeypatch.setattr(kinds_of_rows, "USED_ENTRIES", 1)
    monkeypatch.setattr(kinds_of_rows, "SINGLE_ROWS", 7)
    values = sparse.random_array((400, 9), density=0.5, rng=rng, dtype=dtype).tocsr()
    for n_used in (0, 1, 90):
        rows, u = SparseRows(values), np.zeros(400)
        used = rng.permutation(400)[:n_used]
        u[used] = rng.normal(size=n_used)
        close = 1e-12 if dtype == np.float64 else 1e-5
        assert_allclose(rows.combine(u), values.toarray().T @ u, rtol=0, atol=close)
        assert rows.tally.entries == rows.count_entries(used)


@pytest.mark.usefixtures("small_blocks")
def test_blocks_hold_about_equal_numbers_of_entries():
    lengths = np.r_[np.full(500, 20), np.full(5000, 2)]
    indptr = np.r_[0, np.cumsum(lengths)]
    X = sparse.csr_array((np.ones(indptr[-1]), np.zeros(indptr[-1], int), indptr), (5500, 3))
    design = LocalDesign(X, np.arange(5500) % 2 == 0, n_jobs=4)
    entries = [block.rows._rows.nnz for block in design.blocks]
    assert sum(entries) == indptr[-1]
    assert max(entries) - min(entries) <= 2 * lengths.max()
    assert sum(block.rows.shape[0] for block in design.blocks) == 5500


def test_small_data_stay_in_one_block():
    assert len(LocalDesign(dense_values(), positive, n_jobs=8).blocks) == 1


def block_of(positive, weight=None):
    rows = DenseRows(np.arange(2.0 * len(positive)).reshape(-1, 2))
    return Block(rows, np.asarray(positive), weight)


def test_split_and_join_are_inverse(rng):
    for _ in range(20):
        mask = rng.random(30) < 0.4
        block, vector = block_of(mask), rng.normal(size=30)
        on_positives, on_negatives = block.split(vector)
        assert_array_equal(on_positives, vector[mask])
        assert_array_equal(on_negatives, vector[~mask])
        assert_array_equal(block.join(on_positives, on_negatives), vector)
        assert_array_equal(block.join(1.0, 0.0), mask.astype(float))


def test_rows_of_weight_zero_are_out(rng):
    for _ in range(20):
        mask, weight = rng.random(30) < 0.4, rng.integers(0, 3, size=30).astype(float)
        block, vector = block_of(mask, weight), rng.normal(size=30)
        on_positives, on_negatives = block.split(vector)
        assert_array_equal(on_positives, vector[mask & (weight > 0)])
        assert_array_equal(on_negatives, vector[~mask & (weight > 0)])
        assert_array_equal(block.cost, weight[mask & (weight > 0)])
        assert_array_equal(block.join(on_positives, on_negatives), np.where(weight > 0, vector, 0))
        assert (block.n_pos, block.n_neg) == (len(on_positives), len(on_negatives))
        assert block.total_cost == weight[mask].sum()


def test_score_keeps_the_two_sides():
    block = block_of([True, False, True])
    block.score(np.array([1.0, 10.0]))
    assert_array_equal(block.scores[0], [10.0, 54.0])
    assert_array_equal(block.scores[1], [32.0])


@pytest.mark.parametrize("mask", [[True, True], [False, False]])
def test_a_block_may_hold_one_class_only(mask):
    block = block_of(mask)
    block.score(np.ones(2))
    assert sorted(len(side) for side in block.scores) == [0, 2]
    assert_array_equal(block.join(*block.scores), [1.0, 5.0])


def test_empty_rows_and_columns():
    X = sparse.csr_array((4, 3))
    rows = SparseRows(X, 0, 4)
    assert_array_equal(rows.scores(np.ones(3)), np.zeros(4))
    assert_array_equal(rows.combine(np.ones(4)), np.zeros(3))


@pytest.mark.usefixtures("small_blocks")
def test_answers_come_in_the_order_of_the_rows():
    X = np.arange(N_ROWS, dtype=float)[:, None]
    with LocalDesign(X, positive, n_jobs=9) as design:
        firsts = design.each(lambda block: block.rows.X[0, 0])
        assert firsts == sorted(firsts)
        assert len(firsts) == 9
        assert design.max(lambda block: (block.rows.X.max(), -block.rows.X.min())) == (60.0, 0.0)
        total, (count, vector) = design.sum(
            lambda block, factor: (
                factor * block.rows.X.sum(),
                (len(block.rows.X), block.rows.X.sum(axis=0)),
            ),
            2.0,
        )
    assert (total, count) == (3660.0, N_ROWS)
    assert_array_equal(vector, [1830.0])


def test_sums_keep_named_tuples():
    assert local.by_entry(max, (1, (9,)), (3, (4,))) == (3, (9,))
    assert local.by_entry(add, (1, (2,)), (3, (4,))) == (4, (6,))
    added = local.by_entry(add, Clipped(1.0, 2.0, 3.0, 4.0), Clipped(10.0, 20.0, 30.0, 40.0))
    assert added == Clipped(11.0, 22.0, 33.0, 44.0)
    assert isinstance(added, Clipped)


@pytest.mark.parametrize("kind", ["dense C", "dense C float32", "CSR array", "CSR array float32"])
@pytest.mark.usefixtures("small_blocks")
def test_sums_repeat_to_the_bit(made, rng):
    """Whichever thread ends first, the blocks are added in the order of the rows."""
    X, _ = made
    w, u = rng.normal(size=N_COLS), rng.normal(size=N_ROWS)
    answers = set()
    for _ in range(30):
        with LocalDesign(X, positive, n_jobs=7) as design:
            answers.add((all_scores(design, w).tobytes(), combined(design, u).tobytes()))
    assert len(answers) == 1


class Trouble(Exception):
    pass


@pytest.mark.parametrize("where", [0, 1, -1])
@pytest.mark.parametrize("error", [Trouble, KeyboardInterrupt])
@pytest.mark.usefixtures("small_blocks")
def test_an_exception_in_a_block_reaches_the_caller(where, error):
    before = set(threading.enumerate())

    def fail(block):
        if block is design.blocks[where]:
            raise error

    design = LocalDesign(dense_values(), positive, n_jobs=4)
    assert len(design.blocks) == 4
    with pytest.raises(error), design:
        design.each(fail)
    assert not [one for one in set(threading.enumerate()) - before if "ThreadPool" in one.name]


@pytest.mark.usefixtures("small_blocks")
def test_threads_run_at_the_same_time():
    """Four blocks wait for one another; in turn they would wait for ever."""
    barrier = threading.Barrier(4, timeout=60)
    with LocalDesign(dense_values(), positive, n_jobs=4) as design:
        assert sorted(design.each(lambda block: barrier.wait())) == [0, 1, 2, 3]


BLAS = """
import sys
from contextlib import suppress
import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits
from toppush.designs import LocalDesign

def blas_threads():
    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    return {pool["num_threads"] for pool in pools if pool.get("threading_layer") != "disabled"}

rows, positive = np.ones((8, 3)), np.arange(8) < 4
for trouble in (False, True):
    with threadpool_limits(2, user_api="blas"):
        if blas_threads() != {2}:
            sys.exit(f"this BLAS cannot be told how many threads to run: {threadpool_info()}")
        with suppress(ZeroDivisionError), LocalDesign(rows, positive, n_jobs=2):
            assert blas_threads() == {1}
            trouble and 1 / 0
        assert blas_threads() == {2}
print("let go")
"""
"""Some BLAS are built without threads."""


def test_blas_is_held_to_one_thread_and_let_go():
    """In a process of its own: rows of Dask hold BLAS until they are collected."""
    ran = subprocess.run([sys.executable, "-c", BLAS], capture_output=True, text=True, check=False)
    if "cannot be told" in ran.stderr:
        pytest.skip(ran.stderr)
    assert ran.stdout == "let go\n", ran.stderr


@pytest.mark.parametrize("setting, expected", [("3", 3), ("2,4", 2), ("", None), ("x", None)])
def test_default_threads(monkeypatch, setting, expected):
    monkeypatch.setenv("OMP_NUM_THREADS", setting)
    monkeypatch.setattr(local, "cpu_count", lambda: 11)
    assert local.default_threads() == (expected or 11)
