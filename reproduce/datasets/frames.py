"""Raw tables: CSV files as they were published, with gaps and texts, read as data frames."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from toppush.system.extras import needs
from toppush.types import Mask

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class RawTable:
    """A table and what to know of it.

    Attributes
    ----------
    file : str
        Its name without `.gz`.
    label, positive
        The column to rank by, and its value for positives.
    dropped : tuple of str
        Columns that say nothing, or that are known only when it is too late.
    separator : str
    about : str
    """

    file: str
    label: str
    positive: int | str
    dropped: tuple[str, ...]
    separator: str
    about: str


RAW_TABLES = {
    "bank-marketing": RawTable(
        "bank-marketing.csv",
        "y",
        "yes",
        ("duration",),
        ";",
        "telephone calls of a bank, deposit made (+) or not; texts and numbers",
    ),
    "give-me-some-credit": RawTable(
        "give-me-some-credit.csv",
        "SeriousDlqin2yrs",
        1,
        ("id",),
        ",",
        "borrowers, in serious arrears within two years (+) or not; gaps in two columns",
    ),
}
"""Tables as their publishers give them, with texts and gaps; `load_frame` reads one.

>>> from reproduce.datasets import RAW_TABLES
>>> sorted(RAW_TABLES)
['bank-marketing', 'give-me-some-credit']
"""


def read_frame(name: str, path: Path) -> tuple["DataFrame", Mask]:
    """Columns of a raw table, texts as categories, and labels."""
    try:
        from pandas import read_csv
    except ImportError as error:
        raise ImportError(needs("a data frame", "pandas")) from error

    known = RAW_TABLES[name]
    table = read_csv(path, sep=known.separator)
    y = (table.pop(known.label) == known.positive).to_numpy()
    table = table.drop(columns=[column for column in known.dropped if column in table])
    texts = table.select_dtypes(exclude="number").columns
    return table.astype(dict.fromkeys(texts, "category")), y
