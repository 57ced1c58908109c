"""Tensors of torch in place of arrays: the same answers, wherever the tensors are.

The law runs on the processor, and on a GPU too where there is one.
"""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse, special

from toppush import TopPush, TopPushCV, toppush_path
from toppush.designs import LocalDesign
from toppush.designs.arrays import NUMPY
from toppush.problem.losses import LOSSES
from toppush.solvers.newton import central_path

torch = pytest.importorskip("torch", reason="needs torch, the extra [gpu]")
from toppush.designs.torch import rows as gpu  # noqa: E402
from toppush.designs.torch.arrays import TorchArrays, arrays_on  # noqa: E402
from toppush.designs.torch.design import fetched  # noqa: E402

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
N_ROWS = 600

on_every_device = pytest.mark.parametrize("device", DEVICES)
of_every_kind = pytest.mark.parametrize("kind", ["dense", "CSR"])


@pytest.fixture(autouse=True)
def one_thread():
    """Torch's threads and those of other tests would wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def made(kind, rng, n_columns=15):
    """Classes that overlap, such that no top has weights of zero as its solution."""
    positive = rng.random(N_ROWS) < 0.3
    X = rng.normal(size=(N_ROWS, n_columns))
    X[positive, :4] += 2.0
    if kind == "dense":
        return X, positive
    X[rng.random(X.shape) < 0.3] = 0.0
    return sparse.csr_array(X), positive


def as_tensor(X, device, dtype=None):
    dtype = torch.float64 if dtype is None else dtype
    if not sparse.issparse(X):
        return torch.tensor(X, dtype=dtype, device=device)
    parts = (torch.tensor(part, device=device) for part in (X.indptr, X.indices))
    return torch.sparse_csr_tensor(
        *parts, torch.tensor(X.data, dtype=dtype, device=device), X.shape
    )


def solved(X, y, sample_weight=None, **given):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", category=UserWarning)
        return TopPush(**given).fit(X, y, sample_weight).solution_


def check_same(one, other, rel=1e-9):
    assert one.n_iter == other.n_iter
    assert one.status is other.status
    assert one.upper == pytest.approx(other.upper, rel=rel)
    assert one.lower == pytest.approx(other.lower, rel=rel)
    assert one.threshold == pytest.approx(other.threshold, rel=rel, abs=rel)
    assert type(one.weights) is type(one.dual) is np.ndarray
    assert_allclose(one.weights, other.weights, rtol=0, atol=rel * np.linalg.norm(other.weights))
    assert_allclose(one.dual, other.dual, rtol=0, atol=1e3 * rel * np.abs(other.dual).max())
    # NumPy holds small matrices that are hardly sparse as arrays, and so counts the zeros.
    assert one.history[-1].passes == pytest.approx(other.history[-1].passes, rel=0.05)


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
        found = xp.to_host(xp.cholesky_solve(factor, xp.asarray(right)))
        assert_allclose(found, np.linalg.solve(matrix, right), rtol=1e-9)
    assert xp.cholesky(xp.asarray(-matrix))[1] != 0


def test_every_operation_is_there():
    names = [name for name in vars(NUMPY) if not name.startswith("_")]
    assert len(names) > 30
    assert [name for name in names if not hasattr(TorchArrays, name)] == []


# Rows.


@on_every_device
@of_every_kind
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_products_of_rows(kind, dtype, device, rng, monkeypatch):
    monkeypatch.setattr(gpu, "SINGLE_ROWS", 70)
    monkeypatch.setattr(gpu, "GRAM_ENTRIES", 100 * 15)
    X, _ = made(kind, rng)
    X = X.astype(np.float32).astype(dtype)
    values = X.toarray() if sparse.issparse(X) else X
    atol = 100 * np.finfo(dtype).eps * np.abs(values).sum(axis=0).max()
    whole = gpu.place(X, device)
    some = rng.permutation(N_ROWS)[:200]
    for rows, right in ((whole, values), (whole.subset(some), values[some])):
        xp, right = rows.arrays, right.astype(np.float64)
        w, u, scale = rng.normal(size=15), rng.normal(size=len(right)), rng.normal(size=90)
        where = rng.permutation(len(right))[:90]
        gram, product = rows.gram(xp.asarray(where), xp.asarray(scale))
        for found, expected in (
            (rows.scores(xp.asarray(w)), right @ w),
            (rows.combine(xp.asarray(u)), right.T @ u),
            (rows.squared_norms(), np.square(right).sum(axis=1)),
            (gram, (right[where].T * scale) @ right[where]),
            (product, right[where].T @ scale),
        ):
            assert found.dtype == torch.float64
            assert_allclose(xp.to_host(found), expected, rtol=0, atol=atol)
        exact, others = rows.exact(), whole.subset(some[:3]).exact()
        assert exact.dtype == torch.float64
        assert_allclose(
            xp.to_host(exact.inner_products(others)), right @ values[some[:3]].T, atol=atol
        )
        stacked = exact.stacked(others)
        assert stacked.shape == (len(right) + 3, 15)
        below = np.concatenate([right, values[some[:3]]])
        assert_allclose(xp.to_host(stacked.scores(xp.asarray(w))), below @ w, atol=atol)
        assert rows.count_entries(xp.asarray(where)) == (
            np.count_nonzero(right[where]) if sparse.issparse(X) else right[where].size
        )


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
    found = fetched(answer)
    assert found[:2] == (1.5, 2.0)
    assert found[2][0] == 7.0
    assert found[2][1] is vector
    assert len(transfers) == 1


# Fits.


@on_every_device
@of_every_kind
@pytest.mark.parametrize("loss", sorted(LOSSES))
@pytest.mark.parametrize("top, weighted", [(1, True), (5, False), (0.1, True)])
@pytest.mark.parametrize("solver, max_iter", [("newton", 100), ("paper", 12)])
def test_a_device_gives_the_same_fit(kind, loss, top, weighted, solver, max_iter, device, rng):
    X, y = made(kind, rng)
    weight = rng.integers(0, 3, size=N_ROWS).astype(float) if weighted else None
    given = {"lam": 0.05, "loss": loss, "top": top, "solver": solver, "tol": 1e-6}
    given["max_iter"] = max_iter
    local = solved(X, y, weight, n_threads=1, **given)
    check_same(solved(X, y, weight, device=device, **given), local)


@on_every_device
@of_every_kind
@pytest.mark.parametrize("loss", sorted(LOSSES))
@pytest.mark.parametrize("top", [1, 20])
@pytest.mark.parametrize("slow", [False, True])
def test_by_conjugate_gradients_too(kind, loss, top, slow, device, rng, monkeypatch):
    """More features than are factored; `slow` brings the positives into the preconditioner."""
    monkeypatch.setattr(central_path, "FORMED", 0)
    monkeypatch.setattr(central_path, "SLOW_CG", 0 if slow else 10**9)
    X, y = made(kind, rng, n_columns=40)
    given = {"lam": 0.01, "loss": loss, "top": top, "tol": 1e-6}
    local = solved(X, y, n_threads=1, **given)
    found = solved(X, y, device=device, **given)
    assert found.relative_gap <= 1e-6
    check_same(found, local, rel=1e-7)


@on_every_device
@of_every_kind
@pytest.mark.parametrize("loss", sorted(LOSSES))
@pytest.mark.parametrize("formed", [1000, 0])
def test_float32_is_near_and_certified(kind, loss, formed, device, rng, monkeypatch):
    monkeypatch.setattr(central_path, "FORMED", formed)
    X, y = made(kind, rng)
    right = solved(X, y, lam=0.05, top=5, loss=loss, tol=1e-6)
    found = solved(as_tensor(X, device, torch.float32), y, lam=0.05, top=5, loss=loss, tol=1e-3)
    assert found.relative_gap <= 1e-3
    assert found.upper == pytest.approx(right.upper, rel=1e-3)
    assert found.lower <= right.upper * (1.0 + 1e-5)


@on_every_device
@of_every_kind
def test_tensors_are_used_where_they_are(kind, device, rng):
    X, y = made(kind, rng)
    local = solved(X, y, lam=0.05, top=5, n_threads=1)
    labels = torch.tensor(y, device=device)
    for given in (y, labels, torch.tensor(np.where(y, 4, 2), device=device)):
        check_same(solved(as_tensor(X, device), given, lam=0.05, top=5), local)
    weight = rng.integers(0, 3, size=N_ROWS).astype(float)
    check_same(
        solved(as_tensor(X, device), labels, torch.tensor(weight, device=device), top=5),
        solved(X, y, weight, top=5, n_threads=1),
    )


@on_every_device
@of_every_kind
def test_scores_and_predictions_of_tensors(kind, device, rng):
    X, y = made(kind, rng)
    ranker = TopPush(0.05, top=5).fit(as_tensor(X, device), np.where(y, "up", "down"))
    assert list(ranker.classes_) == ["down", "up"]
    assert type(ranker.coef_) is np.ndarray
    decision = ranker.decision_function(as_tensor(X, device))
    assert type(decision) is np.ndarray
    assert_allclose(decision, ranker.decision_function(X), atol=1e-12)
    assert_array_equal(ranker.predict(as_tensor(X, device)), ranker.predict(X))
    single = ranker.decision_function(as_tensor(X, device, torch.float32))
    assert_allclose(single, decision, atol=1e-4)


@on_every_device
@pytest.mark.parametrize("solver", ["newton", "paper"])
def test_warm_start_on_a_device(solver, device, rng):
    X, y = made("dense", rng)
    given = {"lam": 0.5, "top": 5, "solver": solver, "max_iter": 30, "warm_start": True}
    local, far = TopPush(n_threads=1, **given), TopPush(device=device, **given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            check_same(far.fit(X, y).solution_, local.fit(X, y).solution_, rel=1e-7)


@on_every_device
def test_automatic_top_and_degenerate_rows(device, rng):
    y = rng.random(400) < 0.3
    X = rng.normal(size=(400, 4))
    X[y] += 0.3
    local, far = (TopPush(top="auto", device=where).fit(X, y) for where in (None, device))
    assert far.top_ == local.top_ > 1
    assert far.solution_.lower == pytest.approx(local.solution_.lower, rel=1e-6)


@on_every_device
@of_every_kind
def test_paths_and_cross_validation(kind, device, rng):
    X, y = made(kind, rng)
    given = {"lams": (0.1, 0.01), "tops": (1, 0.1)}
    local, far = (toppush_path(X, y, device=where, **given) for where in (None, device))
    assert_allclose(far.coefs, local.coefs, rtol=0, atol=1e-8 * np.abs(local.coefs).max())
    local = TopPushCV(cv=3, n_threads=1, **given).fit(X, y)
    for rows, where in ((X, device), (as_tensor(X, device), None)):
        far = TopPushCV(cv=3, device=where, **given).fit(rows, y)
        assert (far.lam_, far.top_) == (local.lam_, local.top_)
        assert_allclose(
            far.cv_results_["mean_test_score"], local.cv_results_["mean_test_score"], rtol=1e-9
        )
        assert_allclose(far.coef_, local.coef_, rtol=0, atol=1e-8 * np.abs(local.coef_).max())


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


# What is refused.


def test_a_missing_device_is_named(rng):
    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    X, y = made("dense", rng)
    with pytest.raises(ValueError, match=r"device='cuda', but torch .* finds no CUDA device"):
        TopPush(device="cuda").fit(X, y)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@of_every_kind
def test_tensors_must_be_finite(kind, bad, rng):
    X, y = made(kind, rng)
    (X.data if sparse.issparse(X) else X.reshape(-1))[7] = bad
    with pytest.raises(ValueError, match="NaN or infinity"):
        TopPush().fit(as_tensor(X, "cpu"), y)


def test_large_entries_are_not_taken_for_infinite(rng):
    X = torch.full((4, 2), 3e38, dtype=torch.float32)
    assert gpu.place(X, None).shape == (4, 2)


@pytest.mark.parametrize("shape", [(5,), (0, 3), (3, 0), (2, 2, 2)])
def test_tensors_must_have_rows_and_columns(shape):
    with pytest.raises(ValueError, match="two dimensions with rows and columns, found"):
        TopPush().fit(torch.zeros(shape), [0, 1])


def test_lengths_and_columns_must_agree(rng):
    X, y = made("dense", rng)
    tensor = as_tensor(X, "cpu")
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        TopPush().fit(tensor, y[:-1])
    with pytest.raises(ValueError, match="two classes, found one"):
        TopPush().fit(tensor, torch.zeros(N_ROWS))
    ranker = TopPush(top=5).fit(tensor, y)
    with pytest.raises(ValueError, match="expecting 15 features"):
        ranker.decision_function(tensor[:, :4])


def test_other_types_become_float64(rng):
    X, y = made("dense", rng)
    rough = np.round(4.0 * X)
    local = solved(rough, y, top=5, n_threads=1)
    check_same(solved(torch.tensor(rough).to(torch.int32), y, top=5), local)
    check_same(solved(torch.tensor(rough).to(torch.float16), y, top=5), local)


def test_a_local_design_has_numpys_operations(rng):
    X, y = made("dense", rng)
    assert LocalDesign(X, y).arrays is NUMPY
