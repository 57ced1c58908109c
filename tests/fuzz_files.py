"""Fuzz the readers of CSV, LIBSVM and NPZ and the loading of model files.

pip install -e '.[test]'
python tests/fuzz_files.py csv --minutes 10      # or libsvm, npz, model
python tests/fuzz_files.py csv --file finding-1  # one input again

An input is a file that was written right and then changed; one that reaches new lines of
the packages of `SOURCES` is changed again later. The checksums of changed model files
are right. Every input must be read or refused with a `DataError` within seconds and bounded
memory, and what is read must be what a slow, obvious reader finds. What breaks this is kept in the
folder of the run, and the exit code is 1.
"""

import argparse
import contextlib
import csv
import faulthandler
import io as memory
import json
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from scipy import sparse
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

from toppush import TopPush, TopPushAdditive, TopPushNet, TopPushTrees, TopRanker
from toppush.files import Columns, DataError, ModelError, readers
from toppush.files.readers.csv import MISSING
from toppush.modelfile import archive, saving
from toppush.tables import labels

sys.path.insert(0, str(Path(__file__).parent))
from memory import Peak
from test_files_matrices import parsed, strict
from test_files_models import archive_of, forged
from test_files_preparation import CASES, Y
from test_files_tables import csv_table

FOLDER = Path(tempfile.mkdtemp(prefix="toppush-fuzz-"))
SOURCES = tuple(
    str(Path(readers.__file__).parents[2] / package)
    for package in ("files", "modelfile", "modeltypes", "models", "system", "tables")
)
assert all(map(os.path.isdir, SOURCES)), "a package of SOURCES has another name now"
SLOW, HUNG = 10, 60
"""Seconds after which an input is a finding, and after which the process ends with a traceback."""
TRACED = 3
"""Every third input is traced, which takes several times as long."""
LONGEST = 1 << 14
"""Bytes to which inputs of text and arrays may grow."""
ADDRESS_SPACE = 8 << 30
READER_BYTES = 256 << 20
"""Memory that reading a small file may take."""


class Finding(Exception):
    """An input that was read wrong, or took too long or too much memory."""


class Target(NamedTuple):
    """What is fuzzed: files to begin with, how one is changed, and how it is read."""

    seeds: list[bytes]
    change: object
    read: object
    most: object
    """Bytes of memory that reading an input may take."""


# ---- changing inputs

TOKENS = [
    b"", b"0", b"1", b"-1", b"+1", b"1e999", b"-0.0", b"nan", b"inf", b"NA", b"#N/A", b"1_0",
    b"0x1F", b"1,5", b'"', b'""', b"\n", b"\r\n", b"\r", b"\t", b";", b"|", b":", b"#",
    b"\x00", b"\xff", b"\xfe", b"\xef\xbb\xbf", b"\xc3\xa9", b"true", b"2024-01-31",
    b"2024-01-31T00:00:00Z", b"qid:3", b"99999999999:1", b"2147483647:1", b"1:1 1:2", b"label",
    b"=1+1", b" ", b"9" * 400, b"18446744073709551616",
]  # fmt: skip
NUMBERS = [0, 1, -1, 2, 3, 7, 100, 1 << 16, 1 << 24, 1 << 31, 1 << 40, 1 << 63, -(1 << 63), 0.5,
           1e300, float("nan"), float("inf"), True, None]  # fmt: skip

PARTS = ["X.npy", "y.npy", "data.npy", "indices.npy", "indptr.npy", "shape.npy", "X", "y"]


