"""`--model linear`: TopPush and TopPushCV."""

import warnings
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, check_cv

from toppush import metrics
from toppush.export.linear import ColumnPart, LinearScore
from toppush.matrices import dense
from toppush.models.linear import TopPush
from toppush.models.linear_cv import TopPushCV
from toppush.modeltypes.base import About, FitRows, Options
from toppush.modeltypes.searched import Searched
from toppush.problem.losses import LOSSES
from toppush.system.errors import ModelError
from toppush.tables.column_types import Number
from toppush.types import Matrix

if TYPE_CHECKING:
    from toppush.export.onnx_graph import Graph
    from toppush.modelfile.fitted import Model

LOSS = "truncated_quadratic"
FOLD_TOL = 1e-3
"""Relative gap of fits that only tell what scores mean."""


class Linear(Searched):
    """A weight for each value, with a certificate."""

    name = "linear"
    home = "toppush.models.linear.TopPush"
    also = ("toppush.models.linear_cv.TopPushCV",)
    takes = (
        "lam", "top", "loss", "scale", "cv", "tol", "scoring", "groups", "time", "threads",
    )  # fmt: skip

    @property
    def losses(self) -> "Collection[str]":
        return LOSSES.keys()

    def ranker(self, options: Options, rows: FitRows, seed: int) -> TopPush | TopPushCV:
        self.require_folds(options, rows)
        return self.ranker_for(self.with_folds(options, rows, seed))

    def with_folds(self, options: Options, rows: FitRows, seed: int) -> Options:
        n_folds = options.get("cv", self.folds)
        shuffled = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
        found = super().with_folds(options, rows, seed)
        return found | {"cv": shuffled} if found is options else found

    def ranker_for(self, options: Options) -> TopPush | TopPushCV:
        """What fits the rows: by given settings, or by those that the folds choose."""
        lam, top = options.get("lam", "cv"), options.get("top", "cv")
        found = self.searched(options) | {"loss": options.get("loss", LOSS)}
        if "cv" in (lam, top):
            return TopPushCV(**found, tol=options.get("tol"))
        how = {name: found[name] for name in ("loss", "n_jobs")}
        if "tol" in options:
            how["tol"] = options["tol"]
        return TopPush(float(lam), top=top, **how)

    def after(self, ranker: Any, X: Matrix, rows: FitRows) -> About:
        if "mean_average_precision" not in getattr(ranker, "cv_results_", {}):
            return {}
        return {"beside": beside(ranker, X, rows)}

    def again(self, ranker: Any) -> TopPush:
        given = {name: getattr(ranker, name) for name in ("loss", "n_jobs")}
        if isinstance(ranker, TopPush):
            top = ranker.top_ if isinstance(ranker.top, str) else ranker.top
            return TopPush(ranker.lam, top=top, tol=FOLD_TOL, **given)
        return TopPush(ranker.lam_, top=ranker.top_, tol=FOLD_TOL, **given)

    def settings(self, ranker: Any, options: Options) -> About:
        tried = getattr(ranker, "lams_", None)
        return super().settings(ranker, options) | {
            "lams_tried": None if tried is None else [float(tried[0]), float(tried[-1])],
            "loss": ranker.loss,
        }

    def rest(self, settings: About) -> str:
        seed = "" if settings["seed"] is None else f", seed {settings['seed']}"
        return f"; loss {settings['loss']}, scale {settings['scale']}{seed}"

    def graph(self, graph: "Graph", model: "Model") -> str:
        linear = model.linear
        return _kernel_graph(graph, model) if linear is None else _linear_graph(graph, linear)

    def exported(self, model: "Model") -> About:
        linear = model.linear
        if linear is None:
            raise ModelError(
                "the pipeline makes features of the columns, so there are no weights of columns."
            )
        if linear.columns is None:
            weights: About = {"weights": linear.weights.tolist()}
        else:
            weights = {"columns": {part.column.name: _as_json(part) for part in linear.parts()}}
        return {"format": "toppush weights 1", "threshold": linear.threshold} | weights


def beside(ranker: TopPushCV, X: Matrix, rows: FitRows) -> dict[str, float]:
    """Mean average precision over the folds of the chosen pair, and of logistic regression.

    Rows that a fold holds out weigh nothing, so none are copied.
    """
    theirs = []
    positive, given = rows.positive, rows.held.weight
    given = np.ones(len(positive)) if given is None else given
    for train, test in check_cv(ranker.cv).split(np.empty(len(positive)), positive):
        weight = np.zeros(len(positive))
        weight[train] = given[train]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            rival = LogisticRegression().fit(X, positive, sample_weight=weight)
        scores = rival.decision_function(X)
        theirs.append(
            metrics.average_precision(positive[test], scores[test], sample_weight=given[test])
        )
    found = ranker.cv_results_
    ours = found["mean_average_precision"][np.argmin(found["rank_test_score"])]
    return {"average_precision": float(ours), "logistic_regression": float(np.mean(theirs))}


def _as_json(part: ColumnPart) -> About:
    if isinstance(part.column, Number):
        weight = float(part.weights[0])
        return {"weight": weight, "missing": weight * part.column.fill + part.gap}
    texts = dict(zip(part.column.categories, part.weights[:-1].tolist(), strict=True))
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
