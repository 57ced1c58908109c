"""The interface of a model type: how it is fitted, saved, described and exported."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.metrics import get_scorer_names

from toppush.folds.scores import PER_ROW
from toppush.folds.splits import Folds, folds_by_role
from toppush.metrics import METRICS
from toppush.metrics.cautions import few_positives
from toppush.modeltypes.out_of_fold import held_out_scores
from toppush.system.errors import ModelError, like
from toppush.system.extras import needs
from toppush.system.reading import DataError
from toppush.tables.columns import Columns
from toppush.tables.labels import LabelRule
from toppush.tables.rows import NOTHING, RoleValues
from toppush.thresholds.probabilities import Calibration
from toppush.types import Array, Labels, Mask, Matrix, Where

if TYPE_CHECKING:
    from toppush.modelfile.model import Model
    from toppush.modeltypes.onnx_graph import Graph

About = dict[str, Any]
"""A record that JSON can hold."""
Options = dict[str, Any]
"""Options of a fit that were set, by name."""
EXPORTS = {"onnx": "add_to_graph", "weights": "weights_record"}
"""Exports by their option, with the method of `ModelType` that makes each."""
Steps = list[tuple[str, BaseEstimator]]


class RankerLike(Protocol):
    """The last step of a model."""

    classes_: NDArray[Any]
    reference_: Array
    """Mean contributions of the highest-ranked negatives of the training rows."""
    usual_: Array
    """Mean contributions of a sample of the training rows."""
    verbose: int

    def fit(self, X: Matrix, y: Labels, sample_weight: Any = None) -> Self: ...
    def decision_function(self, X: Matrix) -> Array: ...
    def contributions(self, X: Matrix) -> Array: ...
    def set_params(self, **params: Any) -> Self: ...


class OptionError(ValueError):
    """An option that a model type does not take."""

    exit_code = 2


@dataclass(frozen=True)
class FitRows:
    """Facts about the training rows besides the matrix."""

    positive: Mask
    rule: LabelRule
    path: Path
    columns: Columns | None
    roles: RoleValues = NOTHING
    """Weights, groups and times."""

    @property
    def categorical(self) -> list[int] | None:
        """Columns of the matrix that hold codes of categories; None if there are none."""
        coded = [] if self.columns is None else self.columns.coded
        return coded or None

    @property
    def term_places(self) -> list[Where] | None:
        """Columns of the matrix with the weights of terms of each text; None if there are none."""
        places = [] if self.columns is None else self.columns.term_places()
        return places or None

    @property
    def has_folds(self) -> bool:
        """Whether groups or times restrict the folds."""
        return self.roles.groups is not None or self.roles.time is not None

    def folds(self, n_folds: int, seed: int) -> Folds:
        """Folds that respect groups and times."""
        try:
            return folds_by_role(self.positive, self.roles, n_folds, seed)
        except DataError as error:
            raise error.at(self.path) from None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.positive)

    @property
    def n_positives(self) -> int:
        """Number of positive rows."""
        return int(self.positive.sum())

    def require_folds(self, n_folds: int) -> None:
        """Refuse more folds than the rarer class has rows."""
        require_folds(self.rule, self.n_positives, self.n_rows, n_folds, self.path)


def require_folds(rule: LabelRule, n_pos: int, n_rows: int, cv: int, path: str | Path) -> None:
    """Refuse more folds than the rarer class has rows: some would hold out none of it."""
    n_neg = n_rows - n_pos
    if (fewest := min(n_pos, n_neg)) < cv:
        raise DataError(
            f"{cv} folds are asked for with --cv, and there are {n_pos} positives "
            f"({rule.positive!r}) and {n_neg} negatives; each fold needs one of each, "
            f"so ask for at most {fewest}" + (", or give --lam and --top." if fewest < 2 else "."),
            file=path,
        )


class ModelType(ABC):
    """A model type; `MODEL_TYPES` holds an object of each."""

    name: str
    ranker_class: str
    """Full name of the ranker's class, as "module.Class"."""
    other_classes: tuple[str, ...] = ()
    """Other classes whose fitted objects are of this type."""
    takes: tuple[str, ...] = ()
    """Options of a fit that it takes, besides those that all do."""
    parameter_names: ClassVar[dict[str, str]] = {"threads": "n_jobs"}
    """Options that have another name among the ranker's parameters."""
    form = "filled"
    """How the columns of a table are represented, see `Columns`."""
    engine: str | None = None
    """The package that fits it, if `toppush[files]` does not install it."""
    scale: str | None = "maxabs"
    """How columns are scaled by default; None if they never are."""
    takes_text = False
    """Whether it takes the weights of terms of free text, thousands of sparse columns."""

    @property
    def ranker_classes(self) -> tuple[str, ...]:
        """Full names of the classes whose fitted objects are of this type."""
        return (self.ranker_class, *self.other_classes)

    def options(self, **options: Any) -> Options:
        """The options that are not None; one that this type does not take is refused."""
        options = {name: value for name, value in options.items() if value is not None}
        if others := [f"--{name}" for name in options if name not in self.takes]:
            if set(others) & {"--groups", "--time"}:
                others[-1] += " (it draws its own folds)"
            known = ", ".join(f"--{name}" for name in (*self.takes, "seed"))
            raise OptionError(
                f"{', '.join(others)} is not for --model {self.name}, which takes {known}."
            )
        self.check_options(options)
        return options

    def check_options(self, options: Options) -> None:
        """Refuse values that are not possible."""
        if "scoring" in options:
            require_scoring(options["scoring"])
        if "loss" in options and options["loss"] not in self.losses:
            raise OptionError(
                f"loss is {options['loss']!r}; --model {self.name} takes {', '.join(self.losses)}."
            )

    @property
    def losses(self) -> Collection[str]:
        """Names of the losses that it can be fitted with."""
        return ()

    def packages(self, ranker: Any) -> list[str]:
        """Packages that a fitted ranker needs besides those of every model."""
        return [] if self.engine is None else [self.engine]

    def refused_text(self, texts: Sequence[str], exports: Collection[str] = ()) -> str:
        """Why it cannot be fitted to columns of free text and exported; empty if it can."""
        refused = [f"--{name}" for name in EXPORTS if name in exports]
        if not self.takes_text:
            refused = [f"--model {self.name}"]
        if not texts or not refused:
            return ""
        listed = ", ".join(texts)
        named = f"column {listed} holds" if len(texts) == 1 else f"columns {listed} hold"
        names = quote(",".join(texts))
        other = f"fit without {refused[0]}" if self.takes_text else "use --model auto or linear"
        return (
            f"{refused[0]} does not take free text, which {named}; {other}, --drop {names}, or "
            f"--categorical {names} to read the strings as categories."
        )

    def require_engine(self) -> None:
        """Refuse before the fit if the package that fits the model is not installed."""
        if self.engine is not None and find_spec(self.engine) is None:
            raise ImportError(needs(f"--model {self.name}", self.engine))

    def require_exports(self, exports: Collection[str], options: Options) -> None:
        """Refuse "onnx" or "weights", before the fit, if they could not be written after it."""
        packages = ["skops", *(["onnx"] if "onnx" in exports else [])]
        for package in packages:
            if find_spec(package) is None:
                raise ImportError(needs("writing the model", package))
        for name, method in EXPORTS.items():
            if name in exports and getattr(type(self), method) is getattr(ModelType, method):
                raise OptionError(f"--model {self.name} has no --{name} export.")

    def new_ranker(self, **parameters: Any) -> Any:
        """An unfitted ranker; keywords are its parameters or options of the fit."""
        module, _, name = self.ranker_class.rpartition(".")
        names = self.parameter_names
        renamed = {names.get(option, option): value for option, value in parameters.items()}
        return getattr(import_module(module), name)(**renamed)

    @abstractmethod
    def ranker(self, options: Options, rows: FitRows, seed: int) -> RankerLike:
        """The ranker to fit, by the options."""

    def training_facts(self, ranker: RankerLike, X: Matrix, rows: FitRows) -> About:
        """Further records about the fit."""
        return {}

    def cautions(self, ranker: RankerLike, X: Matrix, rows: FitRows, seed: int) -> list[str]:
        """Warnings after the fit: too few positives, with the interval of the metric.

        The interval takes further fits, which are fast because there are few positives.
        """
        if few_positives(rows.positive) is None:
            return []
        refit = self.refittable(ranker)
        scores = held_out_scores(ranker, refit, X, rows.positive, rows.roles.weight, seed)
        return [why] if (why := few_positives(rows.positive, scores)) else []

    def is_reported(self, warning: Warning) -> bool:
        """Whether the description of the model repeats a warning of its fit."""
        return False

    def refittable(self, ranker: Any) -> Any:
        """An unfitted ranker with the chosen settings; None if it keeps out-of-fold scores."""
        return None

    @abstractmethod
    def settings(self, ranker: Any, options: Options) -> About:
        """The settings and results of a fit."""

    @abstractmethod
    def describe(self, settings: About) -> str:
        """The settings as a sentence."""

    def lighten(self, ranker: Any) -> None:
        """Turn attributes of a copied ranker into plain arrays, and drop those of the fit alone."""
        for name in PER_ROW:
            vars(ranker).pop(name, None)

    def restore(self, ranker: Any, about: About) -> None:
        """Undo `lighten`, and refuse impossible attributes before a library uses them."""
        require_shapes(ranker, classes_=(2,))
        if hasattr(ranker, "threshold_"):
            require_shapes(ranker, threshold_=())
        if hasattr(ranker, "calibration_"):
            require_calibration(ranker)
        for name in ("reference_", "usual_"):
            require_numbers(ranker, name, (ranker.n_features_in_ + 1,))

    def add_to_graph(self, graph: "Graph", model: "Model") -> str:
        """Add the score to an ONNX graph; the name of its output."""
        raise ModelError(f"there is no ONNX export of --model {self.name}.")

    def weights_record(self, model: "Model") -> About:
        """The weights by column name, for JSON."""
        raise ModelError(f"--model {self.name} has no weights of columns; export it as ONNX.")


