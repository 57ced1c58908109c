"""LIBSVM files by scikit-learn's reader, a block of lines at a time; errors name the line.

scikit-learn reads tens of MB a second, but its errors do not name the line, and it reads 1_0 as 10
and qidanything as a query. Those are searched for first; after an error the block is read again,
token by token.
"""

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from toppush.system.reading import UNREADABLE, DataError, opened
from toppush.types import Array

BLOCK = 1 << 24
"""Bytes parsed at a time."""
ACCEPTED = re.compile(rb"^[^#\n]*(_|qid(?!:\d+([\s#]|\Z)))", re.MULTILINE)
"""Malformed tokens that scikit-learn's reader accepts."""
NUMBER = re.compile(r"[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?)")
LARGEST = np.iinfo(np.int32).max
MOST_DIGITS = 1000
"""Python reads no whole number of over 4300 digits."""
QUERY = re.compile(r"qid:[0-9]+")


class LibsvmRows(NamedTuple):
    """A whole file."""

    X: sparse.csr_array
    y: Array
    first: int
    """The number of its first column, 0 or 1."""


def read(path: Path, *, first: int | None = None, width: int | None = None) -> LibsvmRows:
    """All rows of a file, which may be compressed; see `read_open`."""
    with opened(path) as file:
        return read_open(file, path, first=first, width=width)


def read_open(
    file: BinaryIO, path: Path, *, first: int | None = None, width: int | None = None
) -> LibsvmRows:
    """All rows of an open file, over columns from `first` on, `width` of them.

    Without `first`, columns count from 0 if a 0 occurs, else from 1; without `width`, there are as
    many as occur.
    """
    parts = list(blocks(file, path, lowest=first or 0))
    used = [X.indices for X, _ in parts if X.nnz]
    if first is None:
        first = int(not any((columns == 0).any() for columns in used))
    end = max((int(columns.max()) for columns in used), default=first - 1) + 1
    if width is not None and end - first > width:
        last = width + first - 1
        raise DataError(f"column {end - 1} is beyond {last}, the last expected.", file=path)
    width = end - first if width is None else width
    rows = [aligned(X, first, width)[0] for X, _ in parts]
    X = sparse.vstack([sparse.csr_array((0, width)), *rows], format="csr")
    return LibsvmRows(X, np.concatenate([np.empty(0), *(y for _, y in parts)]), first)


def blocks(
    file: BinaryIO, path: Path, *, lowest: int = 0, size: int = BLOCK
) -> Iterator[tuple[sparse.csr_array, Array]]:
    """Entries by the numbers written in a file, and labels, block by block.

    A column number below `lowest` is refused; column 0 may be unused.
    """
    line = 1
    for text in _whole_lines(file, path, size):
        yield _parse(path, text, line, lowest)
        line += text.count(b"\n")


def _whole_lines(file: BinaryIO, path: Path, size: int) -> Iterator[bytes]:
    """Pieces of a file that end where a line does."""
    rest = b""
    try:
        while piece := file.read(size):
            head, newline, tail = piece.rpartition(b"\n")
            if newline:
                yield rest + head + newline
            rest = tail if newline else rest + piece
    except UNREADABLE as error:
        raise DataError(f"cannot be read: {error}.", file=path) from None
    if rest:
        yield rest


def _parse(path: Path, text: bytes, line: int, lowest: int) -> tuple[sparse.csr_array, Array]:
    from sklearn.datasets import load_svmlight_file

    if (b"_" in text or b"qid" in text) and ACCEPTED.search(text):
        raise find_fault(path, text, line, lowest, "a number is malformed")
    try:
        X, y = load_svmlight_file(io.BytesIO(text), zero_based=True)
    except (ValueError, OverflowError) as error:
        raise find_fault(path, text, line, lowest, str(error)) from None
    finite = np.isfinite(X.data).all() and np.isfinite(y).all()
    if not finite or (X.nnz and int(X.indices.min()) < lowest):
        raise find_fault(path, text, line, lowest, "a number is not finite")
    return sparse.csr_array(X), y


def find_fault(path: Path, text: bytes, line: int, lowest: int, otherwise: str) -> DataError:
    """The first malformed token of some lines; `otherwise` is the reason if none is."""
    for number, raw in enumerate(text.split(b"\n"), line):
        if complaint := _complaint(raw.partition(b"#")[0], lowest):
            message, column = complaint
            return DataError(message, file=path, line=number, column=column)
    return DataError(f"cannot be read: {otherwise}.", file=path, line=line)


def _complaint(words: bytes, lowest: int) -> tuple[str, int] | None:
    """What is wrong with a line, and at which byte from 1, if anything."""
    tokens = [
        (match.group().decode("ascii", "backslashreplace"), match.start() + 1)
        for match in re.finditer(rb"\S+", words)
    ]
    if not tokens:
        return None
    label, column = tokens[0]
    if not _finite(label):
        return f"the label {label!r} is not a finite number; write one.", column
    previous = lowest - 1
    for place, (token, column) in enumerate(tokens[1:]):
        if place == 0 and QUERY.fullmatch(token):
            continue
        index, colon, value = token.partition(":")
        if not colon or not re.fullmatch(r"\+?[0-9]+", index):
            wrong = f"{token!r} is not column:value; write a whole number, a colon, a number."
            return wrong, column
        if len(index) > MOST_DIGITS or int(index) > LARGEST:
            return f"column {index} is beyond {LARGEST}, the largest; number columns anew.", column
        if not _finite(value):
            return f"the value of {token!r} is not a finite number; write one.", column
        if int(index) < lowest:
            return f"columns are counted from {lowest}, and this is {index}.", column
        if int(index) <= previous:
            return f"column {index} follows column {previous}; sort them, each once.", column
        previous = int(index)
    return None


def _finite(text: str) -> bool:
    return bool(NUMBER.fullmatch(text)) and bool(np.isfinite(float(text)))


def aligned(X: sparse.csr_array, first: int, width: int) -> tuple[sparse.csr_array, int]:
    """Rows over exactly `width` columns counted from `first`, and how many entries lay beyond."""
    columns = X.indices - first
    inside: NDArray[np.bool_] = columns < width
    if inside.all():
        parts = (X.data, columns.astype(np.int32), X.indptr)
        return sparse.csr_array(parts, shape=(X.shape[0], width)), 0
    ends = np.append(0, np.cumsum(inside))[X.indptr]
    kept = (X.data[inside], columns[inside].astype(np.int32), ends)
    return sparse.csr_array(kept, shape=(X.shape[0], width)), int(np.count_nonzero(~inside))
