"""Numbers that are written as text: "1,234.5", "37%", "$1,001", "(20)".

A column is read as numbers only if all its values are numbers in one and the same format. What is
ambiguous, such as two units in one column, is not read, and neither are codes such as "02134".
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from math import isfinite
from typing import Any

import numpy as np

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
"""A number with a zero in front, such as a postal code."""
MOSTLY = 0.9
"""Share of numbers among the different values of a column from which it is mostly numeric."""


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
    >>> from toppush.tables.number_strings import NumberFormat
    >>> NumberFormat(unit="$").parse("($1,001.50)")
    -1001.5
    >>> NumberFormat(unit="%").parse("37%")
    0.37
    """

    decimal: str = "."
    unit: str = ""

    def parse(self, text: str) -> float | None:
        """The number, NaN for a missing value, or None if the text is neither."""
        text = text.strip()
        if self == NumberFormat() and PLAIN.fullmatch(text):
            return _finite(float(text))
        if text.lower() in MISSING:
            return float("nan")
        found = _pattern(self.decimal).fullmatch(text)
        if found is None or (unit := _unit(found)) not in ("", self.unit):
            return None
        value = _finite(_value(found, self.decimal))
        if value is None or (self.unit == PERCENT and not unit and value != 0.0):
            return None
        return value / 100.0 if unit == PERCENT else value

    def number(self, value: Any) -> float | None:
        """The same of a value that may be a number already."""
        if is_missing(value):
            return float("nan")
        if isinstance(value, str):
            return self.parse(value)
        try:
            return float(value)
        except (TypeError, ValueError, OverflowError):
            return None

    def numbers(self, values: Sequence[Any]) -> tuple[Array, list[Any]]:
        """All values as float64, and the different ones that are no numbers, which are NaN."""
        known = {value: self.number(value) for value in set(values)}
        wrong = [value for value, number in known.items() if number is None]
        known |= dict.fromkeys(wrong, float("nan"))
        return np.array([known[value] for value in values], dtype=np.float64), wrong


def is_missing(value: Any) -> bool:
    """None, NaN and the like: a value that does not equal itself, or cannot be compared."""
    try:
        return value is None or bool(value != value)
    except (TypeError, ArithmeticError):  # pandas.NA; a signalling NaN of decimal
        return True


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


def _unit(found: re.Match[str]) -> str | None:
    """The unit of a number; None if it has two, or signs that do not belong together."""
    before, after = found["before"] or "", found["after"] or ""
    signs = [name for name in ("open", "sign", "later") if found[name]]
    if len(signs) > 1 or bool(found["open"]) != bool(found["close"]) or (before and after):
        return None
    return before or after


def _value(found: re.Match[str], decimal: str) -> float:
    digits = found["number"]
    if found["mark"]:
        digits = digits.replace(found["mark"], "")
    value = float(digits.replace(decimal, "."))
    is_negative = found["open"] or (found["sign"] or found["later"] or "+") != "+"
    return -value if is_negative else value


def format_of(texts: Collection[str]) -> NumberFormat | None:
    """The format in which all of some strings are numbers, if there is one and no doubt about it.

    Strings that stand for missing values do not count. A comma before three digits separates
    thousands if all values with a comma are such, and another value settles it ("1,234,567",
    "1,234.5", "$1,234"), or all values have one, or `ENOUGH` have one and all others are below a
    thousand; a comma is a decimal mark if a value such as "1,5" shows that it is.
    """
    texts = [text for one in texts if (text := one.strip()).lower() not in MISSING]
    styles = [
        decimal for decimal in MARKS if texts and all(map(_pattern(decimal).fullmatch, texts))
    ]
    if not styles:
        return None
    units = {_unit(found) for text in texts if (found := _pattern(styles[0]).fullmatch(text))}
    unit = next(iter(units - {""}), "")
    if len(units - {""}) > 1 or unit is None:
        return None
    if len(styles) == 2 and not unit.strip(PERCENT) and _is_ambiguous(texts):
        return None
    chosen = NumberFormat(styles[0], unit)
    return chosen if all(chosen.parse(text) is not None for text in texts) else None


def _is_ambiguous(texts: Sequence[str]) -> bool:
    """Whether commas may be decimal commas in one value and the same number be meant otherwise."""
    commas = {text for text in texts if "," in text}
    others = [text for text in texts if "," not in text]
    if not commas or not others:
        return False
    settled = any("." in text or text.count(",") > 1 for text in commas)
    below = all(abs(NumberFormat().parse(text.rstrip(PERCENT)) or 0.0) < 1000.0 for text in others)
    return not settled and not (below and len(commas) >= ENOUGH)


def preventing(texts: Collection[str]) -> list[str]:
    """Strings that keep a mostly numeric column from being read as numbers; [] if it is not one.

    These are the ones that are no numbers, or if all are, a few that are written differently. Codes
    with zeros in front are categories by themselves, and prevent nothing.
    """
    texts = sorted(text for text in texts if text.strip().lower() not in MISSING)
    found = {text: _any_match(text) for text in texts}
    wrong = [text for text, match in found.items() if match is None]
    if not texts or len(wrong) > (1.0 - MOSTLY) * len(texts):
        return []
    if wrong:
        return [] if all(map(CODE.fullmatch, wrong)) else wrong
    kinds = {(_unit(match), "," in text): text for text, match in found.items() if match}
    return sorted(kinds.values())


def _any_match(text: str) -> re.Match[str] | None:
    """The text as a number with either decimal mark."""
    matches = (_pattern(decimal).fullmatch(text.strip()) for decimal in MARKS)
    return next((found for found in matches if found is not None), None)
