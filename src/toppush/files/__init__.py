"""Files: rows from tables and matrices, models that are safe to open, ranked lists.

>>> from toppush import files
>>> model = files.fit("train.csv", label="fraud")  # doctest: +SKIP
>>> files.save(model, "fraud.toppush")  # doctest: +SKIP
>>> files.rank(files.load("fraud.toppush"), "new.parquet", limit=100)  # doctest: +SKIP
"""

from toppush.files.errors import ModelError
from toppush.system.extras import needs
from toppush.system.reading import DataError

try:
    from toppush.files.checking import check
    from toppush.files.columns import Columns
    from toppush.files.explaining import explain_rows
    from toppush.files.fitting import fit
    from toppush.files.fitting_parts import fit_parts
    from toppush.files.model.fitted import Model
    from toppush.files.model.saving import load, save
    from toppush.files.ranking import rank
    from toppush.files.scoring import labelled
except ModuleNotFoundError as error:
    raise ImportError(needs("toppush.files", error.name or "pyarrow")) from None

__all__ = [
    "Columns",
    "DataError",
    "Model",
    "ModelError",
    "check",
    "explain_rows",
    "fit",
    "fit_parts",
    "labelled",
    "load",
    "rank",
    "save",
]
