"""Scores of fitted estimators, and metrics as scorers of scikit-learn."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, is_classifier
from sklearn.metrics import make_scorer

from toppush.metrics.positive_class import GREATER, class_ranked_first, classes_of, of_two
from toppush.metrics.ranking import Metric
from toppush.types import Array, Labels, Mask, Matrix

METHODS = ("decision_function", "predict_proba")
"""Methods that give scores, in order of preference; regressors and rankers have `predict`."""


class RankingScorer:
    """What `toppush.metrics.scorer` returns: called with a fitted estimator, rows and labels.

    The positive class is the one that the estimator ranks first, unless `pos_label` is among the
    parameters.

    Examples
    --------
    >>> from sklearn.model_selection import cross_val_score
    >>> from toppush import TopPush
    >>> from toppush.metrics import scorer
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]] * 10, ["good", "good", "good", "bad"] * 10
    >>> scores = cross_val_score(TopPush(positive="bad"), X, y, scoring=scorer("average_precision"))
    >>> scores.tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0]
    """

    def __init__(self, metric: Metric, params: Mapping[str, Any]) -> None:
        self.metric, self.params = metric, dict(params)
        self._requests = self._scorer()

    def __call__(self, estimator: Any, X: Matrix, y: Labels, **more: Any) -> float:
        """The metric of the rows of X, ranked by the estimator."""
        label = {} if "pos_label" in self.params else _pos_label(estimator)
        return float(self._scorer(**label)(estimator, X, y, **more))

    def __repr__(self) -> str:
        more = "".join(f", {name}={value!r}" for name, value in self.params.items())
        return f"scorer({self.metric.of.__name__!r}{more})"

    def set_score_request(self, **requests: Any) -> Self:
        """Set which metadata scikit-learn passes on, such as ``sample_weight=True``."""
        self._requests.set_score_request(**requests)
        return self

    def get_metadata_routing(self) -> Any:
        """The metadata that is requested."""
        return self._requests.get_metadata_routing()

    def _scorer(self, **label: Any) -> Any:
        better = not self.metric.is_loss
        return make_scorer(
            self.metric, response_method=METHODS, greater_is_better=better, **self.params, **label
        )


def _pos_label(estimator: Any) -> dict[str, Any]:
    """The class that an estimator of two classes ranks first, as the parameter of a metric."""
    if (ours := class_ranked_first(estimator)) is not None:
        return {"pos_label": ours}
    classes = classes_of(estimator)
    if classes is None or len(classes) != 2:
        return {}  # the metric reports the error
    label, why = of_two(classes, lambda label: 0)
    if why != GREATER:
        raise ValueError(
            f"the classes are {classes[0]!r} and {classes[1]!r}, and {type(estimator).__name__} "
            "does not say which is positive; pass pos_label to scorer()."
        )
    return {"pos_label": label}


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

    Examples
    --------
    >>> from toppush.metrics.scoring import scores_of
    >>> from sklearn.linear_model import LogisticRegression
    >>> fitted = LogisticRegression().fit([[0.0], [1.0], [2.0], [3.0]], list("aabb"))
    >>> bool((scores_of(fitted, [[1.0]]) == -scores_of(fitted, [[1.0]], positive="a")).all())
    True
    """
    classes = classes_of(estimator)
    for method in METHODS:
        if hasattr(estimator, method):
            outputs = np.asarray(getattr(estimator, method)(X), np.float64)
            return outputs if classes is None else _of_class(outputs, classes, positive)
    if classes is not None or not hasattr(estimator, "predict"):
        raise ValueError(
            f"{type(estimator).__name__} gives no scores: it has neither decision_function nor "
            "predict_proba; calibrate it, or use another estimator."
        )
    return np.asarray(estimator.predict(X), np.float64)


def gives_scores(estimator: Any) -> bool:
    """Whether `scores_of` accepts an estimator once it is fitted, as far as its type shows."""
    if any(hasattr(estimator, method) for method in METHODS):
        return True
    is_known = isinstance(estimator, BaseEstimator)
    return hasattr(estimator, "predict") and not (is_known and is_classifier(estimator))


def _of_class(outputs: Array, classes: list[Any], positive: object) -> Array:
    """The outputs for one class, from a vector or from a column for each class."""
    if positive is None and len(classes) == 2:
        place = 1
    elif positive in classes:
        place = classes.index(positive)
    else:
        wrong = "name the positive one" if positive is None else f"{positive!r} is none of them"
        raise ValueError(f"the classes are {', '.join(map(repr, classes))}; {wrong}.")
    if outputs.ndim == 1 and len(classes) == 2:
        return outputs if place else -outputs
    if outputs.ndim != 2 or outputs.shape[1] != len(classes):
        raise ValueError(
            f"the scores have shape {outputs.shape} for {len(classes)} classes; one for each row "
            "and class is needed."
        )
    return outputs[:, place]


def positives_of(estimator: Any, y: ArrayLike, positive: object) -> Mask:
    """Mask of the labels of the positive class, as `positive_label` chose it.

    Booleans are that mask already if they are not the estimator's classes.
    """
    labels = np.asarray(y)
    if labels.dtype == bool and not isinstance(positive, (bool, np.bool_, int)):
        return labels
    classes = classes_of(estimator) or np.unique(labels).tolist()
    if strange := set(np.unique(labels).tolist()) - set(classes):
        raise ValueError(f"y holds {min(strange, key=repr)!r}, which is none of {classes!r}.")
    return np.asarray(labels == positive)
