"""The paper's protocol: random splits, parameters by cross-validation, four measures.

A trial splits the rows into 2/3 for training and 1/3 for test, at random. Five folds of the
training part choose the parameters by the mean of the method's rule; a grid grows while its best
value is at an end. Where settings tie, which is frequent with Pos@Top, the one nearest to the
middle of the paper's grid wins. The paper is silent on that.
"""

import math
import time
import warnings
from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
from sklearn.model_selection import StratifiedKFold, train_test_split

from toppush import metrics
from toppush.experiments.methods import Grid, Method, Setting
from toppush.experiments.store import Json
from toppush.types import Array, Mask, Matrix

VERSION = 1
"""Part of every record's configuration; goes up when results would change."""
TEST_SHARE = 1 / 3
N_FOLDS = 5
Rows = tuple[Matrix, Mask]


def run_trial(method: Method, X: Matrix, y: Mask, seed: int) -> Json:
    """One split: choose, fit, measure. Times are CPU seconds of this process."""
    train, test = train_test_split(np.arange(y.size), test_size=TEST_SHARE, random_state=seed)
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        setting, n_settings = choose(method, (X[train], y[train]), seed)
        chosen = time.process_time()
        score = method.fit(X[train], y[train], **setting)
        fitted = time.process_time()
        scores = score(X[test])
    return {
        **metrics.summary(y[test], scores, by="key"),
        "setting": setting,
        "n_settings": n_settings,
        "seconds_choosing": chosen - began,
        "seconds_fitting": fitted - chosen,
    }


def by_measure(parts: Sequence[Mapping[str, float]]) -> dict[str, Array]:
    """Measures of several splits or folds: for each measure its values."""
    names = parts[0] if parts else ()
    return {name: np.array([part[name] for part in parts]) for name in names}


def time_fit(method: Method, X: Matrix, y: Mask, setting: Setting, repeats: int = 3) -> Json:
    """Median CPU seconds of a fit on all rows."""
    seconds = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(repeats):
            began = time.process_time()
            method.fit(X, y, **setting)
            seconds.append(time.process_time() - began)
    return {"setting": setting, "seconds_training": float(np.median(seconds))}


def choose(method: Method, rows: Rows, seed: int) -> tuple[Setting, int]:
    """The best setting and how many were tried."""
    if not method.grids:
        return {}, 1
    X, y = rows
    splitter = StratifiedKFold(N_FOLDS, shuffle=True, random_state=seed)
    folds = [((X[a], y[a]), (X[b], y[b])) for a, b in splitter.split(X, y)]
    values = {name: list(grid.values) for name, grid in method.grids.items()}
    found: dict[tuple[float, ...], float] = {}
    while True:
        for point in product(*values.values()):
            if point not in found:
                found[point] = held_out(method, dict(zip(values, point, strict=True)), folds)
        best = pick(found, method.grids)
        if not extend(values, dict(zip(values, best, strict=True)), method.grids):
            return dict(zip(values, best, strict=True)), len(found)


def held_out(method: Method, setting: Setting, folds: list[tuple[Rows, Rows]]) -> float:
    """Mean of the method's rule over the folds."""
    rule = metrics.METRICS[method.rule]
    values = [rule(y, method.fit(*train, **setting)(X)) for train, (X, y) in folds]
    return float(np.mean(values))


def pick(found: dict[tuple[float, ...], float], grids: Mapping[str, Grid]) -> tuple[float, ...]:
    """The best point; of equal ones the nearest to the middle of the grids."""
    middles = [grid.values[len(grid.values) // 2] for grid in grids.values()]

    def distance(point: tuple[float, ...]) -> float:
        return sum(abs(math.log(a / b)) for a, b in zip(point, middles, strict=True))

    best = max(found.values())
    ties = [point for point, value in found.items() if value >= best - 1e-12]
    return min(ties, key=lambda point: (distance(point), point))


def extend(values: dict[str, list[float]], best: Setting, grids: Mapping[str, Grid]) -> bool:
    """Add a value to each grid whose best is at an end; whether any could be added."""
    grown = False
    for name, grid in grids.items():
        new = grid.beyond(values[name], best[name])
        if new is not None:
            values[name] = sorted([*values[name], new])
            grown = True
    return grown
