"""The one rule for weights of rows: 0, or of a size whose sums and squares float64 can hold."""

import numpy as np
from numpy.typing import ArrayLike

from toppush.types import Array, Mask

LEAST, MOST = 1e-100, 1e100


def checked_weights(sample_weight: ArrayLike) -> Array:
    """Weights as float64, or a refusal that says which weight cannot be used.

    Beyond these sizes a sum of weights overflows or a product of them is lost, and a result would
    be wrong without a sign of it.

    Parameters
    ----------
    sample_weight : array-like
        Each 0 or from 1e-100 to 1e100.

    Returns
    -------
    array of float64

    Examples
    --------
    >>> from toppush.metrics.weights import checked_weights
    >>> checked_weights([1, 0, 2.5])
    array([1. , 0. , 2.5])
    """
    weight = np.asarray(sample_weight, dtype=np.float64)
    sound = usable(weight)
    if sound.all():
        return weight
    wrong = float(weight[~sound][0])
    if not 0.0 <= wrong < np.inf:
        raise ValueError(
            f"sample_weight must be finite and at least 0, found {wrong:g}; correct it or drop "
            "the row."
        )
    raise ValueError(
        f"sample_weight holds {wrong:g}, and a weight must be 0 or from {LEAST:g} to {MOST:g}; "
        "divide all weights by the greatest, and set to 0 what is next to nothing then."
    )


def usable(weight: Array) -> Mask:
    """Which weights can be used."""
    return np.asarray((weight >= LEAST) & (weight <= MOST) | (weight == 0.0))
