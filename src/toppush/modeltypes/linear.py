"""`--model linear` (TopPush and TopPushCV), and the base of model types with a certificate."""

import math
import warnings
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, check_cv

from toppush import metrics
from toppush.matrices import dense
from toppush.models import search
from toppush.models.linear import TopPush
from toppush.models.linear_cv import TopPushCV
from toppush.modeltypes.base import (
    About,
    FitRows,
    ModelType,
    Options,
    require_shapes,
    top_text,
)
from toppush.modeltypes.linear_score import LinearScore, refuse_text
from toppush.problem.losses import LOSSES
from toppush.problem.solution import Iteration, Solution, Status
from toppush.system.errors import ModelError
from toppush.tables.column_types import Category, Number
from toppush.types import Array, Matrix

if TYPE_CHECKING:
    from toppush.modelfile.model import Model
    from toppush.modeltypes.onnx_graph import Graph

LOSS = "truncated_quadratic"
FOLD_TOL = 1e-3
"""Relative gap of the fits that calibrate the scores."""


class CertifiedType(ModelType):
    """A model type with lam, top and a certificate; cross-validation chooses what is not set."""

    takes: tuple[str, ...] = ("lam", "top", "cv", "scoring", "groups", "time", "threads")
    n_folds = 5

    def require_folds(self, options: Options, rows: FitRows) -> None:
        """Refuse more folds than rows of a class, if cross-validation chooses."""
        if "cv" in (options.get("lam", "cv"), options.get("top", "cv")):
            rows.require_folds(options.get("cv", self.n_folds))

    def search_parameters(self, options: Options, rows: FitRows | None, seed: int) -> Options:
        """The ranker's lams, tops, scoring, folds and threads."""
        lam, top = options.get("lam", "cv"), options.get("top", "cv")
        cv = options.get("cv", self.n_folds)
        return {
            "lams": None if lam == "cv" else [float(lam)],
            "tops": None if top == "cv" else (top,),
            "scoring": options.get("scoring"),
            "cv": rows.folds(cv, seed) if rows is not None and rows.has_folds else cv,
            "n_jobs": options.get("threads"),
        }

    def refittable(self, ranker: Any) -> Any:
        return clone(ranker).set_params(lams=[ranker.lam_], tops=[ranker.top_])

    def settings(self, ranker: Any, options: Options) -> About:
        chosen = hasattr(ranker, "best_score_")
        metric = getattr(ranker, "scoring", None) or search.NAME
        return {
            "lam": float(ranker.lam_ if hasattr(ranker, "lam_") else ranker.lam),
            "top": ranker.top_,
            "chosen_by_cv": chosen,
            "cv_measure": metric if chosen else None,
            "cv_score": ranker.best_score_ if chosen else None,
            "cv": options.get("cv", self.n_folds),
        }

    def describe(self, settings: About) -> str:
        how = (
            f"chosen by {settings['cv']}-fold cross-validation "
            f"({settings['cv_measure'].replace('_', ' ')} {settings['cv_score']:.3f})"
            if settings["chosen_by_cv"]
            else "as given"
        )
        top = top_text(settings["top"])
        return f"lam {settings['lam']:.4g}, top {top} of the negatives, {how}"

    def lighten(self, ranker: Any) -> None:
        for name in ("solution_", "_skl_callbacks"):
            vars(ranker).pop(name, None)

    def n_weights(self, ranker: Any) -> int:
        """Length of the weight vector."""
        return int(ranker.n_features_in_)

    def restore(self, ranker: Any, about: About) -> None:
        super().restore(ranker, about)
        require_shapes(ranker, coef_=(1, self.n_weights(ranker)))
        if (known := about.get("certificate")) is not None:
            ranker.solution_ = solution(known, ranker.coef_[0], float(ranker.threshold_))


def certificate(ranker: object) -> About | None:
    """The bounds of a fit and its status as JSON can hold them; None of an ensemble."""
    fitted: Solution | None = getattr(ranker, "solution_", None)
    if fitted is None:
        return None
    return {
        "upper": _finite(fitted.upper),
        "lower": _finite(fitted.lower),
        "relative_gap": _finite(fitted.relative_gap),
        "n_iter": fitted.n_iter,
        "status": fitted.status.name,
        "sentence": fitted.status.value,
        "history": [[_finite(number) for number in iteration] for iteration in fitted.history],
    }


def solution(known: About, weights: Array, threshold: float) -> Solution:
    """The solution of a certificate, without the duals of the training rows."""
    return Solution(
        weights=weights,
        threshold=threshold,
        dual=np.empty(0),
        upper=math.inf if known["upper"] is None else float(known["upper"]),
        lower=_or_minus_infinity(known["lower"]),
        n_iter=int(known["n_iter"]),
        status=Status[known["status"]],
        history=tuple(Iteration(*map(_or_minus_infinity, row)) for row in known["history"]),
    )


def _finite(number: float) -> float | None:
    return float(number) if math.isfinite(number) else None


def _or_minus_infinity(number: float | None) -> float:
    return -math.inf if number is None else float(number)


