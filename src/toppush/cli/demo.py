"""`toppush demo`: find the eights among scikit-learn's handwritten digits.

TopRanker, logistic regression and LightGBM choose their settings on training rows and rank held-out
rows; the standard deviation over random splits shows the variation by chance.
"""

import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toppush.cli.compare import values_as_json, values_table
from toppush.cli.group import Command
from toppush.cli.info import leaderboard_table
from toppush.cli.options import OutputFile, json_option, seed_option
from toppush.cli.output import show

if TYPE_CHECKING:
    from toppush.files.compare import Competitor
    from toppush.types import Array, Mask

DIGIT = 8
N_SPLITS = 5
INNER = 3
"""Folds for choosing the settings of the competitors by AP, the metric they are judged by."""
COLOURS = {"TopRanker": "#0b6e4f", "LogisticRegression": "#b5651d", "LightGBM": "#4a5a8c"}


@click.command(cls=Command)
@click.option(
    "--picture",
    type=OutputFile(),
    default=Path("toppush-demo.png"),
    show_default=True,
    help="Where to save the picture.",
)
@seed_option
@json_option
def demo(picture: Path, seed: int, as_json: bool) -> None:
    """Rank handwritten digits so that the eights come first, and compare methods.

    Compares TopRanker with logistic regression and, if it is installed, LightGBM; their settings
    are chosen by cross-validation.

    Example: toppush demo --picture top.png
    """
    result = run(seed)
    draw(result, picture)
    show(
        as_json,
        {
            "splits": values_as_json(result.values),
            "seconds": result.seconds,
            "leaderboard": result.leaderboard,
            "picture": str(picture),
        },
        f"Task: rank {result.n_test} handwritten digits so that the eights come first, after "
        f"training on {result.n_train} others ({result.n_features} features). "
        f"Mean and standard deviation over {N_SPLITS} random splits:",
        values_table(result.values, result.seconds),
        "Pos@Top: share of the eights above every other digit. AP: average precision. Settings of "
        "LogisticRegression and LightGBM are chosen by cross-validation on the training rows. Last "
        "column: splits in which TopRanker had the higher and the lower AP.",
        "Base models of TopRanker on the first split, by out-of-fold metrics:",
        leaderboard_table(result.leaderboard),
        f"Picture of the top of the rankings: {picture}",
    )


@dataclass(frozen=True)
class Demo:
    """Held-out metrics of all methods, and the rankings and the leaderboard of the first split."""

    values: "dict[str, dict[str, Array]]"
    """Method -> metric -> value in each split."""
    seconds: dict[str, float]
    """Method -> seconds of all its fits."""
    labels: "dict[str, Mask]"
    """Method -> labels of the first split's test rows, best score first."""
    leaderboard: list[dict[str, Any]]
    """Of TopRanker on the first split."""
    n_train: int
    n_test: int
    n_features: int


def run(seed: int = 0) -> Demo:
    """Train on two thirds of the digits and rank the last third, over random splits."""
    import numpy as np
    from sklearn.datasets import load_digits
    from sklearn.model_selection import StratifiedShuffleSplit

    from toppush import metrics
    from toppush.files.compare import by_metric

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
    by_name = {name: by_metric(splits) for name, splits in values.items()}
    return Demo(by_name, seconds, labels, board, len(train), len(test), X.shape[1])


def _rankers(positive: "Mask", seed: int) -> "dict[str, Competitor]":
    """Unfitted methods for one split; LightGBM if it is installed."""
    from toppush import metrics
    from toppush.auto.ranker import TopRanker
    from toppush.files.compare import lightgbm, logistic_regression
    from toppush.folds.splits import folds_by_role
    from toppush.tables.rows import NOTHING

    folds, scorer = (
        folds_by_role(positive, NOTHING, INNER, seed),
        metrics.scorer("average_precision"),
    )
    rankers: dict[str, Competitor] = {
        "TopRanker": TopRanker(random_state=seed, n_jobs=1),
        "LogisticRegression": logistic_regression(folds, scorer),
    }
    with suppress(ImportError):
        rankers["LightGBM"] = lightgbm(folds, scorer, seed=seed, n_jobs=1)
    return rankers


def draw(demo: Demo, path: Path, *, length: int = 80) -> None:
    """Draw the top of the rankings: the ranks of the eights, and the precision by length."""
    import numpy as np
    from matplotlib.figure import Figure

    from toppush.system.writing import written_whole

    n_methods = len(demo.labels)
    figure = Figure(figsize=(9, 3.6 + 0.5 * n_methods), layout="constrained")
    axes = figure.subplots(n_methods + 1, 1, height_ratios=[1] * n_methods + [5])
    ranks, curve = np.arange(1, length + 1), axes[-1]
    for axis, (name, labels) in zip(axes, demo.labels.items(), strict=False):
        top = labels[:length]
        axis.bar(ranks[top], 1, width=0.9, color=COLOURS[name])
        axis.bar(ranks[~top], 1, width=0.9, color="#d9d9d9")
        axis.set(xlim=(0.4, length + 0.6), ylim=(0, 1), xticks=[], yticks=[])
        title = f"{name}: {int(np.argmin(labels))} eights before the first false alarm"
        axis.set_title(title, loc="left", fontsize=10)
        axis.spines[:].set_visible(False)
        curve.plot(ranks, np.cumsum(top) / ranks, label=name, color=COLOURS[name], linewidth=2)
    curve.set(xlim=(0.4, length + 0.6), ylim=(None, 1.02), xlabel="length of the ranking")
    curve.set_ylabel("precision")
    curve.grid(alpha=0.3)
    curve.legend(frameon=False, loc="lower left")
    with written_whole(path) as temporary:
        figure.savefig(temporary, dpi=150)
