"""`--model linear`: TopPush and TopPushCV, on the columns or on features of a kernel."""

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from toppush import metrics
from toppush.designs import dense
from toppush.estimators import choice as rules
from toppush.estimators.cross_validation import TopPushCV
from toppush.estimators.toppush import TopPush
from toppush.files.columns import Number
from toppush.files.errors import ModelError
from toppush.files.kinds.base import About, FitRows, Kind, Options, Steps, top_text
from toppush.files.kinds.certificates import solution
from toppush.files.labels import LabelRule
from toppush.files.model.linear import ColumnPart, LinearScore
from toppush.problem.losses import LOSSES
from toppush.system.reading import DataError
from toppush.types import Mask, Matrix

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from toppush.files.model.fitted import Model
    from toppush.files.model.graph import Graph

GAMMA_ROWS = 10_000
"""Rows from which the width of the kernel is taken."""
LOSS, FOLDS = "truncated_quadratic", 5


class Linear(Kind):
    """A weight for each value, with a certificate."""

    name = "linear"
    home = "toppush.estimators.toppush.TopPush"
    also = ("toppush.estimators.cross_validation.TopPushCV",)
    takes = ("lam", "top", "loss", "kernel", "scale", "cv", "threads")

    @property
    def losses(self) -> "Collection[str]":
        return LOSSES.keys()

    def more_steps(self, options: Options, X: Matrix, seed: int) -> Steps:
        kernel = options.get("kernel")
        return [] if kernel is None else [("kernel", _nystroem(kernel, X, seed))]

    def ranker(self, options: Options, rows: FitRows, seed: int) -> TopPush | TopPushCV:
        folds = StratifiedKFold(options.get("cv", FOLDS), shuffle=True, random_state=seed)
        ranker = ranker_for(options, folds)
        if isinstance(ranker, TopPushCV):
            require_folds(rows.rule, rows.n_positives, rows.n_rows, folds.n_splits, rows.path)
        return ranker

    def after(self, ranker: Any, X: Matrix, rows: FitRows) -> About:
        if not isinstance(ranker, TopPushCV):
            return {}
        return {"beside": beside(ranker, X, rows.positive)}

    def settings(self, ranker: Any, options: Options) -> About:
        chosen = isinstance(ranker, TopPushCV)
        return {
            "lam": float(ranker.lam_ if chosen else ranker.lam),
            "lams_tried": [float(ranker.lams_[0]), float(ranker.lams_[-1])] if chosen else None,
            "top": ranker.top_,
            "loss": ranker.loss,
            "chosen_by_cv": chosen,
            "cv_measure": (ranker.scoring or rules.NAME) if chosen else None,
            "cv_score": ranker.best_score_ if chosen else None,
            "kernel": options.get("kernel"),
            "cv": options.get("cv", FOLDS),
        }

    def sentence(self, settings: About) -> str:
        how = (
            f"chosen by {settings['cv']}-fold cross-validation "
            f"({settings['cv_measure']} {settings['cv_score']:.3f})"
            if settings["chosen_by_cv"]
            else "as given"
        )
        seed = "" if settings["seed"] is None else f", seed {settings['seed']}"
        kernel = f", kernel {settings['kernel']}" if settings["kernel"] else ""
        return (
            f"lam {settings['lam']:.4g}, top {top_text(settings['top'])} of the negatives, {how}; "
            f"loss {settings['loss']}, scale {settings['scale']}{kernel}{seed}."
        )

    def lighten(self, ranker: Any) -> None:
        for name in ("solution_", "_skl_callbacks"):
            ranker.__dict__.pop(name, None)
        if isinstance(ranker, TopPush):
            ranker.checkpoint = None

    def restore(self, ranker: Any, about: About) -> None:
        super().restore(ranker, about)
        if (known := about.get("certificate")) is not None:
            ranker.solution_ = solution(known, ranker.coef_[0], float(ranker.threshold_))

    def graph(self, graph: "Graph", model: "Model") -> str:
        linear = model.linear
        return _kernel_graph(graph, model) if linear is None else _linear_graph(graph, linear)

    def exported(self, model: "Model") -> About:
        linear = model.linear
        if linear is None:
            raise ModelError("weights are those of a linear model, and this one has a kernel.")
        if linear.columns is None:
            weights: About = {"weights": linear.weights.tolist()}
        else:
            weights = {"columns": {part.column.name: _as_json(part) for part in linear.parts()}}
        return {"format": "toppush weights 1", "threshold": linear.threshold} | weights


