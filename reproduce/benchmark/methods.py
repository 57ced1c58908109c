"""The methods of the benchmark: each set as its users would set it, in a sentence.

All get the same rows: a data frame as pandas reads it, an array, or a CSR matrix. What a method
needs beyond that is part of its fit, and of its time; every choice is made on the training rows.
"""

import hashlib
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, LinearSVC
from sklearn.utils import _safe_indexing

import toppush
from reproduce.benchmark import autogluon
from reproduce.benchmark.columns import NativeColumns, scaled, text_columns, unscaled
from toppush import TopRanker
from toppush.matrices import is_sparse
from toppush.metrics.scoring import scores_of
from toppush.system.extras import not_installed, version_of
from toppush.types import Array, Mask, Where

Scorer = Callable[[Any], Array]
RATE, PATIENCE, MOST_ROUNDS, N_TREES, N_BAGS, N_FOLDS = 0.05, 100, 2000, 500, 5, 3
MOST_KERNEL_ROWS = 10_000
ABOVE = ("cli", "files", "modelfile", "modeltypes", "report")
"""Packages of toppush that no fit of `TopRanker` imports."""


class Fit(Protocol):
    """From rows, labels, a seed and a number of threads to a function that scores rows."""

    def __call__(self, X: Any, y: Mask, seed: int, n_jobs: int) -> Scorer: ...


@dataclass(frozen=True)
class Method:
    """A method of the benchmark.

    Attributes
    ----------
    key, title : str
        Its name on the command line and in tables.
    settings : str
        How it is set, in a sentence.
    fit : Fit
    is_ours : bool
        Whether its results depend on the version of toppush.
    needs : str
        Package that must be installed.
    refuses : callable
        From training rows to the reason why the method is not applied to them, or nothing.
    revision : int
        Goes up when `fit` changes, so that older records do not count.
    """

    key: str
    title: str
    settings: str
    fit: Fit
    is_ours: bool = False
    needs: str = ""
    refuses: Callable[[Any], str] = lambda X: ""
    revision: int = 1

    @property
    def missing(self) -> str:
        """The message about a package that is not installed; empty if all are."""
        if self.needs == "autogluon":
            return autogluon.missing()
        return not_installed(self.needs) if self.needs and find_spec(self.needs) is None else ""

    @property
    def package(self) -> str:
        """The name and version of the package that the method is from."""
        if self.needs == "autogluon":
            return f"autogluon {autogluon.version()}"
        name = self.needs or ("toppush" if self.is_ours else "scikit-learn")
        return f"{name} {version_of(name)}"

    def version(self, label: str = "") -> str:
        """What decides the results apart from rows and seed: a label or the sources, if ours."""
        return (label or hash_of_sources()) if self.is_ours else str(self.revision)


