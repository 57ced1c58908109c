"""What a kind of model has to say: how it is made, prepared, saved, told of and exported."""

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.metrics import get_scorer_names

from toppush.folds.by_column import Folds, folds_of
from toppush.folds.expected_scores import PER_ROW
from toppush.metrics import METRICS
from toppush.metrics.trust import few_positives
from toppush.system.errors import ModelError, like
from toppush.system.extras import needs
from toppush.system.reading import DataError
from toppush.tables.columns import Columns
from toppush.tables.labels import LabelRule
from toppush.tables.rows import NOTHING, RoleValues
from toppush.types import Array, Labels, Mask, Matrix

if TYPE_CHECKING:
    from toppush.export.onnx_graph import Graph
    from toppush.modelfile.fitted import Model

About = dict[str, Any]
"""What JSON can hold."""
Options = dict[str, Any]
"""Options of a fit that were given, by name."""
EXPORTS = {"onnx": "graph", "weights": "exported"}
"""Exports by their option, and the method that makes each."""
Steps = list[tuple[str, BaseEstimator]]


class Ranker(Protocol):
    """What the last step of a model does."""

    classes_: NDArray[Any]
    reference_: Array
    """Mean contributions of the highest-ranked negatives of the training rows."""
    usual_: Array
    """Mean contributions of some of the training rows."""
    verbose: int

    def fit(self, X: Matrix, y: Labels, sample_weight: Any = None) -> Self: ...
    def decision_function(self, X: Matrix) -> Array: ...
    def contributions(self, X: Matrix) -> Array: ...
    def set_params(self, **params: Any) -> Self: ...


class OptionError(ValueError):
    """An option that a kind of model does not take."""

    exit_code = 2


@dataclass(frozen=True)
class FitRows:
    """What a fit knows of its rows besides the matrix."""

    positive: Mask
    rule: LabelRule
    path: Path
    columns: Columns | None
    held: RoleValues = NOTHING
    """Weights, groups and times."""

    @property
    def coded(self) -> list[int] | None:
        """Columns of the matrix that are places of texts, if there are any."""
        found = [] if self.columns is None else self.columns.coded
        return found or None

    @property
    def make_folds(self) -> bool:
        """Whether groups or times say how rows may be parted."""
        return self.held.groups is not None or self.held.time is not None

    def folds(self, n_folds: int, seed: int) -> Folds:
        """So many folds that respect groups and times."""
        try:
            return folds_of(self.positive, self.held, n_folds, seed)
        except DataError as error:
            raise error.at(self.path) from None

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.positive)

    @property
    def n_positives(self) -> int:
        """How many of them are positive."""
        return int(self.positive.sum())


