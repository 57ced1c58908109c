"""Columns of strings: numbers such as "1,234.5", "37%", "$1,001" or "(20)", dates, or categories.

A column is read as numbers only if all its values are numbers in one and the same format. What is
ambiguous, such as two units in one column, is not read, and neither are codes such as "02134".
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from math import isfinite
from os import PathLike
from typing import Any

import numpy as np

from toppush.system.reading import DataError
from toppush.tables.dates import look_like_dates
from toppush.types import Array

MISSING = frozenset(
    ("", "na", "n/a", "#n/a", "<na>", "nan", "null", "none", "-", "--", ".", "?")
)  # in lower case
"""Strings that stand for a missing value in a column of numbers."""
PERCENT = "%"
UNITS = r"[$€£¥₹₽₩₺]|(?:USD|EUR|GBP|CHF|JPY|CNY|INR)\b"
MARKS = {".": ",", ",": "."}
"""Each decimal mark, and the mark between thousands that goes with it."""
ENOUGH = 20
"""Different values with a comma from which commas before three digits are taken for thousands.

With decimal commas, one of 20 values would very likely end with a 0, which is rarely written.
"""
PLAIN = re.compile(r"[+-]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
"""What float() reads too, without a unit: 0.6 instead of 10 microseconds each."""
CODE = re.compile(r"[+-]?0[0-9][0-9.,]*")
"""A number with a leading zero, such as a postal code."""
MOSTLY_NUMBERS = 0.9
"""Share of numbers among the different values of a column from which it is mostly numeric."""
MAX_CATEGORIES = 1000
"""A column with more different strings holds names, unless the user asks for categories."""
COMMAS = re.compile(r"[+-]?\d+(,\d+)+(\.\d*)?([eE][+-]?\d+)?")
MOST = 0.5
"""Share of strings that look like numbers above which a column is taken for such."""


@dataclass(frozen=True)
class NumberFormat:
    """How the numbers of a column are written.

    Parameters
    ----------
    decimal : {".", ","}
        The decimal mark; the other one, an apostrophe or a narrow blank may separate thousands.
    unit : str
        "%", a currency, or "" if there is none. A percentage is read as a fraction.

    Examples
    --------
    >>> from toppush.tables.strings import NumberFormat
    >>> NumberFormat(unit="$").parse("($1,001.50)")
    -1001.5
    >>> NumberFormat(unit="%").parse("37%")
    0.37
    """

    decimal: str = "."
    unit: str = ""

    def parse(self, text: str) -> float | None:
        """The number, NaN for a missing value, or None if the string is neither."""
        text = text.strip()
        if self == NumberFormat() and PLAIN.fullmatch(text):
            return _finite(float(text))
        if text.lower() in MISSING:
            return float("nan")
        match = _pattern(self.decimal).fullmatch(text)
        if match is None or (unit := _unit(match)) not in ("", self.unit):
            return None
        value = _finite(_value(match, self.decimal))
        if value is None or (self.unit == PERCENT and not unit and value != 0.0):
            return None
        return value / 100.0 if unit == PERCENT else value

    def numbers(self, values: Sequence[Any]) -> tuple[Array, list[Any]]:
        """Strings and numbers as float64, and the different ones that are neither, now NaN."""

        def number(value: Any) -> float | None:
            if is_missing(value):
                return float("nan")
            if isinstance(value, str):
                return self.parse(value)
            try:
                return float(value)
            except (TypeError, ValueError, OverflowError):
                return None

        known = {value: number(value) for value in set(values)}
        wrong = [value for value, number in known.items() if number is None]
        known |= dict.fromkeys(wrong, float("nan"))
        return np.array([known[value] for value in values], dtype=np.float64), wrong


def is_missing(value: Any) -> bool:
    """None, NaN and the like: a value that does not equal itself, or cannot be compared."""
    try:
        return value is None or bool(value != value)
    except (TypeError, ArithmeticError):  # pandas.NA; a signalling NaN of decimal
        return True


def is_number(text: str) -> bool:
    """Whether float() reads a string that has neither blanks around it nor underscores."""
    try:
        float(text)
    except ValueError:
        return False
    return text == text.strip() and "_" not in text


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None


@cache
def _pattern(decimal: str) -> re.Pattern[str]:
    """Numbers with a decimal mark, a unit and a sign; digits may be grouped in thousands."""
    mark = re.escape(decimal)
    plain = rf"(?:(?:0|[1-9][0-9]*)(?:{mark}[0-9]*)?|{mark}[0-9]+)(?:[eE][+-]?[0-9]+)?"
    between = rf"[{re.escape(MARKS[decimal])}'\u2019\u00a0\u202f]"
    grouped = (
        rf"[1-9][0-9]{{0,2}}(?P<mark>{between})[0-9]{{3}}(?:(?P=mark)[0-9]{{3}})*(?:{mark}[0-9]*)?"
    )
    sign = r"[+\-\u2212]"
    return re.compile(
        rf"(?P<open>\()?\s*(?P<sign>{sign})?\s*(?P<before>{UNITS})?\s*(?P<later>{sign})?"
        rf"(?P<number>{plain}|{grouped})\s*(?P<after>{PERCENT}|{UNITS})?\s*(?P<close>\))?"
    )


def _unit(match: re.Match[str]) -> str | None:
    """The unit of a number; None if it has two, or signs that do not belong together."""
    before, after = match["before"] or "", match["after"] or ""
    signs = [name for name in ("open", "sign", "later") if match[name]]
    if len(signs) > 1 or bool(match["open"]) != bool(match["close"]) or (before and after):
        return None
    return before or after


def _value(match: re.Match[str], decimal: str) -> float:
    digits = match["number"]
    if match["mark"]:
        digits = digits.replace(match["mark"], "")
    value = float(digits.replace(decimal, "."))
    is_negative = match["open"] or (match["sign"] or match["later"] or "+") != "+"
    return -value if is_negative else value


def format_of(strings: Collection[str]) -> NumberFormat | None:
    """The format in which all strings are numbers; None if there is none or it is ambiguous.

    Strings that stand for missing values do not count. A comma before three digits separates
    thousands if all values with a comma are such, and another value settles it ("1,234,567",
    "1,234.5", "$1,234"), or all values have one, or `ENOUGH` have one and all others are below a
    thousand; a comma is a decimal mark if a value such as "1,5" shows that it is.
    """
    strings = [text for string in strings if (text := string.strip()).lower() not in MISSING]
    marks = [mark for mark in MARKS if strings and all(map(_pattern(mark).fullmatch, strings))]
    if not marks:
        return None
    units = {_unit(match) for text in strings if (match := _pattern(marks[0]).fullmatch(text))}
    unit = next(iter(units - {""}), "")
    if len(units - {""}) > 1 or unit is None:
        return None
    if len(marks) == 2 and not unit.strip(PERCENT) and _is_ambiguous(strings):
        return None
    chosen = NumberFormat(marks[0], unit)
    return chosen if all(chosen.parse(text) is not None for text in strings) else None


def _is_ambiguous(strings: Sequence[str]) -> bool:
    """Whether commas may be decimal commas in a value and separate thousands in another."""
    commas = {text for text in strings if "," in text}
    others = [text for text in strings if "," not in text]
    if not commas or not others:
        return False
    settled = any("." in text or text.count(",") > 1 for text in commas)
    below = all(abs(NumberFormat().parse(text.rstrip(PERCENT)) or 0.0) < 1000.0 for text in others)
    return not settled and not (below and len(commas) >= ENOUGH)


def blocking_numbers(strings: Collection[str]) -> list[str]:
    """Strings that keep a mostly numeric column from being read as numbers; [] if it is not one.

    These are the ones that are no numbers, or if all are, a few that are written differently. Codes
    with leading zeros are categories by themselves, and block nothing.
    """
    strings = sorted(text for text in strings if text.strip().lower() not in MISSING)
    matches = {text: _any_match(text) for text in strings}
    wrong = [text for text, match in matches.items() if match is None]
    if not strings or len(wrong) > (1.0 - MOSTLY_NUMBERS) * len(strings):
        return []
    if wrong:
        return [] if all(map(CODE.fullmatch, wrong)) else wrong
    styles = {(_unit(match), "," in text): text for text, match in matches.items() if match}
    return sorted(styles.values())


def _any_match(text: str) -> re.Match[str] | None:
    """The string as a number with either decimal mark."""
    matches = (_pattern(mark).fullmatch(text.strip()) for mark in MARKS)
    return next((match for match in matches if match is not None), None)


class MixedColumn(DataError):
    """A column of numbers with a few strings among them."""

    text = ""
    """The string that the message names."""

    def at(self, file: "str | PathLike[str] | None", *, after: int = 0) -> "MixedColumn":
        """The same error, with the file named."""
        error = MixedColumn(self.message, file=file, row=self.row, column=self.column)
        error.text = self.text
        return error


def refuse_unclear(name: str, strings: list[str]) -> None:
    """Refuse the strings of a column that are names, or numbers or dates that cannot be read."""
    most, mixed_in = MOST * len(strings), ""
    commas = [text for text in strings if COMMAS.fullmatch(text)]
    others = [text for text in strings if not is_number(text) or CODE.fullmatch(text)]
    mixed = blocking_numbers(strings)
    if not mixed and len(others) < len(strings) - most and not all(map(CODE.fullmatch, others)):
        mixed = others
    if commas and len(strings) - len(others) + len(commas) > most:
        wrong = (
            f"numbers with commas, such as {commas[0]!r}, and it is not clear what the commas mean "
            "in all of them; write them with a decimal point and without marks between thousands,"
        )
    elif mixed:
        mixed_in = mixed[0]
        wrong = f"numbers, but also {mixed_in!r}, which is not one like them; correct it,"
    elif look_like_dates(strings):
        wrong = (
            f"dates such as {strings[0]!r}, whose day and month are ambiguous, or which "
            "are not all written alike; write all of them as 2024-01-31 or 2024-01-31 13:45:00 "
            "(with a time zone, such as Z or +01:00, in all or none),"
        )
    elif len(strings) > MAX_CATEGORIES:
        wrong = (
            f"{len(strings)} different strings such as {strings[0]!r}, more than the "
            f"{MAX_CATEGORIES} of a category, and they do not look like free text, as which "
            f"--text {name} reads them;"
        )
    else:
        return
    keep = f"read it as categories with --categorical {name}, or leave it out with --drop {name}"
    error = (MixedColumn if mixed_in else DataError)(f"holds {wrong} {keep}.", column=name)
    if isinstance(error, MixedColumn):
        error.text = mixed_in
    raise error
