"""`TopRanker` on rows of Dask, which stay on the workers.

Only the labels, weights and held-out scores by which members are combined come to this process, a
few numbers per row, and the few rows by which `TopLinear` chooses its settings.
"""

import copy
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import validate_data

from toppush.auto.dask_folds import DaskFolds, Lazy, as_numbers
from toppush.auto.linear import TOL, LinearFeatures, TopLinear
from toppush.auto.members import EFFORTS, FitData, FittedMember
from toppush.designs import BACKENDS, backend_of, place
from toppush.folds.scores import PER_ROW, FoldScores, Part, in_order, mean_over_fits
from toppush.folds.splits import require_both_in_each, require_two_of_each
from toppush.matrices import column_sizes, times
from toppush.models.base import read_training as read_placed
from toppush.models.linear import TopPush
from toppush.system.threads import check_cancelled
from toppush.tables.validation import column_names, refuse_sizes
from toppush.thresholds.probabilities import calibrate
from toppush.types import Array, Mask, Matrix, Where

if TYPE_CHECKING:
    from toppush.designs.dask import DaskRows


def holds(X: Any) -> bool:
    """Whether rows are of Dask."""
    return backend_of(X) is BACKENDS["dask"]


def read_training(ranker: Any, X: Any, y: Any, sample_weight: Any, groups: Any) -> FitData:
    """The rows with their folds; sets the fitted attributes that describe the columns."""
    if groups is not None:
        raise ValueError(
            "groups would need all rows in one place; for a Dask collection leave them out."
        )
    if not isinstance(ranker.text_features, str | None):
        raise ValueError(
            "text_features is not supported for a Dask collection; leave it out, and the columns "
            "that it names."
        )
    read = read_placed(ranker, X, y, sample_weight)
    placed: Any = read.rows  # of Dask, with methods that other rows lack
    cv = EFFORTS[ranker.effort].n_folds if ranker.cv is None else ranker.cv
    n_folds = placed.number_of_folds(cv)
    rows, columns = as_numbers(placed, ranker.categorical_features)
    sizes = np.max(rows.ask(column_sizes), axis=0)
    names = column_names(ranker)
    refuse_sizes(sizes, [names[source] for source in columns.sources])
    folds = DaskFolds(rows, columns, read.positive, read.sample_weight, n_folds, sizes)
    require_two_of_each(folds.sample_positive, read.classes)
    require_both_in_each(folds.sample_folds, folds.sample_positive)
    ranker.classes_ = read.classes
    ranker._keep_columns(columns)
    return FitData(
        None,
        np.empty((0, len(columns.sources))),
        columns,
        folds.sample_positive,
        folds.sample_weight,
        folds.sample_folds,
        EFFORTS[ranker.effort],
        seed=ranker._seed(),
        on_dask=folds,
    )


def scores(ranker: Any, X: Any) -> Array:
    """The ranker's scores of Dask's rows, by the workers: a Dask array, not yet computed."""
    rows: Any = place(X)
    validate_data(ranker, rows.template, reset=False, skip_check_array=True)
    light = _without_rows(ranker)
    light._board = light._rows_of_board = None
    light.members_ = {name: _without_rows(member) for name, member in ranker.members_.items()}
    lazy: Array = rows.scored_by(light.decision_function)
    return lazy


def probabilities(ranker: Any, X: Any) -> Array:
    """Calibrated probabilities of both classes of Dask's rows: a Dask array, not yet computed."""
    lazy: Any = scores(ranker, X)
    of_both = ranker.calibration_.of_both_classes
    chunks = (lazy.chunks[0], (2,))
    result: Array = lazy.map_blocks(of_both, new_axis=1, chunks=chunks, dtype=np.float64)
    return result


def _without_rows(ranker: Any) -> Any:
    """A copy without what has an entry per training row."""
    light = copy.copy(ranker)
    for name in PER_ROW:
        vars(light).pop(name, None)
    if hasattr(light, "cv"):
        light.cv = None  # may be a list of folds
    return light


class Trainer:
    """Fits a member to Dask's rows: one model for each fold, and one for all rows."""

    averages: ClassVar[bool]
    """Whether the mean of the fold models scores new rows, and not one fit to all rows."""

    def __init__(self, rows: DaskFolds, seed: int) -> None:
        self.rows, self.seed = rows, seed

    @staticmethod
    def left_out(rows: DaskFolds) -> str | None:
        """Why it cannot be fitted to some rows, if so."""
        return None

    def fold(self, number: int) -> Any:
        """The model of the rows that a fold trains on."""
        raise NotImplementedError

    def whole(self, folds: list[Any]) -> Any:
        """The ranker for new rows, from the models of all folds."""
        raise NotImplementedError

    def final(self, folds: list[Any]) -> list[Any]:
        """The fold models with the settings that are chosen on all folds."""
        raise NotImplementedError

    def unseen(self, folds: list[Any]) -> list[Any]:
        """The fold models with the settings chosen on the other folds."""
        raise NotImplementedError


def trainers() -> dict[str, type[Trainer]]:
    """How members are fitted, by the names that `Member.dask` has."""
    from toppush.auto.dask_xgboost import BinaryTrainer, PairwiseTrainer

    return {"linear": LinearTrainer, "binary": BinaryTrainer, "pairwise": PairwiseTrainer}


def left_out(trainer: str | None, rows: DaskFolds) -> str | None:
    """Why a member cannot be fitted to Dask's rows, if so."""
    if trainer is None:
        return "it works on rows in memory, and these are of Dask"
    return trainers()[trainer].left_out(rows)