def changed_bytes(rng, data, pool):
    """The data with a few places changed."""
    data = bytearray(data)
    for _ in range(rng.integers(1, 5)):
        at, length = (int(rng.integers(0, len(data) + 1)) for _ in "12")
        end = min(len(data), at + int(rng.integers(0, 1 + min(length, 40))))
        match rng.integers(0, 6):
            case 0:
                data[at:at] = TOKENS[rng.integers(len(TOKENS))]
            case 1:
                data[at:end] = TOKENS[rng.integers(len(TOKENS))]
            case 2:
                del data[at:end]
            case 3:
                data[at:at] = data[at:end] * int(rng.integers(1, 9))
            case 4 if data:
                data[min(at, len(data) - 1)] ^= 1 << int(rng.integers(8))
            case _:
                other = pool[rng.integers(len(pool))]
                start = int(rng.integers(0, len(other) + 1))
                data[at:end] = other[start : start + 40]
    return bytes(data[:LONGEST])


def changed_npz(rng, data, pool):
    """An archive with a part changed, renamed, replaced or left out, or changed as bytes."""
    if rng.random() < 0.2:
        return changed_bytes(rng, data, pool)
    try:
        parts = unzipped(data)
    except Exception:  # an archive that earlier changes broke
        return changed_bytes(rng, data, pool)
    names = sorted(parts) or [""]
    name = names[rng.integers(len(names))]
    match rng.integers(0, 5):
        case 0:
            parts[name] = changed_bytes(rng, parts.get(name, b""), [b"\x93NUMPY"])
        case 1:
            parts[name] = npy(any_array(rng))
        case 2:
            parts[PARTS[rng.integers(len(PARTS))]] = parts.pop(name, b"")
        case 3:
            parts.pop(name, None)
        case _:
            parts[name] = parts[names[rng.integers(len(names))]] if parts else b""
    packing = [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED][rng.integers(2)]
    return zipped(parts, packing)


def changed_model(rng, data, pool):
    """A model file with numbers, nodes or arrays changed, and a checksum that is right."""
    parts = unzipped(data[archive.FIRST :])
    for _ in range(rng.integers(1, 4)):
        name = sorted(parts)[rng.integers(len(parts))]
        if rng.random() < 0.6 or name == "schema.json":
            parts["schema.json"] = changed_json(rng, parts["schema.json"])
        elif name.endswith(".json"):
            parts[name] = changed_json(rng, parts[name])
        elif name.endswith(".npy"):
            parts[name] = changed_npy(rng, parts[name])
        else:
            inner = unzipped(parts[name])
            some = sorted(inner)[rng.integers(len(inner))]
            parts[name] = zipped(inner | {some: changed_npy(rng, inner[some])})
    return forged(parts)


def changed_json(rng, text):
    """JSON with a value replaced by another of its values, or by a number."""
    root = json.loads(text)
    places = []
    nodes = [root]
    while nodes:
        node = nodes.pop()
        keys = node if isinstance(node, dict) else range(len(node))
        places += [(node, key) for key in keys]
        nodes += [node[key] for key in keys if isinstance(node[key], (dict, list))]
    if not places:
        return text
    node, key = places[rng.integers(len(places))]
    number = NUMBERS[rng.integers(len(NUMBERS))]
    match rng.integers(0, 6):
        case 0 | 1:
            values = [place for place in places if place[1] == "content" and place[0][place[1]]]
            node, key = values[rng.integers(len(values))] if values else (node, key)
            node[key] = json.dumps(number) if isinstance(node[key], str) else node[key]
        case 2:
            node[key] = number
        case 3:
            other, its = places[rng.integers(len(places))]
            node[key] = other[its]
        case 4 if isinstance(node, dict):
            node["__id__"] = int(rng.integers(0, 5))
        case _:
            del node[key]
    with contextlib.suppress(ValueError, RecursionError):  # a value within itself
        return json.dumps(root).encode()[: 1 << 20]
    return text


