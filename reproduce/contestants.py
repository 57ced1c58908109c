"""The rankers of the benchmark: each one as somebody who knows it would set it, in a sentence.

All get the same rows: a data frame with its gaps and texts as categories, a dense array, or a CSR
matrix, not scaled. What a ranker needs beyond that is its own affair and part of its time. Every
choice is made on the training rows alone.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    StandardScaler,
)
from sklearn.svm import LinearSVC
from sklearn.utils import _safe_indexing

from reproduce.methods import METHODS, Method
from reproduce.protocol import choose
from toppush import (
    TopPushAdditive,
    TopPushCV,
    TopPushNet,
    TopPushTrees,
    TopRanker,
)
from toppush.matrices import is_sparse
from toppush.metrics.scoring import scores_of
from toppush.types import Array, Mask

Scorer = Callable[[Any], Array]
COSTS = [0.01, 0.1, 1.0, 10.0, 100.0]
RATE, PATIENCE, MOST_ROUNDS, FOREST = 0.1, 40, 1000, 300
MOST_WEIGHTS = 3e7
"""Of a network's first layer."""


@dataclass(frozen=True)
class Contestant:
    """A ranker of the benchmark.

    Attributes
    ----------
    key, title : str
        Its name on the command line and in tables.
    settings : str
        How it is set, in a sentence.
    fit : callable
        From rows, labels and a seed to a function that scores rows.
    kind : {"ours", "linear", "trees", "network", "paper"}
    needs : str
        Package that must be installed.
    revision : int
        Goes up when `fit` changes, so that older records do not count.
    method : Method, optional
        What the paper's competitors are in Table 2.
    """

    key: str
    title: str
    settings: str
    fit: Callable[[Any, Mask, int], Scorer]
    kind: str
    needs: str = ""
    revision: int = 1
    method: Method | None = None

    @property
    def is_available(self) -> bool:
        """Whether the package that it needs is installed."""
        return not self.needs or find_spec(self.needs) is not None

    @property
    def is_on_gpu(self) -> bool:
        """Whether it computes on a GPU here, so that its CPU seconds tell nothing."""
        return self.needs == "torch" and gpu_name() != ""

    @property
    def is_slow(self) -> bool:
        """Whether it is asked how long a trial would take before the first begins."""
        return self.kind == "paper"


class Refused(ValueError):
    """A ranker that cannot take these rows, and why."""


