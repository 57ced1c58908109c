"""Rankers side by side on one file, by cross-validation.

Every fold prepares its columns from its training rows alone, and every method with a strength of
penalty chooses it there, by NDCG over three inner folds.
"""

import importlib
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from toppush import metrics
from toppush.designs import dense
from toppush.estimators.cross_validation import TopPushCV
from toppush.files.cautions import caution
from toppush.files.errors import DataError
from toppush.files.fitting import Training, with_file
from toppush.types import Array

MEASURES: dict[str, Callable[..., float]] = {
    "Pos@Top": metrics.positives_at_top,
    "AP": metrics.average_precision,
    "NDCG": metrics.ndcg,
    "AUC": metrics.auc,
}
COSTS = [1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3]
INNER = 3
SMALL = 1 << 20
"""Entries below which threads only wait for each other."""
DENSE_BYTES = 2 << 30
"""Boosted trees need dense rows; above this size they are left out."""


@dataclass(frozen=True)
class Comparison:
    """Held-out measures of each method in each fold."""

    rows: int
    positives: int
    values: dict[str, dict[str, Array]]
    """Method -> measure -> value in each fold."""
    seconds: dict[str, float]
    """Method -> seconds of all its fits."""
    left_out: dict[str, str]
    """Method -> why."""
    warned: dict[str, dict[str, int]]
    """Method -> kind of warning -> how many."""


def compare(
    given: Training,
    *,
    missing: str = "impute",
    cv: int = 5,
    seed: int = 0,
    tell: Callable[[int, int, str], None] = lambda done, total, now: None,
) -> Comparison:
    """Cross-validate TopPush, its family, and the usual methods on a file.

    Parameters
    ----------
    given : Training
        What `toppush.files.fitting.read_training` returns.
    missing, cv, seed
        As for `toppush.files.fit`.
    tell : callable
        Told before each fit how many are done, how many there are in all, and what comes.

    Returns
    -------
    Comparison
    """
    file, X, y = given.file, given.rows.X, given.positive
    if min(y.sum(), (~y).sum()) < cv * INNER:
        raise DataError(
            f"{int(y.sum())} positives and {int((~y).sum())} negatives are too few for {cv} folds "
            f"of {INNER}; lower --cv or bring more rows.",
            file=file.path,
        )
    caution(given.ids)
    values: dict[str, list[list[float]]] = {}
    seconds: dict[str, float] = {}
    left_out: dict[str, str] = {}
    warned: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for train, test in StratifiedKFold(cv, shuffle=True, random_state=seed).split(y, y):
        parts = [_taken(X, train), _taken(X, test)]
        for _, step in given.preparation(missing=missing):
            with_file(step.fit, file, parts[0])
            parts = [with_file(step.transform, file, part) for part in parts]
        rivals = methods(seed, parts[0].shape, len(y), left_out)
        for name, method in rivals.items():
            done = sum(map(len, values.values()))
            tell(done, cv * len(rivals), f"fold {done // len(rivals) + 1} of {cv}, {name}")
            began = time.perf_counter()
            with _threads(parts[0].shape), warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                method.fit(parts[0], y[train])
            for one in said:
                warned[name][one.category.__name__] += 1
            scores = method.decision_function(parts[1])
            seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - began
            found = [measure(y[test], scores) for measure in MEASURES.values()]
            values.setdefault(name, []).append(found)
    table = {
        name: dict(zip(MEASURES, np.transpose(folds), strict=True))
        for name, folds in values.items()
    }
    counts = {name: dict(kinds) for name, kinds in warned.items()}
    return Comparison(len(y), int(y.sum()), table, seconds, left_out, counts)


def methods(
    seed: int, shape: tuple[int, int], n_rows: int, left_out: dict[str, str]
) -> dict[str, Any]:
    """A fresh estimator of each kind; those that cannot run are noted in `left_out`."""
    inner = StratifiedKFold(INNER, shuffle=True, random_state=seed)

    def searched(model: Any) -> GridSearchCV:
        return GridSearchCV(model, {"C": COSTS}, scoring=metrics.scorer("ndcg"), cv=inner)

    found: dict[str, Any] = {
        "TopPush": TopPushCV(tops=(1,), cv=inner),
        "TopPush family": TopPushCV(cv=inner),
        "logistic regression": searched(LogisticRegression(max_iter=1000)),
        "linear SVM": searched(LinearSVC(random_state=seed, max_iter=10_000)),
    }
    if 8 * n_rows * shape[1] > DENSE_BYTES:
        left_out["boosted trees"] = f"{shape[1]} columns are too many to hold as dense rows"
        return found
    found["boosted trees"] = Dense(HistGradientBoostingClassifier(random_state=seed))
    try:
        lightgbm = importlib.import_module("lightgbm")
    except ImportError:
        left_out["LightGBM"] = "not installed"
    else:
        found["LightGBM"] = Dense(lightgbm.LGBMClassifier(random_state=seed, verbose=-1))
    return found


@dataclass
class Dense:
    """A classifier that is handed dense rows."""

    model: Any

    def fit(self, X: Any, y: Any) -> "Dense":
        """Fit the classifier."""
        self.model.fit(dense(X), y)
        return self

    def decision_function(self, X: Any) -> Array:
        """The probability of the positive class."""
        probability: Array = self.model.predict_proba(dense(X))[:, 1]
        return probability


def _threads(shape: tuple[int, int]) -> Any:
    """One native thread for small rows: on two busy cores trees took 50 s with two, 6 with one."""
    return threadpool_limits(1 if shape[0] * shape[1] < SMALL else None)


def _taken(X: Any, rows: Any) -> Any:
    return X.take(rows) if hasattr(X, "column_names") else X[rows]
