"""Cross-validated comparison of rankers on one file.

Every fold prepares its columns from its training rows alone, and every method chooses its settings
there: competitors over three inner folds by NDCG or a given metric, model types of toppush as
they do anyway. Weights enter fits, choices and metrics; groups and times restrict all folds.
"""

import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import get_scorer
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from toppush import metrics
from toppush.files.fitting import Training, columns_of, with_file
from toppush.folds.splits import Folds, folds_by_role
from toppush.matrices import for_engine
from toppush.metrics.scoring import scores_of
from toppush.models.search import Scorer
from toppush.modeltypes import DEFAULT, MODEL_TYPES, model_type_named
from toppush.modeltypes.base import FitRows, OptionError
from toppush.system.errors import like
from toppush.system.extras import not_installed
from toppush.system.reading import DataError
from toppush.tables.columns import Columns, sizes_named
from toppush.types import Array, Mask, Matrix, Where

INNER = 3
SMALL = 1 << 20
"""Entries below which threads wait for each other: two busy cores took 50 s for trees, one 6."""
COSTS = [{"C": cost} for cost in (1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3)]
BOOSTED = [
    {"num_leaves": leaves, "n_estimators": rounds, "learning_rate": 10.0 / rounds}
    for rounds in (100, 400)
    for leaves in (7, 31)
]
"""LightGBM's own default is one of them."""


@dataclass(frozen=True)
class MethodComparison:
    """Held-out metrics of each method in each fold."""

    rows: int
    positives: int
    values: dict[str, dict[str, Array]]
    """Method -> metric -> value in each fold."""
    seconds: dict[str, float]
    """Method -> seconds of all its fits."""
    left_out: dict[str, str]
    """Method -> reason."""
    warned: dict[str, dict[str, int]]
    """Method -> category of warning -> count."""


def compare(
    training: Training,
    *,
    methods: Collection[str] = (),
    missing: str = "impute",
    scoring: str | None = None,
    threads: int | None = None,
    cv: int = 5,
    seed: int = 0,
    progress: Callable[[int, int, str], None] = lambda done, total, current: None,
) -> MethodComparison:
    """Cross-validate TopRanker, the model types it combines, and common methods on a file.

    Parameters
    ----------
    training : Training
        The result of `toppush.files.fitting.read_training_file`.
    methods : collection of str
        Their names; by default all `competitors` that are not in `SLOW`.
    missing, scoring, threads, cv, seed
        As for `toppush.files.fit`.
    progress : callable
        Called before each fit with the number of fits done, the number of all, and the next one.

    Returns
    -------
    MethodComparison
    """
    chosen = _chosen(methods)
    y, weight = training.positive, training.held.weight
    n_pos, n_neg = int(y.sum()), int((~y).sum())
    if min(n_pos, n_neg) < cv * INNER:
        raise DataError(
            f"{n_pos} positives and {n_neg} negatives are too few for {cv} folds "
            f"of {INNER}; lower --cv or bring more rows.",
            file=training.file.path,
        )
    training.cautions()
    values: defaultdict[str, list[dict[str, float]]] = defaultdict(list)
    seconds: defaultdict[str, float] = defaultdict(float)
    warned: defaultdict[str, Counter[str]] = defaultdict(Counter)
    left_out: dict[str, str] = {}
    for train, test in with_file(folds_by_role, training.file, y, training.held, cv, seed):
        fold = Fold(seed, training, missing, train, test, scoring, threads)
        rankers = {}
        for name, competitor in chosen.items():
            try:
                rankers[name] = competitor(fold)
            except LeftOut as error:
                left_out[name] = str(error)
        for name, ranker in rankers.items():
            done = sum(map(len, values.values()))
            progress(done, cv * len(rankers), f"fold {done // len(rankers) + 1} of {cv}, {name}")
            preparation = getattr(chosen[name], "preparation", {})
            X_train, X_test = fold.prepared(**preparation)
            began = time.perf_counter()
            with fold.sizes_named(**preparation), threadpool_limits(fold.n_jobs):
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    ranker.fit(X_train, y[train], **weights_of(weight, train))
                warned[name].update(warning.category.__name__ for warning in caught)
                scores = ranker.decision_function(X_test)
            seconds[name] += time.perf_counter() - began
            held_out = weights_of(weight, test)
            values[name].append(metrics.summary(y[test], scores, by="title", **held_out))
    table = {name: by_metric(folds) for name, folds in values.items()}
    counts = {name: dict(categories) for name, categories in warned.items() if categories}
    return MethodComparison(len(y), n_pos, table, dict(seconds), left_out, counts)