def changed_npy(rng, data):
    """An array with other values, another shape or another type."""
    array = np.load(memory.BytesIO(data))
    match rng.integers(0, 5):
        case 0 if array.dtype == np.uint8 and array.ndim == 1:
            return npy(np.frombuffer(changed_text(rng, array.tobytes()), np.uint8))
        case 0 | 1 if array.size:
            flat = array.reshape(-1).copy()
            with contextlib.suppress(ValueError, OverflowError, TypeError):
                flat[rng.integers(flat.size)] = NUMBERS[rng.integers(len(NUMBERS) - 1)]
            return npy(flat.reshape(array.shape))
        case 2:
            return npy(any_array(rng))
        case 3:
            return npy(array.reshape(-1)[: rng.integers(0, array.size + 1)])
        case _:
            return npy(np.resize(array, tuple(rng.integers(0, 5, size=rng.integers(0, 4)))))


def changed_text(rng, text):
    """A text of trees with numbers or lines of its own put elsewhere; the sizes may be right."""
    lines = text.split(b"\n")
    for _ in range(rng.integers(1, 4)):
        at = rng.integers(len(lines))
        key, _, values = lines[at].partition(b"=")
        words = values.split(b" ")
        new = [b"%d" % rng.integers(-9, 99), words[rng.integers(len(words))]][rng.integers(2)]
        words[rng.integers(len(words))] = new
        place = rng.integers(len(lines)) if rng.random() < 0.1 else at
        lines[place] = key + b"=" + b" ".join(words)
    text = b"\n".join(lines)
    if rng.random() < 0.8:
        trees = text.split(b"Tree=")[1:]
        sizes = b" ".join(b"%d" % (5 + len(tree.split(b"end of trees")[0])) for tree in trees)
        head, _, rest = text.partition(b"tree_sizes=")
        text = head + b"tree_sizes=" + sizes + b"\n" + rest.partition(b"\n")[2]
    return text


def any_array(rng):
    kinds = ("f8", ">f8", "f4", "f2", "g", "i4", "u1", "?", "c16", "U1", "S2", "M8[s]", "i8")
    shape = tuple(rng.integers(0, 5, size=rng.integers(0, 4)))
    return rng.integers(0, 4, size=shape).astype(kinds[rng.integers(len(kinds))])


def npy(array):
    file = memory.BytesIO()
    np.save(file, np.asarray(array))
    return file.getvalue()


def zipped(parts, packing=zipfile.ZIP_STORED):
    return forged(parts, packing)[archive.FIRST :]


def unzipped(data):
    with zipfile.ZipFile(memory.BytesIO(data)) as file:
        return {name: file.read(name) for name in file.namelist()}


# ---- reading inputs


def written(name, data):
    path = FOLDER / name
    path.write_bytes(data)
    return path


def slow_csv(data, delimiter):
    """Names and rows by the standard library, or None if it refuses the text or rows differ."""
    try:
        text = data.decode("utf-8-sig")
        rows = list(csv.reader(memory.StringIO(text, newline=""), delimiter=delimiter, strict=True))
    except (UnicodeDecodeError, csv.Error):
        return None
    names, *rows = rows or [[]]
    rows = [row for row in rows if row]
    return (names, rows) if all(len(row) == len(names) for row in rows) else None


def read_csv(data):
    path = written("rows.csv", data)
    try:
        with readers.reading(path) as file:
            names, delimiter = file.names, file.dialect.delimiter
            streamed = list(file.stream(dict.fromkeys(names, pa.string())))
        table = csv_table(path, names)
    except DataError:
        return
    assert table.num_rows == sum(len(batch) for batch in streamed)
    assert table.column_names == names
    expected = slow_csv(data, delimiter)
    if expected is not None:
        cells = [[None if cell in MISSING else cell for cell in row] for row in expected[1]]
        found = [list(row) for row in zip(*table.to_pydict().values(), strict=True)]
        assert found == cells, (found, cells)
    with contextlib.suppress(DataError):
        Columns().fit_transform(csv_table(path))


def read_libsvm(data):
    path = written("rows.svm", data)
    expected = strict(data.decode("latin-1")) if data.isascii() else None
    found, error = None, None
    try:
        found = parsed(path, 64)
    except DataError as refused:
        error = refused
    assert error is None or (error.line is not None and error.column is not None), error
    assert not data.isascii() or found == expected, (found, error, expected)
    assert data.isascii() or found is None or b"#" in data


