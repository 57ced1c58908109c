"""LIBSVM against a parser nobody can doubt; NPZ and NPY; malformed files with their place."""

import bz2
import gzip
import lzma
import re
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from toppush import files
from toppush.files import readers
from toppush.files.scoring import ScoringNotes
from toppush.system import libsvm
from toppush.system.reading import DataError

pytestmark = pytest.mark.filterwarnings("ignore::toppush.DegenerateWarning")

NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")


def strict(text):
    """Labels and entries of every line, or None if any line is malformed."""
    found = []
    for line in text.split("\n"):
        label, *entries = re.findall(r"[^ \t\r\v\f]+", line.partition("#")[0]) or [None]
        if label is None:
            continue
        entries = entries[bool(entries and re.fullmatch("qid:[0-9]+", entries[0])) :]
        pairs = [entry.split(":") for entry in entries]
        good = all(
            len(pair) == 2 and re.fullmatch(r"\+?[0-9]+", pair[0]) and NUMBER.fullmatch(pair[1])
            for pair in pairs
        )
        if not good or not NUMBER.fullmatch(label) or not np.isfinite(float(label)):
            return None
        columns = [int(column) for column, _ in pairs]
        values = [float(value) for _, value in pairs]
        if columns != sorted(set(columns)):
            return None
        if max(columns, default=0) > libsvm.LARGEST or not np.all(np.isfinite(values)):
            return None
        found.append((float(label), dict(zip(columns, values, strict=True))))
    return found


def parsed(path, size):
    """The same from the reader."""
    found = []
    with path.open("rb") as file:
        for X, y in libsvm.blocks(file, path, size=size):
            for row, label in enumerate(y):
                part = X[[row]].tocoo()
                found.append((label, dict(zip(part.col.tolist(), part.data.tolist(), strict=True))))
    return found


word = st.one_of(
    st.sampled_from(["1", "-1", "+1", "0", "1.5", "1e3", "nan", "inf", "1e999", "x", "1_0", "1,2"]),
    st.builds("{}:{}".format, st.integers(-1, 30), st.floats(-9, 9).map(lambda x: round(x, 3))),
    st.sampled_from(["qid:3", "qidx:2", "1:", ":2", "3:4:5", "7:0x1", "2:1_1", "1_1:2", "#"]),
    st.sampled_from(["99999999999:1", "4:5#"]),
    st.text("0123456789:.-+e_# ", max_size=6),
)  # fmt: skip
good_line = st.builds(
    lambda label, entries: " ".join(
        [label, *(f"{column}:{value}" for column, value in sorted(entries.items()))]
    ),
    st.sampled_from(["1", "-1", "+1", "0", "2.5e0"]),
    st.dictionaries(st.integers(0, 40), st.integers(-9, 9), max_size=5),
)
text = st.lists(
    st.one_of(good_line, good_line, good_line, st.lists(word, max_size=4).map(" ".join)), max_size=8
).map("\n".join)


@given(text, st.sampled_from([1, 7, 64, 1 << 20]))
def test_libsvm_is_read_exactly_or_refused(tmp_path_factory, text, size):
    path = tmp_path_factory.mktemp("svm") / "rows.svm"
    path.write_text(text)
    expected = strict(text)
    if expected is None:
        with pytest.raises(DataError, match=r"rows\.svm.*line \d+.*column \d+"):
            parsed(path, size)
    else:
        assert parsed(path, size) == expected


