"""Gradient and curvature of a round: from all pairs if they are few, on a grid if they are many."""

import numpy as np

from toppush.objectives.gaps import Scores
from toppush.objectives.grid import push_on_grid, shared_range
from toppush.objectives.pairs import Push, push_of_all_pairs
from toppush.objectives.rows import LabelledRows
from toppush.objectives.teams import ALONE, Team

MOST_PAIRS = 2**14
"""So many pairs take about as long as a grid: a millisecond."""


def push(
    scores: Scores,
    rows: LabelledRows,
    *,
    top: float = 0.1,
    smoothing: float = 0.5,
    team: Team = ALONE,
) -> Push:
    """Gradient and curvature of the pairwise push at these scores.

    See `toppush.objectives.pairs` for the formula and its scale. Exact up to `MOST_PAIRS` pairs
    of one worker; beyond that within 8e-4 of the greatest gradient of a row of its class and
    weight, in time that grows as the rows do.

    Parameters
    ----------
    scores : array of shape (n_rows,)
        Raw scores of the rows, float64 or float32.
    rows : LabelledRows
        From `label_rows`; made once for a fit.
    top : int or float, default=0.1
        Depth of the top: a count of negatives, or a share of them; in units of weight.
    smoothing : float, default=0.5
        How far below the level, in scores, a negative still counts.
    team : Team, optional
        The workers that hold the other rows.

    Examples
    --------
    >>> from toppush.objectives import push
    >>> import numpy as np
    >>> from toppush.objectives import label_rows
    >>> found = push(np.zeros(4), label_rows([0, 1, 0, 1]), top=1)
    >>> found.gradient
    array([ 0.5, -0.5,  0.5, -0.5])
    """
    if team is ALONE and rows.n_pairs <= MOST_PAIRS:
        shared_range(scores)
        return push_of_all_pairs(np.asarray(scores, dtype=np.float64), rows, top, smoothing)
    return push_on_grid(scores, rows, top, smoothing, team)
