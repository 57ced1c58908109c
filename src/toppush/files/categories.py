"""Texts that are categories, and texts that are something else, which are refused."""

import re

from toppush.files import arrow_values as arrow
from toppush.system.reading import DataError

MAX_TEXTS = 1000
"""More different texts than this are names, not categories, unless they are asked for."""
COMMAS = re.compile(r"[+-]?\d+(,\d+)+(\.\d*)?([eE][+-]?\d+)?")
DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T].*)?")
MOSTLY = 0.5
"""Share of the texts of a column that look like numbers or dates from which it is taken for one."""


def refuse_texts(name: str, texts: list[str]) -> None:
    """Refuse texts that are numbers, dates or names rather than categories."""
    if not texts:
        return
    kind, most = DataError, MOSTLY * len(texts)
    commas = [text for text in texts if COMMAS.fullmatch(text)]
    others = [text for text in texts if not arrow.is_number(text)]
    numbers = len(texts) - len(others)
    if commas and numbers + len(commas) > most:
        wrong = (
            f"numbers with commas, such as {commas[0]!r}; write them with a decimal point and "
            "without marks between thousands,"
        )
    elif not others:
        wrong = f"numbers written as texts, such as {texts[0]!r}; store it as numbers,"
    elif numbers > most:
        wrong = f"numbers, but also {others[0]!r}, which is not one; mend it,"
        kind = MixedColumn
    elif sum(bool(DATE.fullmatch(text)) for text in texts) > most:
        wrong = f"dates such as {texts[0]!r}; {arrow.DATES} or"
    elif len(texts) > MAX_TEXTS:
        wrong = (
            f"{len(texts)} different texts such as {texts[0]!r}, more than the {MAX_TEXTS} of a "
            "category;"
        )
    else:
        return
    keep = f"name it with --categorical {name} to keep it as it is, or --drop {name}"
    raise kind(f"holds {wrong} {keep}.", column=name)


class MixedColumn(DataError):
    """A column of numbers with a few texts among them."""
