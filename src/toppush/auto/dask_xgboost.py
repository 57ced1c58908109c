"""Boosted trees trained by XGBoost on the workers of a Dask cluster."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np

from toppush.auto.dask import Trainer
from toppush.auto.dask_folds import DaskFolds, Lazy
from toppush.matrices import is_sparse
from toppush.models.boosting import PATIENCE, choose_rounds, others_than
from toppush.models.cross_fitted import TOP, CrossFitted
from toppush.objectives import XGBOOST_PARAMS, TopPushObjective, XGBoostMetric
from toppush.objectives.workers import of_xgboost
from toppush.system.extras import not_installed
from toppush.types import Array, Matrix, Where

PARAMS = {**XGBOOST_PARAMS, "max_leaves": 31, "colsample_bynode": 0.3}
"""Rounds use all rows: a sample by XGBoost would depend on which worker holds which rows."""
MAX_ROUNDS, STOPPED_BY = 1000, "ndcg"
"""As for `TopPushTrees`."""


class XGBoostTrees(CrossFitted):
    """Mean of boosters, each trained on the rows of other folds; made by `TopRanker`.

    Parameters
    ----------
    loss : {"pairwise", "binary"}, default="pairwise"

    Attributes
    ----------
    boosters_ : list of arrays of uint8
        In XGBoost's format UBJ.
    categorical_ : list of int
        Positions of columns with codes of categories.
    threshold_ : float
    calibration_ : Calibration
    n_features_in_ : int
    """

    threshold_: float = 0.0
    boosters_: Sequence[Where]
    categorical_: list[int]

    def __init__(self, loss: str = "pairwise") -> None:
        self.loss = loss

    @classmethod
    def of(
        cls, loss: str, boosters: Sequence[Where], categorical: list[int], width: int
    ) -> "XGBoostTrees":
        """From trained boosters."""
        ranker = cls(loss)
        ranker.boosters_, ranker.categorical_, ranker.n_features_in_ = boosters, categorical, width
        ranker.classes_ = np.array([False, True])
        return ranker

    def _require_fitted(self) -> None:
        """`of` makes fitted rankers, and there is no `fit` for scikit-learn to ask for."""

    def _score(self, X: Matrix) -> Array:
        return self._mean(X, output_margin=True)

    def _contributions(self, X: Matrix) -> Array:
        """By TreeSHAP."""
        return self._mean(X, pred_contribs=True)

    def _mean(self, X: Matrix, **output: bool) -> Array:
        """Mean prediction of the boosters."""
        types = types_of(self.categorical_, self.n_features_in_)
        rows = of_xgboost("core").DMatrix(X, **types)
        predictions = [booster.predict(rows, **output) for booster in self._models()]
        return np.asarray(np.mean(predictions, axis=0, dtype=np.float64))

    def _load(self) -> list[Any]:
        booster = of_xgboost("core").Booster
        return [booster(model_file=bytearray(each)) for each in self.boosters_]


@dataclass(frozen=True)
class FoldBooster:
    """A booster with all its rounds, and the NDCG of its held-out rows after each of them."""

    booster: Any
    held: Where
    quality: Array

    def up_to(self, evaluation: int) -> Where:
        """The booster in XGBoost's format UBJ, without the rounds after an evaluation."""
        n_rounds = min(evaluation + 1, len(self.quality))
        return np.frombuffer(self.booster[:n_rounds].save_raw("ubj"), np.uint8)


class BoostedTrainer(Trainer):
    """Trains trees on the workers, for each fold until its held-out NDCG stops rising.

    All folds keep the number of rounds with the best mean NDCG. A fold's rows are scored with the
    number that is best on the other folds.
    """

    averages = True
    loss: ClassVar[str]

    @staticmethod
    def left_out(rows: DaskFolds) -> str | None:
        """Why XGBoost cannot be trained on these rows, if so."""
        if find_spec("xgboost") is None:
            return not_installed("xgboost")
        if not rows.rows.has_own_processes:
            return (
                "xgboost.dask needs workers that are processes of their own: Client(processes=True)"
            )
        if is_sparse(rows.few.X):
            return "XGBoost takes zeros that are not stored for missing values"
        return None

    def fold(self, number: int) -> FoldBooster:
        """Trained on the rows of a fold, without a few of the next fold."""
        train, held_out = self.rows.folds[number]
        held = self._matrix(held_out)
        metric = XGBoostMetric(STOPPED_BY)
        params = {**PARAMS, "seed": self.seed}
        if self.loss == "binary":
            params["objective"] = "binary:logistic"
        trained = of_xgboost("dask").train(
            None,
            params,
            self._matrix(train & ~self.rows.again[number][0]),
            MAX_ROUNDS,
            obj=None if self.loss == "binary" else TopPushObjective(TOP),
            custom_metric=metric,
            evals=[(held, "held")],
            callbacks=[metric.early_stopping(PATIENCE, save_best=False)],
            verbose_eval=False,
        )
        quality = np.array(trained["history"]["held"][metric.__name__])
        return FoldBooster(trained["booster"], self.rows.sample_folds[number][1], quality)

    def whole(self, folds: list[FoldBooster]) -> XGBoostTrees:
        """The mean of all folds' trees, as that of `TopPushTrees`."""
        return self._ranker(self._of_common_rounds(folds))

    def final(self, folds: list[FoldBooster]) -> list[XGBoostTrees]:
        """The trees of each fold in that mean."""
        return [self._ranker([one]) for one in self._of_common_rounds(folds)]

    def unseen(self, folds: list[FoldBooster]) -> list[XGBoostTrees]:
        """The trees of each fold, with the number of rounds that is best on the other folds."""
        choose = choose_rounds(folds)
        return [
            self._ranker([fold.up_to(choose(others_than(number, folds)))])
            for number, fold in enumerate(folds)
        ]

    def _of_common_rounds(self, folds: list[FoldBooster]) -> list[Where]:
        rounds = choose_rounds(folds)(range(len(folds)))
        return [fold.up_to(rounds) for fold in folds]

    def _ranker(self, boosters: list[Where]) -> XGBoostTrees:
        categorical, width = self.rows.columns.categorical, self.rows.rows.shape[1]
        return XGBoostTrees.of(self.loss, boosters, categorical, width)

    def _matrix(self, where: Lazy) -> Any:
        """Some rows as XGBoost takes them."""
        rows = self.rows.rows
        weight = None if self.rows.weight is None else rows.subset_of(self.rows.weight, where)
        return of_xgboost("dask").DaskDMatrix(
            None,
            rows.subset(where).lazy,
            rows.subset_of(self.rows.positive, where),
            weight=weight,
            **types_of(self.rows.columns.categorical, rows.shape[1]),
        )


class BinaryTrainer(BoostedTrainer):
    """With XGBoost's log loss."""

    loss = "binary"


class PairwiseTrainer(BoostedTrainer):
    """With the pairwise loss of `TopPushObjective`."""

    loss = "pairwise"


def types_of(categorical: list[int], width: int) -> dict[str, Any]:
    """The column types, as keywords of XGBoost's matrices."""
    if not categorical:
        return {}
    types = np.full(width, "q")
    types[categorical] = "c"
    return {"feature_types": types.tolist(), "enable_categorical": True}
