"""A fit takes a few vectors of row length, and never a copy of the data."""

import gc
import tracemalloc
import warnings

import numpy as np
import pytest
from scipy import sparse

from holders import peak_of
from toppush import TopPush

pytestmark = pytest.mark.sampled(3)

N_FEATURES, PER_ROW, N_ROWS = 500, 10, 200_000
CONSTANT = 1 << 20
"""Bytes of whatever does not grow with the data: 1 MB."""

on_threads = pytest.mark.parametrize(
    "data, n_jobs",
    [
        ("sparse_rows", 2),
        ("mapped_rows", 1),
        pytest.param("sparse_rows", 1, marks=pytest.mark.long),
        pytest.param("mapped_rows", 2, marks=pytest.mark.long),
    ],
)


@pytest.fixture(scope="module")
def sparse_rows():
    """16 MB of numbers and 8 MB of column numbers; a row-length vector is 1.6 MB."""
    rng = np.random.default_rng(0)
    columns = rng.integers(0, N_FEATURES, size=(N_ROWS, PER_ROW), dtype=np.int32)
    columns.sort(axis=1)
    pointers = np.arange(0, N_ROWS * PER_ROW + 1, PER_ROW, dtype=np.int32)
    values = rng.random(N_ROWS * PER_ROW)
    X = sparse.csr_array((values, columns.ravel(), pointers), shape=(N_ROWS, N_FEATURES))
    return X, labels(X @ rng.normal(size=N_FEATURES), rng)


@pytest.fixture(scope="module")
def mapped_rows(tmp_path_factory):
    """A file of 32 MB; a row-length vector is 0.8 MB."""
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("mapped") / "rows.npy"
    values = rng.normal(size=(100_000, 40))
    np.save(path, values)
    return np.load(path, mmap_mode="r"), labels(values @ rng.normal(size=40), rng)


def labels(score, rng):
    """A tenth of the rows, those of high score a little more likely."""
    noisy = score + score.std() * rng.normal(size=len(score))
    return (noisy > np.quantile(noisy, 0.9)).astype(int)


def peak_of_fit(estimator, X, y, sample_weight=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator.fit(X[:2000], y[:2000])  # imports and caches
        return peak_of(lambda: estimator.fit(X, y, sample_weight=sample_weight))


def allowed(X):
    return 8 * (10 * X.shape[0] + 10 * X.shape[1]) + CONSTANT


@on_threads
@pytest.mark.parametrize(
    "loss, top", [("truncated_quadratic", 1), ("truncated_quadratic", 100), ("logistic", 1)]
)
def test_ten_vectors_of_row_length(data, loss, top, n_jobs, request):
    X, y = request.getfixturevalue(data)
    estimator = TopPush(0.01, solver="paper", loss=loss, top=top, max_iter=12, n_jobs=n_jobs)
    peak = peak_of_fit(estimator, X, y)
    assert peak <= allowed(X), f"{peak / 8 / X.shape[0]:.2f} vectors of row length"
    assert 12 >= estimator.n_iter_ >= 10


@on_threads
@pytest.mark.parametrize("top", [1, 100])
def test_newton_adds_its_matrix_and_a_factor(data, top, n_jobs, request):
    """Ten vectors of row length again, and two matrices of features by features."""
    X, y = request.getfixturevalue(data)
    estimator = TopPush(0.01, solver="newton", top=top, max_iter=12, n_jobs=n_jobs)
    peak = peak_of_fit(estimator, X, y)
    matrices = 2 * 8 * X.shape[1] ** 2
    assert peak <= allowed(X) + matrices, f"{peak / 8 / X.shape[0]:.2f} vectors of row length"


@pytest.mark.parametrize("data", ["sparse_rows", "mapped_rows"])
def test_ten_vectors_of_row_length_with_weights(data, request):
    X, y = request.getfixturevalue(data)
    estimator = TopPush(0.01, solver="paper", max_iter=12)
    peak = peak_of_fit(estimator, X, y, sample_weight=np.ones(len(y)))
    assert peak <= allowed(X), f"{peak / 8 / X.shape[0]:.2f} vectors of row length"


@pytest.mark.parametrize("data", ["sparse_rows", "mapped_rows"])
def test_a_fit_keeps_one_vector_of_row_length(data, request):
    """The duals, for a warm start."""
    X, y = request.getfixturevalue(data)
    estimator = TopPush(0.01, solver="paper", max_iter=12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator.fit(X[:2000], y[:2000])
        gc.collect()
        tracemalloc.start()
        try:
            estimator.fit(X, y)
            gc.collect()
            kept, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert kept <= 8 * (X.shape[0] + 2 * X.shape[1]) + CONSTANT


@pytest.mark.parametrize("data", ["sparse_rows", "mapped_rows"])
@pytest.mark.parametrize("method", ["decision_function", "predict"])
def test_predictions_do_not_copy_the_data(data, method, request):
    X, y = request.getfixturevalue(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator = TopPush(0.01, solver="paper", max_iter=2).fit(X[:2000], y[:2000])
    predict = getattr(estimator, method)
    predict(X[:2000])
    peak = peak_of(lambda: predict(X))
    assert peak <= allowed(X), f"{peak / 8 / X.shape[0]:.2f} vectors of row length"
