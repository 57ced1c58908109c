"""Boosted trees trained by CatBoost, which encodes categories by the labels of earlier rows.

With `max_ctr_complexity=1` an encoding depends on one column, so each split by it is a set of
categories, and the trees are the same as trees of LightGBM.
"""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from toppush import metrics
from toppush.models.boosting import EVERY, PATIENCE
from toppush.models.engines import (
    BY_CATEGORY,
    BY_NUMBER,
    EngineRows,
    EngineTrees,
    Leaves,
    Trained,
    set_of_left,
)
from toppush.models.lightgbm_text import Tree, first_up_to
from toppush.system.extras import needs
from toppush.system.threads import Cancelled, check_cancelled
from toppush.types import Array, Mask, Where

PARAMETERS: dict[str, Any] = {
    "loss_function": "Logloss",
    "boosting_type": "Plain",
    "max_ctr_complexity": 1,
    "one_hot_max_size": 10,
    "rsm": 0.5,
    "early_stopping_rounds": PATIENCE,
    "use_best_model": False,
    "allow_writing_files": False,
    "logging_level": "Silent",
}
"""With max_ctr_complexity=1 each split depends on one column, so that a split by an encoded
category is a set of that column's categories."""
RAW = "RawFormulaVal"


class TopCatBoost(EngineTrees):
    """`EngineTrees` trained by CatBoost; its parameters and attributes are the same."""

    def _train(self, train: EngineRows, held: EngineRows, seed: int, n_jobs: int) -> Trained:
        if not train.vary:
            return Trained([_tree([], np.zeros(1), np.ones(1))], [0.0], [1])
        model = catboost().CatBoost(
            {
                **PARAMETERS,
                "iterations": self.max_rounds,
                "learning_rate": self.learning_rate,
                "depth": self.depth,
                "random_seed": seed,
                "thread_count": n_jobs,
            }
        )
        own, unseen = _pool(train), _pool(held)
        try:
            model.fit(own, eval_set=unseen, callbacks=[_UntilCancelled()])
        except catboost().CatBoostError as error:
            if "KeyboardInterrupt" in str(error):  # raised within the callback
                raise KeyboardInterrupt from None
            raise
        check_cancelled()
        scores = model.staged_predict(unseen, RAW, eval_period=EVERY, thread_count=n_jobs)
        quality = [metrics.ndcg(held.positive, each, sample_weight=held.weight) for each in scores]
        n_trees = [min(EVERY * (number + 1), model.tree_count_) for number in range(len(quality))]
        return Trained(_trees(model, own, train.n_codes, train.X.shape[1]), quality, n_trees)


def catboost() -> Any:
    """The module, or an error that says how to install it."""
    try:
        import catboost
    except ImportError:
        raise ImportError(needs("TopCatBoost", "catboost")) from None
    return catboost


class _UntilCancelled:
    """Ends the training of a model whose result is no longer needed."""

    def after_iteration(self, info: Any) -> bool:
        """Whether to go on."""
        try:
            check_cancelled()
        except Cancelled:
            return False
        return True


def _pool(rows: EngineRows) -> Any:
    """Rows as CatBoost takes them: numbers first, then categories as strings."""
    features = _features(rows.X, rows.n_codes)
    return catboost().Pool(features, rows.positive.astype(np.float64), weight=rows.weight)


def _features(X: NDArray[np.float32], n_codes: dict[int, int]) -> Any:
    numbers = [column for column in range(X.shape[1]) if column not in n_codes]
    strings = np.empty((len(X), len(n_codes)), object)
    for place, (column, count) in enumerate(n_codes.items()):
        names = np.array([*(b"%d" % code for code in range(count)), b""], object)
        codes = np.where(np.isnan(X[:, column]), count, X[:, column])
        strings[:, place] = names[codes.astype(np.int64)]
    return catboost().FeaturesData(
        num_feature_data=np.ascontiguousarray(X[:, numbers]) if numbers else None,
        cat_feature_data=strings if n_codes else None,
    )


