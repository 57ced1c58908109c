"""Fuzz the readers of CSV, LIBSVM, NPY and model files: no crash, no hang, no silent misread.

pip install -e '.[test,fuzz]'
python tests/fuzz_files.py csv --minutes 10      # or libsvm, npy, model, trees
python tests/fuzz_files.py csv --file crash-...  # one input again

Every input is read or refused with a `DataError`, and what is read must be what a slow, obvious
reader finds. Inputs that break this are written to the folder of the run by libFuzzer.
"""

import argparse
import contextlib
import csv
import io as memory
import sys
import tempfile
import warnings
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["toppush.files"]):
    import numpy as np
    import pyarrow as pa
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MaxAbsScaler

    from toppush import (
        TopPush,
        TopPushAdditive,
        TopPushKernel,
        TopPushNet,
        TopPushTrees,
        TopRanker,
    )
    from toppush.files import Columns, DataError, ModelError, labels, readers
    from toppush.files.model import saving
    from toppush.files.readers.csv_faults import MISSING

sys.path.insert(0, str(Path(__file__).parent))
from files import QUICK
from test_files_matrices import parsed, strict
from test_files_models import archive_of, forged
from test_files_tables import csv_table

FOLDER = Path(tempfile.mkdtemp(prefix="toppush-fuzz-"))


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


def fuzz_csv(data):
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


def fuzz_libsvm(data):
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


NPY_KINDS = (
    "<f8",
    ">f8",
    "<f4",
    "<f2",
    "<f16",
    ">i4",
    "|u1",
    "|b1",
    "<c16",
    "<U1",
    "|S2",
    "<M8[s]",
)


def as_npy(data):
    """The bytes themselves, or a whole file whose type, width and values they say."""
    if data[:1] != b"\x00":
        return data
    kind, width, body = np.dtype(NPY_KINDS[data[1] % len(NPY_KINDS)]), 1 + data[2] % 4, data[3:]
    n_rows = len(body) // (width * kind.itemsize)
    rows = np.frombuffer(body[: n_rows * width * kind.itemsize], kind).reshape(n_rows, width)
    return npy(np.asfortranarray(rows) if data[2] > 127 else rows)


def fuzz_npy(data):
    data = as_npy(data.ljust(3, b"\x00"))
    path = written("rows.npy", data)
    layout = {"width": 2, "label": "-1"}
    with contextlib.suppress(DataError), readers.reading(path) as file:
        for batch in file.batches(readers.Needs({}, layout, ("-1", pa.float64()))):
            labels.count(batch.labels, None)
    try:
        with readers.reading(path) as file:
            rows = file.load(None, (), ())
        labels.count(rows.labels, None)
    except DataError:
        return
    expected = np.load(memory.BytesIO(data), allow_pickle=False).astype(np.float64)
    assert np.isfinite(rows.X).all()
    np.testing.assert_array_equal(rows.X, expected[:, :-1])
    np.testing.assert_array_equal(rows.labels.astype(np.float64), expected[:, -1])


def npy(*arguments):
    file = memory.BytesIO()
    np.save(file, np.array(*arguments))
    return file.getvalue()


def small_models():
    """The parts of the archive of a model of each kind, and rows to score."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), np.arange(60) % 2
    gaps = [None if at % 7 == 0 else float(value) for at, value in enumerate(X[:, 1])]
    table = pa.table({"a": X[:, 0], "b": gaps, "c": ["x", "y", None] * 20})
    texts = {"categorical_features": [2]}
    names = ["logistic", "boosted", "forest"]
    rankers = {
        "auto": [Columns(form="codes"), TopRanker(names, effort="quick", n_threads=1, **texts)],
        "linear": [Columns(), MaxAbsScaler(), TopPush(top=0.5)],
        "additive": [Columns(form="codes"), TopPushAdditive([0.1], tops=[0.5], **texts)],
        "kernel": [Columns(), TopPushKernel([0.1], tops=[0.5], widths=[1.0], n_components=5)],
        "trees": [Columns(form="codes"), TopPushTrees(0.5, n_members=1, max_rounds=3, **texts)],
        "net": [Columns(), TopPushNet(0.5, n_members=2, hidden=(3,), max_steps=20)],
    }
    made = {kind: make_pipeline(*steps).fit(table, y) for kind, steps in rankers.items()}
    parts = [archive_of(saving.as_model(pipeline)) for pipeline in made.values()]
    return parts, table.to_batches()[0]


MODELS, BATCH = ([], None)


def changed_text(text, data):
    """A member's text with lines or numbers of its own put elsewhere, so that most of it holds."""
    lines = text.split(b"\n")
    for at in range(0, len(data) - 3, 4):
        line, other, word, new = data[at : at + 4]
        key, _, values = lines[line % len(lines)].partition(b"=")
        words = values.split(b" ")
        words[word % len(words)] = (b"%d" % (new - 128)) if new % 2 else words[other % len(words)]
        lines[line % len(lines)] = key + (b"=" + b" ".join(words) if values else b"")
    return b"\n".join(lines)


