"""The held-out quality of each member and of the combination."""

import pickle
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from toppush import metrics
from toppush.auto.combination import (
    COMBINATION,
    MemberScores,
    Quality,
    choose_weights,
    unseen_scores,
)
from toppush.auto.members import FittedMember
from toppush.folds.splits import Fold
from toppush.metrics import bootstrap
from toppush.metrics.bootstrap import metric_at
from toppush.metrics.cautions import AP, DRAWS, out_of_fold_precision
from toppush.metrics.paired import side_by_side
from toppush.types import Array


@dataclass(frozen=True)
class Leaderboard:
    """Held-out scores of all members, from which the table is made when it is first used."""

    members: dict[str, FittedMember]
    weights: Array
    scores: MemberScores
    folds: list[Fold]
    scoring: str | None
    seed: int
    combined: Array
    """Scores of the combination, of each row by weights that were chosen without it."""

    def rows(self) -> list[dict[str, Any]]:
        """A row for each member and the combination, the greatest score first."""
        rows = [
            self._row(name, float(weight), member.seconds, member.n_rows, member.ranker, scores)
            for (name, member), weight, scores in zip(
                self.members.items(), self.weights, self.scores.scores, strict=True
            )
        ]
        members = self.members.values()
        used = zip(members, self.weights, strict=True)
        rankers = [member.ranker for member, weight in used if weight > 0.0]
        seconds, n_rows = sum(one.seconds for one in members), max(one.n_rows for one in members)
        rows.append(self._row(COMBINATION, 1.0, seconds, n_rows, rankers, self.combined))
        return sorted(rows, key=lambda row: (-row["score"], row["name"] != COMBINATION))

    def _row(
        self, name: str, weight: float, seconds: float, n_rows: int, ranker: Any, scores: Array
    ) -> dict[str, Any]:
        positive, mass = self.scores.positive, self.scores.weight
        quality = Quality(positive, mass, self.scoring)
        precision, ndcg, recall = (float(part[0]) for part in quality.parts(scores[None]))
        low = high = None
        if not self.scores.is_weighted:  # intervals do not support weights
            interval = out_of_fold_precision(positive, scores, precision)
            low, high = interval.low, interval.high
        return {
            "name": name,
            "weight": weight,
            "score": float(quality(scores[None])[0]),
            "positives_at_top": metrics.positives_at_top(positive, scores, sample_weight=mass),
            "recall_before_10": recall,
            "average_precision": precision,
            "average_precision_low": low,
            "average_precision_high": high,
            "ndcg": ndcg,
            "seconds": seconds,
            "rows": n_rows,
            "size": _size(ranker),
        }

    def compared(self, name: str) -> bootstrap.Interval:
        """Average precision of the combination minus that of a member, with its interval."""
        return self._difference(self.scores.scores[list(self.members).index(name)])

    def without(self, names: Collection[str]) -> bootstrap.Interval | None:
        """Average precision of the combination minus that of one without some members.

        None if rows are weighted, or no member would remain.
        """
        kept = [place for place, name in enumerate(self.members) if name not in names]
        if not kept or self.scores.is_weighted:
            return None
        if all(self.weights[place] == 0.0 for place in set(range(len(self.members))) - set(kept)):
            return bootstrap.Interval(0.0, 0.0, 0.0)
        scores = replace(self.scores, scores=self.scores.scores[kept])
        weights = choose_weights(scores, self.scoring, self.seed)
        return self._difference(unseen_scores(scores, self.folds, weights, self.scoring, self.seed))

    def _difference(self, scores: Array) -> bootstrap.Interval:
        """Average precision of the combination minus that of another ranking."""
        rankings = {COMBINATION: self.combined, "other": scores}
        both = side_by_side(self.scores.positive, rankings, {AP: metric_at(AP)}, draws=DRAWS)
        return both.difference(COMBINATION, "other", AP)

    def better_members(self) -> dict[str, bootstrap.Interval]:
        """Members that rank significantly better than the combination; none with weights."""
        if self.scores.is_weighted:
            return {}
        quality = Quality(self.scores.positive, self.scores.weight)
        own = quality.parts(self.combined[None])[0][0]
        better = {}
        for name, scores in zip(self.members, self.scores.scores, strict=True):
            if quality.parts(scores[None])[0][0] > own:
                difference = self._difference(scores)
                if difference.high < 0.0:
                    better[name] = difference
        return better


def _size(ranker: Any) -> int | None:
    """Bytes of a pickled ranker; None if it cannot be pickled."""
    try:
        return len(pickle.dumps(ranker))
    except (pickle.PicklingError, AttributeError, TypeError):
        return None
