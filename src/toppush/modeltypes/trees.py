"""`--model trees` and `TopForest`: ensembles of trees, which need no filled columns."""

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
from toppush.models.target_statistics import sources
from toppush.modeltypes.additive import BaseModelType
from toppush.modeltypes.base import (
    About,
    FitRows,
    ModelType,
    Options,
    as_int_or_float,
    require_shapes,
    top_text,
)
from toppush.system.errors import ModelError
from toppush.tables.column_types import Category, Number
from toppush.tables.columns import Columns
from toppush.types import Array, Mask, Where

if TYPE_CHECKING:
    from toppush.modelfile.model import Model
    from toppush.modeltypes.onnx_graph import Graph


class Trees(ModelType):
    """The mean of several boosted ensembles of trees."""

    name = "trees"
    ranker_class = "toppush.models.trees.TopPushTrees"
    takes = ("top", "loss", "members", "cv", "groups", "threads")
    parameter_names = ModelType.parameter_names | {"members": "n_members"}
    engine = "lightgbm"
    form = "codes"
    scale = None

    @property
    def losses(self) -> Collection[str]:
        return ("pairwise", "binary")

    def ranker(self, options: Options, rows: FitRows, seed: int) -> Any:
        parameters = {name: value for name, value in options.items() if name != "groups"}
        if "groups" in options:
            parameters["cv"] = rows.folds(options.get("cv", self.new_ranker().n_members), seed)
        return self.new_ranker(
            **parameters, categorical_features=rows.categorical, random_state=seed
        )

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

    def describe(self, settings: About) -> str:
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
        encoded = (lightgbm_text.trimmed(text).encode() for text in ranker.texts_)
        ranker.texts_ = [np.frombuffer(text, np.uint8) for text in encoded]

    def restore(self, ranker: Any, about: About) -> None:
        super().restore(ranker, about)
        ranker.texts_ = [_text(array) for array in ranker.texts_]
        _require_statistics(ranker)
        ensembles(ranker)

    def add_to_graph(self, graph: "Graph", model: "Model") -> str:
        ranker: Any = model.ranker
        if ranker.category_statistics_:
            rows, members = _encoded_inputs(graph, model.columns, ranker)
            sets = Sets()
        else:
            members = ensembles(ranker)
            rows, sets = _inputs(graph, model.columns, members, ranker)
        attributes = _attributes(graph, members, sets)
        return graph.mean_of_trees(rows, attributes, len(members), float(ranker.threshold_))


class EngineTreesType(Trees):
    """Boosted trees that CatBoost or XGBoost trained, kept as trees of LightGBM."""

    name = "trees of another engine"
    ranker_class = "toppush.models.catboost_trees.TopCatBoost"
    other_classes = ("toppush.models.xgboost_trees.TopXGBoost",)


class ForestType(BaseModelType):
    """TopForest: the mean of many trees, which are arrays."""

    name = "forest"
    ranker_class = "toppush.models.forest.TopForest"

    def lighten(self, ranker: Any) -> None:
        super().lighten(ranker)
        ranker.cv = ranker._loaded = None

    def restore(self, ranker: Any, about: About) -> None:
        super().restore(ranker, about)
        starts = np.asarray(ranker.starts_)
        ascending = starts.dtype.kind == "i" and starts.ndim == 1 and (np.diff(starts) > 0).all()
        if not ascending or len(starts) < 2 or starts[0] != 0:
            raise ModelError("its trees do not follow one another.")
        names = ("feature_", "threshold_at_", "right_", "missing_left_", "value_")
        require_shapes(ranker, **dict.fromkeys(names, (int(starts[-1]),)))
        try:
            ranker._models()
        except ValueError as error:  # of children or columns that do not exist
            raise ModelError(f"its forest is damaged: {error}") from None

    def add_to_graph(self, graph: "Graph", model: "Model") -> str:
        ranker: Any = model.ranker
        rows = graph.single(graph.codes(model.columns, ranker.n_features_in_))
        n_trees = len(ranker.starts_) - 1
        attributes = _forest_attributes(graph, ranker)
        return graph.mean_of_trees(rows, attributes, n_trees, float(ranker.threshold_))


def _forest_attributes(graph: "Graph", ranker: Any) -> dict[str, Any]:
    """The forest as the operator takes it; the left child of a node is the next one."""
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
    }


def _text(array: Any) -> str:
    """A LightGBM text that was saved as bytes."""
    if not isinstance(array, np.ndarray) or array.dtype != np.uint8 or array.ndim != 1:
        raise ModelError("its trees are not LightGBM text.")
    try:
        return array.tobytes().decode("ascii")
    except UnicodeDecodeError:
        raise ModelError("its trees are no LightGBM model: they are not ASCII.") from None


