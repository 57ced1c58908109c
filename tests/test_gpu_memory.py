"""Products of sparse rows on a device in panels, and fits where its memory runs short.

On the processor, and on a GPU too where there is one.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse

from holders import devices, made, solved

torch = pytest.importorskip("torch", reason="needs torch, the extra [gpu]")
from toppush.designs.torch import panels  # noqa: E402
from toppush.designs.torch import rows as gpu  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")
on_every_device = pytest.mark.parametrize("device", devices())


def scattered(rng, n_rows, n_columns, per_row):
    """Rows of up to so many entries, some of none, most in the first columns."""
    lengths = rng.integers(0, per_row + 1, size=n_rows)
    columns = [rng.choice(n_columns, size, replace=False) ** 2 // n_columns for size in lengths]
    columns = [np.unique(part) for part in columns]
    pointers = np.concatenate([[0], np.cumsum([len(part) for part in columns])])
    indices = np.concatenate([*columns, np.empty(0, int)])
    return sparse.csr_array((rng.normal(size=len(indices)), indices, pointers), (n_rows, n_columns))


def placed(X, device, wide):
    rows = gpu.place(X, device)
    if not wide:
        return rows
    pointers, columns, values = rows._entries
    return gpu.SparseTensorRows(
        panels.CsrEntries(pointers.long(), columns.long(), values), X.shape[1]
    )


# Products.


@on_every_device
@given(
    seed=st.integers(0, 2**31),
    sizes=st.tuples(st.integers(0, 30), st.integers(0, 30)),
    n_columns=st.sampled_from([1, 7, 60, 5000]),
    panel=st.sampled_from([1, 50, 400, 10**6]),
    wide=st.booleans(),
)
def test_inner_products_are_the_dense_ones(device, seed, sizes, n_columns, panel, wide):
    rng, per_row = np.random.default_rng(seed), min(n_columns, 9)
    one, other = (scattered(rng, size, n_columns, per_row) for size in sizes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(panels, "PANEL_ENTRIES", panel)
        found = placed(one, device, wide).inner_products(placed(other, device, wide))
    assert found.dtype == torch.float64
    assert_allclose(found.cpu().numpy(), one.toarray() @ other.toarray().T, atol=1e-12)


@on_every_device
def test_inner_products_among_millions_of_columns(device, rng):
    X = scattered(rng, 40, 3_000_000, 50)
    rows = gpu.place(X, device)
    found = rows.inner_products(rows.subset(np.arange(7)))
    assert found.shape == (40, 7)
    assert_allclose(found.cpu().numpy(), (X @ X[:7].T).toarray(), atol=1e-12)


@on_every_device
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_entries_added_to_their_columns_are_the_transposed_product(device, dtype, rng, monkeypatch):
    monkeypatch.setattr(panels, "ADDED_ENTRIES", 100)
    X = scattered(rng, 60, 300, 20).astype(dtype)
    u = rng.normal(size=60)
    stored, once = (
        gpu.SparseTensorRows(gpu.place(X, device)._entries, 300, once=o) for o in (0, 1)
    )
    close = {"rtol": 1e-13 if dtype is np.float64 else 1e-5, "atol": 1e-5 * (dtype is np.float32)}
    for rows in (stored, once):
        assert_allclose(rows.combine(rows.arrays.asarray(u)).cpu().numpy(), X.T @ u, **close)
    assert "_transpose" in vars(stored)
    assert "_transpose" not in vars(once), "rows that are gone after a product need none"


# Short panels.


def test_smaller_panels_are_tried_when_memory_runs_out():
    asked = []

    def work(entries):
        asked.append(entries)
        if entries > 1 << 18:
            raise torch.cuda.OutOfMemoryError("no room")
        return "done"

    assert panels.in_panels(work, 1 << 22) == "done"
    assert asked == [1 << 22, 1 << 20, 1 << 18]

    def never(entries):
        raise torch.cuda.OutOfMemoryError("no room")

    with pytest.raises(torch.cuda.OutOfMemoryError):
        panels.in_panels(never, 1 << 22)


@on_every_device
@pytest.mark.parametrize("kind", ["dense", "CSR"])
@pytest.mark.parametrize("free", [0.0, 2e5])
def test_a_fit_with_little_room_has_the_same_optimum(kind, free, device, rng, monkeypatch):
    """Nothing is copied out, no transpose is kept, and few negatives enter the preconditioner."""
    X, y = wide(rng) if kind == "CSR" else made(kind, rng)
    roomy = solved(X, y, lam=0.01, top=3, tol=1e-4, device=device)
    moved = gpu.place(X, device)
    monkeypatch.setattr(gpu, "MANY", 0)
    monkeypatch.setattr(gpu, "free_bytes", lambda device: free)
    tight = moved.design(np.asarray(y))
    assert tight.blocks[0].rows.room < X.size
    assert tight.most_exact == gpu.LEAST_EXACT
    if kind == "CSR":
        assert moved.second_copy == 0.0
    found = solved(moved, y, lam=0.01, top=3, tol=1e-4)
    assert found.status is roomy.status
    assert found.upper == pytest.approx(roomy.upper, rel=2e-4)
    assert "_transpose" not in vars(moved)


def wide(rng):
    """Sparse rows of more columns than a Newton matrix is formed of, the first of which tell."""
    X = scattered(rng, 400, 1500, 40)
    return X, X[:, :50].sum(axis=1) + 0.1 * rng.normal(size=400) > 0.3


def test_rows_that_do_not_fit_are_refused_before_they_travel(rng, monkeypatch):
    monkeypatch.setattr(panels, "free_bytes", lambda device: 3 * 2.0**30)
    with pytest.raises(MemoryError, match=r"X takes.*5.*GiB.*cuda:0.*3.*GiB"):
        panels.require_room(5 * 2.0**30, torch.device("cuda:0"))
    panels.require_room(2.0**30, torch.device("cuda:0"))
