"""Folds by class, group and time, and the rows and weights that they are made of."""

from collections.abc import Iterator, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold, check_cv
from sklearn.utils import column_or_1d
from sklearn.utils.validation import _check_sample_weight

from toppush.explain.contributions import evenly
from toppush.metrics.positive_class import checked_weights
from toppush.system.reading import DataError
from toppush.types import Array, Mask, Matrix, Where

if TYPE_CHECKING:
    from toppush.tables.rows import RoleValues

Fold = tuple[Where, Where]
"""Rows to train on, and held-out rows."""
Folds = list[Fold]
LEAST_FOLDS = 4
"""So that a single member still trains on three quarters of the rows."""


def weights_of(sample_weight: ArrayLike | None, X: Matrix) -> Array | None:
    """The validated weight of each row of X, with mean 1; None if there are no weights."""
    if sample_weight is None:
        return None
    return with_mean_one(checked_weights(_check_sample_weight(sample_weight, X, dtype=np.float64)))


def with_mean_one(weight: Array) -> Array:
    """Weights whose mean is 1, of those above 0.

    LightGBM and torch store weights in single precision, and a weighted ranking is as long as the
    sum of its weights: 1e9 for each of 120 rows would take 224 GiB.
    """
    if not weight.any():
        return weight
    shares = weight / weight.max()
    return np.asarray(shares / shares[shares > 0.0].mean())


def require_two_of_each(positive: Mask, classes: NDArray[Any]) -> None:
    """Refuse fewer than two rows of a class: one to train on, and one to hold out."""
    for count, label in ((int((~positive).sum()), classes[0]), (int(positive.sum()), classes[1])):
        if count < 2:
            raise ValueError(
                f"class {label} has {count} rows that weigh more than 0; trees need at least two "
                "of each class, to learn from one and stop by the other: add rows, or use TopPush."
            )


def require_both_in_each(folds: Folds, positive: Mask) -> None:
    """Refuse folds that train on, or hold out, rows of one class alone."""
    if not _all_have_both(folds, positive):
        raise ValueError(
            f"some of the {len(folds)} folds have rows of one class alone; give fewer with "
            "cv, or groups that both classes share."
        )


def _all_have_both(folds: Folds, positive: Mask) -> bool:
    return all(has_both(positive[part]) for fold in folds for part in fold)


def has_both(positive: Mask) -> bool:
    """Whether there are rows of both classes."""
    return bool(positive.any() and not positive.all())


# ---- folds of a fit


def make_folds(
    cv: Any,
    y: NDArray[Any],
    positive: Mask,
    counted: Where,
    rng: np.random.RandomState,
    n_folds: int = LEAST_FOLDS,
) -> Folds:
    """Folds as places among the rows that count: those of `cv`, or shuffled ones."""
    seed = rng.randint(2**31 - 1)
    if cv is not None:
        return split_folds(cv, y, counted)
    return shuffled_folds(positive[counted], n_folds, seed)


def shuffled_folds(positive: Mask, n_folds: int, seed: int) -> Folds:
    """Stratified folds, at least `LEAST_FOLDS`, at most as many as rows of the rarer class."""
    rarest = int(min(positive.sum(), (~positive).sum()))
    n_folds = min(max(n_folds, LEAST_FOLDS), rarest)
    split = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
    return list(split.split(positive, positive))


def shared_folds(
    cv: Any, positive: Mask, groups: NDArray[Any] | None, counted: Where, seed: int
) -> Folds:
    """Folds as places among the rows that count, each with rows of both classes.

    An int makes shuffled stratified folds of the rows that count, which keep groups together if
    there are any.
    """
    if isinstance(cv, Integral):
        of_rows = None if groups is None else groups[counted]
        folds = _stratified_folds(int(cv), positive[counted], of_rows, seed)
    else:
        folds = split_folds(cv, positive, counted, groups)
    require_both_in_each(folds, positive[counted])
    return folds


def _stratified_folds(
    n_folds: int, positive: Mask, groups: NDArray[Any] | None, seed: int
) -> Folds:
    n_folds = min(n_folds, int(min(positive.sum(), (~positive).sum())))
    if groups is None:
        split = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
        return list(split.split(positive, positive))
    n_groups = len(np.unique(groups))
    if n_groups < 2:
        raise ValueError("all rows are of one group, and folds need two; leave groups out.")
    split = StratifiedGroupKFold(min(n_folds, n_groups), shuffle=True, random_state=seed)
    return list(split.split(positive, positive, groups))


def split_folds(cv: Any, y: NDArray[Any], counted: Where, groups: ArrayLike | None = None) -> Folds:
    """Folds of all rows, as places among those that count."""
    parts = check_cv(cv, y, classifier=True).split(np.zeros(len(y)), y, groups)
    return [within(fold, counted) for fold in parts]


