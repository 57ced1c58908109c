"""Rankers that `TopRanker` combines and that no other kind of model is made of."""

from typing import TYPE_CHECKING, Any

import numpy as np

from toppush.modeltypes.base import About, FitRows, Kind, Options, require_shapes
from toppush.modeltypes.curves import Curved, require_sound
from toppush.system.errors import ModelError
from toppush.types import Array

if TYPE_CHECKING:
    from toppush.export.onnx_graph import Graph
    from toppush.modelfile.fitted import Model

NODES = ("feature_", "threshold_at_", "right_", "missing_left_", "value_")
CURVES = {"values", "sizes", "levels", "common", "missing", "means"}


class MemberKind(Kind):
    """A kind that is saved and exported as a part of another, and not fitted by itself."""

    form = "codes"
    scale = None

    def ranker(self, options: Options, rows: FitRows, seed: int) -> Any:
        raise NotImplementedError

    def settings(self, ranker: Any, options: Options) -> About:
        return {}

    def sentence(self, settings: About) -> str:
        return ""


class Straight(MemberKind):
    """TopLinear: weights of the columns, or of the numbers that curves make of them."""

    name = "straight or curved"
    home = "toppush.auto.linear.TopLinear"

    def lighten(self, ranker: Any) -> None:
        super().lighten(ranker)
        ranker.cv = None

    def restore(self, ranker: Any, about: About) -> None:
        super().restore(ranker, about)
        require_shapes(ranker, coef_=(1, self._n_weights(ranker)))

    def _n_weights(self, ranker: Any) -> int:
        curves = ranker.curves_
        if curves is None:
            return int(ranker.n_features_in_)
        if set(curves) != CURVES:
            raise ModelError("its curves are not described as they should be.")
        if len(curves["values"]) != np.sum(curves["sizes"]) or np.min(curves["sizes"]) < 0:
            raise ModelError("its curves have other values than they say.")
        parts = (curves[name] for name in ("levels", "sizes", "common", "missing"))
        return require_sound(ranker, *parts, curves=lambda: ranker._curves)

    def graph(self, graph: "Graph", model: "Model") -> str:
        ranker: Any = model.ranker
        if ranker.curves_ is not None:
            return _curved(model).on_graph(graph, model.columns)
        rows = graph.matrix(model.columns, ranker.n_features_in_)
        return graph.product(rows, ranker.coef_[0], float(ranker.threshold_))


def _curved(model: "Model") -> Curved:
    ranker: Any = model.ranker
    curves = ranker.curves_
    values: list[Array] = np.split(curves["values"], np.cumsum(curves["sizes"])[:-1])
    offset = -float(ranker.threshold_)
    return Curved(ranker, values, curves["levels"], curves["common"], offset, model.is_member)


class Forest(MemberKind):
    """TopForest: the mean of many trees, which are arrays."""

    name = "forest"
    home = "toppush.models.forest.TopForest"

    def lighten(self, ranker: Any) -> None:
        super().lighten(ranker)
        ranker.cv = ranker._built = None

    def restore(self, ranker: Any, about: About) -> None:
        super().restore(ranker, about)
        shape = (int(ranker.starts_[-1]),)
        require_shapes(ranker, **dict.fromkeys(NODES, shape), starts_=(len(ranker.starts_),))

    def graph(self, graph: "Graph", model: "Model") -> str:
        ranker: Any = model.ranker
        rows = graph.single(graph.codes(model.columns, ranker.n_features_in_))
        total = graph.apply(
            "TreeEnsembleRegressor", rows, domain="ai.onnx.ml", **_as_lists(graph, ranker)
        )
        mean = graph.apply("Div", graph.double(total), graph.constant(float(_n_trees(ranker))))
        return graph.flat(graph.apply("Sub", mean, graph.constant(float(ranker.threshold_))))


def _n_trees(ranker: Any) -> int:
    return len(ranker.starts_) - 1


def _as_lists(graph: "Graph", ranker: Any) -> dict[str, Any]:
    """The trees as the operator takes them; the left child of a node is the next one."""
    sizes = np.diff(ranker.starts_)
    tree, first = np.repeat(np.arange(len(sizes)), sizes), np.repeat(ranker.starts_[:-1], sizes)
    place = np.arange(len(tree)) - first
    split = ranker.feature_ >= 0
    leaf = ~split
    return {
        "nodes_treeids": tree.tolist(),
        "nodes_nodeids": place.tolist(),
        "nodes_featureids": np.where(split, ranker.feature_, 0).tolist(),
        "nodes_modes": np.where(split, "BRANCH_LEQ", "LEAF").tolist(),
        "nodes_values_as_tensor": graph.tensor(np.where(split, ranker.threshold_at_, 0.0)),
        "nodes_truenodeids": np.where(split, place + 1, 0).tolist(),
        "nodes_falsenodeids": np.where(split, ranker.right_, 0).tolist(),
        "nodes_missing_value_tracks_true": (split & ranker.missing_left_).astype(int).tolist(),
        "target_treeids": tree[leaf].tolist(),
        "target_nodeids": place[leaf].tolist(),
        "target_ids": [0] * int(leaf.sum()),
        "target_weights_as_tensor": graph.tensor(ranker.value_[leaf]),
        "n_targets": 1,
        "aggregate_function": "SUM",
        "post_transform": "NONE",
    }