class Linear(CertifiedType):
    """A weight for each value, with a certificate."""

    name = "linear"
    takes_text = True
    ranker_class = "toppush.models.linear.TopPush"
    other_classes = ("toppush.models.linear_cv.TopPushCV",)
    takes = (
        "lam", "top", "loss", "scale", "cv", "tol", "scoring", "groups", "time", "threads",
    )  # fmt: skip

    @property
    def losses(self) -> Collection[str]:
        return LOSSES.keys()

    def ranker(self, options: Options, rows: FitRows, seed: int) -> TopPush | TopPushCV:
        self.require_folds(options, rows)
        parameters = self.search_parameters(options, rows, seed)
        if not rows.has_folds:
            parameters["cv"] = StratifiedKFold(parameters["cv"], shuffle=True, random_state=seed)
        return self.ranker_for(options, parameters)

    def ranker_for(
        self, options: Options, parameters: Options | None = None
    ) -> TopPush | TopPushCV:
        """The ranker with the given lam and top, or one that chooses them by cross-validation."""
        parameters = parameters or self.search_parameters(options, None, 0)
        lam, top = options.get("lam", "cv"), options.get("top", "cv")
        loss = options.get("loss", LOSS)
        if "cv" in (lam, top):
            return TopPushCV(**parameters, loss=loss, tol=options.get("tol"))
        tol = {"tol": options["tol"]} if "tol" in options else {}
        return TopPush(float(lam), top=top, loss=loss, n_jobs=parameters["n_jobs"], **tol)

    def training_facts(self, ranker: Any, X: Matrix, rows: FitRows) -> About:
        if "mean_average_precision" not in getattr(ranker, "cv_results_", {}):
            return {}
        return {"baseline": compared_with_logistic(ranker, X, rows)}

    def refittable(self, ranker: Any) -> TopPush:
        same = {name: getattr(ranker, name) for name in ("loss", "n_jobs")}
        if isinstance(ranker, TopPush):
            top = ranker.top_ if isinstance(ranker.top, str) else ranker.top
            return TopPush(ranker.lam, top=top, tol=FOLD_TOL, **same)
        return TopPush(ranker.lam_, top=ranker.top_, tol=FOLD_TOL, **same)

    def settings(self, ranker: Any, options: Options) -> About:
        lams = getattr(ranker, "lams_", None)
        return super().settings(ranker, options) | {
            "lams_tried": None if lams is None else [float(lams[0]), float(lams[-1])],
            "loss": ranker.loss,
        }

    def describe(self, settings: About) -> str:
        seed = "" if settings["seed"] is None else f", seed {settings['seed']}"
        loss, scale = settings["loss"], settings["scale"]
        return f"{super().describe(settings)}; loss {loss}, scale {scale}{seed}."

    def add_to_graph(self, graph: "Graph", model: "Model") -> str:
        linear = model.linear
        return _add_kernel(graph, model) if linear is None else _add_linear(graph, linear)

    def weights_record(self, model: "Model") -> About:
        linear = model.linear
        if linear is None:
            raise ModelError(
                "the pipeline makes features of the columns, so there are no weights of columns."
            )
        record: About = {"format": "toppush weights 1", "threshold": linear.threshold}
        if linear.columns is None:
            return record | {"weights": linear.weights.tolist()}
        refuse_text(linear.columns, "--weights")
        columns: About = {}
        for part in linear.parts():
            if isinstance(part.column, Number):
                weight = float(part.weights[0])
                missing = weight * part.column.fill + part.missing
                columns[part.column.name] = {"weight": weight, "missing": missing}
            elif isinstance(part.column, Category):
                weights = part.weights[:-1].tolist()
                categories = dict(zip(part.column.categories, weights, strict=True))
                record_of_column = {"categories": categories, "missing": part.missing}
                columns[part.column.name] = record_of_column
        return record | {"columns": columns}


def compared_with_logistic(ranker: TopPushCV, X: Matrix, rows: FitRows) -> dict[str, float]:
    """Mean average precision over the folds of the chosen pair and of logistic regression.

    Held-out rows get weight zero, so no rows are copied.
    """
    baseline = []
    positive, weights = rows.positive, rows.roles.weight
    weights = np.ones(len(positive)) if weights is None else weights
    for train, test in check_cv(ranker.cv).split(np.empty(len(positive)), positive):
        fold_weights = np.zeros(len(positive))
        fold_weights[train] = weights[train]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            logistic = LogisticRegression().fit(X, positive, sample_weight=fold_weights)
        scores = logistic.decision_function(X)
        baseline.append(
            metrics.average_precision(positive[test], scores[test], sample_weight=weights[test])
        )
    results = ranker.cv_results_
    ours = results["mean_average_precision"][np.argmin(results["rank_test_score"])]
    return {"average_precision": float(ours), "logistic_regression": float(np.mean(baseline))}


def _add_linear(graph: "Graph", linear: LinearScore) -> str:
    if linear.columns is None:
        rows = graph.rows(len(linear.weights))
        return graph.product(rows, linear.weights, linear.threshold)
    total = graph.constant([[-linear.threshold]])
    for part in linear.parts():
        if isinstance(part.column, Number):
            value, missing = graph.number(part.column)
            term = graph.apply("Mul", value, graph.constant(part.weights[0]))
        elif isinstance(part.column, Category):
            code, missing = graph.category(part.column)
            term = graph.apply("Gather", graph.constant(part.weights), code)
        total = graph.apply("Add", total, term)
        if part.missing:
            term = graph.apply("Mul", missing, graph.constant(part.missing))
            total = graph.apply("Add", total, term)
    return graph.flat(total)


def _add_kernel(graph: "Graph", model: "Model") -> str:
    """Scaled columns, their kernel with the landmarks, and the product with the weights."""
    *before, (_, kernel), (_, ranker) = model.pipeline.steps
    if not isinstance(kernel, Nystroem) or kernel.kernel != "rbf":
        raise ModelError(f"ONNX export knows linear models and Nystroem, and this has {kernel!r}.")
    rows = graph.scaled(model.columns, before, kernel.n_features_in_)
    centers = np.asarray(dense(kernel.components_), np.float64)
    similar = graph.gaussian(rows, centers, kernel.gamma)
    weights = kernel.normalization_.T @ ranker.coef_[0]
    return graph.product(similar, weights, float(ranker.threshold_))
