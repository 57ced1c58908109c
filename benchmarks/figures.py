"""Whether every figure in the text of a page is in a result file.

A figure is a number with a decimal point or an exponent, or with a unit (`UNITS`), or "9 of 11";
outside code, inline code and generated tables. Settings, levels and limits that somebody chose are
no figures: they stand in inline code and must be numbers of our source. A section, down to the next
heading of two hashes, names its files: by their paths, by the command that writes them, or by a
generated table. A figure must be a cell of theirs, rounded as it is shown, in a row that the
sentence speaks of: whose first text stands there too.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from benchmarks.summary import EVIDENCE, RESULTS, Number, Rows, cell, read

ALLOWED = {
    "Python 3.11": "a version",
}
"""Phrases with a number that no run made, and why they are there."""
UNITS = {
    "%": 0.01, "ms": 1e-3, "seconds": 1.0, "s": 1.0, "minutes": 60.0, "hours": 3600.0,
    "times": 1.0, "KB": 1.0, "MB": 1.0, "MiB": 1.0, "GB/s": 1.0, "GB": 1.0, "GiB": 1.0,
    "TB/s": 1.0, "TiB": 1.0, "million": 1e6, "iterations": 1.0, "rounds": 1.0, "reads": 1.0,
}  # fmt: skip
"""What may follow a figure, and by how much it multiplies one of the file."""
UNIT = rf"(?:{'|'.join(map(re.escape, UNITS))})(?![\w/])"
NUMBER = r"[+\u2212-]?(?:\d+(?:,\d{3})*\.\d+|\.\d+|\d+(?:,\d{3})*)(?:e[+-]?\d+)?"
FIGURE = re.compile(
    rf"(?<![\w.^/-])(?P<count>\d+ of \d+)(?!\w|\.\d)|(?<![\w.^/])(?P<number>{NUMBER})"
    rf"(?:(?P<times>x)(?!\w)|[ ]?(?P<unit>{UNIT})|(?= to {NUMBER} ?(?P<end>{UNIT}))|(?![\w^]|\.\d))"
)
COMMANDS = {
    "demo": ["demo"],
    "table2": ["table2", "pos-top", "ap"],
    "size": ["rows", "url-size", "threads"],
}
"""Commands whose files are not named as they are."""


FENCED = re.DOTALL | re.MULTILINE
ROOT = EVIDENCE.parent


class Source(NamedTuple):
    """A row that a figure may come from."""

    key: str
    """What a sentence must speak of; empty if any may."""
    numbers: list[float]
    texts: list[str]


class Figure(NamedTuple):
    """A number as a page shows it."""

    text: str
    value: float
    rounding: float
    unit: str

    def is_in(self, source: Source) -> bool:
        """Whether a cell, rounded as this is, shows it."""
        if " of " in self.text:
            return self.text in source.texts
        signed = self.text[0] in "+-\N{MINUS SIGN}"
        for scale in {1.0, UNITS.get(self.unit, 1.0)}:
            for one in source.numbers:
                shown = (one if signed else abs(one)) / scale
                if abs(shown - self.value) <= self.rounding * (1 + 1e-9):
                    return True
        return False


def missing(page: str) -> list[tuple[str, str]]:
    """Sentence and figure of all that no file named in their section has."""
    found = []
    for section in re.split(r"^(?=## )", page, flags=re.MULTILINE):
        sources = list(sources_of(section))
        for sentence in sentences(section):
            found += [(sentence, one.text) for one in without_source(sentence, sources)]
    return found


def without_source(sentence: str, sources: list[Source]) -> list[Figure]:
    """The figures of a sentence that no row has of which it speaks."""
    wanted = list(figures(sentence))
    spoken = re.sub(r"[`*_]", "", sentence).casefold()
    near = [one for one in sources if _mentions(spoken, one.key)] if wanted else []
    return [one for one in wanted if not any(map(one.is_in, near))]


def _mentions(spoken: str, key: str) -> bool:
    plain = re.escape(re.sub(r"[`*_]| \(.*|,.*", "", key).casefold())
    return re.search(rf"(?<!\w){plain}(?!\w)", spoken) is not None


def sentences(section: str) -> list[str]:
    """What ends with a full stop; a heading, a bullet and a row of a table stand by themselves."""
    bare = re.sub(r"<!-- table: .*?<!-- end -->", "", section, flags=re.DOTALL)
    bare = re.sub(r"^```.*?^```", "", bare, flags=FENCED)
    bare = re.sub(r"(?<=\n\n)(    .*\n|\n)+", "\n", bare)
    bare = re.sub(r"\]\([^)]*\)", "]", bare)
    parts = re.split(r"\n\s*\n|\n(?=\s*[-|] |\s*\d+\. )|(?<=\w{2}[.?)])\s+(?=[A-Z`*])", bare)
    return [" ".join(part.split()) for part in parts if part.strip()]


def figures(sentence: str) -> Iterator[Figure]:
    """All that look measured."""
    text = re.sub(r"`[^`]*`", "`", sentence)
    for phrase in ALLOWED:
        text = text.replace(phrase, "")
    for found in FIGURE.finditer(text):
        number, unit = found["number"], found["unit"] or found["end"] or found["times"] or ""
        if found["count"]:
            yield Figure(found["count"], 0.0, 0.0, "")
        elif unit or re.search(r"[.e]", number):
            plain = number.replace(",", "").replace("\N{MINUS SIGN}", "-")
            digits, _, power = plain.partition("e")
            decimals = len(digits.partition(".")[2])
            yield Figure(number, float(plain), 0.5 * 10.0 ** (int(power or 0) - decimals), unit)


def unknown_settings(page: str) -> list[str]:
    """Inline code that is a number, alone or after a name, and that no file of ours has."""
    setting = re.compile(rf"(?:\w+=)?(?P<number>{NUMBER})(?: ?(?P<unit>{UNIT}))?")
    found = []
    for code in re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", page, flags=FENCED)):
        match = setting.fullmatch(code)
        if match and (match["unit"] or re.search(r"[.e]", match["number"])):
            value = float(match["number"].replace(",", ""))
            if not {value, value * UNITS.get(match["unit"] or "", 1.0)} & literals():
                found.append(code)
    return found


@cache
def literals() -> set[float]:
    """Every number in our source and benchmarks."""
    paths = [
        path
        for folder in ("src", "reproduce", "benchmarks")
        for path in (ROOT / folder).rglob("*.py")
    ]
    texts = "\n".join(path.read_text(encoding="utf-8") for path in paths)
    found = re.findall(r"(?<![\w.])\d[\d_]*\.?\d*(?:e[+-]?\d+)?(?![\w.])", texts)
    return {float(one.replace("_", "")) for one in found}


def sources_of(section: str) -> Iterator[Source]:
    """The rows of the files that a section names."""
    for path in files_of(section):
        yield from _rows(read(path.stem, path.parent))


def _rows(rows: Rows) -> Iterator[Source]:
    for row in rows:
        texts = [f"{one}" for one in row.values() if not isinstance(one, Number)]
        names = (one for one in texts if re.search(r"[a-z]", one, re.IGNORECASE))
        key = next((one for one in names if one not in ("True", "False")), "")
        yield Source(key, [one for each in row.values() for one in _numbers(each)], texts)


def _numbers(found: object) -> list[float]:
    """The number of a cell, or all in a text that begins with one."""
    if isinstance(found, Number):
        return [float(found)]
    text = f"{found}"
    if not re.match(r"[+-]?\d", text):
        return []
    cells = [cell(one.replace(",", "")) for one in re.findall(r"[+-]?\d[\d,]*\.?\d*", text)]
    return [float(one) for one in cells if isinstance(one, Number)]


def files_of(section: str) -> Iterator[Path]:
    """Result files by path, by the command that writes them, or by a table."""
    for of_benchmarks, name in re.findall(r"(benchmarks/)?results/([\w*-]+)\.csv", section):
        yield from sorted((RESULTS if of_benchmarks else EVIDENCE).glob(f"{name}.csv"))
    names = re.findall(r"python -m\s+benchmarks\.(\w+)|<!-- table: ([\w-]+)", section)
    for name in dict.fromkeys("".join(one) for one in names):
        yield from _written_by(name)
    for name in re.findall(r"python -m reproduce ([\w-]+)|(?:toppush|tasks.py) (demo)", section):
        yield from _written_by("".join(name))


def _written_by(command: str) -> Iterator[Path]:
    for name in COMMANDS.get(command, [command]):
        pattern = re.compile(name.replace("_", "[_-]") + r"([_-].*)?")
        for path in (*sorted(RESULTS.glob("*.csv")), *sorted(EVIDENCE.glob("*.csv"))):
            if pattern.fullmatch(path.stem) and not path.stem.endswith(("splits", "trials")):
                yield path
