"""Boosted trees that XGBoost grows on the workers of a Dask cluster."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from toppush.auto.dask_folds import Dealt, Lazy
from toppush.auto.linear import READING
from toppush.auto.members import Settings
from toppush.matrices import is_sparse
from toppush.models.base import Ranker, refuse_elsewhere
from toppush.models.boosting import PATIENCE, SAMPLE_COLUMNS, choose_rounds, others_than
from toppush.objectives import XGBOOST_PARAMS, TopPushObjective, XGBoostMetric
from toppush.objectives.workers import of_xgboost
from toppush.system.extras import not_installed
from toppush.tables.validation import validated
from toppush.types import Array, Matrix, Where

PARAMS = {**XGBOOST_PARAMS, "max_leaves": 31, "colsample_bynode": SAMPLE_COLUMNS}
"""Rounds see all rows: which XGBoost would draw depends on where they are."""
TOP, MAX_ROUNDS, STOPPED_BY = 0.01, 1000, "ndcg"
"""As `TopPushTrees` has them."""


class XGBoostTrees(Ranker):
    """Mean of boosters, each grown on the rows of other folds; `TopRanker` makes it.

    Parameters
    ----------
    loss : {"pairwise", "binary"}, default="pairwise"

    Attributes
    ----------
    boosters_ : list of arrays of uint8
        In XGBoost's format UBJ.
    categorical_ : list of int
        Columns that hold codes of categories.
    threshold_ : float
    n_features_in_ : int
    """

    threshold_: float = 0.0
    boosters_: Sequence[Where]
    categorical_: list[int]
    _read_boosters: list[Any] | None = None

    def __init__(self, loss: str = "pairwise") -> None:
        self.loss = loss

    @classmethod
    def of(
        cls, loss: str, boosters: Sequence[Where], categorical: list[int], width: int
    ) -> "XGBoostTrees":
        """From boosters that were grown."""
        found = cls(loss)
        found.boosters_, found.categorical_, found.n_features_in_ = boosters, categorical, width
        found.classes_ = np.array([False, True])
        return found

    def decision_function(self, X: Matrix) -> Array:
        """Scores less the threshold; higher ranks first."""
        return self._mean(X, output_margin=True) - self.threshold_

    def contributions(self, X: Matrix) -> Array:
        """What each column adds to a row's score, by TreeSHAP; the last column is the rest."""
        found = self._mean(X, pred_contribs=True)
        found[:, -1] -= self.threshold_
        return found

    def _mean(self, X: Matrix, **asked: bool) -> Array:
        """Of what the boosters say."""
        refuse_elsewhere(self, X=X)
        X = validated(self, X, reset=False, **READING)
        rows = _xgboost().DMatrix(X, **types_of(self.categorical_, self.n_features_in_))
        answers = [one.predict(rows, **asked) for one in self._boosters()]
        return np.asarray(np.mean(answers, axis=0, dtype=np.float64))

    def _boosters(self) -> list[Any]:
        """The boosters, read from their bytes once."""
        if self._read_boosters is None:
            booster = _xgboost().Booster
            self._read_boosters = [booster(model_file=bytearray(one)) for one in self.boosters_]
        return self._read_boosters

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_read_boosters": None}


@dataclass(frozen=True)
class Grown:
    """A booster with all its rounds, and the NDCG of its held-out rows after each of them."""

    booster: Any
    held: Where
    quality: Array

    def up_to(self, evaluation: int) -> Where:
        """The booster in XGBoost's format UBJ, without the rounds after an evaluation."""
        n_rounds = min(evaluation + 1, len(self.quality))
        return np.frombuffer(self.booster[:n_rounds].save_raw("ubj"), np.uint8)


class BoostedGrower:
    """Grows trees on the workers, for each fold until its held-out list gets no better.

    All folds keep the number of rounds with the best mean NDCG. A fold's rows are scored with the
    number that is best on the other folds.
    """

    averages = True

    def __init__(self, loss: str, dealt: Dealt, settings: Settings) -> None:
        self.loss, self.dealt = loss, dealt
        self.params = {**PARAMS, "seed": settings.seed}
        if loss == "binary":
            self.params["objective"] = "binary:logistic"

    def fold(self, number: int) -> Grown:
        """Grown on the rows that a fold learns from, without a few of the next fold."""
        learned, held_out = self.dealt.folds[number]
        train = self._matrix(learned & ~self.dealt.again[number][0])
        held = self._matrix(held_out)
        measure = XGBoostMetric(STOPPED_BY)
        grown = of_xgboost("dask").train(
            None,
            self.params,
            train,
            MAX_ROUNDS,
            obj=None if self.loss == "binary" else TopPushObjective(TOP),
            custom_metric=measure,
            evals=[(held, "held")],
            callbacks=[measure.early_stopping(PATIENCE, save_best=False)],
            verbose_eval=False,
        )
        quality = np.array(grown["history"]["held"][measure.__name__])
        return Grown(grown["booster"], self.dealt.given.folds[number][1], quality)

    def whole(self, folds: list[Grown]) -> XGBoostTrees:
        """The mean of all folds' trees, as that of `TopPushTrees`."""
        return self._ranker(self._of_common_rounds(folds))

    def final(self, folds: list[Grown]) -> list[XGBoostTrees]:
        """The trees of each fold in that mean."""
        return [self._ranker([one]) for one in self._of_common_rounds(folds)]

    def unseen(self, folds: list[Grown]) -> list[XGBoostTrees]:
        """The trees of each fold, with the number of rounds that is best on the other folds."""
        choose = choose_rounds(folds)
        return [
            self._ranker([fold.up_to(choose(others_than(number, folds)))])
            for number, fold in enumerate(folds)
        ]

    def _of_common_rounds(self, folds: list[Grown]) -> list[Where]:
        rounds = choose_rounds(folds)(range(len(folds)))
        return [fold.up_to(rounds) for fold in folds]

    def _ranker(self, boosters: list[Where]) -> XGBoostTrees:
        dealt = self.dealt
        categorical, width = dealt.given.columns.categorical, dealt.rows.shape[1]
        return XGBoostTrees.of(self.loss, boosters, categorical, width)

    def _matrix(self, where: Lazy) -> Any:
        """Some rows as XGBoost takes them."""
        dealt = self.dealt
        rows, labels = dealt.rows.subset(where), dealt.rows.subset_of(dealt.positive, where)
        weight = None if dealt.weight is None else dealt.rows.subset_of(dealt.weight, where)
        types = types_of(dealt.given.columns.categorical, dealt.rows.shape[1])
        return of_xgboost("dask").DaskDMatrix(None, rows.lazy, labels, weight=weight, **types)


def types_of(categorical: list[int], width: int) -> dict[str, Any]:
    """What XGBoost is told of the columns."""
    if not categorical:
        return {}
    types = np.full(width, "q")
    types[categorical] = "c"
    return {"feature_types": types.tolist(), "enable_categorical": True}


def why_not(dealt: Dealt) -> str | None:
    """Why XGBoost cannot grow trees on these rows, if so."""
    if find_spec("xgboost") is None:
        return not_installed("xgboost")
    if not dealt.rows.has_own_processes:
        return "xgboost.dask needs workers that are processes of their own: Client(processes=True)"
    if is_sparse(dealt.few.X):
        return "XGBoost takes zeros that are not stored for missing values"
    return None


def _xgboost() -> Any:
    return of_xgboost("core")
