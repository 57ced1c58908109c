"""Metrics of rankings whose scores are Dask arrays: two passes, one answer per partition each.

>>> import dask.array as da
>>> from distributed import Client
>>> from toppush import cluster, metrics
>>> scores = da.from_array([0.1, 0.9, 0.5, 0.4], chunks=2)
>>> with Client(processes=False, dashboard_address="127.0.0.1:0"):
...     metrics.auc([0, 1, 0, 1], scores)
...
0.75
"""

from typing import Any

import dask
import dask.array as da
import numpy as np
from numpy.typing import ArrayLike

from toppush import metrics
from toppush.designs.arrays import namespace
from toppush.designs.dask.rows import aligned
from toppush.designs.dask.workers import Lazy, on_workers
from toppush.metrics.partial_curve import (
    ListPart,
    NegativeCounts,
    PositiveScores,
    count_negatives,
    joined_curve,
    positives_of,
)
from toppush.metrics.positive_class import checked_weights, choose
from toppush.types import Labels


def lazy_curve(
    y_true: Labels, y_score: Lazy, sample_weight: Labels | None = None, pos_label: Any = None
) -> metrics.TopCurve:
    """The curve of a ranking, of which only the positives' scores come to this process."""
    labels = aligned(y_score, y_true, "y_true", "y_score")
    classes = namespace(labels).unique(labels).tolist()
    if len(classes) != 2:
        raise ValueError(f"y_true needs two classes, found {classes[:3]}; relabel rows.")
    wanted = choose(
        classes, lambda label: int((labels == label).sum().compute()), pos_label, option="pos_label"
    )
    vectors = [labels == wanted, y_score]
    if sample_weight is not None:
        vectors.append(aligned(y_score, sample_weight, "sample_weight", "y_score"))
    parts = [
        dask.delayed(read_list)(*part)
        for part in zip(*(vector.to_delayed() for vector in vectors), strict=True)
    ]
    parts = list(dask.persist(*parts))
    positives = PositiveScores.join(on_workers(positives_of, parts))
    negatives = NegativeCounts.join(on_workers(count_negatives, parts, positives.scores))
    for name, weight in (("positives", positives.weight), ("negatives", negatives.weight)):
        if not weight.any():
            raise ValueError(
                f"sample_weight of all {name} is 0; give one of them a weight above 0."
            )
    return joined_curve(positives, negatives)


def read_list(positive: ArrayLike, scores: ArrayLike, weight: ArrayLike | None = None) -> ListPart:
    """Check the rows of a part."""
    scores = np.asarray(scores, np.float64)
    weight = np.ones(len(scores)) if weight is None else checked_weights(weight)
    if np.isnan(scores).any():
        raise ValueError("y_score holds NaN; fill or drop those rows.")
    return ListPart(np.asarray(positive, bool), scores, weight)


metrics.register(da.Array, lazy_curve)
