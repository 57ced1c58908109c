"""Scores of rows from whatever was fitted: ours, scikit-learn's, or anything that acts like it."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, is_classifier

from toppush.metrics.positive import classes_of
from toppush.types import Array, Mask, Matrix

METHODS = ("decision_function", "predict_proba")
"""What is asked for scores, the first that there is; of regressors and rankers, `predict`."""


def scores_of(estimator: Any, X: Matrix, positive: object = None) -> Array:
    """Scores of rows by a fitted estimator or pipeline, the highest for the positive class.

    They are its `decision_function`, else its `predict_proba` of the positive class, else what a
    regressor or a ranker predicts.

    Parameters
    ----------
    estimator : fitted estimator, pipeline or search
    X : array, sparse matrix or data frame, as it was fitted on
    positive : optional
        The class to rank first; the second of two by default.

    Returns
    -------
    array of shape (n_rows,)

    Examples
    --------
    >>> from toppush.explain.scores import scores_of
    >>> from sklearn.linear_model import LogisticRegression
    >>> fitted = LogisticRegression().fit([[0.0], [1.0], [2.0], [3.0]], list("aabb"))
    >>> bool((scores_of(fitted, [[1.0]]) == -scores_of(fitted, [[1.0]], positive="a")).all())
    True
    """
    classes = classes_of(estimator)
    for method in METHODS:
        if hasattr(estimator, method):
            answers = np.asarray(getattr(estimator, method)(X), np.float64)
            return answers if classes is None else _of_class(answers, classes, positive)
    if classes is not None or not hasattr(estimator, "predict"):
        raise ValueError(
            f"{type(estimator).__name__} gives no scores: it has neither decision_function nor "
            "predict_proba; calibrate it, or take another."
        )
    return np.asarray(estimator.predict(X), np.float64)


def gives_scores(estimator: Any) -> bool:
    """Whether an estimator gives scores once it is fitted, as far as its type tells."""
    if any(hasattr(estimator, method) for method in METHODS):
        return True
    is_known = isinstance(estimator, BaseEstimator)
    return hasattr(estimator, "predict") and not (is_known and is_classifier(estimator))


def _of_class(answers: Array, classes: list[Any], positive: object) -> Array:
    """The answers for one class, from one column of them or from one for each."""
    place = _place(classes, positive)
    if answers.ndim == 1 and len(classes) == 2:
        return answers if place else -answers
    if answers.ndim != 2 or answers.shape[1] != len(classes):
        raise ValueError(
            f"the answers have shape {answers.shape} for {len(classes)} classes; one for each row "
            "and class is needed."
        )
    return answers[:, place]


def _place(classes: list[Any], positive: object) -> int:
    if positive is None and len(classes) == 2:
        return 1
    if positive in classes:
        return classes.index(positive)
    wrong = "name the positive one" if positive is None else f"{positive!r} is none of them"
    raise ValueError(f"the classes are {', '.join(map(repr, classes))}; {wrong}.")


def positives_of(estimator: Any, y: ArrayLike, positive: object) -> Mask:
    """Which labels are of the positive class, as `positive_label` found it.

    Booleans say it themselves if they are not the estimator's classes.
    """
    labels = np.asarray(y)
    if labels.dtype == bool and not isinstance(positive, (bool, np.bool_, int)):
        return labels
    classes = classes_of(estimator) or np.unique(labels).tolist()
    if strange := set(np.unique(labels).tolist()) - set(classes):
        raise ValueError(f"y holds {min(strange, key=repr)!r}, which is none of {classes!r}.")
    return np.asarray(labels == positive)
