"""Rankers side by side on one file, by cross-validation.

Every fold prepares its columns from its training rows alone, and every method with a strength of
penalty chooses it there, by NDCG or a measure that is named, over three inner folds. Weights enter
fits, choices and measures; groups and times make the folds, the inner ones too.
"""

import importlib
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import get_scorer
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from toppush import metrics
from toppush.designs import dense
from toppush.estimators.choice import Scorer
from toppush.estimators.cross_validation import TopPushCV
from toppush.experiments.methods import Ranker
from toppush.experiments.protocol import by_measure
from toppush.files.columns import Columns
from toppush.files.fitting import Training, columns_of, with_file
from toppush.files.folds import Folds, folds_of
from toppush.files.id_columns import caution
from toppush.files.kinds import DEFAULT, FIRST, KINDS, named
from toppush.files.kinds.base import FitRows, Kind, Options
from toppush.system.reading import DataError
from toppush.types import Array, Mask, Matrix, Where

COSTS = [1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3]
INNER = 3
SMALL = 1 << 20
"""Entries below which threads wait for each other: two busy cores took 50 s for trees, one 6."""
DENSE_BYTES = 2 << 30
"""Boosted trees need dense rows; above this size they are left out."""


@dataclass(frozen=True)
class Comparison:
    """Held-out measures of each method in each fold."""

    rows: int
    positives: int
    values: dict[str, dict[str, Array]]
    """Method -> measure -> value in each fold."""
    seconds: dict[str, float]
    """Method -> seconds of all its fits."""
    left_out: dict[str, str]
    """Method -> why."""
    warned: dict[str, dict[str, int]]
    """Method -> kind of warning -> how many."""


def compare(
    given: Training,
    *,
    missing: str = "impute",
    scoring: str | None = None,
    threads: int | None = None,
    cv: int = 5,
    seed: int = 0,
    tell: Callable[[int, int, str], None] = lambda done, total, now: None,
) -> Comparison:
    """Cross-validate TopPush, its family, and the usual methods on a file.

    Parameters
    ----------
    given : Training
        What `toppush.files.fitting.read_training_file` returns.
    missing, scoring, threads, cv, seed
        As for `toppush.files.fit`.
    tell : callable
        Told before each fit how many are done, how many there are in all, and what comes.

    Returns
    -------
    Comparison
    """
    _check_sizes(given, cv)
    caution(given.ids)
    y, weight = given.positive, given.held.weight
    values: defaultdict[str, list[dict[str, float]]] = defaultdict(list)
    seconds: defaultdict[str, float] = defaultdict(float)
    warned: defaultdict[str, Counter[str]] = defaultdict(Counter)
    left_out: dict[str, str] = {}
    for train, test in with_file(folds_of, given.file, y, given.held, cv, seed):
        fold = Fold(seed, given, missing, train, test, scoring, threads)
        rivals = _rivals(fold, left_out)
        for name, ranker in rivals.items():
            done = sum(map(len, values.values()))
            tell(done, cv * len(rivals), f"fold {done // len(rivals) + 1} of {cv}, {name}")
            X_train, X_test = fold.prepared(**getattr(RIVALS[name], "preparation", {}))
            began = time.perf_counter()
            with threadpool_limits(fold.n_threads), warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                ranker.fit(X_train, y[train], **_weights(weight, train))
            warned[name].update(one.category.__name__ for one in said)
            scores = ranker.decision_function(X_test)
            seconds[name] += time.perf_counter() - began
            held_out = _weights(weight, test)
            values[name].append(metrics.summary(y[test], scores, by="title", **held_out))
    table = {name: by_measure(folds) for name, folds in values.items()}
    counts = {name: dict(kinds) for name, kinds in warned.items() if kinds}
    return Comparison(len(y), int(y.sum()), table, dict(seconds), left_out, counts)


def _check_sizes(given: Training, cv: int) -> None:
    n_pos, n_neg = int(given.positive.sum()), int((~given.positive).sum())
    if min(n_pos, n_neg) < cv * INNER:
        raise DataError(
            f"{n_pos} positives and {n_neg} negatives are too few for {cv} folds "
            f"of {INNER}; lower --cv or bring more rows.",
            file=given.file.path,
        )


@dataclass(frozen=True)
class Fold:
    """What a rival may know when it is made: the seed, and the training rows."""

    seed: int
    given: Training
    missing: str
    train: Where
    test: Where
    scoring: str | None = None
    threads: int | None = None
    _kept: dict[tuple[str, str], list[Matrix]] = field(default_factory=dict)
    _columns: dict[str, Columns | None] = field(default_factory=dict)

    def prepared(self, *, scale: str = "maxabs", form: str = "filled") -> list[Matrix]:
        """Training and test rows as columns of numbers, by what the training rows show."""
        if (scale, form) not in self._kept:
            X = self.given.rows.X
            parts = (self.train, self.test)
            taken = [X.take(part) if hasattr(X, "column_names") else X[part] for part in parts]
            steps = self.given.preparation(scale=scale, missing=self.missing, form=form)
            for _, step in steps:
                with_file(step.fit, self.given.file, taken[0])
                taken = [with_file(step.transform, self.given.file, part) for part in taken]
            self._kept[scale, form], self._columns[form] = taken, columns_of(steps)
        return self._kept[scale, form]

    def rows(self, form: str) -> FitRows:
        """What a kind of model may know of rows that were prepared for it."""
        known = self.given
        positive = known.positive[self.train]
        held = known.held.of(self.train)
        return FitRows(positive, known.rule, known.file.path, self._columns[form], held)

    @property
    def shape(self) -> tuple[int, int]:
        """Of the training rows as linear methods see them."""
        n_rows, width = self.prepared()[0].shape
        return n_rows, width

    @property
    def n_threads(self) -> int | None:
        """One for few entries; else as many as are asked for, or as the library likes."""
        return 1 if self.shape[0] * self.shape[1] < SMALL else self.threads

    @property
    def n_rows(self) -> int:
        """Of the whole file."""
        return len(self.given.positive)

    @property
    def inner(self) -> Folds:
        """The folds by which a rival chooses."""
        positive, held = self.given.positive[self.train], self.given.held.of(self.train)
        return with_file(folds_of, self.given.file, positive, held, INNER, self.seed)

    def searched(self, model: BaseEstimator) -> "CostSearch":
        """A search for the model's cost."""
        name = self.scoring or "ndcg"
        scorer = metrics.scorer(name) if name in metrics.METRICS else get_scorer(name)
        return CostSearch(model, self.inner, scorer)


