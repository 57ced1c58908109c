"""What every layer names."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
"""Numbers; on a device or over a cluster the array of that library."""
Mask = NDArray[np.bool_]
Where = NDArray[np.integer[Any]]
"""Indices."""
Matrix = Any
"""An array, sparse matrix, data frame or tensor; validated on entry, so no type says more."""
Labels = Any
Json = dict[str, Any]
"""A configuration, a result or a machine, as they are kept."""
