"""Texts that are categories, and texts that are something else, which are refused."""

import re
from os import PathLike

import pyarrow as pa

from toppush.system.reading import DataError
from toppush.tables import arrow_values as arrow
from toppush.tables.number_strings import CODE, preventing

MAX_TEXTS = 1000
"""More different texts than this are names, not categories, unless they are asked for."""
COMMAS = re.compile(r"[+-]?\d+(,\d+)+(\.\d*)?([eE][+-]?\d+)?")
DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T].*)?")
ISO = (
    "write all of them as 2024-01-31 or 2024-01-31 13:45:00 (with a time zone, such as Z or "
    "+01:00, in all or none)"
)
MOSTLY = 0.5
"""Share of the texts of a column that look like numbers or dates from which it is taken for one."""


def refuse_texts(name: str, texts: list[str]) -> None:
    """Refuse texts that are numbers, names or dates that cannot be read, and no categories."""
    if not texts:
        return
    most, mixed_in = MOSTLY * len(texts), ""
    commas = [text for text in texts if COMMAS.fullmatch(text)]
    others = [text for text in texts if not arrow.is_number(text) or CODE.fullmatch(text)]
    mixed = preventing(texts)
    if not mixed and len(others) < len(texts) - most and not all(map(CODE.fullmatch, others)):
        mixed = others
    if commas and len(texts) - len(others) + len(commas) > most:
        wrong = (
            f"numbers with commas, such as {commas[0]!r}, and it is not clear what the commas mean "
            "in all of them; write them with a decimal point and without marks between thousands,"
        )
    elif mixed:
        mixed_in = mixed[0]
        wrong = f"numbers, but also {mixed_in!r}, which is not one like them; correct it,"
    elif looks_dated(texts):
        if arrow.parsed_dates(pa.array(texts, pa.large_string())) is not None:
            return
        wrong = f"dates such as {texts[0]!r}; {ISO},"
    elif len(texts) > MAX_TEXTS:
        wrong = (
            f"{len(texts)} different texts such as {texts[0]!r}, more than the {MAX_TEXTS} of a "
            "category;"
        )
    else:
        return
    keep = f"read it as categories with --categorical {name}, or leave it out with --drop {name}"
    error = (MixedColumn if mixed_in else DataError)(f"holds {wrong} {keep}.", column=name)
    if isinstance(error, MixedColumn):
        error.text = mixed_in
    raise error


def looks_dated(texts: list[str]) -> bool:
    """Whether most of some texts look like dates."""
    dated = sum(bool(DATE.fullmatch(text)) for text in texts)
    return bool(texts) and dated > MOSTLY * len(texts)


class MixedColumn(DataError):
    """A column of numbers with a few strings among them."""

    text = ""
    """The string that the message names."""

    def at(self, file: "str | PathLike[str] | None", *, after: int = 0) -> "MixedColumn":
        """The same error, with the file named."""
        moved = MixedColumn(self.message, file=file, row=self.row, column=self.column)
        moved.text = self.text
        return moved