def fit(trainer: str, rows: DaskFolds, seed: int) -> FittedMember:
    """Fit to all rows, and score the sampled ones by fits that did not see them."""
    training, models = trainers()[trainer](rows, seed), []
    for number in range(len(rows.sample_folds)):
        check_cancelled()
        models.append(training.fold(number))
    ranker, final_models = training.whole(models), training.final(models)

    def parts(which: Sequence[Lazy], places: Sequence[Where], rankers: list[Any]) -> list[Part]:
        """Scores of some rows by each ranker, with their places among the sampled rows."""
        return [
            (place, rows.scores_of(where, ranker.decision_function))
            for where, place, ranker in zip(which, places, rankers, strict=True)
        ]

    held, places = [held for _, held in rows.folds], [held for _, held in rows.sample_folds]
    final = parts(held, places, final_models)
    chosen = parts(held, places, training.unseen(models))
    n_rows = len(rows.sample_positive)
    if training.averages:
        again, places_again = zip(*rows.again, strict=True)
        second = parts(again, places_again, final_models)
        unseen, twice, expected = FoldScores.of(chosen, final, second, n_rows, len(models))
    else:
        pairs = zip(chosen, final, strict=True)
        ordered = [(place, in_order(values, own)) for (place, own), (_, values) in pairs]
        unseen = expected = mean_over_fits(ordered, n_rows)
    above, ranker.calibration_ = calibrate(rows.sample_positive, expected, rows.sample_weight)
    ranker.threshold_ += above
    return FittedMember(ranker, unseen - above, second=twice - above if training.averages else None)


# ---- linear members


class Represented(NamedTuple):
    """Rows on the workers as features, and how columns become these."""

    rows: "DaskRows"
    factor: Array
    curves: dict[str, Array] | None


class LinearTrainer(Trainer):
    """Fits `TopPush` to features of the columns, on the workers.

    Representation and penalty are chosen on a few rows, for a fold's held-out rows on those of the
    other folds, as `TopLinear` chooses them.
    """

    averages = False

    def __init__(self, rows: DaskFolds, seed: int) -> None:
        super().__init__(rows, seed)
        few, categorical = rows.few, rows.columns.categorical
        self.ranker = TopLinear("push", categorical_features=categorical, cv=few.folds)
        self.few, folds = self.ranker._read_training(few.X, few.positive, few.weight)
        self.search = self.ranker._search(self.few, folds)
        self.ranker.cv = None
        self.represented: dict[str, Represented] = {}

    def fold(self, number: int) -> tuple[TopLinear, TopLinear]:
        """Fits with the setting chosen on the other folds, and with that chosen on all."""
        train, place = self.rows.folds[number][0], self.search.best_in(number)
        chosen, best = self._fitted(train, place), self.search.best
        return chosen, chosen if place == best else self._fitted(train, best)

    def whole(self, folds: list[tuple[TopLinear, TopLinear]]) -> TopLinear:
        """Fitted to all rows."""
        return self._fitted(self.rows.counted, self.search.best)

    def final(self, folds: list[tuple[TopLinear, TopLinear]]) -> list[TopLinear]:
        """The fits without each fold, with the setting chosen on all folds."""
        return [final for _, final in folds]

    def unseen(self, folds: list[tuple[TopLinear, TopLinear]]) -> list[TopLinear]:
        """The fits without each fold, with the settings chosen on the other folds."""
        return [chosen for chosen, _ in folds]

    def _represent(self, form: str) -> Represented:
        """The rows in a representation, which the workers keep for other fits."""
        if form not in self.represented:
            features = LinearFeatures.of(self.few, form)
            sizes, curves = self.rows.sizes, features.curves
            if curves is None:
                factor = np.asarray(1.0 / np.where(sizes > 0.0, sizes, 1.0))
                transform: Callable[[Matrix], Matrix] = partial(times, factor=factor)
            else:
                factor, transform = np.ones(1), curves.transform
            rows = self.rows.rows.transform(transform, features.matrix.shape[1]).persist()
            arrays = None if curves is None else curves.arrays()
            self.represented[form] = Represented(rows, factor, arrays)
        return self.represented[form]

    def _fitted(self, where: Lazy, place: int) -> TopLinear:
        """Fitted to some rows by a setting; scores are standardised as `fit_weights` does."""
        form, penalty = self.search.settings[place]
        lam, top = penalty
        rows, factor, curves = self._represent(form)
        weight = rows.masked_weights(where, self.rows.weight)
        solved = TopPush(lam, top=top, tol=TOL).fit(rows, self.rows.positive, weight)
        scores = rows.scores_of_all(solved.coef_[0])
        sums = np.sum(rows.map_parts(_sums, [scores, self.rows.positive, where]), axis=0)
        n_rows, total, squares, n_neg, of_negatives = sums.tolist()
        variance = max(squares / n_rows - (total / n_rows) ** 2, 0.0)
        center, scale = of_negatives / n_neg, math.sqrt(variance) or 1.0
        ranker = copy.copy(self.ranker)
        ranker.form_, ranker.penalty_, ranker.curves_ = form, list(penalty), curves
        ranker.coef_, ranker.threshold_ = solved.coef_ * factor / scale, center / scale
        return ranker


def _sums(scores: ArrayLike, positive: Mask, where: Mask) -> Array:
    """Count, sum and sum of squares of some rows' scores; count and sum of the negatives'."""
    scores = np.asarray(scores)
    some, negative = scores[where], scores[where & ~positive]
    return np.array([len(some), some.sum(), some @ some, len(negative), negative.sum()])
