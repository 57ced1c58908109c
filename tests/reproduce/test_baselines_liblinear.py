"""LIBLINEAR on rows of any size: the same weights, or a sentence, and an end in any case."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from reproduce.baselines import CostSensitiveSVM, LogisticRanker
from reproduce.baselines.repeats import merge_repeats

BOTH = [LogisticRanker, CostSensitiveSVM]


@pytest.fixture
def rows(rng):
    y = np.arange(150) % 3 == 0
    return rng.normal(size=(150, 4)) + 0.7 * y[:, None], y


@pytest.mark.parametrize("forms", [np.asarray, sparse.csr_array, np.float32])
@pytest.mark.parametrize("power", [60, 90, 120])
@pytest.mark.parametrize("kind", BOTH)
def test_powers_of_two_change_nothing_but_the_units(kind, power, forms, rows):
    X, y = rows[0].astype(np.float32).astype(float), rows[1]
    far = forms(X * 2.0**power)
    known = kind().fit(X * 2.0**55, y)
    found = kind().fit(far, y)
    assert found.n_iter_ == known.n_iter_
    assert_allclose(found.coef_ * 2.0**power, known.coef_ * 2.0**55, rtol=1e-12)


PAIRS = [
    (LogisticRanker(C=0.5), LogisticRegression(C=0.5, solver="liblinear", random_state=0)),
    (
        CostSensitiveSVM(C=0.5, positive_cost=3.0),
        LinearSVC(C=0.5, class_weight={True: 3.0, False: 1.0}),
    ),
]


@pytest.mark.parametrize("ours, theirs", PAIRS)
def test_other_units_give_what_scikit_learn_gives(ours, theirs, rows, rng):
    X, y = rows[0] * 2.0**58, rows[1]  # from 2^50 on units are changed; these still work without
    weight = rng.uniform(0.5, 2.0, len(y))
    ours.fit(X, y, weight)
    theirs.fit(X, y, weight)
    assert ours._unit(X, weight) != 1.0
    assert_allclose(ours.coef_, theirs.coef_, rtol=1e-13)
    assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-13)


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("n_more", [0, 200], ids=["more rows", "more columns"])
@pytest.mark.parametrize("size", [1e100, 1e150, 1e300])
def test_rows_beyond_liblinear_are_refused(kind, size, n_more, rows, rng):
    X, y = size * np.hstack([rows[0], rng.uniform(size=(150, n_more))]), rows[1]
    with pytest.raises(ValueError, match=r"X.*\S+.*MaxAbsScaler"):
        kind().fit(X, y)


@pytest.mark.parametrize("n_more", [0, 200], ids=["more rows", "more columns"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_large_rows_come_to_an_end(n_more, rows, rng):
    X, y = 1e60 * np.hstack([rows[0], rng.uniform(size=(150, n_more))]), rows[1]
    assert np.isfinite(CostSensitiveSVM(random_state=0).fit(X, y).coef_).all()


def test_a_large_cost_counts_like_large_rows(rows):
    X, y = rows
    with pytest.raises(ValueError, match=r"C=1e\+140"):
        LogisticRanker(C=1e140).fit(X, y)
    with pytest.raises(ValueError, match="losses"):
        CostSensitiveSVM(positive_cost=1e150).fit(X, y)
    with pytest.raises(ValueError, match="losses"):
        LogisticRanker(C=1e60).fit(X, y, np.full(len(y), 1e80))


@pytest.mark.parametrize("kind", BOTH)
def test_rows_of_zeros_are_left_as_they_are(kind, rows):
    found = kind().fit(np.zeros_like(rows[0]), rows[1])
    assert not found.coef_.any()


# Rows that repeat.


def repeated(rng, n_rows=60, times=5):
    """Rows of counts, many of them equal, in any order."""
    X = rng.integers(0, 3, size=(n_rows, 6)).astype(float)
    where = rng.permutation(np.repeat(np.arange(n_rows), times))
    return sparse.csr_array(X[where]), rng.uniform(size=len(where)) < 0.2 + 0.6 * (X[where, 0] > 1)


@pytest.mark.parametrize(
    "n_columns", [6, 200], ids=["few columns", "more columns than rows remain"]
)
@pytest.mark.parametrize("ours, theirs", PAIRS)
def test_rows_that_repeat_are_read_once_and_change_nothing(ours, theirs, n_columns, rng):
    X, y = repeated(rng)
    X = sparse.csr_array(sparse.hstack([X, sparse.csr_array((X.shape[0], n_columns - 6))]))
    merged, _, count = merge_repeats(X, y, None)
    assert merged.shape[0] < 0.5 * X.shape[0]
    assert count.sum() == X.shape[0]
    for weight in (None, rng.uniform(0.5, 2.0, len(y)), rng.integers(0, 2, len(y)).astype(float)):
        found = ours.fit(X, y, weight)
        expected = theirs.fit(X, y, weight)
        assert found.n_iter_ == np.max(expected.n_iter_)  # the tolerance is that of all rows
        assert_allclose(found.coef_, expected.coef_, rtol=1e-9, atol=1e-12)


def test_merged_rows_are_those_that_a_dictionary_finds(rng):
    X, y = repeated(rng)
    weight = rng.uniform(size=len(y))
    known = {}
    for row, label, one in zip(X.toarray(), y, weight, strict=True):
        known[tuple(row), label] = known.get((tuple(row), label), 0.0) + one
    merged, labels, weights = merge_repeats(X, y, weight)
    found = zip(map(tuple, merged.toarray()), labels, strict=True)
    assert dict(zip(found, weights, strict=True)) == pytest.approx(known)


def test_rows_that_differ_or_are_dense_stay_as_they_are(rows):
    X, y = rows
    for form in (X, sparse.csr_array(X)):
        assert merge_repeats(form, y, None)[0] is form
