"""`--model trees`: TopPushTrees, boosted trees that take gaps and categories as they are."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np

from toppush.models import lightgbm_text
from toppush.models.lightgbm_text import (
    CATEGORICAL,
    DEFAULT_LEFT,
    MISSING_AT,
    NANS,
    ZEROS,
    Ensemble,
    Tree,
)
from toppush.modeltypes.base import About, FitRows, Kind, Options, as_int_or_float, top_text
from toppush.system.errors import ModelError
from toppush.tables.column_types import Category, Number
from toppush.tables.columns import Columns
from toppush.types import Array, Mask, Where

if TYPE_CHECKING:
    from toppush.export.onnx_graph import Graph
    from toppush.modelfile.fitted import Model


class Trees(Kind):
    """The mean of several members, each a sum of trees."""

    name = "trees"
    home = "toppush.models.trees.TopPushTrees"
    takes = ("top", "loss", "members", "cv", "groups", "threads")
    engine = "lightgbm"
    form = "codes"
    scale = None

    @property
    def losses(self) -> Collection[str]:
        return ("pairwise", "binary")

    def ranker(self, options: Options, rows: FitRows, seed: int) -> Any:
        given = self.arguments(options)
        if given.pop("groups", None) is not None:
            given["cv"] = rows.folds(given.get("cv", self.class_().n_members), seed)
        return self.class_(categorical_features=rows.coded, random_state=seed, **given)

    def settings(self, ranker: Any, options: Options) -> About:
        members = ensembles(ranker)
        trees = [tree for member in members for tree in member.trees]
        used = np.unique(np.concatenate([tree.feature for tree in trees]))
        return {
            "top": as_int_or_float(ranker.top),
            "loss": ranker.loss,
            "members": len(members),
            "rounds": [len(member.trees) for member in members],
            "most_leaves": max(len(tree.value) for tree in trees),
            "columns_used": len(used),
        }

    def sentence(self, settings: About) -> str:
        rounds = settings["rounds"]
        each = f"{rounds[0]}" if len(set(rounds)) == 1 else f"{min(rounds)} to {max(rounds)}"
        return (
            f"Boosted trees: {settings['members']} members of {each} trees with up to "
            f"{settings['most_leaves']} leaves, splitting by {settings['columns_used']} columns; "
            f"top {top_text(settings['top'])} of the negatives, loss {settings['loss']}, seed "
            f"{settings['seed']}."
        )

    def lighten(self, ranker: Any) -> None:
        super().lighten(ranker)
        texts = [lightgbm_text.trimmed(text).encode() for text in ranker.texts_]
        ranker.texts_ = [np.frombuffer(text, np.uint8) for text in texts]

    def restore(self, ranker: Any, about: About) -> None:
        super().restore(ranker, about)
        ranker.texts_ = [_text(array) for array in ranker.texts_]
        ensembles(ranker)

    def graph(self, graph: "Graph", model: "Model") -> str:
        members = ensembles(model.ranker)
        rows, sets = _inputs(graph, model.columns, members, model.ranker)
        total = graph.apply(
            "TreeEnsembleRegressor", rows, domain="ai.onnx.ml", **_attributes(graph, members, sets)
        )
        mean = graph.apply("Div", graph.double(total), graph.constant(float(len(members))))
        threshold = graph.constant(_threshold(model))
        return graph.flat(graph.apply("Sub", mean, threshold))


def _threshold(model: "Model") -> float:
    ranker: Any = model.ranker
    return float(ranker.threshold_)


def _text(array: Any) -> str:
    """A text that was saved as bytes."""
    if not isinstance(array, np.ndarray) or array.dtype != np.uint8 or array.ndim != 1:
        raise ModelError("its trees are no texts.")
    try:
        return array.tobytes().decode("ascii")
    except UnicodeDecodeError:
        raise ModelError("its trees are no LightGBM text: they are not ASCII.") from None


def ensembles(ranker: Any) -> list[Ensemble]:
    """The members of a ranker, each checked to be of its features, which are columns by number."""
    members = [lightgbm_text.parsed(lightgbm_text.trimmed(text)) for text in ranker.texts_]
    columns = _known_columns(ranker)
    if not members or any(one.n_features != len(columns) for one in members):
        raise ModelError(f"its trees are not of {len(columns)} columns.")
    return [
        Ensemble(
            ranker.n_features_in_,
            [tree._replace(feature=columns[tree.feature]) for tree in member.trees],
        )
        for member in members
    ]


def _known_columns(ranker: Any) -> Where:
    """Numbers of the columns that the members know, in their order."""
    width, columns = ranker.n_features_in_, ranker.columns_
    if columns is None:
        return np.arange(width)
    ascending = isinstance(columns, np.ndarray) and columns.ndim == 1 and columns.dtype.kind == "i"
    if not ascending or (np.diff(columns, prepend=-1, append=width) <= 0).any():
        raise ModelError("its trees name columns that are not there.")
    return np.asarray(columns)


def codes_of(ranker: Any, number: int) -> list[int]:
    """Which text of a column each place in the trees' sets stands for."""
    return [int(code) for code in ranker.categories_.get(number, [])]