def fuzz_trees(data):
    """Change numbers of a tree's text, with the size that the header says if it is to be right."""
    parts = MODELS[list(QUICK).index("trees")]
    name = next(name for name, part in parts.items() if part.endswith(b"end of trees\n"))
    text = np.load(memory.BytesIO(parts[name])).tobytes()
    changed = changed_text(text, data[1:])
    if data[:1] > b"\x40":
        trees = changed.split(b"Tree=")[1:]
        sizes = b" ".join(b"%d" % (5 + len(tree.split(b"end of trees")[0])) for tree in trees)
        head, _, rest = changed.partition(b"tree_sizes=")
        changed = head + b"tree_sizes=" + sizes + b"\n" + rest.partition(b"\n")[2]
    score_if_opened(forged(parts | {name: npy(np.frombuffer(changed, np.uint8))}))


def fuzz_model(data):
    """Overwrite a part, or the archive itself, as the first bytes say, and seal it again."""
    parts = MODELS[data[0] % len(MODELS)] if data else MODELS[0]
    data = data[1:]
    names = [*sorted(parts), None]
    name = names[data[0] % len(names)] if data else names[0]
    content = forged(parts)[saving.FIRST :] if name is None else parts[name]
    place = int.from_bytes(data[1:4], "little") % len(content)
    changed = content[:place] + data[4:] + content[place + max(0, len(data) - 4) :]
    score_if_opened(saving.sealed(changed) if name is None else forged(parts | {name: changed}))


def score_if_opened(sealed):
    try:
        model = saving.from_bytes(sealed)
        scores = model.decision_function(BATCH)
        if hasattr(model.ranker, "contributions"):
            model.ranker.contributions(model.columns.transform(BATCH))
    except (ModelError, DataError):
        return
    assert np.isfinite(scores).all()


SEEDS = {
    "csv": [b"a,b\n1,2\n", b'a;b\n"x ""y""";2\n', b"a\tb\n1e5\t\n", b"a,b\r\n1,true\r\n,\r\n",
            "é,b\n2024-01-01,ü\n".encode()],
    "libsvm": [b"1 1:2 3:4.5\n-1 2:1e3 # note\n", b"+1 qid:3 1:1\n\n0 7:2", b"1\n"],
    "npy": [npy([[1.0, 2.0, 0.0], [3.0, 4.0, 1.0]], kind)
            for kind in ("f8", ">f8", "f2", "g", "i4", "?", "c16", "U3", "S2")]
           + [bytes([0, kind, 2]) + np.arange(12.0).tobytes() for kind in range(12)]
           + [npy([1.0, np.nan]), npy([[1.0, np.inf]]), npy([["a", "b"]]), b"PK\x03\x04"],
    "model": [bytes([model, part, place, 0, 0]) + text for model in range(5)
              for part in range(12) for place in (0, 90)
              for text in (b"", b"null", b"\x93NUMPY", b'"__class__": "')],
    "trees": [bytes([size, line, line + 1, word, new]) for size in (0, 200)
              for line in range(0, 60, 3) for word in (0, 2) for new in (129, 255, 10)],
}  # fmt: skip
TARGETS = {
    "csv": fuzz_csv,
    "libsvm": fuzz_libsvm,
    "npy": fuzz_npy,
    "model": fuzz_model,
    "trees": fuzz_trees,
}


def main():
    global MODELS, BATCH
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--file", default=None)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.target in ("model", "trees"):
        MODELS, BATCH = small_models()
    corpus = FOLDER / "corpus"
    corpus.mkdir()
    for number, seed in enumerate(SEEDS[options.target]):
        (corpus / str(number)).write_bytes(seed)
    arguments = [sys.argv[0], "-timeout=30", "-rss_limit_mb=4096", f"-artifact_prefix={FOLDER}/"]
    arguments += [f"-max_total_time={int(options.minutes * 60)}", "-max_len=4096"]
    atheris.Setup([*arguments, options.file or str(corpus)], TARGETS[options.target])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
