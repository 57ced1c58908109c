"""Free text in the rows of `TopRanker`: the terms, and the components that stand for them.

The base model "text" takes the sparse weights of the terms. The others take dense numbers: the
columns of the table, then a few components of the terms of each column of text. No labels are used
for these, so folds may share them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse
from sklearn.decomposition import TruncatedSVD

from toppush.explain.contributions import evenly
from toppush.matrices import dense, stored
from toppush.types import Array, Matrix, Where

N_COMPONENTS, FEWEST_COMPONENTS = 32, 8
"""Components of all columns of text together, and of each at least."""
MOST_ROWS = 20_000
"""Rows from which components are learned, evenly spaced."""
SOME_ROWS = 500
"""Rows whose contributions are divided among their terms at a time."""


class TextRows(NamedTuple):
    """Rows as base models take them."""

    numbers: Matrix
    terms: Matrix | None = None
    """The weights of terms of all columns of text, next to each other; None without text."""


@dataclass(frozen=True)
class TermPlaces:
    """Columns of a matrix that hold the weights of terms, one list for each text."""

    places: list[Where]

    @classmethod
    def of(cls, wanted: Any, X: Matrix) -> Self | None:
        """From positions, or a list of positions for each text; None if there are none."""
        if wanted is None or isinstance(wanted, str) or not len(wanted) or np.ndim(X) != 2:
            return None
        width = np.shape(X)[1]
        lists = [wanted] if np.ndim(wanted[0]) == 0 else wanted
        places = [np.asarray(positions) for positions in lists]
        every = np.concatenate(places)
        whole = all(np.issubdtype(each.dtype, np.integer) and len(each) for each in places)
        if not whole or len(np.unique(every)) < len(every) or not _inside(every, width):
            raise ValueError(
                f"text_features must be different positions from 0 to {width - 1} of the columns "
                "of X that hold weights of terms, or a list of positions for each text, as X is a "
                f"matrix; found {wanted!r:.200}."
            )
        return cls([each.astype(np.int32) for each in places])

    @property
    def every(self) -> Where:
        """The positions of all terms."""
        return np.concatenate(self.places)

    @property
    def sizes(self) -> list[int]:
        """Number of terms of each text."""
        return [len(each) for each in self.places]

    def others(self, width: int) -> Where:
        """The positions of the columns that hold no terms."""
        return np.setdiff1d(np.arange(width), self.every)

    def split(self, X: Matrix) -> TextRows:
        """The other columns as an array, and the terms."""
        terms = sparse.csr_array(X[:, self.every])
        if np.isnan(stored(terms)).any():
            raise ValueError(
                "X has missing values among the weights of terms; 0 means no such term."
            )
        return TextRows(np.asarray(dense(X[:, self.others(X.shape[1])]), np.float64), terms)


def _inside(places: Where, width: int) -> bool:
    return bool(len(places)) and places.min() >= 0 and places.max() < width


@dataclass(frozen=True)
class Components:
    """Components of the terms of each column of text: truncated singular value decompositions."""

    axes: list[Array]
    """The weights of the terms in each component, an array of shape (n_components, n_terms)."""

    @classmethod
    def of(cls, terms: Matrix, sizes: Sequence[int], seed: int) -> Self:
        """Learned from training rows; `sizes` are the numbers of terms of each text."""
        most = max(FEWEST_COMPONENTS, N_COMPONENTS // len(sizes))
        some = terms[evenly(np.arange(terms.shape[0]), MOST_ROWS)]
        return cls([_axes(part, most, seed) for part in _parts(some, sizes)])

    @property
    def sizes(self) -> list[int]:
        """Number of terms of each text."""
        return [axes.shape[1] for axes in self.axes]

    @property
    def owners(self) -> Where:
        """The text, from 0, of each component."""
        return np.repeat(np.arange(len(self.axes)), [len(axes) for axes in self.axes])

    def transform(self, terms: Matrix) -> Array:
        """The components of rows."""
        parts = _parts(terms, self.sizes)
        return np.hstack([part @ axes.T for part, axes in zip(parts, self.axes, strict=True)])

    def shared_out(self, terms: Matrix, added: Array) -> Matrix:
        """Contributions of the components as contributions of the terms, a CSR array.

        A component's is divided among the terms of the row in proportion to the magnitude of what
        they add to the component; without any, the first term of the text gets it.
        """
        n_rows = terms.shape[0]
        blocks = [
            _shared_out(terms[at : at + SOME_ROWS], added[at : at + SOME_ROWS], self)
            for at in range(0, n_rows, SOME_ROWS)
        ]
        return sparse.csr_array(sparse.vstack(blocks, format="csr"))


def _axes(terms: Matrix, most: int, seed: int) -> Array:
    n_components = min(most, *(size - 1 for size in terms.shape))
    if n_components < 1 or not terms.nnz:
        return np.zeros((0, terms.shape[1]))
    # Single precision, because a model file holds 32 numbers for each of 50,000 terms.
    with np.errstate(divide="ignore", invalid="ignore"):  # shares of the variance of equal rows
        fitted = TruncatedSVD(n_components, random_state=seed).fit(terms)
    return np.asarray(fitted.components_, np.float32)


def _parts(terms: Matrix, sizes: Sequence[int]) -> list[Matrix]:
    """The terms of each text."""
    return [terms[:, start:end] for start, end in pairwise(np.cumsum([0, *sizes]))]


def _shared_out(terms: Matrix, added: Array, components: Components) -> Matrix:
    parts = _parts(terms, components.sizes)
    of_texts = _parts(added, [len(axes) for axes in components.axes])
    shared = map(_shared_in_text, parts, of_texts, components.axes)
    return sparse.hstack(list(shared), format="csr")


def _shared_in_text(terms: Matrix, added: Array, axes: Array) -> Matrix:
    """Contributions of the components of a text as contributions of its terms."""
    rows = np.repeat(np.arange(terms.shape[0]), np.diff(terms.indptr))
    sizes = np.abs(terms.data[:, None] * axes[:, terms.indices].T)
    in_row = sparse.csr_array(
        (np.ones(len(rows)), np.arange(len(rows)), terms.indptr), shape=(len(added), len(rows))
    )
    totals = in_row @ sizes
    shares = np.divide(added, totals, out=np.zeros(added.shape), where=totals > 0.0)
    entries = (sizes * shares[rows]).sum(axis=1)
    divided = sparse.csr_array((entries, terms.indices, terms.indptr), shape=terms.shape)
    rest = (added * (totals <= 0.0)).sum(axis=1)
    where = np.flatnonzero(rest)
    first = (rest[where], (where, np.zeros(len(where), int)))
    return divided + sparse.csr_array(first, shape=terms.shape)
