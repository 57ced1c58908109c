"""Folds that all members share."""

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold
from sklearn.utils import column_or_1d

from toppush.folds.cross_fitted import Fold, require_both_in_each, split_folds
from toppush.types import Mask, Where


def groups_of(given: ArrayLike) -> NDArray[Any]:
    """Groups that can be sorted; those that are not known are one."""
    groups = np.asarray(column_or_1d(given))
    return groups.astype(str) if groups.dtype == object else groups


def shared_folds(
    cv: Any, positive: Mask, groups: NDArray[Any] | None, counted: Where, seed: int
) -> list[Fold]:
    """Folds of the rows that count, each with rows of both classes."""
    if isinstance(cv, Integral):
        rarest = int(min(positive[counted].sum(), (~positive[counted]).sum()))
        kind = StratifiedKFold if groups is None else StratifiedGroupKFold
        n_folds = min(int(cv), rarest, _n_groups(groups, counted))
        cv = kind(n_folds, shuffle=True, random_state=seed)
    folds = split_folds(cv, positive, counted, groups)
    require_both_in_each(folds, positive[counted])
    return folds


def _n_groups(groups: NDArray[Any] | None, counted: Where) -> int:
    """How many there are; without groups each row is one."""
    if groups is None:
        return len(counted)
    n_groups = len(np.unique(groups[counted]))
    if n_groups < 2:
        raise ValueError("all rows are of one group, and folds need two; leave groups out.")
    return n_groups
