"""`--model net`: TopPushNet, an ensemble of small networks; torch fits it, NumPy scores."""

from collections.abc import Collection
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from toppush.modeltypes.base import (
    About,
    FitRows,
    Kind,
    Options,
    as_int_or_float,
    require_numbers,
    require_shapes,
    top_text,
)
from toppush.system.errors import ModelError

if TYPE_CHECKING:
    from toppush.export.onnx_graph import Graph
    from toppush.modelfile.fitted import Model


class Net(Kind):
    """The mean of several networks, which standardise the columns themselves."""

    name = "net"
    home = "toppush.models.net.TopPushNet"
    takes = ("top", "loss", "members", "threads")
    engine = "torch"
    scale = None

    @property
    def losses(self) -> Collection[str]:
        return ("pairwise", "cross_entropy")

    def ranker(self, options: Options, rows: FitRows, seed: int) -> Any:
        return self.class_(random_state=seed, **self.arguments(options))

    def settings(self, ranker: Any, options: Options) -> About:
        return {
            "top": as_int_or_float(ranker.top),
            "loss": ranker.loss,
            "members": len(ranker.offsets_),
            "hidden": [int(weights.shape[2]) for weights in ranker.weights_[:-1]],
            "steps": int(ranker.n_iter_),
        }

    def sentence(self, settings: About) -> str:
        hidden = " and ".join(map(str, settings["hidden"])) or "no"
        return (
            f"Networks: {settings['members']} members with {hidden} hidden units, "
            f"{settings['steps']:,} steps; top {top_text(settings['top'])} of the negatives, loss "
            f"{settings['loss']}, seed {settings['seed']}."
        )

    def restore(self, ranker: Any, about: About) -> None:
        super().restore(ranker, about)
        self._require_layers(ranker)
        n_rows = len(getattr(ranker, "background_", ()))
        require_numbers(ranker, "background_", (n_rows, ranker.n_features_in_))

    def _require_layers(self, ranker: Any) -> None:
        """Refuse layers that do not follow one another."""
        n_members, width = len(ranker.offsets_), ranker.n_features_in_
        require_shapes(ranker, offsets_=(n_members,), mean_=(width,), scale_=(width,))
        sizes = [width, *(np.shape(biases)[-1] for biases in ranker.biases_)]
        wanted = [(n_members, *pair) for pair in pairwise(sizes)]
        found = [np.shape(weights) for weights in ranker.weights_]
        hold = [np.shape(biases) for biases in ranker.biases_]
        if found != wanted or hold != [(n_members, size) for size in sizes[1:]] or sizes[-1] != 1:
            raise ModelError(f"its layers have weights of shapes {found}, which do not fit.")

    def graph(self, graph: "Graph", model: "Model") -> str:
        ranker: Any = model.ranker
        before = model.pipeline.steps[:-1]
        rows = graph.scaled(model.columns, before, ranker.n_features_in_)
        rows = graph.apply("Sub", rows, graph.constant(ranker.mean_))
        hidden = _arcsinh(graph, graph.apply("Div", rows, graph.constant(ranker.scale_)))
        for at, (weights, biases) in enumerate(zip(ranker.weights_, ranker.biases_, strict=True)):
            hidden = graph.apply("Relu", hidden) if at else hidden
            hidden = graph.apply("MatMul", hidden, graph.constant(weights))
            hidden = graph.apply("Add", hidden, graph.constant(biases[:, None, :]))
        scores = graph.apply("Sub", hidden, graph.constant(ranker.offsets_[:, None, None]))
        mean = graph.apply("ReduceMean", scores, axes=[0], keepdims=0)
        score = graph.apply("Sub", mean, graph.constant(float(ranker.threshold_)))
        return graph.flat(score)


def _arcsinh(graph: "Graph", values: str) -> str:
    """sign(x) log(|x| + sqrt(x^2 + 1)); the operator Asinh is of single precision."""
    sizes = graph.apply("Abs", values)
    squares = graph.apply("Add", graph.apply("Mul", values, values), graph.constant(np.float64(1)))
    logs = graph.apply("Log", graph.apply("Add", sizes, graph.apply("Sqrt", squares)))
    return graph.apply("Mul", graph.apply("Sign", values), logs)