def ranker_for(options: Options, folds: StratifiedKFold | int) -> TopPush | TopPushCV:
    """What fits the rows: by given settings, or by those that the folds choose."""
    lam, top = options.get("lam", "cv"), options.get("top", "cv")
    more = {"loss": options.get("loss", LOSS), "n_threads": options.get("threads")}
    if "cv" not in (lam, top):
        return TopPush(float(lam), top=top, **more)
    lams = None if lam == "cv" else [float(lam)]
    return TopPushCV(lams, tops=None if top == "cv" else (top,), cv=folds, **more)


def require_folds(rule: LabelRule, positives: int, rows: int, cv: int, path: "str | Path") -> None:
    """Refuse more folds than the rarer class has rows: some would hold none of it out."""
    fewest = min(positives, rows - positives)
    if fewest < cv:
        raise DataError(
            f"{cv} folds are asked for with --cv, and there are {positives} positives "
            f"({rule.positive!r}) and {rows - positives} negatives; each fold needs one of each, "
            f"so ask for at most {fewest}" + (", or give --lam and --top." if fewest < 2 else "."),
            file=path,
        )


def beside(ranker: TopPushCV, X: Matrix, positive: Mask) -> dict[str, float]:
    """Mean average precision over the folds of the chosen pair, and of logistic regression.

    Rows that a fold holds out weigh nothing, so none are copied.
    """
    theirs = []
    for train, test in ranker.cv.split(np.empty(len(positive)), positive):
        weight = np.zeros(len(positive))
        weight[train] = 1.0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            rival = LogisticRegression().fit(X, positive, sample_weight=weight)
        scores = rival.decision_function(X)
        theirs.append(metrics.average_precision(positive[test], scores[test]))
    found = ranker.cv_results_
    ours = found["mean_average_precision"][np.argmin(found["rank_test_score"])]
    return {"average_precision": float(ours), "logistic_regression": float(np.mean(theirs))}


def _nystroem(kernel: str, X: Matrix, seed: int) -> Nystroem:
    """The kernel map that a text such as nystroem:500:0.1 asks for."""
    try:
        name, count, *width = kernel.split(":")
        if name != "nystroem" or len(width) > 1 or int(count) < 1:
            raise ValueError
        gamma = float(width[0]) if width else _gamma(X)
    except ValueError:
        raise ValueError(f"kernel is {kernel!r}; write nystroem:500 or nystroem:500:0.1.") from None
    return Nystroem(gamma=gamma, n_components=min(int(count), X.shape[0]), random_state=seed)


def _gamma(X: Matrix) -> float:
    part = X[:: max(1, X.shape[0] // GAMMA_ROWS)]
    variance = float((part * part).mean() - part.mean() ** 2)
    return 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0


def _as_json(part: ColumnPart) -> About:
    if isinstance(part.column, Number):
        weight = float(part.weights[0])
        return {"weight": weight, "missing": weight * part.column.fill + part.gap}
    texts = dict(zip(part.column.texts, part.weights[:-1].tolist(), strict=True))
    return {"texts": texts, "missing": part.gap}


def _linear_graph(graph: "Graph", linear: LinearScore) -> str:
    if linear.columns is None:
        rows = graph.rows(len(linear.weights))
        return graph.product(rows, linear.weights, linear.threshold)
    total = graph.constant([[-linear.threshold]])
    for part in linear.parts():
        if isinstance(part.column, Number):
            value, gaps = graph.number(part.column)
            added = graph.apply("Mul", value, graph.constant(part.weights[0]))
        else:
            place, gaps = graph.place(part.column)
            added = graph.apply("Gather", graph.constant(part.weights), place)
        total = graph.apply("Add", total, added)
        if part.gap:
            total = graph.apply("Add", total, graph.apply("Mul", gaps, graph.constant(part.gap)))
    return graph.flat(total)


def _kernel_graph(graph: "Graph", model: "Model") -> str:
    """Columns as numbers, scaled; their kernel with the landmarks; one product."""
    *before, (_, kernel), (_, ranker) = model.pipeline.steps
    if not isinstance(kernel, Nystroem) or kernel.kernel != "rbf":
        raise ModelError(f"ONNX export knows linear models and Nystroem, and this has {kernel!r}.")
    rows = graph.scaled(model.columns, before, kernel.n_features_in_)
    centers = np.asarray(dense(kernel.components_), np.float64)
    similar = graph.gaussian(rows, centers, kernel.gamma)
    weights = kernel.normalization_.T @ ranker.coef_[0]
    return graph.product(similar, weights, float(ranker.threshold_))
