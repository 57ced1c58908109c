"""Competitors, with settings chosen as carefully as ours: by cross-validation and a metric."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol, Self

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from toppush.folds.splits import Folds
from toppush.matrices import for_engine
from toppush.metrics.scoring import scores_of
from toppush.models.choice import Scorer
from toppush.types import Array, Mask, Matrix, Where

COSTS = [{"C": cost} for cost in (1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3)]
BOOSTED = [
    {"num_leaves": leaves, "n_estimators": rounds, "learning_rate": 10.0 / rounds}
    for rounds in (100, 400)
    for leaves in (7, 31)
]
"""LightGBM's own default is one of them."""


class Ranker(Protocol):
    """What an estimator must have to be compared."""

    def fit(self, X: Matrix, y: Mask) -> Self: ...
    def decision_function(self, X: Matrix) -> Array: ...


@dataclass
class Search:
    """A classifier whose settings are chosen by folds, then fitted to all rows."""

    model: Any
    grid: Sequence[dict[str, Any]]
    folds: Folds
    scorer: Scorer
    options: dict[str, Any] = field(default_factory=dict)
    """Of each fit."""

    def fit(self, X: Matrix, y: Mask, sample_weight: Array | None = None) -> Self:
        """Choose the settings, then fit."""
        X = for_engine(X)
        values = [self._value(settings, X, y, sample_weight) for settings in self.grid]
        self.best_ = self.grid[int(np.argmax(values))]
        self.model = clone(self.model).set_params(**self.best_)
        self.model.fit(X, y, sample_weight=sample_weight, **self.options)
        return self

    def decision_function(self, X: Matrix) -> Array:
        """Scores, or probabilities of the positive class."""
        return scores_of(self.model, for_engine(X))

    def _value(self, settings: dict[str, Any], X: Matrix, y: Mask, weight: Array | None) -> float:
        values = []
        for train, test in self.folds:
            model = clone(self.model).set_params(**settings)
            model.fit(X[train], y[train], **weights_of(weight, train), **self.options)
            values.append(self.scorer(model, X[test], y[test], **weights_of(weight, test)))
        return float(np.mean(values))


def weights_of(weight: Array | None, where: Where) -> dict[str, Array]:
    """Weights of some rows as an argument, none if there are none."""
    return {} if weight is None else {"sample_weight": weight[where]}


def by_metric(parts: Sequence[Mapping[str, float]]) -> dict[str, Array]:
    """Metrics of several splits or folds: for each metric its values."""
    names = parts[0] if parts else ()
    return {name: np.array([part[name] for part in parts]) for name in names}


def logistic_regression(folds: Folds, scorer: Scorer) -> Search:
    """Logistic regression with its penalty chosen."""
    return Search(LogisticRegression(max_iter=1000), COSTS, folds, scorer)


def lightgbm(
    folds: Folds,
    scorer: Scorer,
    *,
    seed: int,
    n_jobs: int | None,
    coded: list[int] | None = None,
) -> Search:
    """LightGBM with its leaves, rounds and rate chosen; an ImportError without it."""
    made = import_module("lightgbm").LGBMClassifier(random_state=seed, n_jobs=n_jobs, verbose=-1)
    options = {"categorical_feature": coded} if coded else {}
    return Search(made, BOOSTED, folds, scorer, options)
