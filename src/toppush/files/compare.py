"""Rankers side by side on one file, by cross-validation.

Every fold prepares its columns from its training rows alone, and every method chooses its settings
there: others by NDCG or a measure that is named over three inner folds, our own kinds as they do
anyway. Weights enter fits, choices and measures; groups and times make all folds.
"""

import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import ClassVar

from sklearn.metrics import get_scorer
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from toppush import metrics
from toppush.files.competitors import (
    COSTS,
    Ranker,
    Search,
    by_metric,
    lightgbm,
    logistic_regression,
    weights_of,
)
from toppush.files.fitting import Training, columns_of, with_file
from toppush.folds.splits import Folds, folds_by_role
from toppush.models.choice import Scorer
from toppush.modeltypes import DEFAULT, MODEL_TYPES, model_type_named
from toppush.modeltypes.base import FitRows, ModelType, OptionError, Options
from toppush.system.errors import like
from toppush.system.extras import not_installed
from toppush.system.reading import DataError
from toppush.tables.columns import Columns, sizes_named
from toppush.types import Array, Matrix, Where

INNER = 3
SMALL = 1 << 20
"""Entries below which threads wait for each other: two busy cores took 50 s for trees, one 6."""


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
    methods: Collection[str] = (),
    missing: str = "impute",
    scoring: str | None = None,
    threads: int | None = None,
    cv: int = 5,
    seed: int = 0,
    tell: Callable[[int, int, str], None] = lambda done, total, now: None,
) -> Comparison:
    """Cross-validate TopRanker, the kinds it combines, and the usual methods on a file.

    Parameters
    ----------
    given : Training
        What `toppush.files.fitting.read_training_file` returns.
    methods : collection of str
        Names of `COMPETITORS`; by default all that are not in `SLOW`.
    missing, scoring, threads, cv, seed
        As for `toppush.files.fit`.
    tell : callable
        Told before each fit how many are done, how many there are in all, and what comes.

    Returns
    -------
    Comparison
    """
    names = chosen_methods(methods)
    _check_sizes(given, cv)
    given.cautions()
    y, weight = given.positive, given.held.weight
    values: defaultdict[str, list[dict[str, float]]] = defaultdict(list)
    seconds: defaultdict[str, float] = defaultdict(float)
    warned: defaultdict[str, Counter[str]] = defaultdict(Counter)
    left_out: dict[str, str] = {}
    for train, test in with_file(folds_by_role, given.file, y, given.held, cv, seed):
        fold = Fold(seed, given, missing, train, test, scoring, threads)
        rankers = _rankers(names, fold, left_out)
        for name, ranker in rankers.items():
            done = sum(map(len, values.values()))
            tell(done, cv * len(rankers), f"fold {done // len(rankers) + 1} of {cv}, {name}")
            preparation = getattr(COMPETITORS[name], "preparation", {})
            X_train, X_test = fold.prepared(**preparation)
            began = time.perf_counter()
            with fold.sizes_named(**preparation), threadpool_limits(fold.n_jobs):
                with warnings.catch_warnings(record=True) as said:
                    warnings.simplefilter("always")
                    ranker.fit(X_train, y[train], **weights_of(weight, train))
                warned[name].update(one.category.__name__ for one in said)
                scores = ranker.decision_function(X_test)
            seconds[name] += time.perf_counter() - began
            held_out = weights_of(weight, test)
            values[name].append(metrics.summary(y[test], scores, by="title", **held_out))
    table = {name: by_metric(folds) for name, folds in values.items()}
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

    def sizes_named(self, *, form: str = "filled", **_: str) -> AbstractContextManager[None]:
        """Name columns of the file in an error about magnitudes of rows that were prepared."""
        return sizes_named(self._columns[form], self.given.first, self.given.file.path)

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
    def n_jobs(self) -> int | None:
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
        return with_file(folds_by_role, self.given.file, positive, held, INNER, self.seed)

    @property
    def scorer(self) -> Scorer:
        """The measure by which a rival chooses."""
        name = self.scoring or "ndcg"
        return metrics.scorer(name) if name in metrics.METRICS else get_scorer(name)


class LeftOut(Exception):
    """Why a rival cannot run."""


class Boosted:
    """LightGBM on columns as our trees see them."""

    preparation: ClassVar[dict[str, str]] = {"scale": "none", "form": "codes"}

    def __call__(self, fold: Fold) -> Ranker:
        """The search for its settings, if it is installed."""
        fold.prepared(**self.preparation)
        coded = fold.rows("codes").categorical
        try:
            return lightgbm(
                fold.inner, fold.scorer, seed=fold.seed, n_jobs=fold.n_jobs, coded=coded
            )
        except ImportError:
            raise LeftOut(not_installed("lightgbm")) from None


@dataclass(frozen=True)
class OfKind:
    """A kind of model with its own defaults, on columns prepared as `toppush fit` does."""

    name: str

    @property
    def preparation(self) -> dict[str, str]:
        """How its columns are prepared."""
        kind = model_type_named(self.name)
        return {"scale": kind.scale or "none", "form": kind.form}

    def __call__(self, fold: Fold) -> Ranker:
        """The ranker, if what fits it is installed."""
        kind = model_type_named(self.name)
        fold.prepared(**self.preparation)
        try:
            kind.require_engine()
            return kind.ranker(self._options(kind, fold), fold.rows(kind.form), fold.seed)
        except ImportError as error:
            raise LeftOut(str(error)) from None

    def _options(self, kind: ModelType, fold: Fold) -> Options:
        """What was asked for, as far as the kind takes it; it must take groups and times."""
        roles = fold.given.roles
        if any(getattr(roles, one) and one not in kind.takes for one in ("groups", "time")):
            raise LeftOut("it draws its own folds, which know no groups or times")
        scoring = fold.scoring if "scoring" in kind.takes else None
        return kind.options(threads=fold.n_jobs, scoring=scoring)


def _linear_svm(fold: Fold) -> Ranker:
    model = LinearSVC(random_state=fold.seed, max_iter=10_000)
    return Search(model, COSTS, fold.inner, fold.scorer)


COMPETITORS: dict[str, Callable[[Fold], Ranker]] = {
    "TopRanker": OfKind(DEFAULT),
    "logistic regression": lambda fold: logistic_regression(fold.inner, fold.scorer),
    "linear SVM": _linear_svm,
    "LightGBM": Boosted(),
    **{f"TopPush {name}": OfKind(name) for name in MODEL_TYPES if name != DEFAULT},
}
"""Rankers by name, each made anew for every fold; one that is put here is compared as well."""
SLOW = ("TopPush net",)
"""Those that run only if they are named."""


def chosen_methods(asked: Collection[str]) -> list[str]:
    """Names of the methods that are asked for, all known."""
    for name in asked:
        if name not in COMPETITORS:
            known = ", ".join(COMPETITORS)
            raise OptionError(f"methods has {name!r}{like(name, COMPETITORS)}; known are {known}.")
    return list(asked) or [name for name in COMPETITORS if name not in SLOW]


def _rankers(names: list[str], fold: Fold, left_out: dict[str, str]) -> dict[str, Ranker]:
    """A fresh ranker of each name; those that cannot run are noted in `left_out`."""
    found = {}
    for name in names:
        try:
            found[name] = COMPETITORS[name](fold)
        except LeftOut as error:
            left_out[name] = str(error)
    return found
