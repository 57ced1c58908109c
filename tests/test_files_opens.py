"""A file of rows is opened once, by one object that is handed on."""

import bz2
import contextlib
import os
import sys

import numpy as np
import pytest

from files import DROP, made_rows, write
from test_cli import run
from toppush import files
from toppush.files.readers import csv

FIT = {"label": "fraud", "drop": DROP, "lam": 0.1, "top": 0.3}
OPTIONS = ("--label", "fraud", "--drop", "id,age", "--lam", "0.1", "--top", "0.3")
_listening = []
"""Lists that collect the paths of files as they are opened."""


@sys.addaudithook
def _hear(event, details):
    if event == "open" and _listening and isinstance(details[0], (str, bytes, os.PathLike)):
        for heard in _listening:
            heard.append(os.fsdecode(details[0]))


@contextlib.contextmanager
def opens_of(path):
    """How often Python opens a file, by any of its ways; what pyarrow opens itself is not seen."""
    heard, found = [], []
    _listening.append(heard)
    try:
        yield found
    finally:
        _listening.remove(heard)
        found += [name for name in heard if name == str(path)]


@pytest.fixture(scope="module", params=[".csv", ".tsv", ".csv.bz2"])
def rows(request, tmp_path_factory):
    """A table whose header must be looked at: commas part it, tabs do, or it is packed."""
    path = tmp_path_factory.mktemp("opens") / f"rows{request.param}"
    if not request.param.endswith(".bz2"):
        return write(path, made_rows(120))
    path.write_bytes(bz2.compress(write(path.with_suffix(""), made_rows(120)).read_bytes()))
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    fitted = files.fit(write(path / "train.csv", made_rows(120, seed=1)), **FIT)
    files.save(fitted, path / "m.toppush")
    return path / "m.toppush"


@pytest.fixture
def headers(monkeypatch):
    """A list that grows with every header that is read."""
    read = []
    sniffed = csv._sniffed
    monkeypatch.setattr(csv, "_sniffed", lambda text: read.append(1) or sniffed(text))
    return read


def test_a_fit_opens_its_file_once(rows, headers):
    """Once for all of it: header, decimals, rows and fingerprint."""
    with opens_of(rows) as opens:
        files.fit(rows, **FIT)
    assert (len(opens), len(headers)) == (1, 1)


def test_scoring_opens_its_file_once(rows, headers, model):
    loaded = files.load(model)
    for score in (files.rank, files.labelled):
        headers.clear()
        with opens_of(rows) as opens:
            score(loaded, rows)
        assert (len(opens), len(headers)) == (1, 1)


@pytest.mark.parametrize(
    "command",
    [
        ("fit", "ROWS", *OPTIONS, "-o", "OUT"),
        ("rank", "MODEL", "ROWS", "--columns", "id,age"),
        ("evaluate", "MODEL", "ROWS", "--draws", "10"),
        ("threshold", "MODEL", "ROWS", "--fpr", "0.3"),
    ],
    ids=lambda command: command[0],
)
def test_a_command_opens_its_file_once(command, rows, headers, model, tmp_path):
    """Names with commas ask for the header first, and a model for the fingerprint: of one file."""
    given = {"ROWS": rows, "MODEL": model, "OUT": tmp_path / "m"}
    with opens_of(rows) as opens:
        run(*(given.get(word, word) for word in command))
    assert (len(opens), len(headers)) == (1, 1)


def test_a_fault_is_looked_for_in_the_file_opened_anew(tmp_path):
    """Twice: pyarrow's threads may still hold what they were given when it has failed."""
    rows = made_rows(60)
    rows["income"][7] = "much"
    path = write(tmp_path / "rows.csv", rows)
    with opens_of(path) as opens, pytest.raises(files.DataError, match="line 9"):
        files.fit(path, **FIT)
    assert len(opens) == 2


@pytest.mark.parametrize("ending, most", [(".svm", 1), (".npz", 1), (".npy", 4)])
def test_matrices_are_opened_by_their_reader(ending, most, tmp_path, rng):
    """Once; but NumPy opens an NPY file thrice more by name: its magic, its header, to map it."""
    X, y = rng.normal(size=(40, 3)).round(2), np.arange(40) % 2
    X[:, 0] += 3 * y
    path = tmp_path / f"rows{ending}"
    if ending == ".svm":
        lines = (f"{label} 1:{a} 2:{b} 3:{c}" for (a, b, c), label in zip(X, y, strict=True))
        path.write_text("\n".join(lines))
    elif ending == ".npz":
        np.savez(path, X=X, y=y)
    else:
        np.save(path, np.column_stack([X, y]))
    with opens_of(path) as opens:
        files.fit(path, lam=1.0, top=0.5)
    assert len(opens) == most