class Kind(ABC):
    """A kind of model; one object of each is in `KINDS`."""

    name: str
    home: str
    """Where the ranker's class is, as "module.Class"."""
    also: tuple[str, ...] = ()
    """Other classes that make such a model."""
    takes: tuple[str, ...] = ()
    """Options of a fit that it takes, besides those that all do."""
    form = "filled"
    """What is made of the columns of a table."""
    engine: str | None = None
    """The package that fits it, if it is not installed with the files' own."""
    scale: str | None = "maxabs"
    """How columns are scaled unless the option says; None if they never are."""

    def options(self, **given: Any) -> Options:
        """The options that are not None; one that this kind does not take is refused."""
        found = {name: value for name, value in given.items() if value is not None}
        if others := [f"--{name}" for name in found if name not in self.takes]:
            if set(others) & {"--groups", "--time"}:
                others[-1] += " (it draws its own folds)"
            known = ", ".join(f"--{name}" for name in (*self.takes, "seed"))
            raise OptionError(
                f"{', '.join(others)} is not for --model {self.name}, which takes {known}."
            )
        self.check_options(found)
        return found

    def packages(self, ranker: Any) -> list[str]:
        """What a fitted ranker needs besides what every model does."""
        return [] if self.engine is None else [self.engine]

    def require_engine(self) -> None:
        """Refuse before any work if what fits the model is not installed."""
        if self.engine is not None and find_spec(self.engine) is None:
            raise ImportError(needs(f"--model {self.name}", self.engine))

    def require_exports(self, wanted: Collection[str], options: Options) -> None:
        """Refuse before any work what could not be written afterwards: "onnx" or "weights"."""
        packages = ["skops", *(["onnx"] if "onnx" in wanted else [])]
        for package in packages:
            if find_spec(package) is None:
                raise ImportError(needs("writing the model", package))
        for what, method in EXPORTS.items():
            if what in wanted and getattr(type(self), method) is getattr(Kind, method):
                raise OptionError(f"--model {self.name} has no --{what} export.")

    def check_options(self, options: Options) -> None:
        """Refuse values that cannot be."""
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

    @property
    def class_(self) -> Any:
        """The ranker's class."""
        module, _, name = self.home.rpartition(".")
        return getattr(import_module(module), name)

    def arguments(self, options: Options) -> Options:
        """Options under the names of the ranker's parameters."""
        names = {"members": "n_members", "threads": "n_jobs"}
        return {names.get(name, name): value for name, value in options.items()}

    @abstractmethod
    def ranker(self, options: Options, rows: FitRows, seed: int) -> Ranker:
        """What is to be fitted, by the options."""

    def after(self, ranker: Ranker, X: Matrix, rows: FitRows) -> About:
        """What else is known once it is fitted."""
        return {}

    def cautions(self, ranker: Ranker, X: Matrix, rows: FitRows, seed: int) -> list[str]:
        """What is to be warned of once it is fitted: too few positives, with the measured interval.

        Few positives alone are worth the further fits that measure it.
        """
        from toppush.modeltypes.out_of_fold import held_out_scores

        if few_positives(rows.positive) is None:
            return []
        scores = held_out_scores(self, ranker, X, rows.positive, rows.held.weight, seed)
        return [why] if (why := few_positives(rows.positive, scores)) else []

    def is_told(self, warning: Warning) -> bool:
        """Whether a warning of its fit is told by what is known of it, and need not be given on."""
        return False

    def again(self, ranker: Any) -> Any:
        """A ranker to fit with the settings that this one has chosen; None if it needs none.

        One that keeps scores of rows unseen, `out_of_fold_`, needs none.
        """
        return None

    @abstractmethod
    def settings(self, ranker: Any, options: Options) -> About:
        """The settings of a fit, and what came of it."""

    @abstractmethod
    def sentence(self, settings: About) -> str:
        """The settings, told."""

    def lighten(self, ranker: Any) -> None:
        """Turn what a copy of a ranker holds into plain arrays, without what only the fit needs."""
        for name in PER_ROW:
            vars(ranker).pop(name, None)

    def restore(self, ranker: Any, about: About) -> None:
        """Undo `lighten`, and refuse what cannot be right before a library believes it."""
        require_shapes(ranker, classes_=(2,))
        if hasattr(ranker, "threshold_"):
            require_shapes(ranker, threshold_=())
        for name in ("reference_", "usual_"):
            require_numbers(ranker, name, (ranker.n_features_in_ + 1,))

    def graph(self, graph: "Graph", model: "Model") -> str:
        """The score as ONNX; the name of what it is in the graph."""
        raise ModelError(f"there is no ONNX export of --model {self.name}.")

    def exported(self, model: "Model") -> About:
        """The weights by column name, as JSON."""
        raise ModelError(f"--model {self.name} has no weights of columns; export it as ONNX.")


def require_scoring(name: str) -> None:
    """Refuse what is neither a measure of ours that needs no parameters nor a scorer's name."""
    known = {one for one, metric in METRICS.items() if not metric.needs} | {*get_scorer_names()}
    if name not in known:
        needs = METRICS[name].needs if name in METRICS else []
        why = f" needs {', '.join(needs)}" if needs else f" is not known{like(name, known)}"
        ours = ", ".join(one for one in METRICS if one in known)
        raise OptionError(
            f"scoring {name!r}{why}; give one of {ours}, or a scorer of scikit-learn."
        )


def require_numbers(ranker: Any, name: str, shape: tuple[int, ...]) -> None:
    """Refuse an attribute, where there is one, that is no finite numbers of this shape."""
    found = vars(ranker).get(name)
    if found is None:
        return
    numbers = isinstance(found, np.ndarray) and found.dtype == np.float64
    if not numbers or found.shape != shape or not np.isfinite(found).all():
        raise ModelError(f"its {name} is not {' x '.join(map(str, shape))} finite numbers.")


def require_shapes(ranker: Any, **shapes: tuple[int, ...]) -> None:
    """Refuse attributes of other shapes: forged ones would be spread over each other."""
    for name, shape in shapes.items():
        if (found := np.shape(getattr(ranker, name))) != shape:
            raise ModelError(f"its {name} has the shape {found} and not {shape}.")


def as_int_or_float(number: Any) -> int | float:
    """A NumPy number as JSON takes it."""
    return int(number) if isinstance(number, (int, np.integer)) else float(number)


def top_text(top: float | str) -> str:
    """A count or a share of negatives."""
    return f"{top:.2%}" if isinstance(top, float) else f"{top}"
