"""Raw tables as their publishers give them, and what `tables.json` says of each.

`tables.json` lies with the files. It has an object for each table: its file, the label column and
the value of the positives, patterns of columns to drop (ids, and what is known only afterwards),
and the columns of groups and times, if there are any.
"""

import fnmatch
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from toppush.system.extras import needs
from toppush.system.reading import opened_text
from toppush.types import Json, Mask

if TYPE_CHECKING:
    from pandas import DataFrame

DESCRIPTIONS = "tables.json"
MISSING = ["?"]
"""What tables write for a missing value, apart from what pandas knows."""


@dataclass(frozen=True)
class RawTable:
    """A raw table.

    Attributes
    ----------
    X : DataFrame, array or CSR matrix
        The features as pandas reads them. The columns of groups and times are not among them.
    y : array of bool
        True for positives. Rows without a label are left out.
    groups, times : array, optional
        A value for each row, if splits should be by groups or by time.
    """

    X: "DataFrame"
    y: Mask
    groups: "np.ndarray[Any, Any] | None" = None
    times: "np.ndarray[Any, Any] | None" = None


def read_raw_table(path: Path, about: Json) -> RawTable:
    """A table from its file and its entry in `tables.json`."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError(needs("a data frame", "pandas")) from error

    label = about["label"]
    with opened_text(path) as text:
        separator = ";" if text.readline().count(";") > 3 else ","
    frame = pandas.read_csv(path, sep=separator, na_values=MISSING, low_memory=False)
    # Apart, as "None" or "NA" may be a label.
    options = {"usecols": [label], "dtype": str, "keep_default_na": False}
    labels = pandas.read_csv(path, sep=separator, **options)[label].to_numpy()
    frame = frame[labels != ""].drop(columns=label).reset_index(drop=True)
    y = labels[labels != ""] == about["positive"]
    groups = frame.pop(about["group"]).to_numpy() if about["group"] else None
    times = _times(frame.pop(about["time"])) if about["time"] else None
    dropped = [name for name in frame if any(fnmatch.fnmatchcase(name, p) for p in about["drop"])]
    return RawTable(frame.drop(columns=dropped), y, groups, times)


def _times(column: Any) -> "np.ndarray[Any, Any]":
    """Times as numbers that can be sorted; dates as nanoseconds."""
    import pandas

    if pandas.api.types.is_numeric_dtype(column):
        return np.asarray(column, np.float64)
    dates = pandas.to_datetime(column).to_numpy()
    return np.asarray(dates.astype("datetime64[ns]"), np.int64)