@pytest.mark.parametrize(
    "line, said",
    [
        ("1 3:1 2:5", "line 3, column 7: .*2.* 3"),
        ("1 3:1 3:5", "line 3, column 7: .*3.* 3"),
        ("one 3:1", "line 3, column 1: .*'one'"),
        ("1 3:1 4:abc", "line 3, column 7: .*'4:abc'"),
        ("1  3", "line 3, column 4: .*'3'"),
        ("1 3:1_0", "line 3, column 3: .*'3:1_0'"),
        ("1 3:nan", "line 3, column 3: .*'3:nan'"),
        ("1 2147483648:1", "line 3, column 3: .*2147483648.*2147483647"),
        (f"1 {'9' * 5000}:1", "line 3, column 3: .*9999"),
    ],
)
def test_malformed_libsvm_lines_are_placed(line, said, tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text(f"1 1:2\n0 2:3\n{line}\n0 1:1\n")
    with pytest.raises(DataError) as caught:
        files.fit(path, lam=1.0, top=0.3)
    assert re.match(f"{re.escape(str(path))}, {said}", str(caught.value))


def write_svm(path, X, y, first=1):
    rows = [
        " ".join([f"{label}", *(f"{j + first}:{value!r}" for j, value in enumerate(row) if value)])
        for row, label in zip(X.tolist(), y, strict=True)
    ]
    data = ("\n".join(rows) + "\n").encode()
    packers = {".gz": gzip, ".bz2": bz2, ".xz": lzma}
    path.write_bytes(packers[path.suffix].compress(data) if path.suffix in packers else data)
    return path


@pytest.fixture
def matrix(rng):
    X = rng.normal(size=(120, 5)) * (rng.random((120, 5)) < 0.6)
    X[0] = 1.0
    return X, (X[:, 0] + rng.normal(0, 0.5, 120) > 0.7).astype(int)


def test_matrix_formats_agree(matrix, tmp_path):
    X, y = matrix
    plain = write_svm(tmp_path / "a.svm", X, y)
    paths = [write_svm(tmp_path / f"a.svm{ending}", X, y) for ending in (".gz", ".bz2", ".xz")]
    np.savez(tmp_path / "a.npz", X=X, y=y)
    csr = sparse.csr_array(X)
    parts = {"data": csr.data, "indices": csr.indices, "indptr": csr.indptr, "shape": csr.shape}
    np.savez(tmp_path / "b.npz", **parts, y=y)
    np.save(tmp_path / "a.npy", np.column_stack([X, y]))
    paths += [tmp_path / name for name in ("a.npz", "b.npz", "a.npy")]
    first = files.fit(plain, lam=0.1, top=0.3)
    expected = files.rank(first, plain)
    np.testing.assert_allclose(
        np.sort(first.pipeline.decision_function(csr))[::-1], expected["score"].to_numpy()
    )
    for path in paths:
        model = files.fit(path, lam=0.1, top=0.3)
        np.testing.assert_allclose(model.ranker.coef_, first.ranker.coef_, rtol=1e-9)
        found = files.rank(model, path)
        assert found["row"].to_pylist() == expected["row"].to_pylist()
        np.testing.assert_allclose(found["score"].to_numpy(), expected["score"].to_numpy())
        assert files.labelled(model, path)[0].tolist() == (y == 1).tolist()


def test_labels_of_a_matrix_in_another_file(matrix, tmp_path):
    X, y = matrix
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    model = files.fit(tmp_path / "X.npy", label=str(tmp_path / "y.npy"), lam=0.1, top=0.3)
    positive, scores = files.labelled(model, tmp_path / "X.npy", label=str(tmp_path / "y.npy"))
    assert positive.tolist() == (y == 1).tolist()
    np.testing.assert_allclose(scores, model.pipeline.decision_function(X))
    with pytest.raises(DataError, match="it is 0 or -1"):
        files.fit(tmp_path / "X.npy", label="3")


def test_columns_count_from_where_they_did(matrix, tmp_path):
    X, y = matrix
    model = files.fit(write_svm(tmp_path / "a.svm", X, y, first=0), lam=0.1, top=0.3)
    assert model.about["layout"] == {"width": 5, "first": 0}
    wide = write_svm(tmp_path / "b.svm", np.column_stack([X, np.ones((120, 2))]), y, first=0)
    seen = ScoringNotes()
    scores = files.rank(model, wide, seen=seen)["score"].to_numpy()
    assert seen.ignored == 240
    np.testing.assert_allclose(scores, np.sort(model.pipeline.decision_function(X))[::-1])
    one_based = files.fit(write_svm(tmp_path / "c.svm", X, y), lam=0.1, top=0.3)
    with pytest.raises(DataError, match=r"counted.*1.*0"):
        files.rank(one_based, tmp_path / "a.svm")


@pytest.mark.parametrize(
    "arrays, said",
    [
        ({"Z": np.ones(3)}, "X nor"),
        ({"X": np.ones((3, 2)), "y": np.ones(4)}, "3 rows"),
        ({"X": np.ones(3), "y": np.ones(3)}, "numbers"),
        ({"X": np.ones((2, 2))}, "'y'"),
        ({"X": np.array([[1, None]], object), "y": np.ones(1)}, "cannot be read"),
        ({"data": np.ones(2), "indices": [0, 9], "indptr": [0, 1, 2], "shape": [2, 3],
          "y": [0, 1]}, "cannot be read"),
    ],
)  # fmt: skip
def test_archives_that_are_no_matrix(arrays, said, tmp_path):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(DataError, match=said):
        files.fit(tmp_path / "a.npz")


@pytest.mark.parametrize("name", ["X", "y", "data"])
def test_archives_of_other_files_are_refused(name, tmp_path):
    """NumPy gives a part that is no NPY file as its bytes."""
    path = tmp_path / "a.npz"
    arrays = {"X": np.eye(3), "y": np.arange(3)}
    arrays.pop(name, None)
    np.savez(path, **arrays)
    with zipfile.ZipFile(path, "a") as file:
        file.writestr(name, b"no array")
    for read in (
        lambda: files.fit(path),
        lambda: files.fit(path, label=name),
        lambda: read_columns(path, ["X", "y"]),
    ):
        with pytest.raises(DataError, match=f"{name!r}, which is not an array"):
            read()


def test_labels_of_no_letters_are_refused(tmp_path):
    """Code points beyond Unicode, which NumPy stores unseen."""
    path = tmp_path / "a.npz"
    np.savez(path, X=np.eye(3), y=np.full(3, 0x7FFFFFFF, np.uint32).view("<U1"))
    with pytest.raises(DataError, match="<U1"):
        files.fit(path)


def read_columns(path, names):
    with readers.reading(path) as file:
        return file.columns(names)


def test_nan_in_a_matrix_is_refused(matrix, tmp_path):
    X, y = matrix
    model = files.fit(write_svm(tmp_path / "a.svm", X, y), lam=0.1, top=0.3)
    X[7, 2] = np.nan
    X[9, 4] = np.inf
    X[9, 2] = np.nan
    np.savez(tmp_path / "b.npz", X=X, y=y)
    np.save(tmp_path / "b.npy", np.column_stack([X, y]))
    csr = sparse.csr_array(X)
    parts = {"data": csr.data, "indices": csr.indices, "indptr": csr.indptr, "shape": csr.shape}
    np.savez(tmp_path / "s.npz", **parts, y=y)
    for name in ("b.npz", "b.npy", "s.npz"):
        with pytest.raises(DataError) as caught:
            files.fit(tmp_path / name, lam=0.1, top=0.3)
        assert str(caught.value).startswith(
            f"{tmp_path / name}, row 8: is the first of 3 values that are NaN or infinite, in "
            "columns 2 (2), 4 (1) (counted from 0);"
        )
    with pytest.raises(DataError, match=r"row 8.*finite"):
        files.rank(model, tmp_path / "b.npz")
    np.savez(tmp_path / "c.npz", X=X[:, :3], y=y)
    with pytest.raises(DataError, match=r"3 columns.*5"):
        files.rank(model, tmp_path / "c.npz")


@pytest.mark.parametrize("kind", [">f8", ">f4", ">i2", "f2", "g", "?", "u1"])
def test_every_byte_order_and_precision_is_read(kind, matrix, tmp_path):
    X, y = np.round(matrix[0]), matrix[1]
    X = (X > 0 if kind == "?" else np.abs(X)).astype(kind)
    rows = np.column_stack([X, y]).astype(kind)
    np.save(tmp_path / "a.npy", rows)
    np.savez(tmp_path / "a.npz", X=X, y=y.astype(kind))
    csr = sparse.csr_array(X.astype("f8"))
    parts = {"indices": csr.indices, "indptr": csr.indptr, "shape": csr.shape, "y": y}
    np.savez(tmp_path / "s.npz", data=csr.data.astype(kind), **parts)
    np.save(tmp_path / "plain.npy", rows.astype("f8"))
    plain = files.fit(tmp_path / "plain.npy", lam=0.1, top=0.3)
    for name in ("a.npy", "a.npz", "s.npz"):
        model = files.fit(tmp_path / name, lam=0.1, top=0.3)
        np.testing.assert_allclose(model.ranker.coef_, plain.ranker.coef_, rtol=1e-4, atol=1e-9)
        positive, scores = files.labelled(plain, tmp_path / name)
        assert positive.tolist() == (y == 1).tolist()
        np.testing.assert_allclose(scores, plain.pipeline.decision_function(X.astype("f8")))


@pytest.mark.parametrize("ending", [".npz", ".npy"])
def test_damaged_arrays_are_refused(ending, matrix, tmp_path, rng):
    X, y = matrix
    path = tmp_path / f"a{ending}"
    np.savez(path, X=X, y=y) if ending == ".npz" else np.save(path, X)
    good = path.read_bytes()
    for size in rng.integers(0, len(good) - 1, 20):
        path.write_bytes(good[:size])
        with pytest.raises(DataError, match=r"a\.np"):
            files.fit(path, lam=1.0, top=0.3)


def test_names_that_do_not_say_the_format(matrix, tmp_path):
    path = write_svm(tmp_path / "a9a.t", *matrix)
    with pytest.raises(DataError, match="format"):
        files.fit(path)
    assert files.fit(path, kind="libsvm", lam=1.0, top=0.3).about["data"]["rows"] == 120
    with pytest.raises(DataError, match="no such file"):
        files.fit(tmp_path / "nowhere.csv")