def groups_of(groups: ArrayLike) -> NDArray[Any]:
    """Groups that can be sorted; missing ones are one group."""
    groups = np.asarray(column_or_1d(groups))
    return groups.astype(str) if groups.dtype == object else groups


def within(fold: Fold, where: Where) -> Fold:
    """The part of a fold in a subset of the rows, as places in the subset."""
    place = np.full(max(int(part.max(initial=0)) for part in (*fold, where)) + 1, -1)
    place[where] = np.arange(len(where))
    train, held = (place[part] for part in fold)
    return train[train >= 0], held[held >= 0]


def some_rows(positive: Mask, most: int, of_each_class: int = 1_000) -> Where:
    """At most that many rows, at even steps of each class, but `of_each_class` if there are."""
    share = min(1.0, most / len(positive))
    classes = np.flatnonzero(positive), np.flatnonzero(~positive)
    taken = [evenly(rows, max(round(share * len(rows)), of_each_class)) for rows in classes]
    return np.sort(np.concatenate(taken))


# ---- choosing and evaluating a setting on different folds


class Turn(NamedTuple):
    """Held-out rows on which a setting is chosen, and others on which it is evaluated."""

    fold: int
    choosing: Where
    judged: Where


def in_turn(folds: Sequence[Fold], positive: Mask) -> Iterator[Turn]:
    """For each fold, the rows that other folds hold out, and its own held-out rows.

    A choice evaluated on the rows that made it is optimistic: on pure noise, average precision by
    a tenth (benchmarks/noise_leaderboard.py). Halves of a single fold choose for each other.
    """
    is_held = np.zeros(len(positive), bool)
    is_held[np.concatenate([held for _, held in folds])] = True
    for number, (_, held) in enumerate(folds):
        others = is_held.copy()
        others[held] = False
        choosing = np.flatnonzero(others)
        if has_both(positive[choosing]):
            yield Turn(number, choosing, held)
        else:
            first, second = _halves(held, positive)
            yield Turn(number, first, second)
            yield Turn(number, second, first)


def _halves(rows: Where, positive: Mask) -> tuple[Where, Where]:
    """Every other row of each class; all rows twice if a half would lack a class."""
    sides = rows[positive[rows]], rows[~positive[rows]]
    first, second = (np.sort(np.concatenate([side[at::2] for side in sides])) for at in (0, 1))
    if has_both(positive[first]) and has_both(positive[second]):
        return first, second
    return rows, rows


def nested(folds: Sequence[Fold], turn: Turn, positive: Mask) -> Folds:
    """Folds of the rows that choose in a turn, which do not train on the rows that it evaluates.

    A fold that would train on one class alone keeps its training rows, as each of two folds does.
    """
    inner = []
    for train, held in folds:
        choosing, others = np.intersect1d(held, turn.choosing), np.setdiff1d(train, turn.judged)
        if len(choosing):
            inner.append((others if has_both(positive[others]) else train, choosing))
    return inner


# ---- folds of rows of a file


def folds_by_role(positive: Mask, held: "RoleValues", n_folds: int, seed: int) -> Folds:
    """Folds by the group or the time column if there is one, else stratified by class."""
    if held.groups is not None and held.time is not None:
        raise DataError("groups and times make different folds; give one of --groups and --time.")
    if held.groups is not None:
        n_groups = len(np.unique(held.groups))
        if n_groups < n_folds:
            less = "ask for fewer with --cv" if n_groups > 1 else "leave --groups out"
            raise DataError(f"{n_folds} folds, and --groups has {n_groups} groups; {less}.")
        by_group = StratifiedGroupKFold(n_folds, shuffle=True, random_state=seed)
        folds, option = list(by_group.split(positive, positive, held.groups)), "--groups"
    elif held.time is not None:
        folds, option = folds_by_time(positive, held.time, n_folds), "--time"
    else:
        by_class = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
        return list(by_class.split(positive, positive))
    if not folds or not _all_have_both(folds, positive):
        raise DataError(
            f"a fold by {option} has rows of one class alone; ask for fewer folds with --cv."
        )
    return folds


def folds_by_time(positive: Mask, time: Array, n_folds: int) -> Folds:
    """Fold i trains on all rows before the i-th cut, and holds out those up to the next.

    The cuts divide the positives into equal counts, as far as rows of the same time stay together;
    rows before the first cut are never held out.
    """
    shares = np.arange(1, n_folds + 1) / (n_folds + 1)
    cuts = np.quantile(time[positive], shares, method="higher")
    stage = np.searchsorted(np.unique(cuts), time, side="right")
    return [
        (np.flatnonzero(stage < number), np.flatnonzero(stage == number))
        for number in range(1, int(stage.max(initial=0)) + 1)
    ]
