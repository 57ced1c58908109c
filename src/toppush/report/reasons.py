"""Why the first rows of a list are there: the columns that lift each of them, as bars."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing

from toppush.explain.columns import ColumnContributions
from toppush.explain.contributions import highest_negatives
from toppush.explain.reasons import Explainer, Explanation, Reason
from toppush.report.ranking import Ranking
from toppush.types import Matrix

N_ROWS, N_BARS = 10, 4
MAX_TOLD = 90
"""Letters of a column and its value."""
LEARNED = "the mean of the highest-ranked negatives of the training rows"
HERE = "the mean of the {n:,} highest-ranked negatives of this list"


@dataclass(frozen=True)
class Bar:
    """A column with its value, its lift, and that as a share of the longest bar, in percent."""

    told: str
    lift: float
    length: float


@dataclass(frozen=True)
class Card:
    """A row of the list and its bars, against usual rows if nothing lifts it above the others."""

    rank: int
    number: int
    score: float
    positive: bool
    lift: float
    usual: bool
    bars: list[Bar]
    held_back: Bar | None


@dataclass(frozen=True)
class Reasons:
    """What the page says of the first rows."""

    cards: list[Card]
    compared_with: str


def reasons_of(
    ranker: BaseEstimator, X: Matrix, ranking: Ranking, names: Sequence[str] | None
) -> Reasons | None:
    """Why the first rows are there, if the ranker can tell."""
    try:
        columns = ColumnContributions.of(ranker, names)
    except ValueError:  # no contributions, or of features that are no columns
        return None
    reference, compared_with = columns.own_reference, LEARNED
    if reference is None:
        negatives = highest_negatives(ranking.positive, ranking.score)
        compared_with = HERE.format(n=len(negatives))
        reference = columns.mean(_safe_indexing(X, negatives))
    first = ranking.order[:N_ROWS]
    explainer = Explainer(columns, reference, N_BARS)
    found = list(explainer(_safe_indexing(X, first), first, ranking.score[first]))
    longest = max((one.contribution for why in found for one in why.main), default=1.0)
    cards = [_card(rank + 1, why, ranking, longest) for rank, why in enumerate(found)]
    return Reasons(cards, compared_with)


def _card(rank: int, why: Explanation, ranking: Ranking, longest: float) -> Card:
    bars = [_bar(reason, longest) for reason in why.main]
    held_back = _bar(why.held_back[0], longest) if why.held_back else None
    positive = bool(ranking.positive[why.row])
    score, usual = why.score, not why.raised_by and bool(bars)
    return Card(rank, why.row + 1, score, positive, why.difference, usual, bars, held_back)


def _bar(reason: Reason, longest: float) -> Bar:
    told = reason.label
    told = told if len(told) <= MAX_TOLD else f"{told[: MAX_TOLD - 1]}…"
    return Bar(
        told, reason.contribution, float(np.round(100 * abs(reason.contribution) / longest, 1))
    )
