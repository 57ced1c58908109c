"""What held-out rows say of each member and of the combination."""

import pickle
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from toppush import metrics
from toppush.auto.combination import Lists, choose_weights, unseen_scores
from toppush.auto.quality import Judge
from toppush.folds.cross_fitted import Fold
from toppush.metrics import bootstrap
from toppush.metrics.bootstrap import metric_at
from toppush.metrics.cautions import AP, DRAWS, out_of_fold_precision
from toppush.metrics.paired import side_by_side
from toppush.types import Array

COMBINATION = "combination"


@dataclass(frozen=True)
class Entry:
    """A member on the board."""

    name: str
    weight: float
    seconds: float
    n_rows: int
    ranker: Any

    @property
    def size(self) -> int | None:
        """Bytes that it takes in a file; None of an estimator of one's own that has no file."""
        try:
            return len(pickle.dumps(self.ranker))
        except (pickle.PicklingError, AttributeError, TypeError):
            return None


@dataclass(frozen=True)
class Board:
    """Held-out lists of all members, from which the leaderboard is made when somebody asks."""

    entries: list[Entry]
    lists: Lists
    folds: list[Fold]
    scoring: str | None
    seed: int
    combined: Array
    """Scores of the combination, of each row by weights that were chosen without it."""

    def rows(self) -> list[dict[str, Any]]:
        """A row for each member and the combination, the greatest score first."""
        chosen = [one for one in self.entries if one.weight > 0.0]
        whole = Entry(
            COMBINATION,
            1.0,
            sum(one.seconds for one in self.entries),
            max(one.n_rows for one in self.entries),
            [one.ranker for one in chosen],
        )
        scores = [*self.lists.scores, self.combined]
        rows = map(self._row, [*self.entries, whole], scores)
        return sorted(rows, key=lambda row: (-row["score"], row["name"] != COMBINATION))

    def _row(self, entry: Entry, scores: Array) -> dict[str, Any]:
        judge = Judge(self.lists.positive, self.lists.weight, self.scoring)
        precision, ndcg, recall = (float(one[0]) for one in judge.parts(scores[None]))
        at_top = metrics.positives_at_top(
            self.lists.positive, scores, sample_weight=self.lists.weight
        )
        low, high = self._interval(scores, precision)
        return {
            "name": entry.name,
            "weight": entry.weight,
            "score": float(judge(scores[None])[0]),
            "positives_at_top": at_top,
            "recall_before_10": recall,
            "average_precision": precision,
            "average_precision_low": low,
            "average_precision_high": high,
            "ndcg": ndcg,
            "seconds": entry.seconds,
            "rows": entry.n_rows,
            "size": entry.size,
        }

    def _interval(self, scores: Array, value: float) -> tuple[float, float] | tuple[None, None]:
        """Of average precision; intervals know no weights of rows."""
        if self.lists.is_weighted:
            return None, None
        found = out_of_fold_precision(self.lists.positive, scores, value)
        return found.low, found.high

    def compared(self, name: str) -> bootstrap.Interval:
        """Average precision of the combination less that of a member, with its interval."""
        place = [one.name for one in self.entries].index(name)
        return self._apart(self.lists.scores[place])

    def without(self, names: Collection[str]) -> bootstrap.Interval | None:
        """Average precision of the combination less that of one without some members.

        None if rows are weighted, or no base model would remain.
        """
        kept = [place for place, one in enumerate(self.entries) if one.name not in names]
        if not kept or self.lists.is_weighted:
            return None
        if all(one.weight == 0.0 for one in self.entries if one.name in names):
            return bootstrap.Interval(0.0, 0.0, 0.0)
        lists = replace(self.lists, scores=self.lists.scores[kept])
        weights = choose_weights(lists, self.scoring, self.seed)
        return self._apart(unseen_scores(lists, self.folds, weights, self.scoring, self.seed))

    def _apart(self, scores: Array) -> bootstrap.Interval:
        """Average precision of the combination less that of another ranking."""
        lists, metrics = {"combined": self.combined, "other": scores}, {AP: metric_at(AP)}
        both = side_by_side(self.lists.positive, lists, metrics, draws=DRAWS)
        return both.difference("combined", "other", AP)

    def behind(self) -> dict[str, bootstrap.Interval]:
        """Members whose list is better than the combination by more than noise."""
        if self.lists.is_weighted:
            return {}
        judge = Judge(self.lists.positive, self.lists.weight)
        own = judge.parts(self.combined[None])[0][0]
        found = {}
        for entry, scores in zip(self.entries, self.lists.scores, strict=True):
            if judge.parts(scores[None])[0][0] > own:
                apart = self.compared(entry.name)
                if apart.high < 0.0:
                    found[entry.name] = apart
        return found
