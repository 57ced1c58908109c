"""X' diag(s) X of sparse rows: every way gives what dense matrices give."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from toppush.designs import grams
from toppush.designs.in_memory import SparseRows

WAYS = [grams._by_dense, grams._by_half_dense, grams._by_sparse]


@st.composite
def weighted_rows(draw, max_rows=12):
    """A CSR matrix whose rows may be empty, unsorted or name a column twice, and weights."""
    n_rows, width = draw(st.integers(0, max_rows)), draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    lengths = rng.integers(0, 5, n_rows)
    pointers, n_entries = np.append(0, np.cumsum(lengths)), int(lengths.sum())
    columns = rng.integers(0, width, n_entries)
    rows = sparse.csr_array((rng.normal(size=n_entries), columns, pointers), shape=(n_rows, width))
    return rows, rng.normal(size=n_rows)


def plain(rows, scale):
    return rows.toarray().T @ (scale[:, None] * rows.toarray())


@given(weighted_rows())
def test_every_way_is_that_of_dense_rows(given_rows):
    rows, scale = given_rows
    for way in WAYS:
        np.testing.assert_allclose(way(rows, scale), plain(rows, scale), atol=1e-12)
    kept = grams.PairProducts.of(rows)
    np.testing.assert_allclose(kept.gram(scale), plain(rows, scale), atol=1e-12)


@given(weighted_rows(), st.integers(0, 12))
def test_products_of_two_parts_are_those_of_the_whole(given_rows, cut):
    rows, scale = given_rows
    parts = [grams.PairProducts.of(rows[:cut]), grams.PairProducts.of(rows[cut:])]
    np.testing.assert_allclose(
        parts[0].joined(parts[1]).gram(scale), plain(rows, scale), atol=1e-12
    )


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_rows_that_grow_answer_again_as_anew(kind):
    rng = np.random.default_rng(0)
    X = sparse.random_array((300, 40), density=0.1, format="csr", rng=rng).astype(kind)
    band = SparseRows(sparse.csr_array(X)).subset(np.arange(100))
    for where in (np.arange(0, 100, 2), np.arange(5)):  # few of the rows are taken anew
        scale = rng.random(len(where))
        np.testing.assert_allclose(
            band.gram_again(where, scale), plain(X[where].astype(float), scale), atol=1e-6
        )
    assert band._pairs is not None
    grown = band.stacked(SparseRows(sparse.csr_array(X)).subset(np.arange(100, 300)))
    assert "_pairs" in vars(grown)
    scale = rng.random(300)
    expected = plain(X.astype(float), scale)
    np.testing.assert_allclose(grown.gram_again(np.arange(300), scale), expected, atol=1e-6)


def test_products_of_full_rows_are_not_kept():
    rows = sparse.csr_array(np.ones((300, 40)))
    band, scale = SparseRows(rows), np.ones(300)
    np.testing.assert_allclose(band.gram_again(np.arange(300), scale), plain(rows, scale))
    assert band._pairs is None


def test_rows_beyond_what_is_kept_are_taken_anew(monkeypatch):
    monkeypatch.setattr(grams, "MOST_PAIRS", 1000)
    rng = np.random.default_rng(0)
    rows = sparse.csr_array(sparse.random_array((300, 40), density=0.1, format="csr", rng=rng))
    band, scale = SparseRows(rows), rng.random(300)
    grown = SparseRows(rows[:50])
    grown.gram_again(np.arange(50), scale[:50])
    for one in (band, grown.stacked(SparseRows(rows[50:]))):
        np.testing.assert_allclose(one.gram_again(np.arange(300), scale), plain(rows, scale))
        lengths = np.diff(rows.indptr[: len(one._pairs) + 1])
        assert lengths @ (lengths + 1) / 2 <= 1000 < 2 * (lengths @ (lengths + 1) / 2)


def test_rows_that_grow_in_two_ways_do_not_disturb_each_other():
    rng = np.random.default_rng(0)
    parts = [
        sparse.csr_array(sparse.random_array((8, 5), density=0.4, format="csr", rng=rng))
        for _ in range(4)
    ]
    first, second, third, fourth = (grams.PairProducts.of(part) for part in parts)
    base = first.joined(second)  # has room for more
    ways = [base.joined(third), base.joined(fourth), base.joined(third)]
    scale = rng.random(24)
    for way, last in zip(ways, (2, 3, 2), strict=True):
        whole = sparse.vstack([parts[0], parts[1], parts[last]], format="csr")
        np.testing.assert_allclose(way.gram(scale), plain(whole, scale), atol=1e-12)