def read_npz(data):
    """Read the rows to score and to fit, which must be those that NumPy and SciPy read."""
    path = written("rows.npz", data)
    for wanted in (("y", pa.float64()), None):
        with contextlib.suppress(DataError), readers.reading(path) as file:
            for batch in file.batches(readers.Needs({}, {"width": 2, "key": "y"}, wanted)):
                if batch.labels is not None:
                    labels.count(batch.labels, None)
    with contextlib.suppress(DataError), readers.reading(path) as file:
        file.columns(("X", "y"))
    try:
        with readers.reading(path) as file:
            rows = file.load(None, (), ())
        labels.count(rows.labels, None)
    except DataError:
        return
    with np.load(path, allow_pickle=False) as arrays:
        y, X = arrays["y"], arrays.get("X")
        if {"data", "indices", "indptr", "shape"} <= set(arrays):
            parts = arrays["data"].astype(np.float64), arrays["indices"], arrays["indptr"]
            X = sparse.csr_array(parts, shape=tuple(arrays["shape"]))
    found, expected = (sparse.coo_array(one.astype(np.float64)) for one in (rows.X, X))
    assert np.isfinite(found.data).all()
    assert found.shape == expected.shape
    assert (sparse.csr_array(found) != sparse.csr_array(expected)).nnz == 0
    np.testing.assert_array_equal(rows.labels, y)


def small_models():
    """A model file of each type, and one with each way to prepare rows."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), np.arange(60) % 2
    some = [None if at % 7 == 0 else float(value) for at, value in enumerate(X[:, 1])]
    table = pa.table({"a": X[:, 0], "b": some, "c": ["x", "y", None] * 20})
    texts = {"categorical_features": [2]}
    names = ["logistic", "boosted", "forest"]
    columns = Columns(form="codes", text=["c"])
    terms = {"text_features": columns.fit(table).term_places()}
    rankers = [
        [Columns(form="codes"), TopRanker(names, effort="quick", n_jobs=1, **texts)],
        [columns, TopRanker(["logistic", "text"], effort="quick", n_jobs=1, **terms)],
        [Columns(), MaxAbsScaler(), TopPush(top=0.5)],
        [Columns(form="codes"), TopPushAdditive([0.1], tops=[0.5], **texts)],
        [Columns(), Nystroem(n_components=5, random_state=0), TopPush(top=0.5)],
        [Columns(form="codes"), TopPushTrees(0.5, n_members=1, max_rounds=3, **texts)],
        [Columns(), TopPushNet(0.5, n_members=2, hidden=(3,), max_steps=20)],
    ]
    models = [saving.as_model(make_pipeline(*steps).fit(table, y)) for steps in rankers]
    models += [
        saving.as_model(make_pipeline(step, TopPush(0.1, top=0.5)).fit(rows, Y))
        for step, rows in CASES.values()
    ]
    return [forged(archive_of(model)) for model in models]


def read_model(data):
    try:
        model = saving.from_bytes(data)
    except ModelError:
        return
    if model.columns is None and not hasattr(model.pipeline, "n_features_in_"):
        return  # nor does it say of which rows it is
    table = pa.table({"a": [0.5, None], "b": [1.0, None], "c": ["x", None]}).to_batches()[0]
    rows = table if model.columns else np.ones((1, model.pipeline.n_features_in_))
    try:
        scores = model.decision_function(rows)
    except (ValueError, TypeError):  # of scikit-learn, for other rows than the model is for
        return
    assert np.isfinite(scores).all()


CSV = [b"a,b\n1,2\n", b'a;b\n"x ""y""";2\n', b"a\tb\n1e5\t\n", b"a,b\r\n1,true\r\n,\r\n",
       "é,b\n2024-01-01,ü\n".encode(), b"a;b\n1,5;2,5\n", b'a,"b\nc"\n"1\n2",3\n']  # fmt: skip
