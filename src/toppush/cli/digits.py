"""The main job in half a minute: find the eights among handwritten digits.

The data ship with scikit-learn. TopRanker, logistic regression with its penalty chosen and LightGBM
with its leaves, rounds and rate chosen, each on the training rows alone, rank rows they have not
seen; repeated over random splits, so that luck shows as a spread.
"""

import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedShuffleSplit

from toppush import metrics
from toppush.auto.ranker import TopRanker
from toppush.files.competitors import Ranker, by_metric, lightgbm, logistic_regression
from toppush.folds.by_column import folds_of
from toppush.system.writing import written_whole
from toppush.tables.roles import NOTHING
from toppush.types import Array, Mask

DIGIT = 8
N_SPLITS = 5
INNER = 3
"""Folds by which the competitors choose their settings; by AP, on which they are judged."""
COLOURS = {"TopRanker": "#0b6e4f", "LogisticRegression": "#b5651d", "LightGBM": "#4a5a8c"}


@dataclass(frozen=True)
class Demo:
    """Held-out measures of all rankers, the first split's lists, and how TopRanker was combined."""

    measures: dict[str, dict[str, Array]]
    """Ranker -> measure -> value in each split."""
    seconds: dict[str, float]
    """Ranker -> seconds of all its fits."""
    labels: dict[str, Mask]
    """Ranker -> labels of the first split's test rows, best score first."""
    leaderboard: list[dict[str, Any]]
    """Of TopRanker on the first split."""
    n_train: int
    n_test: int
    n_features: int


def run(seed: int = 0) -> Demo:
    """Train on two thirds of the digits and rank the last third, over random splits."""
    digits = load_digits()
    X, y = digits.data / 16.0, digits.target == DIGIT
    splits = StratifiedShuffleSplit(N_SPLITS, test_size=1 / 3, random_state=seed).split(X, y)
    values: dict[str, list[dict[str, float]]] = {}
    seconds: dict[str, float] = {}
    labels: dict[str, Mask] = {}
    board: list[dict[str, Any]] = []
    for train, test in splits:
        for name, ranker in _rankers(y[train], seed).items():
            began = time.perf_counter()
            scores = ranker.fit(X[train], y[train]).decision_function(X[test])
            seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - began
            values.setdefault(name, []).append(metrics.summary(y[test], scores, by="title"))
            labels.setdefault(name, y[test][np.argsort(-scores, kind="stable")])
            board = board or getattr(ranker, "leaderboard_", [])
    measures = {name: by_metric(splits) for name, splits in values.items()}
    return Demo(measures, seconds, labels, board, len(train), len(test), X.shape[1])


def _rankers(positive: Mask, seed: int) -> dict[str, Ranker]:
    """Fresh rankers for one split; LightGBM if it is installed."""
    folds, scorer = folds_of(positive, NOTHING, INNER, seed), metrics.scorer("average_precision")
    found: dict[str, Ranker] = {
        "TopRanker": TopRanker(random_state=seed, n_jobs=1),
        "LogisticRegression": logistic_regression(folds, scorer),
    }
    with suppress(ImportError):
        found["LightGBM"] = lightgbm(folds, scorer, seed=seed, n_jobs=1)
    return found


def draw(demo: Demo, path: Path, *, length: int = 80) -> None:
    """Draw the top of the lists: which ranks hold an eight, and the precision down the list."""
    from matplotlib.figure import Figure

    n_lists = len(demo.labels)
    figure = Figure(figsize=(9, 3.6 + 0.5 * n_lists), layout="constrained")
    axes = figure.subplots(n_lists + 1, 1, height_ratios=[1] * n_lists + [5])
    ranks = np.arange(1, length + 1)
    for axis, (name, labels) in zip(axes, demo.labels.items(), strict=False):
        top = labels[:length]
        axis.bar(ranks[top], 1, width=0.9, color=COLOURS[name])
        axis.bar(ranks[~top], 1, width=0.9, color="#d9d9d9")
        axis.set(xlim=(0.4, length + 0.6), ylim=(0, 1), xticks=[], yticks=[])
        title = f"{name}: {int(np.argmin(labels))} eights before the first false alarm"
        axis.set_title(title, loc="left", fontsize=10)
        axis.spines[:].set_visible(False)
    curve = axes[-1]
    for name, labels in demo.labels.items():
        precision = np.cumsum(labels[:length]) / ranks
        curve.plot(ranks, precision, label=name, color=COLOURS[name], linewidth=2)
    curve.set(xlim=(0.4, length + 0.6), ylim=(None, 1.02), xlabel="length of the list")
    curve.set_ylabel("share that are eights")
    curve.grid(alpha=0.3)
    curve.legend(frameon=False, loc="lower left")
    with written_whole(path) as temporary:
        figure.savefig(temporary, dpi=150)