class LeftOut(Exception):
    """Why a rival cannot run."""


def _boosted_trees(fold: Fold) -> Ranker:
    _check_dense(fold)
    return Dense(HistGradientBoostingClassifier(random_state=fold.seed))


def _lightgbm(fold: Fold) -> Ranker:
    _check_dense(fold)
    try:
        lightgbm = importlib.import_module("lightgbm")
    except ImportError:
        raise LeftOut("not installed") from None
    return Dense(lightgbm.LGBMClassifier(random_state=fold.seed, n_jobs=fold.n_threads, verbose=-1))


def _check_dense(fold: Fold) -> None:
    if 8 * fold.n_rows * fold.shape[1] > DENSE_BYTES:
        raise LeftOut(f"{fold.shape[1]} columns are too many to hold as dense rows")


@dataclass(frozen=True)
class OfKind:
    """A kind of model with its own defaults, on columns prepared as `toppush fit` does."""

    name: str

    @property
    def preparation(self) -> dict[str, str]:
        """How its columns are prepared."""
        kind = named(self.name)
        return {"scale": kind.scale or "none", "form": kind.form}

    def __call__(self, fold: Fold) -> Ranker:
        """The ranker, if what fits it is installed."""
        kind = named(self.name)
        fold.prepared(**self.preparation)
        try:
            kind.require_engine()
            return kind.ranker(self._options(kind, fold), fold.rows(kind.form), fold.seed)
        except ImportError as error:
            raise LeftOut(str(error)) from None

    def _options(self, kind: Kind, fold: Fold) -> Options:
        """What was asked for, as far as the kind takes it; it must take groups and times."""
        roles = fold.given.roles
        if any(getattr(roles, one) and one not in kind.takes for one in ("groups", "time")):
            raise LeftOut("it draws its own folds, which know no groups or times")
        scoring = fold.scoring if "scoring" in kind.takes else None
        return kind.options(threads=fold.n_threads, scoring=scoring)


RIVALS: dict[str, Callable[[Fold], Ranker]] = {
    "TopRanker": OfKind(DEFAULT),
    "TopPush": lambda fold: TopPushCV(tops=(1,), cv=fold.inner, scoring=fold.scoring),
    "TopPush family": lambda fold: TopPushCV(cv=fold.inner, scoring=fold.scoring),
    "logistic regression": lambda fold: fold.searched(LogisticRegression(max_iter=1000)),
    "linear SVM": lambda fold: fold.searched(LinearSVC(random_state=fold.seed, max_iter=10_000)),
    "boosted trees": _boosted_trees,
    "LightGBM": _lightgbm,
    **{f"TopPush {name}": OfKind(name) for name in KINDS if name not in (DEFAULT, FIRST)},
}
"""Rankers by name, each made anew for every fold; one that is put here is compared as well."""


def _rivals(fold: Fold, left_out: dict[str, str]) -> dict[str, Ranker]:
    """A fresh ranker of each kind; those that cannot run are noted in `left_out`."""
    found = {}
    for name, make in RIVALS.items():
        try:
            found[name] = make(fold)
        except LeftOut as error:
            left_out[name] = str(error)
    return found


@dataclass
class CostSearch:
    """A classifier whose cost C is chosen by folds."""

    model: Any
    folds: Folds
    scorer: Scorer

    def fit(self, X: Matrix, y: Mask, sample_weight: Array | None = None) -> Self:
        """Choose the cost, then fit all rows."""
        costs = {cost: self._value(cost, X, y, sample_weight) for cost in COSTS}
        best = max(costs, key=costs.__getitem__)
        self.model = clone(self.model).set_params(C=best)
        self.model.fit(X, y, sample_weight=sample_weight)
        return self

    def _value(self, cost: float, X: Matrix, y: Mask, weight: Array | None) -> float:
        values = []
        for train, test in self.folds:
            model = clone(self.model).set_params(C=cost)
            model.fit(X[train], y[train], **_weights(weight, train))
            values.append(self.scorer(model, X[test], y[test], **_weights(weight, test)))
        return float(np.mean(values))

    def decision_function(self, X: Matrix) -> Array:
        """Of the classifier."""
        scores: Array = self.model.decision_function(X)
        return scores


def _weights(weight: Array | None, where: Where) -> dict[str, Array]:
    """Weights of some rows as an argument, none if there are none."""
    return {} if weight is None else {"sample_weight": weight[where]}


@dataclass
class Dense:
    """A classifier that is handed dense rows."""

    model: ClassifierMixin

    def fit(self, X: Matrix, y: Mask, sample_weight: Array | None = None) -> Self:
        """Fit the classifier."""
        self.model.fit(dense(X), y, sample_weight=sample_weight)
        return self

    def decision_function(self, X: Matrix) -> Array:
        """The probability of the positive class."""
        probability: Array = self.model.predict_proba(dense(X))[:, 1]
        return probability
