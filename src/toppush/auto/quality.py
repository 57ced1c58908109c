"""What a list is judged by when rankers are chosen and combined: its top and the whole of it.

The mean of average precision, NDCG and the recall before the tenth negative. Any one of them alone
chooses by a handful of rows, or does not see the top. Of equal scores negatives come first.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from toppush import metrics
from toppush.types import Array, Mask, Where

FALSE_ALARMS = 10.0
"""Negatives before which the recall is taken."""
TINY = 1e-12
"""Weight of a list that begins with rows of weight 0."""


@dataclass(frozen=True)
class Judge:
    """Judges lists of the same rows, many at a time; `weight` counts a row several times."""

    positive: Mask
    weight: Array
    scoring: str | None = None
    """A measure of `toppush.metrics` instead."""

    @cached_property
    def _negatives_last(self) -> Where:
        """Rows in an order in which of equals the last comes first in the list."""
        return np.argsort(~self.positive, kind="stable")

    def __call__(self, lists: Array) -> Array:
        """The quality of each list, a row of scores each."""
        if self.scoring is not None:
            measure = metrics.METRICS[self.scoring]
            sign = -1.0 if measure.is_loss else 1.0
            values = [measure(self.positive, one, sample_weight=self.weight) for one in lists]
            return sign * np.array(values)
        return np.asarray(np.mean(self.parts(lists), axis=0))

    def parts(self, lists: Array) -> tuple[Array, Array, Array]:
        """Average precision, NDCG and recall before the tenth negative of each list."""
        rows = self._negatives_last
        order = rows[np.argsort(lists[:, rows], axis=1, kind="stable")[:, ::-1]]
        weight, positive = self.weight[order], self.positive[order]
        hits = np.cumsum(weight * positive, axis=1)
        seen = np.maximum(np.cumsum(weight, axis=1), TINY)
        found = weight * positive / hits[:, -1:]
        precision = (found * hits / seen).sum(axis=1)
        recall = (found * (seen - hits < FALSE_ALARMS)).sum(axis=1)
        return precision, _ndcg(found, seen, hits[:, -1:]), recall


def _ndcg(found: Array, seen: Array, n_pos: Array) -> Array:
    """Discounted gain over that of a list with all positives first."""
    gain = (found * n_pos / np.log2(seen + 1.0)).sum(axis=1)
    whole = np.arange(1, int(np.ceil(n_pos.max())) + 1)
    ideal = np.interp(n_pos[:, 0], whole, np.cumsum(1.0 / np.log2(whole + 1.0)))
    return np.asarray(np.minimum(gain / ideal, 1.0))
