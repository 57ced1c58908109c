"""Metrics as scorers of scikit-learn that know which class an estimator ranks first."""

from collections.abc import Mapping
from typing import Any, Self

from sklearn.metrics import make_scorer

from toppush.metrics.positive import GREATER, class_ranked_first, classes_of, of_two
from toppush.metrics.ranking import Metric
from toppush.types import Labels, Matrix

__all__ = ["RankingScorer"]

RESPONSES = ("decision_function", "predict_proba")


class RankingScorer:
    """What `toppush.metrics.scorer` returns: called with a fitted estimator, rows and labels.

    Examples
    --------
    >>> from sklearn.model_selection import cross_val_score
    >>> from toppush import TopPush
    >>> from toppush.metrics import scorer
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]] * 10, ["good", "good", "good", "bad"] * 10
    >>> found = cross_val_score(TopPush(positive="bad"), X, y, scoring=scorer("average_precision"))
    >>> found.tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0]
    """

    def __init__(self, metric: Metric, params: Mapping[str, Any]) -> None:
        self.metric, self.params = metric, dict(params)
        self._requests = self._made()

    def __call__(self, estimator: Any, X: Matrix, y: Labels, **more: Any) -> float:
        """The metric of the list in which the estimator puts the rows of X."""
        named = {} if "pos_label" in self.params else _pos_label(estimator)
        return float(self._made(**named)(estimator, X, y, **more))

    def __repr__(self) -> str:
        more = "".join(f", {name}={value!r}" for name, value in self.params.items())
        return f"scorer({self.metric.of.__name__!r}{more})"

    def set_score_request(self, **requests: Any) -> Self:
        """Which metadata a scikit-learn tool is to pass on, such as ``sample_weight=True``."""
        self._requests.set_score_request(**requests)
        return self

    def get_metadata_routing(self) -> Any:
        """Which metadata it asks for."""
        return self._requests.get_metadata_routing()

    def _made(self, **named: Any) -> Any:
        better = not self.metric.is_loss
        return make_scorer(
            self.metric,
            response_method=RESPONSES,
            greater_is_better=better,
            **self.params,
            **named,
        )


def _pos_label(estimator: Any) -> dict[str, Any]:
    """The class that an estimator of two classes ranks first."""
    if (ours := class_ranked_first(estimator)) is not None:
        return {"pos_label": ours}
    classes = classes_of(estimator)
    if classes is None or len(classes) != 2:
        return {}  # the metric says what is wrong
    label, why = of_two(classes, lambda label: 0)
    if why != GREATER:
        raise ValueError(
            f"the classes are {classes[0]!r} and {classes[1]!r}, and {type(estimator).__name__} "
            "does not say which is positive; pass pos_label to scorer()."
        )
    return {"pos_label": label}
