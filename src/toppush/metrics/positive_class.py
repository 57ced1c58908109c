"""Checks of labels and weights, and the rule that selects the positive class of two labels.

Of two numbers, of true and false, and of numbers written as strings the greater is positive; of
other strings the rarer, and of equally frequent ones the later in sorted order. Naming the class
overrides the rule. Rows are counted, not their weights.
"""

import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from toppush.types import Array, Mask

Label = TypeVar("Label")

GREATER = "the greater of two numbers"
RARER = "the rarer of two strings"
LATER = "the later of two equally frequent strings"
FLAGS = {"true": 1.0, "false": 0.0}
OUR_CALLERS = ("toppush", "sklearn")
"""Packages whose lines a warning does not point to."""
LEAST, MOST = 1e-100, 1e100
"""Limits of a weight above 0: beyond them sums overflow, or products are lost, without a sign."""


class PositiveClassWarning(UserWarning):
    """The positive class was chosen among strings by a rule; name it by `positive`.

    Examples
    --------
    >>> import warnings
    >>> from toppush import PositiveClassWarning, TopPush
    >>> X, y = [[0.0], [1.0], [3.0]], ["good", "good", "bad"]
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     by_rule = TopPush().fit(X, y)
    ...     named = TopPush(positive="bad").fit(X, y)
    ...
    >>> [warning.category is PositiveClassWarning for warning in caught]
    [True]
    >>> by_rule.positive_class_, named.positive_class_
    ('bad', 'bad')
    """


def of_two(labels: Iterable[Label], count: Callable[[Label], int]) -> tuple[Label, str]:
    """The positive one of two labels, and why; `count` returns how many rows have a label.

    >>> from toppush.metrics.positive_class import of_two
    >>> of_two(["good", "bad"], {"good": 90, "bad": 10}.__getitem__)
    ('bad', 'the rarer of two strings')
    """
    first, second = sorted(labels)  # type: ignore[type-var]
    if not isinstance(first, (str, bytes)):
        return second, GREATER
    numbers = as_number(first), as_number(second)
    if None not in numbers and numbers[0] != numbers[1]:
        return (first if numbers[0] > numbers[1] else second), GREATER  # type: ignore[operator]
    times = count(first), count(second)
    if times[0] == times[1]:
        return second, LATER
    return (first if times[0] < times[1] else second), RARER


def as_number(label: object) -> float | None:
    """A string that is true or false or reads as a number, as a number."""
    text = str(label)
    if text.lower() in FLAGS:
        return FLAGS[text.lower()]
    try:
        number = float(text)
    except ValueError:
        return None
    return number if number == number and text == text.strip() and "_" not in text else None


def choose(
    classes: Sequence[Label],
    count: Callable[[Label], int],
    named: object = None,
    *,
    option: str = "positive",
) -> Label:
    """The positive class of two: the named class, or by the rule.

    A choice among strings gives a `PositiveClassWarning`; `option` is the parameter that names the
    class.
    """
    refuse_blanks(classes)
    if named is not None:
        return require_one_of(classes, named, option)
    label, why = of_two(classes, count)
    if why != GREATER:
        other = next(each for each in classes if each != label)
        warnings.warn(
            f"{label!r} is taken as the positive class, which is ranked first: {count(label):,} "
            f"rows have it and {count(other):,} have {other!r}, and it is {why}. Pass "
            f"{option}={label!r} to confirm that, or {option}={other!r} to rank the other class "
            "first.",
            PositiveClassWarning,
            stacklevel=_level_of_the_user(),
        )
    return label


def refuse_blanks(labels: Iterable[object]) -> None:
    """Refuse labels that differ only by leading or trailing blanks."""
    strings = [label for label in labels if isinstance(label, str)]
    if len({label.strip() for label in strings}) < len(strings):
        shown = ", ".join(map(repr, strings[:10]))
        raise ValueError(f"of the labels {shown} some differ by blanks alone; strip them.")


