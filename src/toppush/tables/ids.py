"""Columns that number or name the rows, from which nothing can be learned for new rows."""

import numpy as np

from toppush.types import Array

NEARLY = 0.99
"""Share of rows with a value of their own from which a column of strings is an id."""
FEWEST = 50
"""With fewer rows, different values mean little."""
SPREAD = 20
"""Most whole numbers of the range for each value of an id: of 1 to n, one in twenty may be left."""
CHANCE = 20.0
"""n values drawn from a range of N numbers all differ with probability exp(-n^2 / 2N). A column is
an id if that is below exp(-20): then the values were made to differ."""


def all_differ(n_distinct: int, n_values: int) -> bool:
    """Whether nearly every row has a value of its own, among enough rows."""
    return n_values >= FEWEST and n_distinct >= NEARLY * n_values


def are_ids(values: Array) -> bool:
    """Whether whole numbers count the rows: they differ, and lie closer than by chance.

    Neither the order of the rows nor a name matters, and ids of a part of the rows are still ids.
    Numbers that differ because they are measured finely lie far apart: dates as 20240131, amounts
    in cents.

    Parameters
    ----------
    values : array of float64
        NaN is a missing value.

    Examples
    --------
    >>> import numpy as np
    >>> from toppush.tables.ids import are_ids
    >>> shuffled = np.random.default_rng(0).permutation(1000) + 1.0
    >>> are_ids(shuffled), are_ids(shuffled[:300]), are_ids(shuffled**2)
    (True, True, False)
    """
    values = values[~np.isnan(values)]
    n_values = len(values)
    if n_values < FEWEST:
        return False
    span = float(values.max() - values.min()) + 1.0
    if not span <= min(SPREAD * n_values, n_values**2 / (2.0 * CHANCE)):
        return False
    is_whole = bool((values == np.floor(values)).all())
    return is_whole and all_differ(len(np.unique(values)), n_values)