# ---- CatBoost's trees as trees of LightGBM


class _Split(NamedTuple):
    """The split of all nodes of a level."""

    column: int
    border: float
    """The greatest number of the first child."""
    codes: Where | None = None
    """The categories that LightGBM's left child gets; None for numbers."""
    exchanged: bool = False
    """Whether the left child is the second one."""


def _trees(model: Any, pool: Any, n_codes: dict[int, int], width: int) -> list[Leaves]:
    """The trees of a model."""
    record = _as_json(model, pool)
    features = record["features_info"]["float_features"] or []
    numbers = [column for column in range(width) if column not in n_codes]
    columns = [numbers[each["flat_feature_index"]] for each in features]
    sides = _sides(model, n_codes, width)
    trees = []
    for number, tree in enumerate(record["oblivious_trees"]):
        splits = []
        for level, split in enumerate(tree["splits"] or []):
            if split["split_type"] == "FloatFeature":
                border = first_up_to(np.array([split["border"]], np.float32))
                splits.append(_Split(columns[split["float_feature_index"]], float(border[0])))
            else:
                splits.append(_split_by_categories(sides, number, level))
        values, weights = np.array(tree["leaf_values"]), np.array(tree["leaf_weights"])
        trees.append(_tree(splits, values, weights))
    return trees


def _as_json(model: Any, pool: Any) -> Any:
    """CatBoost's own description of a model, which it writes to files alone."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        model.save_model(str(path), format="json", pool=pool)
        return json.loads(path.read_bytes())


def _sides(model: Any, n_codes: dict[int, int], width: int) -> dict[int, Where]:
    """The leaf of each tree for each category of a column, and last for a missing one.

    All other columns are missing. Bit k of a leaf is the child at level k.
    """
    leaves: dict[int, Where] = {}
    for column, count in n_codes.items():
        rows = np.full((count + 1, width), np.nan, np.float32)
        rows[:-1, column] = np.arange(count)
        leaves[column] = np.asarray(model.calc_leaf_indexes(_features(rows, n_codes)), np.int64)
    return leaves


def _split_by_categories(sides: dict[int, Where], tree: int, level: int) -> _Split:
    """The split of a level, by the column whose categories it separates."""
    second: dict[int, Mask] = {
        column: leaves[:, tree] >> level & 1 > 0 for column, leaves in sides.items()
    }
    differ = [column for column, goes in second.items() if goes.any() and not goes.all()]
    column = [*differ, *second][0]  # any, if all categories go to the same child
    codes, exchanged = set_of_left(second[column][:-1], bool(second[column][-1]))
    return _Split(column, 0.0, codes, exchanged)


def _tree(splits: list[_Split], values: Array, weights: Array) -> Leaves:
    """An oblivious tree: all nodes of a level have the same split.

    The leaf of a row is the sum of 2^k over the levels k at which it goes to the second child.
    """
    depth = len(splits)
    level = np.repeat(np.arange(depth), 2 ** np.arange(depth))
    place = np.arange(len(level)) - (2**level - 1)
    below = np.stack([place, place + 2**level])  # the leaf, or the place at the next level
    children = np.where(level + 1 < depth, below + 2 ** (level + 1) - 1, ~below)
    exchanged = np.array([split.exchanged for split in splits], bool)[level]
    sets = [split.codes for split in splits if split.codes is not None]
    by_set = np.array([split.codes is not None for split in splits], bool)
    threshold = np.array([split.border for split in splits], np.float64)
    threshold[by_set] = np.arange(len(sets))
    tree = Tree(
        np.array([split.column for split in splits], np.int64)[level],
        threshold[level],
        np.where(by_set, BY_CATEGORY, BY_NUMBER)[level],
        np.where(exchanged, children[1], children[0]),
        np.where(exchanged, children[0], children[1]),
        values,
        sets,
    )
    return Leaves(tree, weights)