def require_one_of(classes: Sequence[Label], named: object, option: str = "positive") -> Label:
    """The named class, as the label that equals it."""
    for label in classes:
        if label == named:
            return label
    raise ValueError(
        f"{option}={named!r} is none of the labels; they are {', '.join(map(repr, classes))}. "
        "Pass one of them."
    )


def _level_of_the_user() -> int:
    """Stack level, seen from the calling function, of the first frame outside of `OUR_CALLERS`."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] not in OUR_CALLERS:
            break
        level, frame = level + 1, frame.f_back
    return level


def final_step(estimator: Any) -> Any:
    """The last step of a pipeline, of the best one if it is a search."""
    estimator = getattr(estimator, "best_estimator_", estimator)
    return estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator


def classes_of(estimator: Any) -> list[Any] | None:
    """The classes that an estimator was fitted to, if it knows of classes."""
    classes = getattr(estimator, "classes_", None)
    return None if classes is None else np.asarray(classes).tolist()


def class_ranked_first(estimator: Any) -> Any:
    """The positive class of a ranker of this package; None of others, whose classes are sorted."""
    return getattr(final_step(estimator), "positive_class_", None)


def positive_label(
    y: ArrayLike, estimators: Iterable[Any] = (), named: object = None, *, option: str = "positive"
) -> Any:
    """The label of y to rank first when estimators are evaluated.

    The named class, else the class that a ranker of this package ranks first, else by the rule, for
    which the rows of y are counted. None if y is a mask of the positives and the estimators have
    other classes.
    """
    labels, estimators = np.asarray(y), list(estimators)
    fitted = [classes for one in estimators if (classes := classes_of(one)) is not None]
    known = fitted[0] if fitted else None
    candidates = np.unique(labels).tolist() if known is None else known
    if labels.dtype == bool and known is not None and not set(known) <= {False, True}:
        return None if named in (None, True) else require_one_of(known, named, option)
    if named is not None:
        return require_one_of(candidates, named, option)
    ours = [label for one in estimators if (label := class_ranked_first(one)) is not None]
    if any(one != ours[0] for one in ours):
        raise ValueError(
            f"the estimators rank different classes first, {', '.join(map(repr, ours))}; pass "
            f"{option}=."
        )
    if ours:
        return ours[0]
    if len(candidates) != 2:
        shown = ", ".join(map(repr, candidates[:10]))
        raise ValueError(
            f"the classes are {shown}; two are needed, or pass {option}= to name the positive one."
        )
    return choose(candidates, lambda label: int(np.count_nonzero(labels == label)), option=option)


def as_mask(y_true: ArrayLike) -> Mask:
    """Labels 0 and 1, or booleans, as a boolean mask; other labels are refused."""
    labels = np.asarray(y_true)
    if labels.dtype != bool and not np.isin(labels, (0, 1)).all():
        raise ValueError(
            f"y_true must say which rows are positive, got {labels[:3]!r} ...; "
            "pass a comparison such as y == 'spam'."
        )
    return labels.astype(bool)


def checked_weights(sample_weight: ArrayLike) -> Array:
    """Weights as float64; a weight that is neither 0 nor from 1e-100 to 1e100 is refused.

    >>> from toppush.metrics.positive_class import checked_weights
    >>> checked_weights([1, 0, 2.5])
    array([1. , 0. , 2.5])
    """
    weight = np.asarray(sample_weight, dtype=np.float64)
    accepted = usable(weight)
    if accepted.all():
        return weight
    wrong = float(weight[~accepted][0])
    if not 0.0 <= wrong < np.inf:
        raise ValueError(
            f"sample_weight must be finite and at least 0, found {wrong:g}; correct it or drop "
            "the row."
        )
    raise ValueError(
        f"sample_weight holds {wrong:g}, and a weight must be 0 or from {LEAST:g} to {MOST:g}; "
        "divide all weights by the greatest, and set to 0 what is next to nothing then."
    )


def usable(weight: Array) -> Mask:
    """Which weights are 0 or from `LEAST` to `MOST`."""
    return np.asarray((weight >= LEAST) & (weight <= MOST) | (weight == 0.0))
