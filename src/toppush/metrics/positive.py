"""Which of two labels is the positive class: one rule, in Python and at the command line.

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

from toppush.types import Mask

Label = TypeVar("Label")

GREATER = "the greater of two numbers"
RARER = "the rarer of two strings"
LATER = "the later of two equally frequent strings"
FLAGS = {"true": 1.0, "false": 0.0}
OUR_CALLERS = ("toppush", "sklearn")
"""Packages whose lines a warning does not point to."""


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
    """The positive one of two labels, and why; `count` tells how many rows have a string.

    >>> from toppush.metrics.positive import of_two
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
    """The positive one of two classes: the one named, or by the rule.

    A choice among strings is reported by `PositiveClassWarning`; `option` is what names the class.
    """
    refuse_blanks(classes)
    if named is not None:
        return require_one_of(classes, named, option)
    label, why = of_two(classes, count)
    if why != GREATER:
        other = next(one for one in classes if one != label)
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
    """Refuse labels that are the same but for the blanks around them."""
    strings = [label for label in labels if isinstance(label, str)]
    if len({label.strip() for label in strings}) < len(strings):
        shown = ", ".join(map(repr, strings[:10]))
        raise ValueError(f"of the labels {shown} some differ by blanks alone; strip them.")


def require_one_of(classes: Sequence[Label], named: object, option: str = "positive") -> Label:
    """The class that is named, as it is among the labels."""
    for label in classes:
        if label == named:
            return label
    raise ValueError(
        f"{option}={named!r} is none of the labels; they are {', '.join(map(repr, classes))}. "
        "Pass one of them."
    )


def _level_of_the_user() -> int:
    """Which caller of the function that asks is the first outside of the packages that fit."""
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
    """The label of y to rank first, when some estimators are judged by it.

    The one named, else the class that a ranker of this package ranks first, else by the rule, for
    which the rows of y are counted. None if y itself tells which rows are positive, by booleans,
    and the estimators have other classes.
    """
    labels, estimators = np.asarray(y), list(estimators)
    known = next((found for one in estimators if (found := classes_of(one)) is not None), None)
    candidates = np.unique(labels).tolist() if known is None else known
    if labels.dtype == bool and known is not None and not set(known) <= {False, True}:
        return None if named in (None, True) else require_one_of(known, named, option)
    if named is not None:
        return require_one_of(candidates, named, option)
    ours = [found for one in estimators if (found := class_ranked_first(one)) is not None]
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
    """Labels that say which rows are positive, as booleans; strings and other codes are refused."""
    labels = np.asarray(y_true)
    if labels.dtype != bool and not np.isin(labels, (0, 1)).all():
        raise ValueError(
            f"y_true must say which rows are positive, got {labels[:3]!r} ...; "
            "pass a comparison such as y == 'spam'."
        )
    return labels.astype(bool)
