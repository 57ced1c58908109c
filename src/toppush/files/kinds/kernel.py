"""`--model kernel`: TopPushKernel, similarity to some training rows, with a certificate."""

from typing import TYPE_CHECKING, Any

import numpy as np

from toppush.designs import dense
from toppush.files.kinds.base import About, FitRows, Options, feature_names
from toppush.files.kinds.searched import Searched
from toppush.files.model.linear import scaling
from toppush.types import Array

if TYPE_CHECKING:
    from toppush.files.model.fitted import Model
    from toppush.files.model.graph import Graph


class Kernel(Searched):
    """Weights of Gaussian similarities; the ranker standardises the columns itself."""

    name = "kernel"
    home = "toppush.nonlinear.kernel.TopPushKernel"
    folds = 3
    always_chooses = True
    scale = None

    def more(self, rows: FitRows, seed: int) -> Options:
        return {"random_state": seed}

    def again(self, ranker: Any) -> Any:
        width = max(ranker.widths_, key=ranker.widths_.__getitem__)
        return super().again(ranker).set_params(widths=[width])

    def n_weights(self, ranker: Any) -> int:
        return int(ranker.kernel_.components_.shape[0])

    def settings(self, ranker: Any, options: Options) -> About:
        found = {"gamma": float(ranker.gamma_), "centers": int(ranker.coef_.shape[1])}
        return super().settings(ranker, options) | found

    def subject(self, settings: About) -> str:
        return (
            f"Gaussian similarity to {settings['centers']:,} training rows, gamma "
            f"{settings['gamma']:.3g}: "
        )

    def rest(self, settings: About) -> str:
        return f"; seed {settings['seed']}"

    def graph(self, graph: "Graph", model: "Model") -> str:
        ranker: Any = model.ranker
        steps = [*model.pipeline.steps[:-1], ("standard", ranker.scaler_)]
        rows = graph.scaled(model.columns, steps, ranker.n_features_in_)
        similar = graph.gaussian(rows, _centers(ranker), float(ranker.gamma_))
        return graph.product(similar, _weights(ranker), float(ranker.threshold_))

    def exported(self, model: "Model") -> About:
        ranker: Any = model.ranker
        factor, shift = scaling([ranker.scaler_], ranker.n_features_in_) or (1.0, 0.0)
        return {
            "format": "toppush kernel 1",
            "threshold": float(ranker.threshold_),
            "features": feature_names(model),
            "factor": np.asarray(factor).tolist(),
            "shift": np.asarray(shift).tolist(),
            "gamma": float(ranker.gamma_),
            "centers": _centers(ranker).tolist(),
            "weights": _weights(ranker).tolist(),
        }


def _centers(ranker: Any) -> Array:
    return np.asarray(dense(ranker.kernel_.components_), np.float64)


def _weights(ranker: Any) -> Array:
    """Of the similarities, from those of the features."""
    return np.asarray(ranker.kernel_.normalization_.T @ ranker.coef_[0], np.float64)
