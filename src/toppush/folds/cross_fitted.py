"""Folds that the members of an ensemble leave out in turn, and what is asked of their rows."""

from collections.abc import Callable, Iterator, Sequence
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import StratifiedKFold, check_cv
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight

from toppush.metrics.labels import checked_weights
from toppush.problem.objective import count_top
from toppush.types import Array, Mask, Matrix, Where

Fold = tuple[Where, Where]
"""Rows to learn from, and rows that are held out."""
LEAST_FOLDS = 4
"""So that a single member still sees three quarters of the rows."""


def given_folds(cv: Any, y: NDArray[Any], counted: Where) -> list[Fold] | None:
    """Folds that were asked for, as places among the rows that count; None if none were."""
    return None if cv is None else split_folds(cv, y, counted)


def split_folds(
    cv: Any, y: NDArray[Any], counted: Where, groups: ArrayLike | None = None
) -> list[Fold]:
    """Folds of all rows, as places among those that count."""
    place = np.full(len(y), -1)
    place[counted] = np.arange(len(counted))
    parts = check_cv(cv, y, classifier=True).split(np.zeros(len(y)), y, groups)
    return [(_present(place[train]), _present(place[held])) for train, held in parts]


def _present(places: Where) -> Where:
    return places[places >= 0]


def drawn_folds(positive: Mask, n_members: int, rng: np.random.RandomState) -> list[Fold]:
    """As many folds as members, each with rows of both classes."""
    rarest = int(min(positive.sum(), (~positive).sum()))
    n_folds = min(max(n_members, LEAST_FOLDS), rarest)
    split = StratifiedKFold(n_folds, shuffle=True, random_state=rng.randint(2**31 - 1))
    return list(split.split(positive, positive))


def weights_of(sample_weight: ArrayLike | None, X: Matrix) -> Array | None:
    """A weight for each row of X, whose mean is 1, or a refusal; None if there are none."""
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
    """Each member holds rows of both classes out, and sees rows of both."""
    for count, label in ((int((~positive).sum()), classes[0]), (int(positive.sum()), classes[1])):
        if count < 2:
            raise ValueError(
                f"class {label} has {count} rows that weigh more than 0; trees need at least two "
                "of each class, to learn from one and stop by the other: add rows, or use TopPush."
            )


def require_both_in_each(folds: list[Fold], positive: Mask) -> None:
    """Refuse folds that learn from, or hold out, rows of one class alone."""
    if not all(
        positive[part].any() and not positive[part].all() for fold in folds for part in fold
    ):
        raise ValueError(
            f"some of the {len(folds)} folds have rows of one class alone; give fewer with "
            "cv, or groups that both classes share."
        )


def top_mean(scores: Array, top: float) -> float:
    """Mean of the greatest of the scores that are known, as many as make the top."""
    known = scores[~np.isnan(scores)]
    k = min(int(top), len(known)) if isinstance(top, Integral) else count_top(top, len(known))
    return float(np.mean(np.partition(known, len(known) - k)[len(known) - k :]))


def folds_of(
    cv: Any, y: NDArray[Any], positive: Mask, counted: Where, random_state: Any
) -> list[Fold]:
    """Folds of the rows that count, by number: those that were asked for, or four."""
    given = given_folds(cv, y, counted)
    rng = check_random_state(random_state)
    folds = drawn_folds(positive[counted], 1, rng) if given is None else given
    return [(counted[train], counted[held]) for train, held in folds]


def within(fold: Fold, where: Where) -> Fold:
    """A fold's rows among some rows, by their places there."""
    place = np.full(max(int(part.max(initial=0)) for part in (*fold, where)) + 1, -1)
    place[where] = np.arange(len(where))
    return _present(place[fold[0]]), _present(place[fold[1]])


def some_rows(positive: Mask, most: int, of_each_class: int = 1_000) -> Where:
    """At most so many rows, evenly taken from each class, but of each class some if there are."""
    share = min(1.0, most / len(positive))
    classes = np.flatnonzero(positive), np.flatnonzero(~positive)
    return np.sort(np.concatenate([_evenly(rows, share, of_each_class) for rows in classes]))


def _evenly(where: Where, share: float, at_least: int) -> Where:
    """A share of some rows, but so many if there are, at even steps."""
    n_taken = min(len(where), max(round(share * len(where)), at_least))
    return where[np.linspace(0, len(where) - 1, n_taken).astype(np.intp)] if n_taken else where