@cache
def hash_of_sources() -> str:
    """A hash of the modules that a fit of `TopRanker` may import."""
    root, digest = Path(toppush.__file__).parent, hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        if path.relative_to(root).parts[0] not in ABOVE:
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def fitted(model: Any, X: Any, y: Mask) -> Scorer:
    """Fit an estimator of scikit-learn's interface, without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return partial(scores_of, model.fit(X, y))


def _ranker(effort: str) -> Fit:
    def fit(X: Any, y: Mask, seed: int, n_jobs: int) -> Scorer:
        return fitted(TopRanker(effort=effort, n_jobs=n_jobs, random_state=seed), X, y)

    return fit


def _logistic(X: Any, y: Mask, seed: int, n_jobs: int, *, with_tf_idf: bool = False) -> Scorer:
    """LIBLINEAR for sparse rows: it took 27 s where lbfgs took 144 s on url."""
    model = LogisticRegressionCV(
        solver="liblinear" if is_sparse(X) or with_tf_idf else "lbfgs",
        scoring="average_precision",
        max_iter=1000,
        n_jobs=n_jobs,
    )
    return fitted(make_pipeline(scaled(X, with_tf_idf=with_tf_idf), model), X, y)


def _searched(model: Any, costs: Sequence[float], n_jobs: int) -> GridSearchCV:
    folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=0)
    return GridSearchCV(model, {"C": costs}, scoring="average_precision", cv=folds, n_jobs=n_jobs)


def _linear_svm(X: Any, y: Mask, seed: int, n_jobs: int) -> Scorer:
    search = _searched(LinearSVC(random_state=seed), [0.01, 0.1, 1.0, 10.0], n_jobs)
    return fitted(make_pipeline(scaled(X, with_tf_idf=True), search), X, y)


def _kernel_svm(X: Any, y: Mask, seed: int, n_jobs: int) -> Scorer:
    if y.size > MOST_KERNEL_ROWS:
        rows = np.arange(y.size)
        rows, _ = train_test_split(rows, train_size=MOST_KERNEL_ROWS, stratify=y, random_state=seed)
        X, y = _safe_indexing(X, rows), y[rows]
    search = _searched(SVC(cache_size=1000), [0.1, 1.0, 10.0, 100.0], n_jobs)
    return fitted(make_pipeline(scaled(X), search), X, y)


def _forest(kind: type) -> Fit:
    def fit(X: Any, y: Mask, seed: int, n_jobs: int) -> Scorer:
        model = kind(N_TREES, min_samples_leaf=2, n_jobs=n_jobs, random_state=seed)
        return fitted(make_pipeline(unscaled(X), model), X, y)

    return fit


def _held_out(y: Mask, seed: int) -> tuple[Where, Where]:
    """Four fifths of the rows, and the others to stop by."""
    kept, held = train_test_split(np.arange(y.size), test_size=0.2, random_state=seed, stratify=y)
    return kept, held


def _lightgbm_options(seed: int, n_jobs: int) -> dict[str, Any]:
    options: dict[str, Any] = {"objective": "binary", "metric": "average_precision"}
    options |= {"learning_rate": RATE, "num_threads": n_jobs, "seed": seed, "verbosity": -1}
    return options


def _stopped_lightgbm(X: Any, y: Mask, parts: tuple[Where, Where], options: dict[str, Any]) -> Any:
    """A booster of the first rows that stops by the others."""
    import lightgbm

    kept, held = parts

    return lightgbm.train(
        options,
        lightgbm.Dataset(_safe_indexing(X, kept), y[kept]),
        MOST_ROUNDS,
        valid_sets=[lightgbm.Dataset(_safe_indexing(X, held), y[held])],
        callbacks=[lightgbm.early_stopping(PATIENCE, verbose=False)],
    )


def _lightgbm(X: Any, y: Mask, seed: int, n_jobs: int) -> Scorer:
    import lightgbm

    native, options = NativeColumns(X), _lightgbm_options(seed, n_jobs)
    rows = native(X)
    stopped = _stopped_lightgbm(rows, y, _held_out(y, seed), options)
    model = lightgbm.train(options, lightgbm.Dataset(rows, y), stopped.best_iteration)
    return lambda X: np.asarray(model.predict(native(X), raw_score=True), np.float64)


def _bagged_lightgbm(X: Any, y: Mask, seed: int, n_jobs: int) -> Scorer:
    native, options = NativeColumns(X), _lightgbm_options(seed, n_jobs)
    rows, folds = native(X), StratifiedKFold(N_BAGS, shuffle=True, random_state=seed)
    models = [_stopped_lightgbm(rows, y, fold, options) for fold in folds.split(y, y)]

    def score(X: Any) -> Array:
        rows = native(X)
        scores = [model.predict(rows, raw_score=True) for model in models]
        return np.asarray(np.mean(scores, axis=0), np.float64)

    return score


def _xgboost(X: Any, y: Mask, seed: int, n_jobs: int) -> Scorer:
    import xgboost

    matrix, native = partial(xgboost.DMatrix, enable_categorical=True), NativeColumns(X)
    options = {"objective": "binary:logistic", "eta": RATE, "nthread": n_jobs, "seed": seed}
    options |= {"eval_metric": "aucpr", "verbosity": 0}
    rows, (kept, held) = native(X), _held_out(y, seed)
    stopped = xgboost.train(
        options,
        matrix(_safe_indexing(rows, kept), y[kept]),
        MOST_ROUNDS,
        evals=[(matrix(_safe_indexing(rows, held), y[held]), "held")],
        early_stopping_rounds=PATIENCE,
        verbose_eval=False,
    )
    model = xgboost.train(options, matrix(rows, y), stopped.best_iteration + 1)
    return lambda X: np.asarray(model.predict(matrix(native(X)), output_margin=True), np.float64)


def _catboost(X: Any, y: Mask, seed: int, n_jobs: int) -> Scorer:
    import catboost

    native = NativeColumns(X, as_strings=True)
    (categories, texts), labels = native.positions(), y.astype(np.int8)
    options: dict[str, Any] = {"thread_count": n_jobs, "random_seed": seed, "verbose": False}
    options |= {"allow_writing_files": False}
    options |= {"cat_features": categories, "text_features": texts} if categories + texts else {}
    rows, (kept, held) = native(X), _held_out(y, seed)
    stopped = catboost.CatBoostClassifier(early_stopping_rounds=PATIENCE, **options)
    stopped.fit(
        _safe_indexing(rows, kept),
        labels[kept],
        eval_set=(_safe_indexing(rows, held), labels[held]),
    )
    rounds = {"iterations": max(stopped.tree_count_, 1), "learning_rate": stopped.learning_rate_}
    model = catboost.CatBoostClassifier(**rounds, **options).fit(rows, labels)
    return lambda X: np.asarray(model.predict(native(X), prediction_type="RawFormulaVal"))


def _without_texts(X: Any) -> str:
    return "" if text_columns(X) else "no column of texts"


SCALED = (
    "Standardised, missing values by the mean, one column for each value of a category, dates as "
    "day, month, weekday and hour"
)
CODED = "Missing values by the median, categories as codes, dates as for logistic regression"
STOPPED = (
    f"Learning rate {RATE}, patience {PATIENCE}, at most {MOST_ROUNDS} rounds, native categories, "
    "texts as 50 components of TF-IDF, stopped by average precision on "
)
REFITTED = "a fifth of the rows, then that many rounds on all rows."
TF_IDF = "TF-IDF of words and pairs of words; other columns as for logistic regression; "


def _autogluon(preset: str, seconds: int) -> Method:
    return Method(
        f"autogluon-{preset}-{seconds}",
        f"AutoGluon {preset}, {seconds} s",
        f'presets="{preset}_quality", time_limit={seconds} (wall-clock seconds), '
        'eval_metric="average_precision".',
        partial(autogluon.fit, presets=f"{preset}_quality", seconds=seconds),
        needs="autogluon",
        refuses=autogluon.refuses,
    )


METHODS = {
    method.key: method
    for method in (
        Method("top-ranker", "TopRanker", "Default arguments.", _ranker("normal"), is_ours=True),
        *(
            Method(
                f"top-ranker-{effort}",
                f"TopRanker, {effort}",
                f'effort="{effort}".',
                _ranker(effort),
                is_ours=True,
            )
            for effort in ("quick", "thorough")
        ),
        Method(
            "lr",
            "logistic regression",
            f"{SCALED}, texts as 50 components of TF-IDF; LogisticRegressionCV by average "
            "precision; sparse rows over the largest of each column, by LIBLINEAR.",
            _logistic,
        ),
        Method(
            "tfidf-lr",
            "TF-IDF, logistic regression",
            f"{TF_IDF}LogisticRegressionCV by average precision.",
            partial(_logistic, with_tf_idf=True),
            refuses=_without_texts,
        ),
        Method(
            "tfidf-svc",
            "TF-IDF, LinearSVC",
            f"{TF_IDF}C by average precision on {N_FOLDS} folds.",
            _linear_svm,
            refuses=_without_texts,
        ),
        Method(
            "svc",
            "SVC, RBF kernel",
            "Columns as for logistic regression; at most 10,000 training rows at random; C by "
            f"average precision on {N_FOLDS} folds.",
            _kernel_svm,
        ),
        Method(
            "extra-trees",
            "extra trees",
            f"{N_TREES} trees, at least 2 rows in a leaf. {CODED}.",
            _forest(ExtraTreesClassifier),
        ),
        Method(
            "forest",
            "random forest",
            f"{N_TREES} trees, at least 2 rows in a leaf. {CODED}.",
            _forest(RandomForestClassifier),
        ),
        Method("lightgbm", "LightGBM", STOPPED + REFITTED, _lightgbm, needs="lightgbm"),
        Method(
            "lightgbm-bagged",
            "LightGBM, bagged",
            f"{STOPPED}the held-out rows of each of {N_BAGS} folds; mean of the fold models.",
            _bagged_lightgbm,
            needs="lightgbm",
        ),
        Method("xgboost", "XGBoost", STOPPED + REFITTED, _xgboost, needs="xgboost"),
        Method(
            "catboost",
            "CatBoost",
            "Default arguments with native categories and texts, dates as for logistic regression, "
            f"patience {PATIENCE}, stopped by log loss on {REFITTED}",
            _catboost,
            needs="catboost",
        ),
        *(_autogluon(preset, time) for preset in ("medium", "high") for time in (120, 600)),
    )
}
"""All methods by their keys."""
REFERENCE = "top-ranker"
"""The method that all others are tested against."""
