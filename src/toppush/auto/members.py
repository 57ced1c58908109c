"""The members of `TopRanker`: how each is made, and when it is left out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from inspect import isclass, signature
from typing import Any, Protocol

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import _safe_indexing

from toppush.auto.leaderboard import COMBINATION
from toppush.auto.linear import TopLinear
from toppush.folds.cross_fitted import Fold, drawn_folds, in_unit, within
from toppush.matrices import is_sparse, stored
from toppush.metrics.scoring import gives_scores, scores_of
from toppush.models.additive import TopPushAdditive
from toppush.models.forest import TopForest
from toppush.models.net import TopPushNet
from toppush.models.trees import TopPushTrees
from toppush.system.extras import not_installed
from toppush.system.threads import check_cancelled
from toppush.tables.frames import FrameColumns
from toppush.types import Array, Mask, Matrix, Where

WEIGHT = "sample_weight"
NO_FILE = "neither a model file nor an ONNX export can hold it"
MANY_COLUMNS = 50_000
"""Columns beyond which trees of a forest are not worth their time."""


@dataclass(frozen=True)
class Effort:
    """How much is spent."""

    members: tuple[str, ...]
    n_folds: int
    n_boosted: int
    """Members of an ensemble of boosted trees for each fold."""
    forest_rows: int
    """Rows that the trees of a forest see, all together; within limits."""
    forest_trees: tuple[int, int]
    """Least and most trees of a forest."""


EFFORTS = {
    "quick": Effort(("logistic", "boosted", "forest"), 3, 1, 400_000, (12, 60)),
    "normal": Effort(
        ("logistic", "linear", "boosted", "trees", "forest"), 4, 1, 4_000_000, (48, 200)
    ),
    "thorough": Effort(
        ("logistic", "linear", "boosted", "trees", "forest", "additive", "net"),
        5, 2, 20_000_000, (100, 400),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Given:
    """The rows of a fit, as members may see them."""

    X: Any
    """As they came."""
    numbers: Matrix
    """As numbers, see `FrameColumns`."""
    columns: FrameColumns
    positive: Mask
    weight: Array | None
    folds: list[Fold]
    folds_matter: bool = False
    """Whether rows may be parted in no other way, as by groups."""
    n_elsewhere: int = 0
    """Rows that a cluster holds, of which some are listed here; 0 if they are in this process."""

    @property
    def n_rows(self) -> int:
        """How many there are."""
        return len(self.positive)

    @property
    def n_taught(self) -> int:
        """How many members are fitted to."""
        return self.n_elsewhere or self.n_rows

    @property
    def all_teach(self) -> bool:
        """Whether every row is one that some fold learns from; of folds by time the last is not."""
        taught = np.zeros(self.n_rows, bool)
        for train, _ in self.folds:
            taught[train] = True
        return bool(taught.all())

    def part(self, where: Where) -> "Given":
        """Some of the rows, with their part of the folds."""
        return Given(
            _safe_indexing(self.X, where),
            self.numbers[where],
            self.columns,
            self.positive[where],
            None if self.weight is None else self.weight[where],
            [within(fold, where) for fold in self.folds],
            self.folds_matter,
        )


@dataclass(frozen=True)
class Settings:
    """What members are told besides their rows."""

    effort: Effort
    n_jobs: int | None
    seed: int


@dataclass(frozen=True)
class Fitted:
    """A member that is fitted, and its scores of rows that it did not see."""

    ranker: Any
    out_of_fold: Array
    raw: bool
    """Whether it is given rows as they came, not as numbers."""
    second: Array | None = None
    """Scores of a few rows by a second fit that did not see them, NaN for others, if the mean of
    the fits scores new rows; None if one fit does."""


class Candidate(Protocol):
    """What may take part, wherever the rows are."""

    def left_out(self, given: Given) -> str | None:
        """Why it does not take part, if so."""

    def fit(self, given: Given, settings: Settings) -> Fitted:
        """Fit to all rows, and score each by a fit that did not see it."""


Maker = Callable[[Given, Settings], BaseEstimator]


@dataclass(frozen=True)
class Member:
    """A kind of ranker that may take part; `make` gives a fresh one."""

    make: Maker
    engine: str | None = None
    """A package that it needs and that does not come with toppush."""
    refuses: Callable[[Given], str | None] = lambda given: None
    """Why it cannot be fitted to some rows, if so."""
    raw: bool = False
    cross_fits: bool = False
    """Whether its `fit` gives scores of rows that were held out."""

    def left_out(self, given: Given) -> str | None:
        """Why it does not take part, if so."""
        if self.engine is not None and find_spec(self.engine) is None:
            return not_installed(self.engine)
        return self.refuses(given)

    def limits(self, given: Given, settings: Settings) -> str | None:
        """What cannot be done with it once it is fitted, if anything."""
        ranker = self.make(given, settings)
        if not hasattr(_last(ranker), "contributions"):
            return f"explanations count its part as '(other)', and {NO_FILE}"
        return None if _last(ranker) is ranker else NO_FILE

    def fit(self, given: Given, settings: Settings) -> Fitted:
        """Fit to all rows, and score each by a fit that did not see it."""
        ranker = self.make(given, settings)
        if self.cross_fits:
            ranker = _fit(ranker, given.numbers, given)
            second = getattr(ranker, "second_scores_", None)
            fitted = Fitted(ranker, ranker.out_of_fold_, self.raw, second)
            return fitted if given.all_teach else self._fit_to_all(given, settings, fitted)
        X = given.X if self.raw else given.numbers
        unseen = np.zeros(given.n_rows)
        times = np.zeros(given.n_rows)
        for train, held in given.folds:
            check_cancelled()
            one = _fit(clone(ranker), X, given, train)
            center, spread = _unit(one, _safe_indexing(X, train), given.positive[train])
            unseen[held] += (scores_of(one, _safe_indexing(X, held)) - center) / spread
            times[held] += 1
        final = _fit(ranker, X, given)
        center, spread = _unit(final, X, given.positive)
        with np.errstate(invalid="ignore"):  # NaN where no fold held a row out
            return Fitted(final, unseen / times * spread + center, self.raw)

    def _fit_to_all(self, given: Given, settings: Settings, fitted: Fitted) -> Fitted:
        """A fit by other folds, in the unit of which the scores of rows unseen are given."""
        rng = np.random.RandomState(settings.seed)
        drawn = drawn_folds(given.positive, len(given.folds), rng)
        final = self.make(replace(given, folds=drawn), settings)
        _fit(final, given.numbers, given)
        unseen, unit = fitted.out_of_fold, final.out_of_fold_
        second = None if fitted.second is None else in_unit(fitted.second, unseen, unit)
        return Fitted(final, in_unit(unseen, unseen, unit), self.raw, second)


def _unit(ranker: Any, X: Any, positive: Mask) -> tuple[float, float]:
    """Mean score of the negatives that a ranker has seen, and the deviation of all its scores.

    Fits to other rows differ in both; of additive models the deviation by a third.
    """
    scores = scores_of(ranker, X)
    return float(scores[~positive].mean()), float(scores.std()) or 1.0


def _fit(ranker: Any, X: Any, given: Given, where: Where | None = None) -> Any:
    """A ranker fitted to all rows, or to some."""
    rows = np.arange(given.n_rows) if where is None else where
    weight = {} if given.weight is None else {_weight_name(ranker): given.weight[rows]}
    return ranker.fit(
        X if where is None else _safe_indexing(X, rows), given.positive[rows], **weight
    )


def _last(ranker: Any) -> Any:
    """What gives the scores of a search or a pipeline, not fitted."""
    if isinstance(ranker, BaseSearchCV):
        return _last(ranker.estimator)
    return _last(ranker.steps[-1][1]) if hasattr(ranker, "steps") else ranker


def _weight_name(ranker: Any) -> str:
    """By which name `fit` takes weights; a pipeline hands them to its last step."""
    if isinstance(ranker, BaseSearchCV):
        return _weight_name(ranker.estimator)
    if hasattr(ranker, "steps"):
        name, last = ranker.steps[-1]
        return f"{name}__{_weight_name(last)}"
    taken = signature(ranker.fit).parameters
    if WEIGHT not in taken and all(one.kind is not one.VAR_KEYWORD for one in taken.values()):
        raise ValueError(f"{type(ranker).__name__} takes no {WEIGHT}")
    return WEIGHT


# ---- those that have a name


def _logistic(given: Given, settings: Settings) -> TopLinear:
    return TopLinear("logistic", categorical_features=given.columns.categorical, cv=given.folds)


def _linear(given: Given, settings: Settings) -> TopLinear:
    return TopLinear("push", categorical_features=given.columns.categorical, cv=given.folds)


def _boosted(given: Given, settings: Settings) -> TopPushTrees:
    return _trees(given, settings, "binary")


def _trees(given: Given, settings: Settings, loss: str = "pairwise") -> TopPushTrees:
    return TopPushTrees(
        loss=loss,
        n_members=len(given.folds) * settings.effort.n_boosted,
        categorical_features=given.columns.categorical or None,
        cv=given.folds,
        n_jobs=settings.n_jobs,
        random_state=settings.seed,
    )


def _forest(given: Given, settings: Settings) -> TopForest:
    least, most = settings.effort.forest_trees
    n_trees = int(np.clip(settings.effort.forest_rows // given.n_rows, least, most))
    return TopForest(n_trees, cv=given.folds, n_jobs=settings.n_jobs, random_state=settings.seed)


def _additive(given: Given, settings: Settings) -> TopPushAdditive:
    return TopPushAdditive(
        categorical_features=given.columns.categorical or None, cv=3, n_jobs=settings.n_jobs
    )


def _net(given: Given, settings: Settings) -> TopPushNet:
    return TopPushNet(n_jobs=settings.n_jobs, random_state=settings.seed)


def _no_gaps(given: Given) -> str | None:
    """Members that take numbers alone."""
    if given.columns.categorical:
        return "it does not take categories"
    gaps = np.isnan(stored(given.numbers)).any()
    return "it does not take missing values" if gaps else None


def _own_folds(given: Given) -> str | None:
    return "it draws its own folds" if given.folds_matter else None


def _narrow(given: Given) -> str | None:
    width = given.numbers.shape[1]
    if width > MANY_COLUMNS:
        return f"{width:,} columns are too many for it"
    return _no_sparse_gaps(given)


def _no_sparse_gaps(given: Given) -> str | None:
    return "it does not take missing values in sparse rows" if sparse_gaps(given.numbers) else None


def sparse_gaps(rows: Matrix) -> bool:
    """Whether rows are sparse and have missing values."""
    return bool(is_sparse(rows) and np.isnan(stored(rows)).any())


LIGHTGBM, TORCH = "lightgbm", "torch"
MEMBERS: dict[str, Member] = {
    "logistic": Member(_logistic, refuses=_no_sparse_gaps, cross_fits=True),
    "linear": Member(_linear, refuses=_no_sparse_gaps, cross_fits=True),
    "boosted": Member(_boosted, LIGHTGBM, cross_fits=True),
    "trees": Member(_trees, LIGHTGBM, cross_fits=True),
    "forest": Member(_forest, refuses=_narrow, cross_fits=True),
    "additive": Member(_additive, refuses=_narrow),
    "net": Member(
        _net,
        TORCH,
        lambda given: _own_folds(given) or _narrow(given) or _no_gaps(given),
        cross_fits=True,
    ),
}
"""Members by name; one that is put here can be asked for."""


NO_SPARSE_GAPS = set(MEMBERS) - {"boosted", "trees"}
"""Members that do not take missing values in sparse rows."""


def named_members(asked: Sequence[Any] | None, effort: Effort) -> dict[str, Member]:
    """The members that are asked for: names, estimators, or pairs of a name and an estimator."""
    found: dict[str, Member] = {}
    for one in effort.members if asked is None else asked:
        name, member = _member(one)
        if name in found or name == COMBINATION:
            wrong = ", the name of all together" if name == COMBINATION else " twice"
            raise ValueError(f"members has {name!r}{wrong}; give each a name of its own.")
        found[name] = member
    if not found:
        raise ValueError("members is empty; name at least one, or leave it out.")
    return found


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
    return str(name), Member(lambda given, settings: clone(estimator), raw=True)
