"""What networks are trained on: rows in their units, batches, folds."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from toppush.folds.scores import left_out_twice
from toppush.matrices import dense
from toppush.tables.scaling import PART_ROWS, AsinhScaler
from toppush.torch import Tensor
from toppush.types import Array, Mask, Matrix, Where

HELD_ENTRIES = 1 << 27
"""Entries of X that are held as an array of float32, 512 MB; beyond, batches are made of X."""


class TrainingSet:
    """Rows, their classes and weights, the fold of each, and a second one that leaves it out.

    The second fold is the one before, or the same for rows that one fold leaves out.
    """

    def __init__(
        self,
        X: Matrix,
        columns: AsinhScaler,
        positive: Mask,
        weight: Array,
        folds: Where,
        device: str,
    ) -> None:
        self._X, self._columns, self.device = X, columns, torch.device(device)
        self.n_rows, self.n_columns = X.shape
        self.positive, self.weight, self.folds = positive, weight, folds
        self.n_folds = int(folds.max()) + 1
        self.second_folds = (folds - left_out_twice(positive)) % self.n_folds
        held = self.n_rows * self.n_columns <= HELD_ENTRIES
        self._held = self._made(np.arange(self.n_rows)) if held else None

    def is_second(self, fold: int) -> Mask:
        """Rows that a fold leaves out besides its own."""
        return np.asarray((self.second_folds == fold) & (self.folds != fold))

    def rows(self, where: Where) -> Tensor:
        """Some rows, in the units of the networks."""
        return self._made(where) if self._held is None else self._held[self.tensor(where)]

    def tensor(self, values: NDArray[Any]) -> Tensor:
        """An array on the device, real numbers in float32."""
        real = values.dtype == np.float64
        return torch.from_numpy(values.astype(np.float32) if real else values).to(self.device)

    def _made(self, where: Where) -> Tensor:
        made = np.empty((len(where), self.n_columns), np.float32)
        for start in range(0, len(where), PART_ROWS):
            part = slice(start, start + PART_ROWS)
            made[part] = self._columns.transform(dense(self._X[where[part]]))
        return torch.from_numpy(made).to(self.device)


class Shuffled:
    """Endless draws from a class: all its rows in one random order after the other."""

    def __init__(self, where: Where, most: int, rng: np.random.Generator) -> None:
        self._where, self.size, self._rng = where, min(most, len(where)), rng
        self._order, self._at = rng.permutation(where), 0

    @property
    def rows_for_each(self) -> float:
        """How many rows of the class one of a draw stands for."""
        return len(self._where) / self.size

    def draw(self) -> Where:
        """The next rows, as many every time."""
        if self._at + self.size > len(self._order):
            self._order, self._at = self._rng.permutation(self._where), 0
        self._at += self.size
        return self._order[self._at - self.size : self._at]


def dealt_folds(positive: Mask, n_members: int, rng: np.random.Generator) -> Where:
    """A fold for every row, each with rows of both classes; all 0 if not two such can be made."""
    classes = np.flatnonzero(positive), np.flatnonzero(~positive)
    n_folds = min(n_members, *map(len, classes))
    folds = np.zeros(len(positive), np.int64)
    for where in classes:
        folds[rng.permutation(where)] = np.arange(len(where)) % max(n_folds, 1)
    return folds