def ensembles(ranker: Any) -> list[Ensemble]:
    """The members of a ranker, checked to use its columns, with features as column numbers."""
    columns = _member_columns(ranker)
    members = _members(ranker, len(columns))
    return [_renumbered(member, ranker.n_features_in_, columns) for member in members]


def _members(ranker: Any, n_features: int) -> list[Ensemble]:
    """The members of a ranker, if each has this number of features."""
    members = [lightgbm_text.parsed(lightgbm_text.trimmed(text)) for text in ranker.texts_]
    if not members or any(member.n_features != n_features for member in members):
        raise ModelError(f"its trees are not of {n_features} columns.")
    if ranker.category_statistics_ and _sets(members):
        raise ModelError("its trees split by categories, which are encoded as statistics.")
    return members


def _renumbered(member: Ensemble, width: int, places: Where) -> Ensemble:
    """A member whose features are columns of rows that are `width` wide."""
    trees = [tree._replace(feature=places[tree.feature]) for tree in member.trees]
    return Ensemble(width, trees)


def _member_columns(ranker: Any) -> Where:
    """Number of the column that each feature of the members is made of."""
    width, columns = ranker.n_features_in_, ranker.columns_
    if columns is None:
        return sources(width, ranker.category_statistics_)
    is_list = isinstance(columns, np.ndarray) and columns.ndim == 1 and columns.dtype.kind == "i"
    if not is_list or (np.diff(columns, prepend=-1, append=width) <= 0).any():
        raise ModelError("its trees name columns that are not there.")
    return np.asarray(columns)


def _require_statistics(ranker: Any) -> None:
    """Refuse target statistics that are not finite numbers of every category."""
    tables = ranker.category_statistics_
    if not isinstance(tables, dict):
        raise ModelError("its category_statistics_ are not described as they should be.")
    if not tables:
        return
    n_categories = {column: len(known) for column, known in ranker.categories_.items()}
    if list(tables) != sorted(n_categories) or ranker.columns_ is not None:
        raise ModelError("its category_statistics_ are of other columns than its categories_.")
    if not all(type(column) is int and 0 <= column < ranker.n_features_in_ for column in tables):
        raise ModelError("its category_statistics_ are of columns that are not there.")
    n_folds = len(next(iter(tables.values()))) - 1
    for column, table in tables.items():
        is_float = isinstance(table, np.ndarray) and table.dtype == np.float64
        if not is_float or table.shape != (1 + n_folds, n_categories[column] + 1) or n_folds < 1:
            raise ModelError(f"its category_statistics_ of column {column} have another shape.")
        if not np.isfinite(table).all():
            raise ModelError(f"its category_statistics_ of column {column} are not finite.")


def missing_left(tree: Tree) -> Mask:
    """Whether missing values go left, at each node."""
    treated = tree.decision >> MISSING_AT
    if (treated == ZEROS).any():
        raise ModelError("its trees take zeros for missing values, which exports do not know.")
    by_default = tree.decision & DEFAULT_LEFT > 0
    left = np.where(treated == NANS, by_default, tree.threshold >= 0.0)
    return np.asarray(left & (tree.decision & CATEGORICAL == 0))


# ---- boosted trees as ONNX

Sets = dict[tuple[int, bytes], int]
"""Feature and set of categories -> the input that is 1 where a row's category is in the set."""
NODES = ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids",
         "missing_value_tracks_true")  # fmt: skip
LEAVES = ("treeids", "nodeids", "ids", "weights")


def _inputs(
    graph: "Graph", columns: Columns | None, members: list[Ensemble], ranker: Any
) -> tuple[str, Sets]:
    """Columns as numbers, followed by a column for each set of categories that a tree uses."""
    keys = _sets(members)
    width = members[0].n_features
    if columns is None:
        if keys:
            raise ModelError("ONNX export of trees knows categories of tables alone.")
        return graph.rows(width), {}
    numbers, in_sets, sets = [], [], Sets()
    for feature, column in enumerate(columns.columns_):
        if isinstance(column, Number):
            numbers.append(graph.number(column)[0])
            continue
        code, missing = graph.category(column)
        numbers.append(missing)  # no tree splits by it
        own = [key for key in keys if key[0] == feature]
        if own and isinstance(column, Category):
            codes = [int(code) for code in ranker.categories_.get(feature, [])]
            in_sets.append(graph.picked(_memberships(column, codes, own), code))
            sets |= {key: width + len(sets) + place for place, key in enumerate(own)}
    return graph.apply("Concat", *numbers, *in_sets, axis=1), sets


