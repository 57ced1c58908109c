"""The base models of `TopRanker`: how each is made and fitted, and when it is left out.

A base model is a `Member`. To add one, put it into `MEMBERS`, and its name into the `EFFORTS` that
fit it by default.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from inspect import isclass, signature
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import _safe_indexing

from toppush.auto.combination import COMBINATION
from toppush.auto.kernel import TopKernel
from toppush.auto.linear import TopLinear
from toppush.folds.scores import location_and_scale, mean_over_fits, on_scale_of
from toppush.folds.splits import Folds, shuffled_folds, within
from toppush.matrices import dense, is_sparse, stored
from toppush.metrics.scoring import gives_scores, scores_of
from toppush.models.additive import TopPushAdditive
from toppush.models.catboost_trees import TopCatBoost
from toppush.models.engines import EngineTrees
from toppush.models.forest import TopForest
from toppush.models.kernel import n_prepared
from toppush.models.net import TopPushNet
from toppush.models.trees import TopPushTrees
from toppush.models.xgboost_trees import TopXGBoost
from toppush.system.extras import not_installed
from toppush.system.threads import check_cancelled
from toppush.tables.frames import FrameColumns
from toppush.types import Array, Mask, Matrix, Where

if TYPE_CHECKING:
    from toppush.auto.dask_folds import DaskFolds

WEIGHT = "sample_weight"
NO_TEXT, NO_TERMS = "no column holds free text", "free text is empty in all training rows"
NO_FILE = "neither a model file nor an ONNX export can hold it"
MANY_COLUMNS = 50_000
"""Columns beyond which forests, curves and networks take too long."""
KERNEL_ROWS, KERNEL_COLUMNS = 10_000, 500
"""Rows and columns beyond which a kernel machine takes too long."""


@dataclass(frozen=True)
class Effort:
    """Which members are fitted, and how large they are."""

    members: tuple[str, ...]
    n_folds: int
    n_boosted: int
    """Members of an ensemble of boosted trees for each fold."""
    forest_rows: int
    """Rows of all trees of a forest together; within limits."""
    forest_trees: tuple[int, int]
    """Minimum and maximum number of trees of a forest."""
    n_kept: int
    """Members that are fitted to all rows however many there are, if they have a weight."""


QUICK = ("logistic", "boosted", "small_trees", "forest", "text")
BOOSTED = ("boosted", "trees", "small_trees", "shallow_trees", "target_trees")
NORMAL = ("logistic", "linear", *BOOSTED, "forest", "kernel", "text", "catboost")
EFFORTS = {
    "quick": Effort(QUICK, 3, 1, 400_000, (12, 60), 2),
    "normal": Effort(NORMAL, 4, 1, 4_000_000, (48, 200), 3),
    "thorough": Effort((*NORMAL, "additive", "net"), 5, 2, 20_000_000, (100, 400), 5),
}


@dataclass(frozen=True)
class FitData:
    """The rows of a fit as members see them, and the settings of the fit."""

    X: Any
    """As passed to `fit`."""
    numbers: Matrix
    """As numbers, see `FrameColumns`."""
    columns: FrameColumns
    positive: Mask
    weight: Array | None
    folds: Folds
    effort: Effort
    n_jobs: int | None = None
    seed: int = 0
    folds_matter: bool = False
    """Whether members must use these folds, as with groups."""
    terms: Matrix | None = None
    """The weights of the terms of free text; None if no column holds any."""
    on_dask: "DaskFolds | None" = None
    """The rows on a cluster; `positive`, `weight` and `folds` are those of a sample, and there is
    no X."""

    @property
    def n_rows(self) -> int:
        """Number of rows in this process."""
        return len(self.positive)

    @property
    def n_fitted(self) -> int:
        """Number of rows that members are fitted to."""
        return self.n_rows if self.on_dask is None else self.on_dask.n_counted

    @property
    def all_train(self) -> bool:
        """Whether some fold trains on every row; not with folds by time."""
        trained = np.zeros(self.n_rows, bool)
        for train, _ in self.folds:
            trained[train] = True
        return bool(trained.all())

    def part(self, where: Where) -> "FitData":
        """Some of the rows, with their part of the folds."""
        return replace(
            self,
            X=_safe_indexing(self.X, where),
            numbers=self.numbers[where],
            terms=None if self.terms is None else self.terms[where],
            positive=self.positive[where],
            weight=None if self.weight is None else self.weight[where],
            folds=[within(fold, where) for fold in self.folds],
        )


@dataclass(frozen=True)
class FittedMember:
    """A fitted member, and its scores of rows that it did not see."""

    ranker: Any
    out_of_fold: Array
    raw: bool = False
    """Whether it scores rows as passed by the user, not as numbers."""
    on_terms: bool = False
    """Whether it scores the weights of terms."""
    second: Array | None = None
    """Scores of a few rows by a second fold model, NaN for others, if fold models are averaged;
    None if one fit scores new rows."""
    shuffled: Array | None = None
    """Out-of-fold scores by shuffled folds, where folds by time make a second fit necessary."""
    seconds: float = 0.0
    n_rows: int = 0


@dataclass(frozen=True)
class Member:
    """A base model: `make` gives an unfitted estimator."""

    make: Callable[[FitData], BaseEstimator]
    engine: str | None = None
    """A package that it needs and that is not installed with toppush."""
    cross_fits: bool = False
    """Whether its `fit` gives out-of-fold scores, as that of `CrossFitted`."""
    raw: bool = False
    """Whether it takes rows as passed by the user, not as numbers."""
    on_terms: bool = False
    """Whether it takes the weights of the terms of text; it needs some."""
    sparse_missing: bool = True
    """Whether it takes missing values in sparse rows."""
    most_columns: int | None = None
    """Number of columns beyond which it is left out."""
    refuses: Callable[[FitData], str | None] = lambda data: None
    """Any other reason why it cannot be fitted to some rows."""
    compared: tuple[str, float] | None = None
    """A faster member, and how many times as long a fit takes, for the time limit."""
    dask: str | None = None
    """How it is fitted to rows of Dask, see `toppush.auto.dask.trainers`; None if it cannot be."""

    def left_out(self, data: FitData) -> str | None:
        """Why it does not take part, if so."""
        if data.on_dask is not None:
            from toppush.auto.dask import left_out

            return left_out(self.dask, data.on_dask)
        if self.engine is not None and find_spec(self.engine) is None:
            return not_installed(self.engine)
        if self.on_terms:
            if data.terms is None:
                return NO_TEXT
            return None if data.terms.shape[1] else NO_TERMS
        width = data.numbers.shape[1]
        if self.most_columns is not None and width > self.most_columns:
            return f"{width:,} columns are too many for it"
        if not self.sparse_missing and has_sparse_missing(data.numbers):
            return "it does not take missing values in sparse rows"
        return self.refuses(data)

    def limits(self, data: FitData) -> str | None:
        """What cannot be done with it once it is fitted, if anything."""
        ranker = self.make(data)
        if not hasattr(_last(ranker), "contributions"):
            return f"explanations count its part as '(other)', and {NO_FILE}"
        return None if _last(ranker) is ranker else NO_FILE

    def fit(self, data: FitData) -> FittedMember:
        """Fit to all rows, and score each by a fit that did not see it."""
        began = time.perf_counter()
        if data.on_dask is not None:
            from toppush.auto.dask import fit

            assert self.dask is not None
            fitted = fit(self.dask, data.on_dask, data.seed)
        else:
            fitted = self._cross_fitted(data) if self.cross_fits else self._fitted(data)
        return replace(
            fitted,
            on_terms=self.on_terms,
            seconds=time.perf_counter() - began,
            n_rows=data.n_fitted,
        )

    def _cross_fitted(self, data: FitData) -> FittedMember:
        X = data.terms if self.on_terms else data.numbers
        ranker = _fit(self.make(data), X, data)
        unseen, second = ranker.out_of_fold_, getattr(ranker, "second_scores_", None)
        if data.all_train:
            return FittedMember(ranker, unseen, self.raw, second=second)
        # Shuffled folds train on every row; the scores by the original folds go on their scale.
        shuffled = shuffled_folds(
            data.positive, len(data.folds), np.random.RandomState(data.seed).randint(2**31 - 1)
        )
        final = _fit(self.make(replace(data, folds=shuffled)), X, data)
        scale = final.out_of_fold_
        second = None if second is None else on_scale_of(second, unseen, scale)
        unseen = on_scale_of(unseen, unseen, scale)
        return FittedMember(final, unseen, self.raw, second=second, shuffled=scale)

    def _fitted(self, data: FitData) -> FittedMember:
        """A fit to all rows, and one for each fold whose scores are standardised.

        Fits to other rows differ in location and scale; of additive models the scale by a third.
        """
        ranker, X = self.make(data), data.X if self.raw else data.numbers
        parts = []
        for train, held in data.folds:
            check_cancelled()
            model = _fit(clone(ranker), X, data, train)
            scores = scores_of(model, _safe_indexing(X, train))
            center, scale = location_and_scale(scores, data.positive[train])
            parts.append((held, (scores_of(model, _safe_indexing(X, held)) - center) / scale))
        final = _fit(ranker, X, data)
        center, scale = location_and_scale(scores_of(final, X), data.positive)
        unseen = mean_over_fits(parts, data.n_rows) * scale + center
        return FittedMember(final, np.asarray(unseen), self.raw)


def _fit(ranker: Any, X: Any, data: FitData, where: Where | None = None) -> Any:
    """A ranker fitted to all rows, or to some."""
    rows = np.arange(data.n_rows) if where is None else where
    weight = {} if data.weight is None else {_weight_name(ranker): data.weight[rows]}
    X = X if where is None else _safe_indexing(X, rows)
    return ranker.fit(X, data.positive[rows], **weight)


def _last(ranker: Any) -> Any:
    """The estimator that gives the scores of a search or a pipeline, not fitted."""
    if isinstance(ranker, BaseSearchCV):
        return _last(ranker.estimator)
    return _last(ranker.steps[-1][1]) if hasattr(ranker, "steps") else ranker


def _weight_name(ranker: Any) -> str:
    """The name under which `fit` takes weights; a pipeline passes them to its last step."""
    if isinstance(ranker, BaseSearchCV):
        return _weight_name(ranker.estimator)
    if hasattr(ranker, "steps"):
        name, last = ranker.steps[-1]
        return f"{name}__{_weight_name(last)}"
    parameters = signature(ranker.fit).parameters
    if WEIGHT not in parameters and all(p.kind is not p.VAR_KEYWORD for p in parameters.values()):
        raise ValueError(f"{type(ranker).__name__} takes no {WEIGHT}")
    return WEIGHT


def has_sparse_missing(rows: Matrix) -> bool:
    """Whether rows are sparse and have missing values."""
    return bool(is_sparse(rows) and np.isnan(stored(rows)).any())


# ---- the registry


def _linear(data: FitData, loss: str) -> TopLinear:
    return TopLinear(loss, categorical_features=data.columns.categorical, cv=data.folds)


ALL_ROWS: dict[str, Any] = {
    "subsample": 1.0,
    "colsample_bynode": 1.0,
    "min_child_samples": 10,
    "category_encoding": "smoothed",
}
"""Settings of boosted trees that are grown on all rows and columns."""
TARGET = ALL_ROWS | {"category_encoding": "target"}
"""The same with target statistics of categories."""


def _trees(data: FitData, loss: str, **settings: Any) -> TopPushTrees:
    return TopPushTrees(
        loss=loss,
        n_members=len(data.folds) * data.effort.n_boosted,
        categorical_features=data.columns.categorical or None,
        cv=data.folds,
        n_jobs=data.n_jobs,
        random_state=data.seed,
        **settings,
    )


def _engine(trees: type[EngineTrees], data: FitData) -> EngineTrees:
    return trees(
        len(data.folds) * data.effort.n_boosted,
        categorical_features=data.columns.categorical or None,
        cv=data.folds,
        n_jobs=data.n_jobs,
        random_state=data.seed,
    )


def _refused_by_engines(data: FitData) -> str | None:
    if find_spec("lightgbm") is None:  # which scores their trees
        return not_installed("lightgbm")
    return "it does not take sparse rows" if is_sparse(data.numbers) else None


def _forest(data: FitData) -> TopForest:
    least, most = data.effort.forest_trees
    n_trees = int(np.clip(data.effort.forest_rows // data.n_rows, least, most))
    return TopForest(n_trees, cv=data.folds, n_jobs=data.n_jobs, random_state=data.seed)


def _additive(data: FitData) -> TopPushAdditive:
    categorical = data.columns.categorical or None
    return TopPushAdditive(categorical_features=categorical, cv=3, n_jobs=data.n_jobs)


def _net(data: FitData) -> TopPushNet:
    return TopPushNet(n_jobs=data.n_jobs, random_state=data.seed)


def _kernel(data: FitData) -> TopKernel:
    return TopKernel(
        categorical_features=data.columns.categorical,
        cv=data.folds,
        n_jobs=data.n_jobs,
        random_state=data.seed,
    )


def _refused_by_kernel(data: FitData) -> str | None:
    if data.n_rows > KERNEL_ROWS:
        return f"{data.n_rows:,} rows are too many for it; it takes up to {KERNEL_ROWS:,}"
    if categorical := data.columns.categorical:
        is_categorical = np.isin(np.arange(data.numbers.shape[1]), categorical)
        if (width := n_prepared(dense(data.numbers), is_categorical)) > KERNEL_COLUMNS:
            return f"its {width:,} columns, with one for each common category, are too many"
    return None


def _refused_by_net(data: FitData) -> str | None:
    if data.folds_matter:
        return "it draws its own folds"
    if data.columns.categorical:
        return "it does not take categories"
    missing = np.isnan(stored(data.numbers)).any()
    return "it does not take missing values" if missing else None


def _without_categories(data: FitData) -> str | None:
    return None if any(data.columns.categories.values()) else "no column holds categories"


MEMBERS: dict[str, Member] = {
    "logistic": Member(
        lambda data: _linear(data, "logistic"), cross_fits=True, sparse_missing=False
    ),
    "linear": Member(
        lambda data: _linear(data, "push"), cross_fits=True, sparse_missing=False, dask="linear"
    ),
    "boosted": Member(
        lambda data: _trees(data, "binary"), "lightgbm", cross_fits=True, dask="binary"
    ),
    "trees": Member(
        lambda data: _trees(data, "pairwise"), "lightgbm", cross_fits=True, dask="pairwise"
    ),
    "small_trees": Member(
        lambda data: _trees(data, "pairwise", n_leaves=15, learning_rate=0.05, **ALL_ROWS),
        "lightgbm",
        cross_fits=True,
    ),
    "shallow_trees": Member(
        lambda data: _trees(data, "pairwise", n_leaves=4, **ALL_ROWS), "lightgbm", cross_fits=True
    ),
    "target_trees": Member(
        lambda data: _trees(data, "pairwise", n_leaves=15, learning_rate=0.05, **TARGET),
        "lightgbm",
        cross_fits=True,
        refuses=_without_categories,
    ),
    "xgboost": Member(
        lambda data: _engine(TopXGBoost, data),
        "xgboost",
        cross_fits=True,
        sparse_missing=False,
        most_columns=MANY_COLUMNS,
        refuses=_refused_by_engines,
    ),
    "catboost": Member(
        lambda data: _engine(TopCatBoost, data),
        "catboost",
        cross_fits=True,
        sparse_missing=False,
        most_columns=MANY_COLUMNS,
        refuses=_refused_by_engines,
        compared=("boosted", 5.0),
    ),
    "forest": Member(_forest, cross_fits=True, sparse_missing=False, most_columns=MANY_COLUMNS),
    "kernel": Member(
        _kernel,
        cross_fits=True,
        sparse_missing=False,
        most_columns=KERNEL_COLUMNS,
        refuses=_refused_by_kernel,
    ),
    "additive": Member(_additive, sparse_missing=False, most_columns=MANY_COLUMNS),
    "net": Member(
        _net,
        "torch",
        cross_fits=True,
        sparse_missing=False,
        most_columns=MANY_COLUMNS,
        refuses=_refused_by_net,
    ),
    "text": Member(
        lambda data: TopLinear(form="unscaled", cv=data.folds),
        cross_fits=True,
        on_terms=True,
        sparse_missing=False,
    ),
}
"""Members by name; others may be added."""


def named_members(asked: Sequence[Any] | None, effort: Effort) -> dict[str, Member]:
    """The members of a list of names, estimators, and pairs of a name and an estimator."""
    members: dict[str, Member] = {}
    for item in effort.members if asked is None else asked:
        name, member = _member(item)
        if name in members or name == COMBINATION:
            wrong = ", the name of all together" if name == COMBINATION else " twice"
            raise ValueError(f"members has {name!r}{wrong}; give each a name of its own.")
        members[name] = member
    if not members:
        raise ValueError("members is empty; name at least one, or leave it out.")
    return members


def _member(asked: Any) -> tuple[str, Member]:
    if isinstance(asked, str):
        if asked not in MEMBERS:
            known = ", ".join(MEMBERS)
            raise ValueError(f"members names {asked!r}; known are {known}, or give an estimator.")
        return asked, MEMBERS[asked]
    is_pair = isinstance(asked, tuple) and len(asked) == 2
    name, estimator = asked if is_pair else (type(asked).__name__.lower(), asked)
    if isclass(estimator) or not hasattr(estimator, "fit"):
        raise ValueError(f"members has {asked!r}, which is neither a name nor an estimator.")
    if not gives_scores(estimator):
        raise ValueError(
            f"members has {asked!r}, which gives no scores: a classifier needs decision_function "
            "or predict_proba, a regressor predict; calibrate it, or take another."
        )
    return str(name), Member(lambda data: clone(estimator), raw=True)
