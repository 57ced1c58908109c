"""Files: rows from tables and matrices, models that are safe to open, rankings.

>>> from toppush import files
>>> model = files.fit("train.csv", label="fraud")  # doctest: +SKIP
>>> files.save(model, "fraud.toppush")  # doctest: +SKIP
>>> files.rank(files.load("fraud.toppush"), "new.parquet", limit=100)  # doctest: +SKIP
"""

from toppush.system.errors import ModelError
from toppush.system.extras import needs
from toppush.system.reading import DataError

try:
    from toppush.files.drift import check
    from toppush.files.explaining import explain_rows
    from toppush.files.fit_partitions import fit_parts
    from toppush.files.fitting import ModelOptions, fit
    from toppush.files.ranking import rank
    from toppush.files.scoring import labelled
    from toppush.modelfile.model import Model
    from toppush.modelfile.saving import load, save
    from toppush.tables.columns import Columns
except ModuleNotFoundError as error:
    raise ImportError(needs("toppush.files", error.name or "pyarrow")) from None

__all__ = [
    "Columns",
    "DataError",
    "Model",
    "ModelError",
    "ModelOptions",
    "check",
    "explain_rows",
    "fit",
    "fit_parts",
    "labelled",
    "load",
    "rank",
    "save",
]
