"""What a push knows of rows before it sees a score: which are positive, and their weights."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toppush.types import Array, Mask, Where


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Rows by class; on one of several workers the rows of that worker, of any class.

    Attributes
    ----------
    kind : array of int
        1 for a positive, 0 for a negative.
    weight : array or None
        Weight of each row; None if all weigh 1.

    Examples
    --------
    >>> from toppush.objectives import label_rows
    >>> rows = label_rows([1, 0, 0, 1], weight=[1.0, 1.0, 0.5, 2.0])
    >>> rows.n_negatives, rows.weight_of_negatives
    (2, 1.5)
    """

    kind: Where
    weight: Array | None = None

    @property
    def positive(self) -> Mask:
        """Which rows are positive."""
        return np.asarray(self.kind == 1)

    @cached_property
    def n_negatives(self) -> int:
        """Negatives of weight above 0."""
        present = self.kind == 0 if self.weight is None else (self.kind == 0) & (self.weight > 0)
        return int(np.count_nonzero(present))

    @cached_property
    def weight_of_negatives(self) -> float:
        """All of it."""
        if self.weight is None:
            return float(self.n_negatives)
        return float(self.weight[self.kind == 0].sum())

    @cached_property
    def n_pairs(self) -> int:
        """Positives times negatives."""
        n_pos = int(self.kind.sum())
        return n_pos * (len(self.kind) - n_pos)


def label_rows(labels: ArrayLike, weight: ArrayLike | None = None) -> LabelledRows:
    """Rows by their labels 0 and 1, or -1 and +1, and weights.

    Both classes are asked for when gradients are, since other workers may have the rest.

    Examples
    --------
    >>> from toppush.objectives import label_rows
    >>> label_rows([1, -1, -1, 1]).positive
    array([ True, False, False,  True])
    """
    given = np.asarray(labels)
    positive = given == 1
    wrong = ~positive & (given != 0) & (given != -1)
    if given.ndim != 1 or wrong.any() or _both(given, 0, -1):
        seen = np.unique(given)[:5].tolist()
        raise ValueError(
            f"The objective needs labels 0 and 1, or -1 and +1, one for each row, found {seen}; "
            "relabel the rows."
        )
    return LabelledRows(positive.astype(np.intp), _read_weight(weight, given))


def _both(labels: NDArray[Any], one: int, other: int) -> bool:
    return bool((labels == one).any() and (labels == other).any())


def _read_weight(weight: ArrayLike | None, labels: NDArray[Any]) -> Array | None:
    """Weights as numbers; an engine's empty vector means none."""
    if weight is None or np.size(weight) == 0:
        return None
    found = np.asarray(weight, dtype=np.float64)
    if found.shape != labels.shape:
        raise ValueError(
            f"There are {found.size} weights for {labels.size} rows; give one for each row."
        )
    if not (found.min() >= 0 and found.max() < np.inf):
        raise ValueError("A weight is negative, infinite or missing; correct it or drop the row.")
    return found
