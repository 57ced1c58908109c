"""Measures of `toppush.metrics` as LightGBM and XGBoost take them, for early stopping.

Both are given raw scores by an engine that trains on an objective of ours.
"""

import inspect
from typing import Any

import numpy as np

from toppush.metrics.ranking import named
from toppush.objectives.asking import Asked, asked_about, team_here
from toppush.objectives.teams import ALONE, Team, of_xgboost


class EngineMetric:
    """A measure of `toppush.metrics.METRICS`, asked as an engine asks; it can be pickled.

    Parameters
    ----------
    name : str
        Name of the measure, such as "average_precision" or "positives_at_top".
    **parameters
        Of that measure, such as ``max_fpr=0.01``.
    """

    def __init__(self, name: str, **parameters: float) -> None:
        found = named(name)
        try:
            inspect.signature(found).bind(None, None, **parameters)
        except TypeError as error:
            raise TypeError(f"{name}: {error}; pass the parameters of {name}.") from None
        self.parameters = parameters
        self.__name__ = name
        self.maximize = not found.is_loss

    def measure(self, asked: Asked) -> float:
        """The measure of a list."""
        labels, scores, weight = asked
        return named(self.__name__)(labels, scores, sample_weight=weight, **self.parameters)


class LightGBMMetric(EngineMetric):
    """``feval`` of ``lightgbm.train``, ``eval_metric`` of ``LGBMClassifier.fit``.

    Examples
    --------
    >>> import lightgbm
    >>> import numpy as np
    >>> from toppush.objectives import LightGBMMetric, TopPushObjective
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(300, 3)), np.arange(300) < 60
    >>> X[y] += 1.0
    >>> params = {"objective": TopPushObjective(), "verbose": -1, "num_threads": 1}
    >>> rows, seen = lightgbm.Dataset(X, y), {}
    >>> booster = lightgbm.train(
    ...     params,
    ...     rows,
    ...     20,
    ...     valid_sets=[rows],
    ...     feval=LightGBMMetric("average_precision"),
    ...     callbacks=[lightgbm.record_evaluation(seen)],
    ... )
    >>> len(seen["training"]["average_precision"])
    20
    """

    def __call__(self, first: Any, second: Any, weight: Any = None) -> tuple[str, float, bool]:
        """Name, value, and whether more is better."""
        return self.__name__, self.measure(asked_about(first, second, weight)), self.maximize


class XGBoostMetric(EngineMetric):
    """``custom_metric`` of ``xgboost.train``, ``eval_metric`` of ``XGBClassifier``.

    XGBoost takes less for better unless told: stop by `early_stopping`, or pass
    ``maximize=True``. On several workers it would average their measures; here each first sends
    its scores to all, and all measure the whole list.

    Examples
    --------
    >>> import numpy as np
    >>> from toppush.objectives import XGBoostMetric
    >>> measure = XGBoostMetric("recall_at_fpr", max_fpr=0.4)
    >>> measure(np.array([0, 1, 0, 1]), np.array([0.1, 0.9, 0.5, 0.4]))
    0.5
    """

    def __call__(self, first: Any, second: Any, sample_weight: Any = None) -> Any:
        """Name and value, or the value alone where labels and scores are given."""
        team = team_here()
        with team.together():
            asked = asked_about(first, second, sample_weight)
        value = self.measure(whole_list(asked, team))
        return (self.__name__, value) if hasattr(second, "get_label") else value

    def early_stopping(self, rounds: int, **options: Any) -> Any:
        """XGBoost's callback that stops by this measure, with the best rounds kept."""
        given = {"save_best": True, "metric_name": self.__name__, "maximize": self.maximize}
        return of_xgboost("callback").EarlyStopping(rounds=rounds, **{**given, **options})


def whole_list(asked: Asked, team: Team) -> Asked:
    """The rows of all workers, in the order of the workers."""
    if team is ALONE:
        return asked
    weight = np.ones(len(asked.scores)) if asked.weight is None else asked.weight
    mine = np.stack([asked.labels, asked.scores, weight]).astype(np.float64)
    labels, scores, weight = team.gather(mine)
    return Asked(labels, scores, weight)
