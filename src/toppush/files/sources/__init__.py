"""Whatever gives the rows of a file their scores: a model, any estimator, a column of the file.

Each reads a file into the same record, so that what judges a list need not know who made it.
"""

import warnings
from collections.abc import Collection
from pathlib import Path

import numpy as np

from toppush.files.sources.base import ScoredRows, Source, Wanted
from toppush.files.sources.column import ColumnSource
from toppush.files.sources.estimator import EstimatorSource
from toppush.files.sources.own import ModelSource
from toppush.metrics import auc
from toppush.modelfile.foreign import is_foreign, load_estimator
from toppush.modelfile.saving import load
from toppush.types import Array, Mask

__all__ = [
    "ColumnSource",
    "EstimatorSource",
    "ModelSource",
    "ScoredRows",
    "Source",
    "Wanted",
    "caution_scores",
    "open_source",
]


def open_source(
    model: Path | None,
    *,
    scores: str | None = None,
    lower_is_better: bool = False,
    trusted: Collection[str] = (),
) -> Source:
    """What gives scores: the column that is named, else the model or the skops file of a path."""
    if scores is not None:
        return ColumnSource(scores, lower_is_better)
    if model is None:
        raise ValueError("neither a model nor a column of scores is given.")
    if is_foreign(model):
        return EstimatorSource(load_estimator(model, trusted), lower_is_better)
    return ModelSource(load(model))


def caution_scores(positive: Mask, scores: Array) -> None:
    """Warn of scores that hardly order the rows, or order them the wrong way round."""
    distinct = np.unique(scores[:100_000]).size
    if distinct <= 2:
        warnings.warn(
            f"the scores have {distinct} different value{'s' * (distinct > 1)}: are they predicted "
            "classes? Tied rows count as in random order; take probabilities or scores.",
            stacklevel=2,
        )
    n_pos, n_neg = int(positive.sum()), int((~positive).sum())
    if not n_pos or not n_neg:
        return
    area, deviation = auc(positive, scores), ((n_pos + n_neg + 1) / (12 * n_pos * n_neg)) ** 0.5
    if area < 0.5 - 3 * deviation:
        warnings.warn(
            f"positives score below negatives in {1 - area:.0%} of the pairs. If a low score means "
            "positive, add --lower-is-better; if the other label is positive, name it with "
            "--positive.",
            stacklevel=2,
        )
