"""The push as LightGBM and XGBoost take an objective."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toppush.objectives.asking import Asked, asked_about, refuse_several_machines, team_here
from toppush.objectives.push import push
from toppush.objectives.rows import LabelledRows, label_rows

LIGHTGBM_PARAMS: dict[str, Any] = {
    "learning_rate": 0.1,
    "num_leaves": 15,
    "min_sum_hessian_in_leaf": 1e-3,
}
"""A start for LightGBM; what is not named may stay as it is. The curvatures of all rows sum to half
the positives' weight at most, so a leaf must not be asked for much of it.

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
"""A start for XGBoost: trees as LightGBM grows them; its own 1 for `min_child_weight` is much where
positives are few. Scores may start anywhere, and 0.5 is allowed everywhere.

>>> from toppush.objectives import XGBOOST_PARAMS
>>> XGBOOST_PARAMS["grow_policy"]
'lossguide'
"""


class Seen(NamedTuple):
    """Rows that were asked about last."""

    labels: NDArray[Any]
    weight: NDArray[Any] | None
    rows: LabelledRows


class TopPushObjective:
    """Pairwise push against a smoothed top, for gradient boosting.

    sum_i c_i sum_j p_j log(1 + exp(f_j - f_i)) over positives i and negatives j, each negative
    weighing as much as it takes part in the top: see `toppush.objectives.pairs`. The same object
    is ``params["objective"]`` of ``lightgbm.train``, ``obj`` of ``xgboost.train`` and
    ``xgboost.dask.train``, and ``objective`` of ``LGBMClassifier`` and ``XGBClassifier``. Labels
    are 0 and 1, or -1 and +1; sample weights count. It can be pickled and cloned.

    Scores are raw margins, and only their differences mean something. `LIGHTGBM_PARAMS` and
    `XGBOOST_PARAMS` are a start for the engines' own parameters. Time per round: a few passes over
    the rows.

    Parameters
    ----------
    top : int or float, default=0.1
        Depth of the top: a count of negatives, or a share of them. 1 looks at the highest
        negative, 1.0 at all alike, which is RankNet.
    smoothing : float, default=0.5
        How far below the level of the top, in scores, a negative still counts.

    Examples
    --------
    >>> from toppush.objectives import TopPushObjective
    >>> import numpy as np
    >>> objective = TopPushObjective(top=1)
    >>> gradient, curvature = objective(np.array([0, 1, 0, 1]), np.zeros(4))  # labels, scores
    >>> gradient
    array([ 0.5, -0.5,  0.5, -0.5])
    """

    def __init__(self, top: float = 0.1, smoothing: float = 0.5) -> None:
        if not (top > 0 and (isinstance(top, int | np.integer) or top <= 1)):
            raise ValueError(
                f"top={top!r} is no depth; give a count of negatives from 1, or a share of them "
                "above 0 and at most 1.0."
            )
        if not 0 < smoothing < np.inf:
            raise ValueError(f"smoothing={smoothing!r} must be above 0 and finite.")
        self.top, self.smoothing = top, smoothing
        self._seen: Seen | None = None

    def __call__(
        self, first: ArrayLike, second: Any, sample_weight: ArrayLike | None = None
    ) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        """Gradient and curvature, asked in the way of any of the four: see `asking`."""
        team = team_here()
        with team.together():
            asked = asked_about(first, second, sample_weight)
            rows = self._rows_of(asked)
        found = push(asked.scores, rows, top=self.top, smoothing=self.smoothing, team=team)
        return found.gradient, found.curvature

    def _rows_of(self, asked: Asked) -> LabelledRows:
        """What depends on labels and weights only, kept while they stay the same."""
        seen = self._seen
        if seen and _same(asked.labels, seen.labels) and _same(asked.weight, seen.weight):
            return seen.rows
        refuse_several_machines()
        rows = label_rows(asked.labels, asked.weight)
        weight = None if asked.weight is None else asked.weight.copy()
        self._seen = Seen(asked.labels.copy(), weight, rows)
        return rows

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_seen": None}

    def __repr__(self) -> str:
        return f"TopPushObjective(top={self.top!r}, smoothing={self.smoothing!r})"


def _same(one: NDArray[Any] | None, other: NDArray[Any] | None) -> bool:
    """A million labels are compared in less than a millisecond; the data's identity tells less."""
    if one is None or other is None:
        return one is other
    return np.array_equal(one, other)
