"""The paper's protocol: random splits, parameters by cross-validation, four measures.

A trial splits the rows into 2/3 for training and 1/3 for test, at random. Five folds of the
training part choose the parameters by the mean of the method's rule; a grid grows while its best
value is at an end. Where settings tie, which is frequent with Pos@Top, the one nearest to the
middle of the paper's grid wins. The paper is silent on that.
"""

import math
import time
import warnings
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from itertools import product

import numpy as np
from sklearn.model_selection import StratifiedKFold, train_test_split

from reproduce.limits import forecast
from reproduce.methods import Grid, Method, Scorer, Setting
from toppush import metrics
from toppush.types import Json, Mask, Matrix

VERSION = 1
"""Part of every record's configuration; goes up when results would change."""
TEST_SHARE = 1 / 3
N_FOLDS = 5
Rows = tuple[Matrix, Mask]


class Fits:
    """Fits to a training part and to its folds, each made once for all methods that share them."""

    def __init__(self, maker: Method, rows: Rows, seed: int) -> None:
        self.maker, self.rows, self.seed = maker, rows, seed
        self.reused = 0.0
        """CPU seconds that were spared by fits that were there."""
        self._made: dict[tuple[object, ...], tuple[Scorer, float]] = {}

    @cached_property
    def folds(self) -> list[tuple[Rows, Rows]]:
        """Training and held-out rows of each fold."""
        X, y = self.rows
        splitter = StratifiedKFold(N_FOLDS, shuffle=True, random_state=self.seed)
        return [((X[a], y[a]), (X[b], y[b])) for a, b in splitter.split(X, y)]

    def of(self, method: Method, setting: Setting, fold: int | None = None) -> Scorer:
        """What a method learns from a fold's training rows, or from all."""
        rows = self.rows if fold is None else self.folds[fold][0]
        key = (fold, *setting.values())
        if key not in self._made and fold is not None:
            self._make_together(setting, fold)
        if key in self._made:
            made, seconds = self._made[key]
            self.reused += seconds
        else:
            began = time.process_time()
            made = self.maker.fit(*rows, **setting)
            if self.maker.sharing:  # nobody else would ask, and weights of url take 25 MB a fit
                self._made[key] = made, time.process_time() - began
        return made if method is self.maker else method.derive(made, *rows, **setting)

    def _make_together(self, setting: Setting, fold: int) -> None:
        """Fits for all values of a parameter at once, if the method can; of one beyond its grid."""
        name, fit = self.maker.together, self.maker.fit_together
        if fit is None:
            return
        values = self.maker.grids[name].values
        values = values if setting[name] in values else (setting[name],)
        others = {one: value for one, value in setting.items() if one != name}
        scorers = fit(*self.folds[fold][0], values, **others)
        for value, made in zip(values, scorers, strict=True):
            self._made[fold, *(setting | {name: value}).values()] = made, 0.0


def run_trial(method: Method, X: Matrix, y: Mask, seed: int) -> Json:
    """One split: choose, fit, measure. Times are CPU seconds of this process.

    Under "also" are the results of the methods that share its fits.
    """
    train, test = train_test_split(np.arange(y.size), test_size=TEST_SHARE, random_state=seed)
    fits, unseen = Fits(method, (X[train], y[train]), seed), (X[test], y[test])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = _measured(method, fits, unseen)
        also = {one.key: _measured(one, fits, unseen) for one in method.sharing}
    return {**found, "also": also} if also else found


def _measured(method: Method, fits: Fits, test: Rows) -> Json:
    """What a method chooses, how its list does, and its times as if it had made all fits."""
    began, reused = time.process_time(), fits.reused
    setting, n_settings = search(method, fits)
    chosen, reused_choosing = time.process_time(), fits.reused
    score = fits.of(method, setting)
    fitted = time.process_time()
    return {
        **metrics.summary(test[1], score(test[0]), by="key"),
        "setting": setting,
        "n_settings": n_settings,
        "seconds_choosing": chosen - began + reused_choosing - reused,
        "seconds_fitting": fitted - chosen + fits.reused - reused_choosing,
    }


def foresee_trial(method: Method, X: Matrix, y: Mask) -> Json:
    """CPU seconds that a trial would take, with the middle setting for all; and its forecast."""
    apart = {name: grid for name, grid in method.grids.items() if name != method.together}
    middle = {name: grid.values[len(grid.values) // 2] for name, grid in apart.items()}
    fit: Callable[..., object] = partial(method.fit, **middle)
    if method.fit_together is not None:
        fit = partial(method.fit_together, values=method.grids[method.together].values, **middle)
    found = forecast(fit, X, y)
    n_train = (1.0 - TEST_SHARE) * y.size
    n_settings = math.prod(len(grid.values) for grid in apart.values())
    n_fits = n_settings * N_FOLDS if method.grids else 0
    seconds = n_fits * found.at((1.0 - 1.0 / N_FOLDS) * n_train) + found.at(n_train)
    return {"seconds_trial": seconds, **found.as_json()}


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
    return search(method, Fits(method, rows, seed))


def search(method: Method, fits: Fits) -> tuple[Setting, int]:
    """The same, by fits that others may have made."""
    if not method.grids:
        return {}, 1
    values = {name: list(grid.values) for name, grid in method.grids.items()}
    found: dict[tuple[float, ...], float] = {}
    while True:
        for point in product(*values.values()):
            if point not in found:
                found[point] = held_out(method, dict(zip(values, point, strict=True)), fits)
        best = pick(found, method.grids)
        if not extend(values, dict(zip(values, best, strict=True)), method.grids):
            return dict(zip(values, best, strict=True)), len(found)


def held_out(method: Method, setting: Setting, fits: Fits) -> float:
    """Mean of the method's rule over the folds."""
    rule = metrics.METRICS[method.rule]
    values = [
        rule(y, fits.of(method, setting, fold)(X)) for fold, (_, (X, y)) in enumerate(fits.folds)
    ]
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
