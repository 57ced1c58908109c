"""The main job in ten seconds: find the eights among handwritten digits.

The data ship with scikit-learn. TopPush and logistic regression, both with their defaults,
rank rows they have not seen; repeated over random splits, so that luck shows as a spread.
"""

import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedShuffleSplit

from toppush import metrics
from toppush.estimators.base import DegenerateWarning
from toppush.estimators.toppush import TopPush
from toppush.experiments.methods import Ranker
from toppush.experiments.protocol import by_measure
from toppush.system.writing import written_whole
from toppush.types import Array, Mask

DIGIT = 8
N_SPLITS = 10


@dataclass(frozen=True)
class Demo:
    """Held-out measures of both rankers, and the first split's ranking and certificate."""

    measures: dict[str, dict[str, Array]]
    """Ranker -> measure -> value in each split."""
    labels: dict[str, Mask]
    """Ranker -> labels of the first split's test rows, best score first."""
    ranker: TopPush
    n_train: int
    n_test: int
    n_features: int


def run(seed: int = 0) -> Demo:
    """Train on two thirds of the digits and rank the last third, over random splits."""
    digits = load_digits()
    X, y = digits.data / 16.0, digits.target == DIGIT
    splits = StratifiedShuffleSplit(N_SPLITS, test_size=1 / 3, random_state=seed).split(X, y)
    ours = TopPush()
    rankers: dict[str, Ranker] = {"TopPush": ours, "LogisticRegression": LogisticRegression()}
    values: dict[str, list[dict[str, float]]] = {name: [] for name in rankers}
    labels: dict[str, Mask] = {}
    for train, test in splits:
        for name, ranker in rankers.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DegenerateWarning)
                scores = ranker.fit(X[train], y[train]).decision_function(X[test])
            values[name].append(metrics.summary(y[test], scores, by="title"))
            labels.setdefault(name, y[test][np.argsort(-scores, kind="stable")])
    measures = {name: by_measure(splits) for name, splits in values.items()}
    return Demo(measures, labels, ours, len(train), len(test), X.shape[1])


def draw(demo: Demo, path: Path, *, length: int = 80) -> None:
    """Draw the top of both lists: which ranks hold an eight, and the precision down the list."""
    from matplotlib.figure import Figure

    colours = {"TopPush": "#0b6e4f", "LogisticRegression": "#b5651d"}
    figure = Figure(figsize=(9, 4.6), layout="constrained")
    axes = figure.subplots(len(demo.labels) + 1, 1, height_ratios=[1, 1, 5])
    ranks = np.arange(1, length + 1)
    for axis, (name, labels) in zip(axes, demo.labels.items(), strict=False):
        top = labels[:length]
        axis.bar(ranks[top], 1, width=0.9, color=colours[name])
        axis.bar(ranks[~top], 1, width=0.9, color="#d9d9d9")
        axis.set(xlim=(0.4, length + 0.6), ylim=(0, 1), xticks=[], yticks=[])
        title = f"{name}: {int(np.argmin(labels))} eights before the first false alarm"
        axis.set_title(title, loc="left", fontsize=10)
        axis.spines[:].set_visible(False)
    curve = axes[-1]
    for name, labels in demo.labels.items():
        precision = np.cumsum(labels[:length]) / ranks
        curve.plot(ranks, precision, label=name, color=colours[name], linewidth=2)
    curve.set(xlim=(0.4, length + 0.6), ylim=(None, 1.02), xlabel="length of the list")
    curve.set_ylabel("share that are eights")
    curve.grid(alpha=0.3)
    curve.legend(frameon=False, loc="lower left")
    with written_whole(path) as temporary:
        figure.savefig(temporary, dpi=150)