@dataclass(frozen=True)
class Fold:
    """The training rows of a fold and the options, from which competitors are made."""

    seed: int
    training: Training
    missing: str
    train: Where
    test: Where
    scoring: str | None = None
    threads: int | None = None
    _prepared: dict[tuple[str, str], list[Matrix]] = field(default_factory=dict)
    _columns: dict[str, Columns | None] = field(default_factory=dict)

    def prepared(self, *, scale: str = "maxabs", form: str = "filled") -> list[Matrix]:
        """Training and test rows as numbers, prepared by the training rows."""
        if (scale, form) not in self._prepared:
            X, file = self.training.rows.X, self.training.file
            parts = [
                X.take(rows) if hasattr(X, "column_names") else X[rows]
                for rows in (self.train, self.test)
            ]
            steps = self.training.preparation(scale=scale, missing=self.missing, form=form)
            for _, step in steps:
                with_file(step.fit, file, parts[0])
                parts = [with_file(step.transform, file, part) for part in parts]
            self._prepared[scale, form], self._columns[form] = parts, columns_of(steps)
        return self._prepared[scale, form]

    def sizes_named(self, *, form: str = "filled", **_: str) -> AbstractContextManager[None]:
        """Name columns of the file in an error about magnitudes of prepared rows."""
        return sizes_named(self._columns[form], self.training.first, self.training.file.path)

    def rows(self, form: str) -> FitRows:
        """Facts about the training rows that were prepared in a form."""
        training = self.training
        positive, roles = training.positive[self.train], training.held.of(self.train)
        return FitRows(positive, training.rule, training.file.path, self._columns[form], roles)

    @property
    def n_jobs(self) -> int | None:
        """One for few entries; else the number of threads that is set, None by default."""
        n_rows, width = self.prepared()[0].shape
        return 1 if n_rows * width < SMALL else self.threads

    @property
    def inner(self) -> Folds:
        """The folds by which a competitor chooses its settings."""
        training = self.training
        positive, roles = training.positive[self.train], training.held.of(self.train)
        return with_file(folds_by_role, training.file, positive, roles, INNER, self.seed)

    @property
    def scorer(self) -> Scorer:
        """The metric by which a competitor chooses its settings."""
        name = self.scoring or "ndcg"
        return metrics.scorer(name) if name in metrics.METRICS else get_scorer(name)


# ---- competitors


class Competitor(Protocol):
    """The interface of estimators that are compared."""

    def fit(self, X: Matrix, y: Mask) -> Self: ...
    def decision_function(self, X: Matrix) -> Array: ...


NO_TEXT = "it does not take free text"


class LeftOut(Exception):
    """Why a competitor cannot run."""


@dataclass
class Search:
    """A classifier whose settings are chosen by cross-validation, then fitted to all rows."""

    model: Any
    grid: Sequence[dict[str, Any]]
    folds: Folds
    scorer: Scorer
    options: dict[str, Any] = field(default_factory=dict)
    """Keywords of each fit."""

    def fit(self, X: Matrix, y: Mask, sample_weight: Array | None = None) -> Self:
        """Choose the settings, then fit."""
        X = for_engine(X)
        values = [self._value(settings, X, y, sample_weight) for settings in self.grid]
        self.best_ = self.grid[int(np.argmax(values))]
        self.model = clone(self.model).set_params(**self.best_)
        self.model.fit(X, y, sample_weight=sample_weight, **self.options)
        return self

    def decision_function(self, X: Matrix) -> Array:
        """Scores, or probabilities of the positive class."""
        return scores_of(self.model, for_engine(X))

    def _value(self, settings: dict[str, Any], X: Matrix, y: Mask, weight: Array | None) -> float:
        values = []
        for train, test in self.folds:
            model = clone(self.model).set_params(**settings)
            model.fit(X[train], y[train], **weights_of(weight, train), **self.options)
            values.append(self.scorer(model, X[test], y[test], **weights_of(weight, test)))
        return float(np.mean(values))