Part = tuple[Where, Array]
"""Rows, and their scores by a fit that left them out."""


def joined(parts: Sequence[Part], n_rows: int, units: Sequence[Part] | None = None) -> Array:
    """Scores of held-out rows by several fits as one ranking, NaN where no fit left a row out.

    Fits differ in the location and the scale of their scores, so each part is given the same mean
    and standard deviation, or what gives these to the part in `units` by the same fit. No labels
    are used: those of a fold would improve its own ranking.
    """
    known = parts if units is None else units
    means, spreads = ([float(of(scores)) for _, scores in known] for of in (np.mean, np.std))
    total, times = np.zeros(n_rows), np.zeros(n_rows)
    for (held, scores), mean, spread in zip(parts, means, spreads, strict=True):
        total[held] += (scores - mean) * (np.mean(spreads) / (spread or 1.0))
        times[held] += 1
    with np.errstate(invalid="ignore"):
        return np.asarray(total / times + np.mean(means))


def in_order(values: Array, scores: Array) -> Array:
    """The values, as they are distributed, in the order of the scores; equal where these are equal.

    A choice made without the rows that it judges sets their order; fits by the final choice give
    new rows their distribution.
    """
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    middle = (np.cumsum(counts) - counts / 2.0) * len(values) / len(scores) - 0.5
    return np.asarray(np.interp(middle, np.arange(len(values)), np.sort(values))[place])


def in_unit(scores: Array, source: Array, target: Array) -> Array:
    """Scores shifted and scaled so that `source` gets the mean and the spread of `target`.

    Both score the same rows, NaN where a score is unknown.
    """
    known = ~(np.isnan(source) | np.isnan(target))
    ratio = float(np.std(target[known])) / (float(np.std(source[known])) or 1.0)
    return np.asarray((scores - source[known].mean()) * ratio + target[known].mean())


class Turn(NamedTuple):
    """Held-out rows on which a setting is chosen, and others on which it is judged."""

    fold: int
    choosing: Where
    judged: Where


def in_turn(folds: Sequence[Fold], positive: Mask) -> Iterator[Turn]:
    """For each fold, the rows that other folds hold out, and those that it holds out itself.

    A choice judged on the rows that made it looks better than it is: on pure noise, average
    precision by a tenth (benchmarks/noise_leaderboard.py). Halves of a single fold choose for each
    other.
    """
    is_held = np.zeros(len(positive), bool)
    is_held[np.concatenate([held for _, held in folds])] = True
    for number, (_, held) in enumerate(folds):
        others = is_held.copy()
        others[held] = False
        choosing = np.flatnonzero(others)
        if _has_both(positive[choosing]):
            yield Turn(number, choosing, held)
        else:
            first, second = _halves(held, positive)
            yield Turn(number, first, second)
            yield Turn(number, second, first)


def nested(folds: Sequence[Fold], turn: Turn, positive: Mask) -> list[Fold]:
    """Folds of the rows that choose in a turn, which do not learn from the rows that it judges.

    A fold that would learn from one class alone keeps its training rows, as each of two folds does.
    """
    inner = []
    for train, held in folds:
        choosing, others = np.intersect1d(held, turn.choosing), np.setdiff1d(train, turn.judged)
        if len(choosing):
            inner.append((others if _has_both(positive[others]) else train, choosing))
    return inner


def _halves(rows: Where, positive: Mask) -> tuple[Where, Where]:
    """Every other row of each class; all rows twice if a half would lack a class."""
    sides = rows[positive[rows]], rows[~positive[rows]]
    halves = [np.sort(np.concatenate([side[at::2] for side in sides])) for at in (0, 1)]
    return (
        (halves[0], halves[1]) if all(_has_both(positive[one]) for one in halves) else (rows, rows)
    )


def _has_both(positive: Mask) -> bool:
    return bool(positive.any() and not positive.all())


def scored_in_turn(folds: Sequence[Fold], positive: Mask, score: Callable[[Turn], Array]) -> Array:
    """Scores of all held-out rows, those of each turn by the setting that it chose; else NaN."""
    total, times = np.zeros(len(positive)), np.zeros(len(positive))
    for turn in in_turn(folds, positive):
        total[turn.judged] += score(turn)
        times[turn.judged] += 1
    with np.errstate(invalid="ignore"):
        return np.asarray(total / times)