LIBSVM = [b"1 1:2 3:4.5\n-1 2:1e3 # note\n", b"+1 qid:3 1:1\n\n0 7:2", b"1\n"]


def npz_seeds():
    X, y = np.array([[1.0, 0.0], [3.0, 4.0], [0.0, 2.0]]), np.array([0, 1, 1])
    rows = sparse.csr_array(X)
    csr = {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr, "shape": rows.shape}
    archives = [{"X": X, "y": y}, {"X": X.astype(">f4"), "y": y.astype("U1")}, csr | {"y": y}]
    found = []
    for arrays in archives:
        for save in (np.savez, np.savez_compressed):
            file = memory.BytesIO()
            save(file, **arrays)
            found.append(file.getvalue())
    return found


def reader_bytes(data):
    return READER_BYTES


def model_bytes(data):
    return (64 << 20) + 50 * len(data)


TARGETS = {
    "csv": lambda: Target(CSV, changed_bytes, read_csv, reader_bytes),
    "libsvm": lambda: Target(LIBSVM, changed_bytes, read_libsvm, reader_bytes),
    "npz": lambda: Target(npz_seeds(), changed_npz, read_npz, reader_bytes),
    "model": lambda: Target(small_models(), changed_model, read_model, model_bytes),
}


# ---- the run


class Lines:
    """Lines of our sources that have run, as a trace function."""

    def __init__(self):
        self.seen, self.new = set(), 0

    def __call__(self, frame, event, argument):
        return self._line if frame.f_code.co_filename.startswith(SOURCES) else None

    def _line(self, frame, event, argument):
        if event == "line":
            place = (frame.f_code, frame.f_lineno)
            if place not in self.seen:
                self.seen.add(place)
                self.new += 1
        return self._line


def _too_slow(number, frame):
    raise Finding(f"it takes more than {SLOW} s.")


def fault_of(target, data, lines=None):
    """The traceback of what an input breaks, if anything."""
    (FOLDER / "current").write_bytes(data)
    faulthandler.dump_traceback_later(HUNG, exit=True)
    signal.alarm(SLOW)
    peak = Peak()
    sys.settrace(lines)
    try:
        target.read(data)
    except Exception:
        return traceback.format_exc()
    finally:
        sys.settrace(None)
        signal.alarm(0)
        faulthandler.cancel_dump_traceback_later()
    taken = peak.bytes()
    return f"it takes {taken >> 20} MiB." if taken > target.most(data) else None


def run(name, minutes, seed):
    """Change and read inputs for so many minutes; how many are findings."""
    target, rng, lines = TARGETS[name](), np.random.default_rng(seed), Lines()
    pool, count, faults = [], 0, {}
    waiting, end = list(target.seeds), time.monotonic() + 60 * minutes
    while time.monotonic() < end:
        if seeding := bool(waiting):
            data = waiting.pop()
        else:
            recent = rng.random() < 0.5
            start = max(0, len(pool) - 20) if recent else 0
            data = target.change(rng, pool[rng.integers(start, len(pool))], pool)
        count, lines.new = count + 1, 0
        fault = fault_of(target, data, None if count % TRACED else lines)
        if fault is not None and fault[-200:] not in faults:
            faults[fault[-200:]] = fault
            path = written(f"finding-{len(faults)}", data)
            print(f"{path}:\n{fault}", flush=True)
        if lines.new or seeding:
            pool.append(data)
    print(
        f"{name}: {minutes:g} minutes, {count:,} inputs, of which {len(pool):,} reached new lines; "
        f"{len(lines.seen):,} lines; {len(faults)} findings"
    )
    return len(faults)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--file", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    signal.signal(signal.SIGALRM, _too_slow)
    print(f"Folder: {FOLDER}", flush=True)
    if options.file is None:
        sys.exit(bool(run(options.target, options.minutes, options.seed)))
    sys.exit(fault_of(TARGETS[options.target](), options.file.read_bytes()))


if __name__ == "__main__":
    main()