MODEL_TYPES: dict[str, ModelType] = {}
"""Model types by the name that `toppush fit --model` gives them.

A type that is added here can be fitted, saved, described and exported."""
BASE_MODEL_TYPES: list[ModelType] = []
"""Of rankers that are saved and exported only as base models of `TopRanker`."""


def model_type_of(ranker: object) -> ModelType | None:
    """The model type of a ranker, or None if it has none."""
    name = f"{type(ranker).__module__}.{type(ranker).__qualname__}"
    types = (*MODEL_TYPES.values(), *BASE_MODEL_TYPES)
    return next((known for known in types if name in known.ranker_classes), None)


def require_scoring(name: str) -> None:
    """Refuse names that are neither a metric without parameters nor a scorer of scikit-learn."""
    ours = [metric for metric in METRICS if not METRICS[metric].needs]
    known = {*ours, *get_scorer_names()}
    if name not in known:
        needed = METRICS[name].needs if name in METRICS else []
        why = f" needs {', '.join(needed)}" if needed else f" is not known{like(name, known)}"
        raise OptionError(
            f"scoring {name!r}{why}; use one of {', '.join(ours)}, or a scorer of scikit-learn."
        )


def require_numbers(ranker: Any, name: str, shape: tuple[int, ...]) -> None:
    """Refuse an attribute, if present, that is not an array of finite numbers of this shape."""
    values = vars(ranker).get(name)
    if values is None:
        return
    is_float = isinstance(values, np.ndarray) and values.dtype == np.float64
    if not is_float or values.shape != shape or not np.isfinite(values).all():
        raise ModelError(f"its {name} is not {' x '.join(map(str, shape))} finite numbers.")


def require_calibration(ranker: Any) -> None:
    """Refuse a calibration by which probabilities would not rise with the score."""
    try:
        Calibration.from_json(ranker.calibration_.as_json())
    except (AttributeError, TypeError, ValueError) as error:
        raise ModelError(f"its calibration cannot be used: {error}") from None


def require_shapes(ranker: Any, **shapes: tuple[int, ...]) -> None:
    """Refuse attributes of other shapes: forged ones would be broadcast."""
    for name, wanted in shapes.items():
        if (shape := np.shape(getattr(ranker, name))) != wanted:
            raise ModelError(f"its {name} has the shape {shape} and not {wanted}.")


def as_int_or_float(number: Any) -> int | float:
    """A NumPy number as JSON takes it."""
    return int(number) if isinstance(number, (int, np.integer)) else float(number)


def top_text(top: float | str) -> str:
    """A number or a fraction of negatives."""
    return f"{top:.2%}" if isinstance(top, float) else f"{top}"
