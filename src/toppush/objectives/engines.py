"""The pairwise loss as an objective, and metrics for early stopping, in LightGBM and XGBoost.

The engines call an objective or a metric f in four ways:

- ``lightgbm.train``, ``xgboost.train``: f(scores, data), data a Dataset or DMatrix
- ``LGBMClassifier``: f(labels, scores, weight), if f has three parameters; weight may be None
- ``XGBClassifier``: f(labels, scores), with ``sample_weight=`` if rows have weights
"""

import inspect
import sys
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toppush.metrics.ranking import named
from toppush.objectives.grid import pairwise_gradients
from toppush.objectives.pairs import LabelledRows, label_rows
from toppush.objectives.workers import SINGLE, Workers, of_xgboost, xgboost_workers

LIGHTGBM_PARAMS: dict[str, Any] = {
    "learning_rate": 0.1,
    "num_leaves": 15,
    "min_sum_hessian_in_leaf": 1e-3,
}
"""Suggested parameters for LightGBM. The second derivatives of all rows sum to at most half the
positives' weight, so the minimum per leaf must be small.

>>> from toppush.objectives import LIGHTGBM_PARAMS, TopPushObjective
>>> params = {**LIGHTGBM_PARAMS, "objective": TopPushObjective(), "num_leaves": 7}
>>> params["learning_rate"]
0.1
"""
XGBOOST_PARAMS: dict[str, Any] = {
    "learning_rate": 0.1,
    "max_leaves": 15,
    "max_depth": 0,
    "grow_policy": "lossguide",
    "min_child_weight": 0.1,
    "base_score": 0.5,
    "disable_default_eval_metric": True,
}
"""Suggested parameters for XGBoost: trees as LightGBM grows them. The default of 1 for
`min_child_weight` is too large where positives are few; any base score would do.

>>> from toppush.objectives import XGBOOST_PARAMS
>>> XGBOOST_PARAMS["grow_policy"]
'lossguide'
"""


class EngineCall(NamedTuple):
    """The labels, scores and weights that an engine passes."""

    labels: NDArray[Any]
    scores: NDArray[np.floating]
    weight: NDArray[Any] | None


def read_call(first: Any, second: Any, weight: Any) -> EngineCall:
    """Read one of the four ways of calling; each row must have one score and one label."""
    if hasattr(second, "get_label"):
        scores, labels, weight = first, second.get_label(), second.get_weight()
    else:
        labels, scores = first, second
    labels, scores = np.asarray(labels), np.asarray(scores)
    if scores.shape != labels.shape or scores.ndim != 1:
        raise ValueError(
            f"There are scores of shape {scores.shape} for labels of shape {labels.shape}; the "
            "objective needs one score for each row, so do not set num_class or several targets."
        )
    none = weight is None or np.size(weight) == 0
    return EngineCall(labels, scores, None if none else np.asarray(weight))


def current_workers() -> Workers:
    """The workers of the XGBoost training that this process is part of, if any."""
    return xgboost_workers() if "xgboost" in sys.modules else SINGLE


def refuse_several_machines() -> None:
    """Refuse LightGBM on several machines, where each objective sees only its machine's rows.

    LightGBM does not pass this to objectives, so the calling Booster is found on the stack.
    """
    booster = _calling_booster(inspect.currentframe())
    if not getattr(booster, "_network", False):
        return
    if (n_machines := int(booster.params.get("num_machines", 2))) > 1:
        raise ValueError(
            f"LightGBM trains on {n_machines} machines, and this objective would see each one's "
            "rows alone; train on one machine, or with xgboost.dask."
        )


def _calling_booster(frame: FrameType | None) -> Any:
    """The LightGBM Booster whose update is running, if any."""
    booster = getattr(sys.modules.get("lightgbm"), "Booster", ())
    while frame is not None:
        if isinstance(caller := frame.f_locals.get("self"), booster):
            return caller
        frame = frame.f_back
    return None