def _encoded_inputs(
    graph: "Graph", columns: Columns | None, ranker: Any
) -> tuple[str, list[Ensemble]]:
    """Numbers, and the target statistics of categories for all members; with the members."""
    if columns is None:
        raise ModelError("ONNX export of trees knows categories of tables alone.")
    tables = ranker.category_statistics_
    parts: list[tuple[str, int]] = []
    places = []
    for number, column in enumerate(columns.columns_):
        places.append(sum(width for _, width in parts))
        if isinstance(column, Number):
            parts.append((graph.number(column)[0], 1))
        elif isinstance(column, Category):
            table = _by_code(column, ranker.categories_[number], tables[number])
            parts.append((graph.picked(table.T, graph.category(column)[0]), len(table)))
    rows = graph.apply("Concat", *(name for name, _ in parts), axis=1)
    first, width = np.array(places), sum(width for _, width in parts)
    features = np.concatenate([first, first[list(tables)]])  # the counts come first
    is_share = np.isin(np.arange(len(features)), list(tables))
    n_folds = len(next(iter(tables.values()))) - 1
    return rows, [
        _renumbered(member, width, features + is_share * (1 + place % n_folds))
        for place, member in enumerate(_members(ranker, len(features)))
    ]


def _by_code(column: Category, known: list[Any], table: Array) -> Array:
    """Statistics by the codes of a column of a table, the last for unknown categories.

    `known` are the codes that the ranker's own categories stand for.
    """
    by_code = np.repeat(table[:, -1:], len(column.categories) + 1, axis=1)
    by_code[:, [int(code) for code in known]] = table[:, :-1]
    return by_code


def _memberships(column: Category, codes: list[int], sets: list[tuple[int, bytes]]) -> Array:
    """Whether each category of a column, and last an unknown one, is in each set.

    `codes` are the categories that the places in the sets stand for.
    """
    table = np.zeros((len(column.categories) + 1, len(sets)))
    for number, (_, places) in enumerate(sets):
        inside = [codes[place] for place in np.frombuffer(places, np.int64) if place < len(codes)]
        table[inside, number] = 1.0
    return table


def _sets(members: list[Ensemble]) -> list[tuple[int, bytes]]:
    """All pairs of a feature and a set of categories by which a tree splits."""
    keys: dict[tuple[int, bytes], None] = {}
    for tree in (tree for member in members for tree in member.trees):
        for node in np.flatnonzero(tree.decision & CATEGORICAL):
            keys[_set_at(tree, int(node))] = None
    return list(keys)


def _set_at(tree: Tree, node: int) -> tuple[int, bytes]:
    places = tree.sets[int(tree.threshold[node])].astype(np.int64)
    return int(tree.feature[node]), places.tobytes()


def _attributes(graph: "Graph", members: list[Ensemble], sets: Sets) -> dict[str, Any]:
    """The trees of all members as the operator takes them."""
    nodes: list[tuple[Any, ...]] = []
    leaves: list[tuple[Any, ...]] = []
    trees = [tree for member in members for tree in member.trees]
    for number, tree in enumerate(trees):
        nodes += _split_nodes(number, tree, sets)
        for place, value in enumerate(tree.value, len(tree.left)):
            nodes.append((number, place, 0, "LEAF", 0.0, 0, 0, 0))
            leaves.append((number, place, 0, value))
    lists = dict(zip((f"nodes_{name}" for name in NODES), zip(*nodes, strict=True), strict=True))
    lists |= zip((f"target_{name}" for name in LEAVES), zip(*leaves, strict=True), strict=True)
    attributes: dict[str, Any] = {name: list(values) for name, values in lists.items()}
    for name in ("nodes_values", "target_weights"):
        attributes[f"{name}_as_tensor"] = graph.tensor(np.array(attributes.pop(name)))
    return attributes


def _split_nodes(number: int, tree: Tree, sets: Sets) -> list[tuple[Any, ...]]:
    """The splits of a tree: numbers go left if true; for a set, true is outside, so right."""
    n_nodes = len(tree.left)
    by_set, missing = tree.decision & CATEGORICAL > 0, missing_left(tree)
    rows = []
    for node in range(n_nodes):
        left, right = (
            int(child) if child >= 0 else n_nodes + ~int(child)
            for child in (tree.left[node], tree.right[node])
        )
        feature, value = int(tree.feature[node]), float(tree.threshold[node])
        if by_set[node]:
            feature, value, left, right = sets[_set_at(tree, node)], 0.5, right, left
        mode = "BRANCH_LEQ"
        rows.append((number, node, feature, mode, value, left, right, int(missing[node])))
    return rows