def weights_of(weight: Array | None, rows: Where) -> dict[str, Array]:
    """Sample weights of some rows as a keyword argument; empty without weights."""
    return {} if weight is None else {"sample_weight": weight[rows]}


def by_metric(parts: Sequence[Mapping[str, float]]) -> dict[str, Array]:
    """Metrics of several splits or folds: for each metric its values."""
    names = parts[0] if parts else ()
    return {name: np.array([part[name] for part in parts]) for name in names}


def logistic_regression(folds: Folds, scorer: Scorer) -> Search:
    """Logistic regression with its penalty chosen."""
    return Search(LogisticRegression(max_iter=1000), COSTS, folds, scorer)


def lightgbm(
    folds: Folds,
    scorer: Scorer,
    *,
    seed: int,
    n_jobs: int | None,
    coded: list[int] | None = None,
) -> Search:
    """LightGBM with its leaves, rounds and rate chosen; an ImportError without it."""
    model = import_module("lightgbm").LGBMClassifier(random_state=seed, n_jobs=n_jobs, verbose=-1)
    options = {"categorical_feature": coded} if coded else {}
    return Search(model, BOOSTED, folds, scorer, options)


def _linear_svm(fold: Fold) -> Competitor:
    model = LinearSVC(random_state=fold.seed, max_iter=10_000)
    return Search(model, COSTS, fold.inner, fold.scorer)


class Boosted:
    """LightGBM on columns that are prepared as for the trees of toppush."""

    preparation: ClassVar[dict[str, str]] = {"scale": "none", "form": "codes"}

    def __call__(self, fold: Fold) -> Competitor:
        """The search for its settings, if LightGBM is installed."""
        if fold.training.text:
            raise LeftOut(NO_TEXT)
        fold.prepared(**self.preparation)
        coded = fold.rows("codes").categorical
        try:
            return lightgbm(
                fold.inner, fold.scorer, seed=fold.seed, n_jobs=fold.n_jobs, coded=coded
            )
        except ImportError:
            raise LeftOut(not_installed("lightgbm")) from None


@dataclass(frozen=True)
class OfType:
    """A model type with its defaults, on columns prepared as `toppush fit` does."""

    name: str

    @property
    def preparation(self) -> dict[str, str]:
        """How its columns are prepared."""
        model_type = model_type_named(self.name)
        return {"scale": model_type.scale or "none", "form": model_type.form}

    def __call__(self, fold: Fold) -> Competitor:
        """The ranker, if its engine is installed and it takes groups and times where there are."""
        model_type, roles = model_type_named(self.name), fold.training.roles
        if model_type.refused_text(fold.training.text):
            raise LeftOut(NO_TEXT)
        fold.prepared(**self.preparation)
        takes = model_type.takes
        if any(getattr(roles, name) and name not in takes for name in ("groups", "time")):
            raise LeftOut("it draws its own folds, which know no groups or times")
        wanted = {"threads": fold.n_jobs, "scoring": fold.scoring}
        taken = {name: value for name, value in wanted.items() if name in takes}
        try:
            model_type.require_engine()
            options = model_type.options(**taken)
            return model_type.ranker(options, fold.rows(model_type.form), fold.seed)
        except ImportError as error:
            raise LeftOut(str(error)) from None


COMPETITORS: dict[str, Callable[[Fold], Competitor]] = {
    "TopRanker": OfType(DEFAULT),
    "logistic regression": lambda fold: logistic_regression(fold.inner, fold.scorer),
    "linear SVM": _linear_svm,
    "LightGBM": Boosted(),
}
"""Rankers by name, made anew for every fold; one that is added here is compared as well."""
SLOW = ("TopPush net",)
"""Those that run only if they are named."""


def competitors() -> dict[str, Callable[[Fold], Competitor]]:
    """`COMPETITORS`, and the registered model types."""
    types = {f"TopPush {name}": OfType(name) for name in MODEL_TYPES if name != DEFAULT}
    return COMPETITORS | types


def _chosen(names: Collection[str]) -> dict[str, Callable[[Fold], Competitor]]:
    """The competitors of these names; without names all but the slow ones."""
    known = competitors()
    for name in names:
        if name not in known:
            listed = ", ".join(known)
            raise OptionError(f"methods has {name!r}{like(name, known)}; known are {listed}.")
    return {name: known[name] for name in names or known if names or name not in SLOW}