class TopPushObjective:
    """Pairwise loss against a smoothed top, for gradient boosting.

    sum_i c_i sum_j p_j log(1 + exp(f_j - f_i)) over positives i and negatives j, where p_j is the
    share of a negative in the top: see `toppush.objectives.pairs`. The same object
    is ``params["objective"]`` of ``lightgbm.train``, ``obj`` of ``xgboost.train`` and
    ``xgboost.dask.train``, and ``objective`` of ``LGBMClassifier`` and ``XGBClassifier``. Labels
    are 0 and 1, or -1 and +1; sample weights count. It can be pickled and cloned.

    Scores are raw margins; only their differences count. `LIGHTGBM_PARAMS` and `XGBOOST_PARAMS`
    are suggested parameters of the engines. Time per round: a few passes over the rows.

    Parameters
    ----------
    top : int or float, default=0.1
        Depth of the top: a count of negatives, or a share of them. 1 is the highest negative
        alone; 1.0 counts all negatives equally, which is RankNet.
    smoothing : float, default=0.5
        How far below the level of the top, in scores, a negative still counts.

    Examples
    --------
    >>> from toppush.objectives import TopPushObjective
    >>> import numpy as np
    >>> objective = TopPushObjective(top=1)
    >>> gradient, hessian = objective(np.array([0, 1, 0, 1]), np.zeros(4))  # labels, scores
    >>> gradient
    array([ 0.5, -0.5,  0.5, -0.5])
    """

    def __init__(self, top: float = 0.1, smoothing: float = 0.5) -> None:
        if not (top > 0 and (isinstance(top, int | np.integer) or top <= 1)):
            raise ValueError(
                f"top={top!r} is out of range; give a count of negatives from 1, or a share "
                "above 0 and at most 1.0."
            )
        if not 0 < smoothing < np.inf:
            raise ValueError(f"smoothing={smoothing!r} must be above 0 and finite.")
        self.top, self.smoothing = top, smoothing
        self._last: tuple[Any, Any, LabelledRows] | None = None  # labels, weight, and their rows

    def __call__(
        self, first: ArrayLike, second: Any, sample_weight: ArrayLike | None = None
    ) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        """Gradient and second derivatives, for each of the engines' ways of calling."""
        workers = current_workers()
        with workers.together():
            call = read_call(first, second, sample_weight)
            rows = self._rows_of(call)
        gradient, hessian = pairwise_gradients(
            call.scores, rows, top=self.top, smoothing=self.smoothing, workers=workers
        )
        return gradient, hessian

    def _rows_of(self, call: EngineCall) -> LabelledRows:
        """The labelled rows, kept while labels and weights stay the same.

        A million labels are compared in less than a millisecond.
        """
        if self._last is not None:
            labels, weight, rows = self._last
            if np.array_equal(call.labels, labels) and np.array_equal(call.weight, weight):  # type: ignore[arg-type]
                return rows
        refuse_several_machines()
        rows = label_rows(call.labels, call.weight)
        weight = None if call.weight is None else call.weight.copy()
        self._last = call.labels.copy(), weight, rows
        return rows

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_last": None}

    def __repr__(self) -> str:
        return f"TopPushObjective(top={self.top!r}, smoothing={self.smoothing!r})"


class EngineMetric:
    """A metric of `toppush.metrics.METRICS`, as the engines call it; it can be pickled.

    Parameters
    ----------
    name : str
        Name of the metric, such as "average_precision" or "positives_at_top".
    **parameters
        Of that metric, such as ``max_fpr=0.01``.
    """

    def __init__(self, name: str, **parameters: float) -> None:
        metric = named(name)
        try:
            inspect.signature(metric).bind(None, None, **parameters)
        except TypeError as error:
            raise TypeError(f"{name}: {error}; pass the parameters of {name}.") from None
        self.parameters = parameters
        self.__name__ = name
        self.maximize = not metric.is_loss

    def value(self, call: EngineCall) -> float:
        """The metric of a ranking."""
        labels, scores, weight = call
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
    >>> rows, history = lightgbm.Dataset(X, y), {}
    >>> booster = lightgbm.train(
    ...     params,
    ...     rows,
    ...     20,
    ...     valid_sets=[rows],
    ...     feval=LightGBMMetric("average_precision"),
    ...     callbacks=[lightgbm.record_evaluation(history)],
    ... )
    >>> len(history["training"]["average_precision"])
    20
    """

    def __call__(self, first: Any, second: Any, weight: Any = None) -> tuple[str, float, bool]:
        """Name, value, and whether more is better."""
        return self.__name__, self.value(read_call(first, second, weight)), self.maximize


class XGBoostMetric(EngineMetric):
    """``custom_metric`` of ``xgboost.train``, ``eval_metric`` of ``XGBClassifier``.

    XGBoost minimises a metric by default: stop by `early_stopping`, or pass ``maximize=True``. On
    several workers it would average their metrics; here each worker sends its scores to all, and
    all compute the metric of all rows.

    Examples
    --------
    >>> import numpy as np
    >>> from toppush.objectives import XGBoostMetric
    >>> metric = XGBoostMetric("recall_at_fpr", max_fpr=0.4)
    >>> metric(np.array([0, 1, 0, 1]), np.array([0.1, 0.9, 0.5, 0.4]))
    0.5
    """

    def __call__(self, first: Any, second: Any, sample_weight: Any = None) -> Any:
        """Name and value, or the value alone where labels and scores are given."""
        workers = current_workers()
        with workers.together():
            call = read_call(first, second, sample_weight)
        if workers is not SINGLE:  # the rows of all, in the order of the workers
            weight = np.ones(len(call.scores)) if call.weight is None else call.weight
            own = np.stack([call.labels, call.scores, weight]).astype(np.float64)
            call = EngineCall(*workers.gather(own))
        value = self.value(call)
        return (self.__name__, value) if hasattr(second, "get_label") else value

    def early_stopping(self, rounds: int, **options: Any) -> Any:
        """XGBoost's callback that stops by this metric and keeps the best rounds."""
        defaults = {"save_best": True, "metric_name": self.__name__, "maximize": self.maximize}
        return of_xgboost("callback").EarlyStopping(rounds=rounds, **{**defaults, **options})