def gaps_left(tree: Tree) -> Mask:
    """Whether a row that has no value goes left, at each node."""
    kinds = tree.decision >> MISSING_AT
    if (kinds == ZEROS).any():
        raise ModelError("its trees take zeros for gaps, which exports do not know.")
    by_default = tree.decision & DEFAULT_LEFT > 0
    left = np.where(kinds == NANS, by_default, tree.threshold >= 0.0)
    return np.asarray(left & (tree.decision & CATEGORICAL == 0))


# ---- as ONNX


Sets = dict[tuple[int, bytes], int]
"""Feature and set of places -> the input that is 1 where a row's text is in the set."""


def _inputs(
    graph: "Graph", columns: Columns | None, members: list[Ensemble], ranker: Any
) -> tuple[str, Sets]:
    """Columns as numbers, and after them one column for each set of texts that a tree asks for."""
    wanted = _sets(members)
    width = members[0].n_features
    if columns is None:
        if wanted:
            raise ModelError("ONNX export of trees knows categories of tables alone.")
        return graph.rows(width), {}
    numbers, members_of, sets = [], [], Sets()
    after = width
    for feature, one in enumerate(columns.columns_):
        if isinstance(one, Number):
            numbers.append(graph.number(one)[0])
            continue
        place, gaps = graph.place(one)
        numbers.append(gaps)  # no tree splits by it
        own = [key for key in wanted if key[0] == feature]
        if own:
            members_of.append(graph.picked(_members(one, codes_of(ranker, feature), own), place))
            sets |= {key: after + at for at, key in enumerate(own)}
            after += len(own)
    return graph.apply("Concat", *numbers, *members_of, axis=1), sets


def _members(column: Category, codes: list[int], sets: list[tuple[int, bytes]]) -> Array:
    """Whether each text of a column, and last an unknown one, is in each of some sets."""
    table = np.zeros((len(column.categories) + 1, len(sets)))
    for at, (_, places) in enumerate(sets):
        inside = [codes[place] for place in np.frombuffer(places, np.int64) if place < len(codes)]
        table[inside, at] = 1.0
    return table


def _sets(members: list[Ensemble]) -> list[tuple[int, bytes]]:
    """All features with the sets of places that some tree asks for."""
    found: dict[tuple[int, bytes], None] = {}
    for tree in (tree for member in members for tree in member.trees):
        for node in np.flatnonzero(tree.decision & CATEGORICAL):
            found[_set_at(tree, int(node))] = None
    return list(found)


def _set_at(tree: Tree, node: int) -> tuple[int, bytes]:
    places = tree.sets[int(tree.threshold[node])].astype(np.int64)
    return int(tree.feature[node]), places.tobytes()


def _attributes(graph: "Graph", members: list[Ensemble], sets: Sets) -> dict[str, Any]:
    """The trees of all members as the lists that the operator takes."""
    nodes: dict[str, list[Any]] = {name: [] for name in NODES}
    leaves: dict[str, list[Any]] = {name: [] for name in LEAVES}
    trees = [tree for member in members for tree in member.trees]
    for number, tree in enumerate(trees):
        _add_nodes(nodes, number, tree, sets)
        _add_leaves(nodes, leaves, number, tree)
    made = {f"nodes_{name}": values for name, values in nodes.items()}
    made |= {f"target_{name}": values for name, values in leaves.items()}
    for name in ("nodes_values", "target_weights"):
        values = np.array(made.pop(name), np.float64)
        made[f"{name}_as_tensor"] = graph.onnx.numpy_helper.from_array(values, name)
    return made | {"n_targets": 1, "aggregate_function": "SUM", "post_transform": "NONE"}


NODES = ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids",
         "missing_value_tracks_true")  # fmt: skip
LEAVES = ("treeids", "nodeids", "ids", "weights")


def _add_nodes(nodes: dict[str, list[Any]], number: int, tree: Tree, sets: Sets) -> None:
    """Splits: true is left for numbers; for a set, true is not to be in it, so right."""
    n_nodes = len(tree.left)
    by_set, gaps = tree.decision & CATEGORICAL > 0, gaps_left(tree)
    for node in range(n_nodes):
        left, right = (
            int(child) if child >= 0 else n_nodes + ~int(child)
            for child in (tree.left[node], tree.right[node])
        )
        feature, value = int(tree.feature[node]), float(tree.threshold[node])
        if by_set[node]:
            feature, value, left, right = sets[_set_at(tree, node)], 0.5, right, left
        row = (number, node, feature, "BRANCH_LEQ", value, left, right, int(gaps[node]))
        for name, one in zip(NODES, row, strict=True):
            nodes[name].append(one)


def _add_leaves(
    nodes: dict[str, list[Any]], leaves: dict[str, list[Any]], number: int, tree: Tree
) -> None:
    for leaf, value in enumerate(tree.value.tolist()):
        place = len(tree.left) + leaf
        for name, one in zip(NODES, (number, place, 0, "LEAF", 0.0, 0, 0, 0), strict=True):
            nodes[name].append(one)
        for name, one in zip(LEAVES, (number, place, 0, value), strict=True):
            leaves[name].append(one)
