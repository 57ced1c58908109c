"""Files: rows from tables and matrices, models that are safe to open, ranked lists.

>>> from toppush import io
>>> model = io.fit("train.csv", label="fraud")  # doctest: +SKIP
>>> io.save(model, "fraud.toppush")  # doctest: +SKIP
>>> io.rank(io.load("fraud.toppush"), "new.parquet", limit=100)  # doctest: +SKIP
"""

from toppush.io.errors import DataError, ModelError, need

try:
    from toppush.io.columns import Columns
    from toppush.io.fitting import fit
    from toppush.io.models import Model
    from toppush.io.parts import fit_parts
    from toppush.io.ranking import labelled, rank
    from toppush.io.store import load, save
except ModuleNotFoundError as error:
    raise need("files", error) from None

__all__ = [
    "Columns",
    "DataError",
    "Model",
    "ModelError",
    "fit",
    "fit_parts",
    "labelled",
    "load",
    "rank",
    "save",
]
