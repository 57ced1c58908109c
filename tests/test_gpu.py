"""Tensors of torch in place of arrays: the same answers, wherever the tensors are.

The law runs on the processor, and on a GPU too where there is one.
"""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse, special

from holders import check_same, devices, made, solved
from holders import tensor as as_tensor
from reproduce import datasets
from toppush import TopPush
from toppush.designs import LocalDesign
from toppush.designs.arrays import NUMPY
from toppush.problem.losses import LOSSES
from toppush.solvers.newton.kkt import Iterative

torch = pytest.importorskip("torch", reason="needs torch, the extra [gpu]")
from benchmarks import gpu_check  # noqa: E402
from toppush.designs.torch import rows as gpu  # noqa: E402
from toppush.designs.torch.arrays import TorchArrays, arrays_on  # noqa: E402
from toppush.designs.torch.rows import fetched  # noqa: E402

N_ROWS = 300

pytestmark = pytest.mark.usefixtures("one_torch_thread")
on_every_device = pytest.mark.parametrize("device", devices())
of_every_kind = pytest.mark.parametrize("kind", ["dense", "CSR"])


# Operations.


@on_every_device
@pytest.mark.parametrize("name", sorted(LOSSES))
def test_losses_are_the_same(name, device, rng):
    loss = LOSSES[name]
    points = np.concatenate([rng.normal(size=200), 20.0 * rng.normal(size=200), [0.0, -1.0, 1.0]])
    inside = np.concatenate([rng.random(200), [0.0, 1e-12]]) * min(loss.dual_limit, 3.0)
    stiffness = 10.0 ** rng.uniform(-3, 3, size=len(points))
    for method, at in (
        ("value", points),
        ("slope", points),
        ("curvature", points),
        ("conjugate", np.concatenate([points, inside])),
        ("conjugate_slope", inside),
    ):
        found = getattr(loss, method)(torch.tensor(at, device=device))
        assert found.dtype == torch.float64
        assert_allclose(found.cpu().numpy(), getattr(loss, method)(at), rtol=1e-13, atol=1e-300)
    found = loss.dual_prox(*(torch.tensor(part, device=device) for part in (points, stiffness)))
    for one, other in zip(found, loss.dual_prox(points, stiffness), strict=True):
        assert_allclose(one.cpu().numpy(), other, rtol=1e-11, atol=1e-300)


@on_every_device
def test_wright_omega(device):
    points = np.concatenate(
        [np.linspace(-800, 800, 2001), np.linspace(-4, 4, 801), [-1e4, 1e15, 1e25, -np.inf]]
    )
    found = arrays_on(torch.device(device)).wrightomega(torch.tensor(points, device=device))
    assert_allclose(found.cpu().numpy(), special.wrightomega(points), rtol=4e-15, atol=0)


@on_every_device
def test_operations_keep_numpys_meaning(device, rng):
    """Where torch and NumPy differ: types of numbers, empty vectors, counts past 2^24."""
    xp, values = arrays_on(torch.device(device)), rng.normal(size=50)
    tensor = xp.asarray(values)
    assert xp.where(tensor > 0.0, 2.0, 0.0).dtype == torch.float64
    assert xp.asarray([0.1, 0.2]).dtype == torch.float64
    assert xp.max(xp.zeros(0), initial=-np.inf) == -np.inf
    assert xp.min(xp.zeros(0), initial=np.inf) == np.inf
    assert float(xp.max(tensor, initial=9.0)) == 9.0
    assert float(xp.min(tensor, initial=-9.0)) == -9.0
    assert float(0.0 + xp.count_nonzero(torch.ones(2**24 + 1, device=device))) == 2**24 + 1
    assert_array_equal(xp.to_host(xp.flatnonzero(tensor > 0.0)), np.flatnonzero(values > 0.0))
    assert_allclose(xp.to_host(xp.maximum(tensor, -tensor)), np.abs(values))
    matrix = np.cov(rng.normal(size=(5, 9)))
    factor, info = xp.cholesky(xp.asarray(matrix))
    assert info == 0
    for right in (rng.normal(size=5), rng.normal(size=(5, 2))):
        for solve in (partial(xp.cholesky_solve, factor), xp.solver(factor)):
            found = xp.to_host(solve(xp.asarray(right)))
            assert_allclose(found, np.linalg.solve(matrix, right), rtol=1e-9)
    assert xp.floats([tensor[0], tensor.sum()]) == [values[0], pytest.approx(values.sum())]
    assert xp.cholesky(xp.asarray(-matrix))[1] != 0


def test_every_operation_is_there():
    names = [name for name in vars(NUMPY) if not name.startswith("_")]
    assert len(names) > 30
    assert [name for name in names if not hasattr(TorchArrays, name)] == []


# Rows.


@on_every_device
def test_rows_without_entries(device):
    rows = gpu.place(sparse.csr_array((3, 7)), device)
    xp = rows.arrays
    assert_array_equal(xp.to_host(rows.scores(xp.zeros(7))), np.zeros(3))
    assert_array_equal(xp.to_host(rows.combine(xp.zeros(3))), np.zeros(7))
    assert_array_equal(xp.to_host(rows.squared_norms()), np.zeros(3))
    none = rows.subset(np.empty(0, int)).exact()
    assert none.inner_products(rows.exact()).shape == (0, 3)
    assert none.stacked(rows.exact()).shape == (3, 7)


