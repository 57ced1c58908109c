"""Folds that keep groups together, or that hold out what is later than what they train on."""

import numpy as np
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from toppush.system.reading import DataError
from toppush.tables.rows import RoleValues
from toppush.types import Array, Mask, Where

Folds = list[tuple[Where, Where]]
"""Rows to train on and rows that are held out."""


def folds_of(positive: Mask, held: RoleValues, n_folds: int, seed: int) -> Folds:
    """So many folds: by group or by time if these are known, else stratified by class."""
    if held.groups is not None and held.time is not None:
        raise DataError("groups and times make different folds; give one of --groups and --time.")
    if held.groups is not None:
        by_group = StratifiedGroupKFold(n_folds, shuffle=True, random_state=seed)
        return _require_both(_by_groups(by_group, positive, held.groups), positive, "--groups")
    if held.time is not None:
        return _require_both(by_time(positive, held.time, n_folds), positive, "--time")
    return list(StratifiedKFold(n_folds, shuffle=True, random_state=seed).split(positive, positive))


def _by_groups(splitter: StratifiedGroupKFold, positive: Mask, groups: Where) -> Folds:
    n_groups = len(np.unique(groups))
    if n_groups < splitter.n_splits:
        less = "ask for fewer with --cv" if n_groups > 1 else "leave --groups out"
        raise DataError(f"{splitter.n_splits} folds, and --groups has {n_groups} groups; {less}.")
    return list(splitter.split(positive, positive, groups))


def by_time(positive: Mask, time: Array, n_folds: int) -> Folds:
    """Fold i trains on all before the i-th cut, and holds out what comes until the next.

    The cuts part the positives into equal counts, as far as rows of the same time stay together;
    what comes before the first cut is never held out.
    """
    shares = np.arange(1, n_folds + 1) / (n_folds + 1)
    cuts = np.quantile(time[positive], shares, method="higher")
    stage = np.searchsorted(np.unique(cuts), time, side="right")
    return [
        (np.flatnonzero(stage < number), np.flatnonzero(stage == number))
        for number in range(1, int(stage.max(initial=0)) + 1)
    ]


def _require_both(folds: Folds, positive: Mask, option: str) -> Folds:
    """Refuse folds that train on, or hold out, rows of one class alone."""
    if not folds or any(len(np.unique(positive[part])) < 2 for fold in folds for part in fold):
        raise DataError(
            f"a fold by {option} has rows of one class alone; ask for fewer folds with --cv."
        )
    return folds