def scores_by(model: Any, X: Any, y: Mask) -> Scorer:
    """Fit a model of scikit-learn's kind; what it warns of is no concern of a comparison."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return partial(scores_of, model.fit(X, y))


def columns(X: Any) -> Any:
    """How a model of plain numbers sees rows: sparse ones over their largest, others standardised.

    Gaps are filled with the median; a text has a column for each of its values.
    """
    return MaxAbsScaler() if is_sparse(X) else _filled(X, StandardScaler())


def papers_columns(X: Any) -> Any:
    """How the paper's competitors see rows: sparse ones as published, others in [0, 1].

    The authors' files are so, and their solvers slow on others: the paper's takes 1 s for a split
    of spambase, with its choices, and more than 100 s on standardised columns.
    """
    return FunctionTransformer() if is_sparse(X) else _filled(X, MinMaxScaler())


def _filled(X: Any, scaler: Any) -> Any:
    """Numbers without gaps, scaled, and texts as columns."""
    numbers = make_pipeline(SimpleImputer(strategy="median"), scaler)
    texts = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    if not hasattr(X, "columns"):
        return numbers
    return make_column_transformer(
        (texts, make_column_selector(dtype_include="category")), remainder=numbers
    )


def on_columns(make: Callable[[int], Any]) -> Callable[[Any, Mask, int], Scorer]:
    """A model of plain numbers."""
    return lambda X, y, seed: scores_by(make_pipeline(columns(X), make(seed)), X, y)


def as_they_are(make: Callable[[int], Any]) -> Callable[[Any, Mask, int], Scorer]:
    """A model that takes texts, gaps and sparse rows itself."""
    return lambda X, y, seed: scores_by(make(seed), X, y)


def searched(model: Any, grid: Any) -> GridSearchCV:
    """The settings with the best average precision on three folds."""
    return GridSearchCV(model, grid, scoring="average_precision", cv=3)


def _fit_logistic(X: Any, y: Mask, seed: int) -> Scorer:
    """By the solver that suits the rows: LIBLINEAR took 27 s where lbfgs took 144 on url."""
    solver = "liblinear" if is_sparse(X) else "lbfgs"
    model = LogisticRegression(solver=solver, max_iter=1000)
    return on_columns(lambda seed: searched(model, {"C": COSTS}))(X, y, seed)


def _linear_svm(seed: int, **grid: list[Any]) -> GridSearchCV:
    return searched(LinearSVC(random_state=seed), {"C": COSTS[:4], **grid})


def _costs_of_a_positive() -> list[Any]:
    return [{True: cost} for cost in (0.1, 1.0, 10.0)]


def _fit_forest(X: Any, y: Mask, seed: int) -> Scorer:
    """Sparse rows as they are: of arrays the same trees take longer, many times on wide ones."""
    model = RandomForestClassifier(FOREST, min_samples_leaf=2, n_jobs=1, random_state=seed)
    way = as_they_are if is_sparse(X) else on_columns
    return way(lambda seed: model)(X, y, seed)


def _fit_network(X: Any, y: Mask, seed: int) -> Scorer:
    _check_first_layer(X, 100)
    model = MLPClassifier((100,), early_stopping=True, random_state=seed)
    return on_columns(lambda seed: model)(X, y, seed)


@cache
def gpu_name() -> str:
    """The GPU that torch would use, nothing if there is none."""
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else ""


def _fit_our_network(X: Any, y: Mask, seed: int) -> Scorer:
    """On a GPU it may be as large as it allows itself; a processor would take hours."""
    net = TopPushNet(device="cuda" if gpu_name() else None, n_jobs=1, random_state=seed)
    if not gpu_name():
        _check_first_layer(X, net.hidden[0] * net.n_members)
    return on_columns(lambda seed: net)(X, y, seed)


def _check_first_layer(X: Any, n_units: int) -> None:
    if X.shape[1] * n_units > MOST_WEIGHTS:
        raise Refused(f"{X.shape[1]:,} columns make more than {MOST_WEIGHTS:,.0f} weights")


def _parted(y: Mask, seed: int) -> list[Array]:
    """Three quarters of the rows, and the rest to stop by."""
    parts = train_test_split(np.arange(y.size), test_size=0.25, random_state=seed, stratify=y)
    return [np.sort(part) for part in parts]


def _fit_lightgbm(X: Any, y: Mask, seed: int) -> Scorer:
    import lightgbm

    options = {"objective": "binary", "learning_rate": RATE, "metric": "average_precision"}
    options |= {"num_threads": 1, "seed": seed, "verbosity": -1}
    kept, held = _parted(y, seed)
    found = lightgbm.train(
        options,
        lightgbm.Dataset(_safe_indexing(X, kept), y[kept]),
        MOST_ROUNDS,
        valid_sets=[lightgbm.Dataset(_safe_indexing(X, held), y[held])],
        callbacks=[lightgbm.early_stopping(PATIENCE, verbose=False)],
    )
    model = lightgbm.train(options, lightgbm.Dataset(X, y), found.best_iteration)
    return lambda rows: np.asarray(model.predict(rows, raw_score=True), np.float64)


def _fit_xgboost(X: Any, y: Mask, seed: int) -> Scorer:
    import xgboost

    matrix = partial(xgboost.DMatrix, enable_categorical=True)
    options = {"objective": "binary:logistic", "eta": RATE, "nthread": 1, "seed": seed}
    options |= {"eval_metric": "aucpr", "verbosity": 0}
    kept, held = _parted(y, seed)
    found = xgboost.train(
        options,
        matrix(_safe_indexing(X, kept), y[kept]),
        MOST_ROUNDS,
        evals=[(matrix(_safe_indexing(X, held), y[held]), "held")],
        early_stopping_rounds=PATIENCE,
        verbose_eval=False,
    )
    model = xgboost.train(options, matrix(X, y), found.best_iteration + 1)
    return lambda rows: np.asarray(model.predict(matrix(rows), output_margin=True), np.float64)


def _fit_catboost(X: Any, y: Mask, seed: int) -> Scorer:
    import catboost

    texts = list(X.select_dtypes("category").columns) if hasattr(X, "columns") else None
    labels = y.astype(np.int8)
    options: dict[str, Any] = {"thread_count": 1, "random_seed": seed, "verbose": False}
    options |= {"allow_writing_files": False, "cat_features": texts}
    kept, held = _parted(y, seed)
    first = catboost.CatBoostClassifier(MOST_ROUNDS, early_stopping_rounds=PATIENCE, **options)
    first.fit(
        _safe_indexing(X, kept), labels[kept], eval_set=(_safe_indexing(X, held), labels[held])
    )
    model = catboost.CatBoostClassifier(max(first.tree_count_, 1), **options)
    model.set_params(learning_rate=first.learning_rate_).fit(X, labels)
    return lambda rows: np.asarray(model.predict(rows, prediction_type="RawFormulaVal"))


def _by_the_paper(method: Method) -> Callable[[Any, Mask, int], Scorer]:
    """A method of Table 2, chosen as the paper chooses."""

    def fit(X: Any, y: Mask, seed: int) -> Scorer:
        prepare = papers_columns(X).fit(X)
        rows = sparse.csr_array(prepare.transform(X))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            setting, _ = choose(method, (rows, y), seed)
            score = method.fit(rows, y, **setting)
        return lambda X: score(sparse.csr_array(prepare.transform(X)))

    return fit


PAPER_KEYS = ("toppush", "svm-rank", "svm-map", "svm-pauc", "infinite-push", "aatp")
PAPERS = (
    "Columns in [0, 1] (sparse rows: as published), gaps by the median, texts one column a value; "
    "settings by the paper's protocol: its grid, Pos@Top on five folds."
)
STOPPED = (
    f"Rounds by a quarter of the rows, patience {PATIENCE}, at most {MOST_ROUNDS}, then that many "
    "on all rows; "
)
SCALED = (
    "Standardised (sparse rows: over the largest), gaps by the median, texts one column a value; "
)
CONTESTANTS = {
    one.key: one
    for one in (
        Contestant(
            "top-ranker",
            "TopRanker",
            "As it is.",
            as_they_are(lambda seed: TopRanker(n_jobs=1, random_state=seed)),
            "ours",
        ),
        Contestant(
            "top-ranker-quick",
            "TopRanker, quick",
            'effort="quick".',
            as_they_are(lambda seed: TopRanker(effort="quick", n_jobs=1, random_state=seed)),
            "ours",
        ),
        Contestant(
            "trees",
            "TopPushTrees",
            "As it is.",
            as_they_are(lambda seed: TopPushTrees(n_jobs=1, random_state=seed)),
            "ours",
            needs="lightgbm",
        ),
        Contestant(
            "linear",
            "TopPushCV",
            f"{SCALED}else as it is.",
            on_columns(lambda seed: TopPushCV(n_jobs=1)),
            "ours",
        ),
        Contestant(
            "additive",
            "TopPushAdditive",
            f"{SCALED}else as it is.",
            on_columns(lambda seed: TopPushAdditive(n_jobs=1)),
            "ours",
        ),
        Contestant(
            "net",
            "TopPushNet",
            f"{SCALED}else as it is, on a GPU where there is one.",
            _fit_our_network,
            "ours",
            needs="torch",
            revision=2,
        ),
        Contestant(
            "lr-default",
            "LR, untuned",
            f"{SCALED}else scikit-learn's defaults.",
            on_columns(lambda seed: LogisticRegression(max_iter=1000)),
            "linear",
        ),
        Contestant(
            "lr",
            "LR",
            f"{SCALED}C of {COSTS} by average precision on three folds; sparse rows by LIBLINEAR.",
            _fit_logistic,
            "linear",
            revision=2,
        ),
        Contestant(
            "linear-svc",
            "LinearSVC",
            f"{SCALED}C of {COSTS[:4]} by average precision on three folds.",
            on_columns(_linear_svm),
            "linear",
        ),
        Contestant(
            "cs-svm",
            "cs-SVM",
            f"{SCALED}C of {COSTS[:4]} and the cost of a positive of .1, 1 and 10 by average "
            "precision on three folds.",
            on_columns(partial(_linear_svm, class_weight=_costs_of_a_positive())),
            "linear",
        ),
        Contestant(
            "forest",
            "random forest",
            f"{FOREST} trees, at least two rows a leaf; gaps and texts as for linear models.",
            _fit_forest,
            "trees",
        ),
        Contestant(
            "xgboost",
            "XGBoost",
            f"{STOPPED}by aucpr, rate {RATE}, texts as its own categories.",
            _fit_xgboost,
            "trees",
            needs="xgboost",
        ),
        Contestant(
            "lightgbm",
            "LightGBM",
            f"{STOPPED}by average_precision, rate {RATE}, texts as its own categories.",
            _fit_lightgbm,
            "trees",
            needs="lightgbm",
        ),
        Contestant(
            "catboost",
            "CatBoost",
            f"{STOPPED}by its log loss, its own rate, texts as its own categories.",
            _fit_catboost,
            "trees",
            needs="catboost",
        ),
        Contestant(
            "mlp",
            "MLP",
            f"{SCALED}100 hidden units, stopped early by a tenth of the rows.",
            _fit_network,
            "network",
        ),
        *(
            Contestant(
                f"paper-{one.key}",
                one.title,
                PAPERS,
                _by_the_paper(one),
                "paper",
                revision=1 + one.revision,
                method=one,
            )
            for one in (METHODS[key] for key in PAPER_KEYS)
        ),
    )
}