@on_every_device
def test_repeated_entries_are_added_up(device):
    X = sparse.csr_array((np.array([1.0, 2.0, 3.0]), np.array([4, 4, 0]), np.array([0, 2, 3])))
    rows = gpu.place(X, device)
    assert_array_equal(rows.arrays.to_host(rows.squared_norms()), [9.0, 9.0])
    assert X.nnz == 3, "the user's matrix stays as it was"


def test_numbers_of_an_answer_come_together(monkeypatch):
    """One transfer a question, however many numbers; vectors stay tensors."""
    transfers = []
    monkeypatch.setattr(
        torch.Tensor, "tolist", lambda self: transfers.append(self) or list(self.numpy())
    )
    vector = torch.zeros(3)
    answer = (torch.tensor(1.5), 2.0, (torch.tensor(7), vector))
    found = fetched(answer, arrays_on(vector.device))
    assert found[:2] == (1.5, 2.0)
    assert found[2][0] == 7.0
    assert found[2][1] is vector
    assert len(transfers) == 1


# Fits.


@on_every_device
@of_every_kind
def test_tensors_are_used_where_they_are(kind, device, rng):
    X, y = made(kind, rng)
    local = solved(X, y, lam=0.05, top=5, n_jobs=1)
    labels = torch.tensor(y, device=device)
    for given in (y, labels, torch.tensor(np.where(y, 4, 2), device=device)):
        check_same(solved(as_tensor(X, device), given, lam=0.05, top=5), local)
    weight = rng.integers(0, 3, size=N_ROWS).astype(float)
    check_same(
        solved(as_tensor(X, device), labels, torch.tensor(weight, device=device), top=5),
        solved(X, y, weight, top=5, n_jobs=1),
    )


@on_every_device
def test_nothing_of_row_length_leaves_the_device(device, rng, monkeypatch):
    """In the middle of a fit only a few numbers cross, never a vector over the rows."""
    X, y = made("dense", rng)
    sizes, original = [], TorchArrays.to_host
    monkeypatch.setattr(
        TorchArrays,
        "to_host",
        lambda self, values: sizes.append(values.numel()) or original(self, values),
    )
    solution = solved(as_tensor(X, device), y, lam=0.05, top=5)
    assert solution.n_iter > 3
    assert sorted(sizes)[-1] == N_ROWS, "the dual, at the end"
    assert sizes.count(N_ROWS) == 1
    assert sorted(sizes)[-2] <= X.shape[1]


def test_a_step_of_conjugate_gradients_waits_once(monkeypatch):
    """And an iteration waits for some sixty numbers beside, however high the top is."""
    X, y = datasets.made("made-url", n_rows=600, n_columns=2000)
    steps, waits = [], count_waits(monkeypatch)
    original = Iterative.multiply
    monkeypatch.setattr(
        Iterative, "multiply", lambda self, vector: steps.append(0) or original(self, vector)
    )
    for top in (1, 0.05):
        solution = solved(X, y, lam=0.1, top=top, tol=1e-4, device="cpu")
        assert len(steps) > solution.n_iter > 3
        assert len(waits) <= 60 * solution.n_iter + len(steps)
        steps.clear()
        waits.clear()


def count_waits(monkeypatch):
    """A list that grows whenever the host would wait for a device."""
    waits = []

    def counted(owner, name):
        original = getattr(owner, name)
        monkeypatch.setattr(
            owner, name, lambda *given, **more: waits.append(name) or original(*given, **more)
        )

    for name in ("item", "tolist", "cpu", "nonzero", "__float__", "__int__", "__bool__"):
        counted(torch.Tensor, name)
    counted(torch, "nonzero")
    counted(torch, "unique")
    original = torch.Tensor.__getitem__

    def chosen(self, at):
        masks = [part for part in (at if isinstance(at, tuple) else (at,)) if _is_mask(part)]
        waits.extend("mask" for _ in masks)
        return original(self, at)

    monkeypatch.setattr(torch.Tensor, "__getitem__", chosen)
    return waits


def _is_mask(at):
    return isinstance(at, torch.Tensor) and at.dtype == torch.bool


@pytest.mark.long
@pytest.mark.parametrize("check", gpu_check.CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize(("device", "scale"), [("cpu", 0.02), ("cuda", 1.0)])
def test_wide_rows(check, device, scale):
    """Products, optima and memory on rows of many columns, on a GPU at their full size."""
    if device not in devices():
        pytest.skip("needs a CUDA device")
    check(device, scale)


# What is refused.


def test_a_missing_device_is_named(rng):
    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    X, y = made("dense", rng)
    with pytest.raises(ValueError, match=r"device='cuda'.*torch.*CUDA"):
        TopPush(device="cuda").fit(X, y)


def test_large_entries_are_not_taken_for_infinite(rng):
    X = torch.full((4, 2), 3e38, dtype=torch.float32)
    assert gpu.place(X, None).shape == (4, 2)


@pytest.mark.parametrize("shape", [(5,), (0, 3), (3, 0), (2, 2, 2)])
def test_tensors_must_have_rows_and_columns(shape):
    with pytest.raises(ValueError, match="dimensions"):
        TopPush().fit(torch.zeros(shape), [0, 1])


def test_other_types_become_float64(rng):
    X, y = made("dense", rng)
    rough = np.round(4.0 * X)
    local = solved(rough, y, top=5, n_jobs=1)
    check_same(solved(torch.tensor(rough).to(torch.int32), y, top=5), local)
    check_same(solved(torch.tensor(rough).to(torch.float16), y, top=5), local)


def test_a_local_design_has_numpys_operations(rng):
    X, y = made("dense", rng)
    assert LocalDesign(X, y).arrays is NUMPY
