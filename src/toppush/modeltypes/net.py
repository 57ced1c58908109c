"""`--model net`: TopPushNet, an ensemble of small networks that PyTorch fits and NumPy scores."""

from collections.abc import Collection
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from toppush.modeltypes.base import (
    About,
    FitRows,
    ModelType,
    Options,
    as_int_or_float,
    require_numbers,
    require_shapes,
    top_text,
)
from toppush.system.errors import ModelError

if TYPE_CHECKING:
    from toppush.modelfile.model import Model
    from toppush.modeltypes.onnx_graph import Graph


class Net(ModelType):
    """The mean of several networks, which standardise their inputs."""

    name = "net"
    ranker_class = "toppush.models.net.TopPushNet"
    takes = ("top", "loss", "members", "threads")
    parameter_names = ModelType.parameter_names | {"members": "n_members"}
    engine = "torch"
    scale = None

    @property
    def losses(self) -> Collection[str]:
        return ("pairwise", "cross_entropy")

    def ranker(self, options: Options, rows: FitRows, seed: int) -> Any:
        return self.new_ranker(random_state=seed, **options)

    def settings(self, ranker: Any, options: Options) -> About:
        return {
            "top": as_int_or_float(ranker.top),
            "loss": ranker.loss,
            "members": len(ranker.offsets_),
            "hidden": [int(weights.shape[2]) for weights in ranker.weights_[:-1]],
            "steps": int(ranker.n_iter_),
        }

    def describe(self, settings: About) -> str:
        hidden = " and ".join(map(str, settings["hidden"])) or "no"
        return (
            f"Networks: {settings['members']} members with {hidden} hidden units, "
            f"{settings['steps']:,} steps; top {top_text(settings['top'])} of the negatives, loss "
            f"{settings['loss']}, seed {settings['seed']}."
        )

    def restore(self, ranker: Any, about: About) -> None:
        super().restore(ranker, about)
        n_members, width = len(ranker.offsets_), ranker.n_features_in_
        require_shapes(ranker, offsets_=(n_members,), mean_=(width,), scale_=(width,))
        n_rows = len(getattr(ranker, "background_", ()))
        require_numbers(ranker, "background_", (n_rows, width))
        sizes = [width, *(np.shape(biases)[-1] for biases in ranker.biases_)]
        weights = [np.shape(weights) for weights in ranker.weights_]
        biases = [np.shape(biases) for biases in ranker.biases_]
        follow = weights == [(n_members, *pair) for pair in pairwise(sizes)]
        if not follow or biases != [(n_members, size) for size in sizes[1:]] or sizes[-1] != 1:
            raise ModelError(f"its layers have weights of shapes {weights}, which do not fit.")

    def add_to_graph(self, graph: "Graph", model: "Model") -> str:
        ranker: Any = model.ranker
        before = model.pipeline.steps[:-1]
        rows = graph.scaled(model.columns, before, ranker.n_features_in_)
        rows = graph.apply("Sub", rows, graph.constant(ranker.mean_))
        rows = graph.apply("Div", rows, graph.constant(ranker.scale_))
        # arcsinh(x) = sign(x) log(|x| + sqrt(x^2 + 1)); the operator Asinh is of single precision.
        sizes = graph.apply("Abs", rows)
        squares = graph.apply("Add", graph.apply("Mul", rows, rows), graph.constant(1.0))
        logs = graph.apply("Log", graph.apply("Add", sizes, graph.apply("Sqrt", squares)))
        hidden = graph.apply("Mul", graph.apply("Sign", rows), logs)
        for layer, (weights, biases) in enumerate(
            zip(ranker.weights_, ranker.biases_, strict=True)
        ):
            hidden = graph.apply("Relu", hidden) if layer else hidden
            hidden = graph.apply("MatMul", hidden, graph.constant(weights))
            hidden = graph.apply("Add", hidden, graph.constant(biases[:, None, :]))
        scores = graph.apply("Sub", hidden, graph.constant(ranker.offsets_[:, None, None]))
        mean = graph.apply("ReduceMean", scores, axes=[0], keepdims=0)
        return graph.flat(graph.apply("Sub", mean, graph.constant(float(ranker.threshold_))))
