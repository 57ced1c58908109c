"""Kernel machines: the columns as they see them, and the scores of fitted ones."""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri
from sklearn.metrics.pairwise import rbf_kernel

from toppush.types import Array, Mask, Where

CURVES = ("asinh", "normal")
"""How columns of numbers are scaled: the inverse hyperbolic sine of standardised values, or normal
quantiles. On images of digits the first ranks better, on tables of accounts the second."""
N_KNOTS = 33
LEAST_SHARE, LEAST_COUNT = 0.01, 5
"""Share and number of rows that a category needs for a column of its own."""
TINY = 1e-12
"""Standard deviation of a constant column, relative to its mean."""
PART_NUMBERS = 1 << 22
"""Kernel values that are in memory at a time when rows are scored, 32 MiB."""


@dataclass(frozen=True)
class Machine:
    """A fitted support vector machine, or the mean of several with the same gamma."""

    support: Array
    """Support vectors."""
    coef: Array
    intercept: float
    gamma: float
    places: Where | None = None
    """Which of the training rows the support vectors are."""

    def scores(self, rows: Array) -> Array:
        """Scores of prepared rows, some at a time."""
        step = max(PART_NUMBERS // max(len(self.support), 1), 1)
        parts = [
            rbf_kernel(rows[at : at + step], self.support, self.gamma) @ self.coef
            for at in range(0, len(rows), step)
        ]
        return np.concatenate([np.zeros(0), *parts]) + self.intercept

    def coef_of_all(self, n_rows: int) -> Array:
        """The coefficients of all training rows."""
        coef = np.zeros(n_rows)
        coef[self.places] = self.coef
        return coef


# ---- columns


@dataclass(frozen=True)
class KernelColumns:
    """Columns as inputs of the kernel.

    Numbers follow a curve, linear between its knots and constant beyond them; then come indicators
    of missing values, and of categories.
    """

    numbers: Where
    """Positions of the columns of numbers."""
    knots: Array
    """Of shape (n_numbers, `N_KNOTS`)."""
    heights: Array
    """At the knots."""
    at_missing: Array
    """The height at the median of each column of numbers, for missing values."""
    missing: Where
    """Positions of the columns with an indicator of missing values."""
    categorical: Where
    """Position of the column of each indicator of a category."""
    categories: Array
    """The category."""

    @classmethod
    def of(cls, X: Array, categorical: Mask, curve: str) -> "KernelColumns":
        """From dense training rows."""
        numbers = np.flatnonzero(~categorical)
        knots, heights = np.zeros((2, len(numbers), N_KNOTS))
        medians = np.zeros(len(numbers))
        draw = asinh_curve if curve == "asinh" else normal_curve
        for place, column in enumerate(numbers):
            values = X[:, column]
            if len(known := values[~np.isnan(values)]):
                medians[place] = np.median(known)
                knots[place], heights[place] = draw(known)
        curves = zip(medians, knots, heights, strict=True)
        at_missing = np.array([np.interp(value, *points) for value, *points in curves])
        pairs = [
            (column, value)
            for column in np.flatnonzero(categorical)
            for value in common_values(X[:, column])
        ]
        own = np.array(pairs).reshape(-1, 2)
        missing = np.flatnonzero(np.isnan(X).any(axis=0))
        return cls(
            numbers, knots, heights, at_missing, missing, own[:, 0].astype(np.intp), own[:, 1]
        )

    def transform(self, X: Array) -> Array:
        """Prepared rows; at least one column."""
        n_numbers, n_missing = len(self.numbers), len(self.missing)
        width = n_numbers + n_missing + len(self.categories)
        rows = np.zeros((len(X), max(width, 1)))
        for place, column in enumerate(self.numbers):
            heights = np.interp(X[:, column], self.knots[place], self.heights[place])
            rows[:, place] = np.where(np.isnan(heights), self.at_missing[place], heights)
        rows[:, n_numbers : n_numbers + n_missing] = np.isnan(X[:, self.missing])
        rows[:, n_numbers + n_missing : width] = X[:, self.categorical] == self.categories
        return rows


def asinh_curve(values: Array) -> tuple[Array, Array]:
    """Knots and heights of the inverse hyperbolic sine of standardised values."""
    mean, scale = values.mean(), values.std()
    if scale <= TINY * abs(mean):
        return np.full(N_KNOTS, mean), np.zeros(N_KNOTS)
    ends = np.arcsinh((np.array([values.min(), values.max()]) - mean) / scale)
    heights = np.linspace(ends[0], ends[1], N_KNOTS)
    return mean + scale * np.sinh(heights), heights


def normal_curve(values: Array) -> tuple[Array, Array]:
    """Knots and heights of the normal quantiles of the values, with variance 1."""
    distinct, counts = np.unique(values, return_counts=True)
    heights = ndtri((np.cumsum(counts) - counts / 2.0) / len(values))
    chosen = np.searchsorted(heights, np.linspace(heights[0], heights[-1], N_KNOTS))
    if len(distinct) <= N_KNOTS:
        chosen = np.minimum(np.arange(N_KNOTS), len(distinct) - 1)
    knots, heights = distinct[chosen], heights[chosen]
    placed = np.interp(values, knots, heights)
    return knots, (heights - placed.mean()) / (placed.std() or 1.0)


def n_prepared(X: Array, categorical: Mask) -> int:
    """Number of prepared columns, apart from indicators of missing values."""
    n_numbers = int((~categorical).sum())
    return n_numbers + sum(len(common_values(X[:, j])) for j in np.flatnonzero(categorical))


def common_values(values: Array) -> Array:
    """The categories that are not rare."""
    known = values[~np.isnan(values)]
    distinct, counts = np.unique(known, return_counts=True)
    return np.asarray(distinct[counts >= max(LEAST_COUNT, LEAST_SHARE * len(values))])
