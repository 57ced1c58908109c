"""Boosted trees trained by XGBoost."""

import json
from typing import Any

import numpy as np

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
from toppush.models.lightgbm_text import DEFAULT_LEFT, Tree, first_up_to
from toppush.objectives.workers import of_xgboost
from toppush.system.threads import check_cancelled
from toppush.types import Where

PARAMETERS: dict[str, Any] = {
    "objective": "binary:logistic",
    "tree_method": "hist",
    "subsample": 0.7,
    "colsample_bynode": 0.3,
    "nthread": 1,  # sums of several threads would depend on their number
    "verbosity": 0,
}


class TopXGBoost(EngineTrees):
    """`EngineTrees` trained by XGBoost; its parameters and attributes are the same.

    Each member is trained by one thread. Its score is XGBoost's margin less the base score.
    """

    def _train(self, train: EngineRows, held: EngineRows, seed: int, n_jobs: int) -> Trained:
        own, unseen = _matrix(train), _matrix(held)
        parameters = {"max_depth": self.depth, "learning_rate": self.learning_rate, "seed": seed}
        booster = of_xgboost("core").Booster(PARAMETERS | parameters, [own, unseen])
        quality: list[float] = []
        n_trees: list[int] = []
        best = n_tried = 0
        while n_tried < self.max_rounds and n_tried - best < PATIENCE:
            check_cancelled()
            booster.update(own, n_tried)
            n_tried += 1
            if n_tried % EVERY == 0 or n_tried == self.max_rounds:
                scores = booster.predict(unseen, output_margin=True)
                value = metrics.ndcg(held.positive, scores, sample_weight=held.weight)
                if value > max(quality, default=-np.inf):
                    best = n_tried
                quality.append(value)
                n_trees.append(n_tried)
        record = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]["model"]
        trees = [_tree(each, train.n_codes) for each in record["trees"]]
        return Trained(trees, quality, n_trees)


def _matrix(rows: EngineRows) -> Any:
    """Rows as XGBoost takes them."""
    types = ["c" if column in rows.n_codes else "q" for column in range(rows.X.shape[1])]
    return of_xgboost("core").DMatrix(
        rows.X,
        rows.positive,
        weight=rows.weight,
        feature_types=types,
        enable_categorical=True,
        nthread=1,
    )


def _tree(record: dict[str, Any], n_codes: dict[int, int]) -> Leaves:
    """A tree of XGBoost's JSON: numbers below the condition and categories not listed go left."""
    left, right = (np.array(record[f"{side}_children"]) for side in ("left", "right"))
    nodes, leaves = (np.flatnonzero(which) for which in (left >= 0, left < 0))
    place = np.empty(len(left), np.int64)
    place[nodes], place[leaves] = np.arange(len(nodes)), ~np.arange(len(leaves))
    condition = np.array(record["split_conditions"], np.float32)
    column = np.array(record["split_indices"], np.int64)[nodes]
    threshold = first_up_to(np.nextafter(condition[nodes], np.float32(-np.inf)))
    missing_left = np.array(record["default_left"], bool)[nodes]
    decision = np.where(missing_left, BY_NUMBER, BY_NUMBER & ~DEFAULT_LEFT)
    children = place[np.stack([left, right])][:, nodes]
    sets: list[Where] = []
    starts, sizes = record["categories_segments"], record["categories_sizes"]
    for node, start, size in zip(record["categories_nodes"], starts, sizes, strict=True):
        at = place[node]
        goes_right = np.zeros(n_codes[int(column[at])], bool)
        goes_right[record["categories"][start : start + size]] = True
        codes, exchanged = set_of_left(goes_right, not missing_left[at])
        threshold[at], decision[at] = len(sets), BY_CATEGORY
        sets.append(codes)
        if exchanged:
            children[:, at] = children[::-1, at]
    weight = np.array(record["sum_hessian"], np.float64)[leaves]
    value = condition[leaves].astype(np.float64)
    tree = Tree(column, threshold, decision, children[0], children[1], value, sets)
    return Leaves(tree, weight)
