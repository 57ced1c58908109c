"""No model file takes more room than it has bytes, whatever its archive says."""

import io as memory
import json
import os
import tracemalloc
import zipfile

import numpy as np
import pytest
from scipy import sparse
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline

from test_files_models import archive_of, forged
from toppush import TopPush, files
from toppush.files import ModelError
from toppush.modelfile import archive, saving


@pytest.fixture(scope="module")
def parts():
    rng = np.random.default_rng(0)
    X, y = sparse.csr_array(rng.normal(size=(60, 3))), np.arange(60) % 2
    kernel = Nystroem(gamma=0.3, n_components=10, random_state=0)
    return archive_of(saving.as_model(make_pipeline(kernel, TopPush(0.1, top=0.5)).fit(X, y)))


def ending(parts, suffix):
    return next(name for name in parts if name.endswith(suffix))


def array_bytes(array):
    buffer = memory.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def header_of(shape, descr="<f8"):
    buffer = memory.BytesIO()
    np.lib.format.write_array_header_1_0(
        buffer, {"descr": descr, "fortran_order": False, "shape": shape}
    )
    return buffer.getvalue()


def refused(data, said):
    with pytest.raises(ModelError, match=said):
        saving.from_bytes(data)


def test_the_parts_are_those_of_a_model_that_opens(parts):
    assert saving.from_bytes(forged(parts)).about == json.loads(parts["about.json"])
    assert ending(parts, ".npz")


@pytest.mark.parametrize("name", ["about.json", "schema.json", "more.json"])
@pytest.mark.parametrize("packing", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
@pytest.mark.parametrize("read", [files.load, archive.read_about])
def test_a_bomb_is_refused_before_it_goes_off(name, packing, read, parts, tmp_path):
    size = 1 << 24
    buffer = memory.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for known, content in parts.items():
            if known != name:
                file.writestr(known, content)
        file.writestr(name, b'{"a": "' + b" " * size + b'"}', packing)
    path = tmp_path / "m"
    path.write_bytes(archive.sealed(buffer.getvalue()))
    assert path.stat().st_size < size / 100
    tracemalloc.start()
    try:
        with pytest.raises(ModelError, match=f"m: its part '{name}' is packed"):
            read(path)
        assert tracemalloc.get_traced_memory()[1] < 10 * path.stat().st_size + (1 << 20)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "name", ["../about.json", "/etc/x.json", "a/b.npy", "a\\b.npy", "x.py", "x", "é.npy", ".npy"]
)
def test_names_that_no_part_has(name, parts):
    refused(forged(parts | {name: b"{}"}), "name that no part of a model has")


def overlapping(members):
    members[-1].header_offset = members[-2].header_offset


def too_long(members):
    members[-1].file_size = members[-1].compress_size = 1 << 29


def encrypted(members):
    members[-1].flag_bits |= 1


def repeated(members):
    members.append(members[-1])


@pytest.mark.parametrize(
    "change, said",
    [
        (overlapping, "overlap"),
        (too_long, "overlap, or go beyond its end"),
        (encrypted, "is encrypted"),
        (repeated, r"two parts 'z\.npy'"),
    ],
)
def test_lists_that_lie(change, said, parts):
    buffer = memory.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name in ("y.npy", "z.npy"):
            file.writestr(name, array_bytes(np.ones(4)))
        change(file.filelist)
    refused(archive.sealed(buffer.getvalue()), said)


def test_lists_that_are_too_long(parts, monkeypatch):
    many = parts | {f"{number}x.npy": array_bytes(np.ones(1)) for number in range(100)}
    data = forged(many)
    assert saving.from_bytes(data)
    monkeypatch.setattr(archive, "LARGEST_LIST", 5000)
    monkeypatch.setattr(zipfile, "ZipFile", None)  # the list is not read
    refused(data, "which no model has")


@pytest.mark.parametrize(
    "tail, said",
    [
        (lambda body: body + b"x", "does not end as models do"),
        (lambda body: body[:-2] + b"\x01\x00x", "does not end as models do"),
        (lambda body: body[:-22] + b"PK\x06\x07" + bytes(16) + body[-22:], "does not end as"),
        (lambda body: b"", "there is no archive"),
        (lambda body: body[-22:], "not a model file"),
    ],
    ids=["junk", "comment", "large archive", "nothing", "no parts"],
)
def test_ends_that_no_model_has(tail, said, parts):
    refused(archive.sealed(tail(archive.archive_of(forged(parts)))), said)


@pytest.mark.parametrize(
    "content",
    [
        header_of((1 << 40,)) + bytes(8),
        header_of((3,)) + bytes(16),
        header_of((1,)) + bytes(16),
        header_of((1 << 40,), "<U0"),
        header_of((2,), "|O") + bytes(16),
        b"\x93NUMPY\x09\x00",
        b"no array",
        b"",
    ],
    ids=["huge", "short", "long", "of nothing", "objects", "version", "text", "empty"],
)
def test_arrays_are_as_long_as_they_say(content, parts):
    name = ending(parts, ".npy")
    refused(forged(parts | {name: content}), f"its part '{name}' (is not an array|says)")
    inner = forged({"data.npy": content})[archive.FIRST :]
    refused(forged(parts | {ending(parts, ".npz"): inner}), r"npz/data\.npy' (is not an|says)")


def test_archives_within_keep_the_rules(parts):
    name = ending(parts, ".npz")
    inner = archive.unpacked(parts[name])
    packed = forged(inner, zipfile.ZIP_DEFLATED)[archive.FIRST :]
    refused(forged(parts | {name: packed}), r"\.npy' is packed")
    text = forged(inner | {"x.json": b"{}"})[archive.FIRST :]
    refused(forged(parts | {name: text}), "which is no array")
    again = forged(inner | {"x.npz": parts[name]})[archive.FIRST :]
    refused(forged(parts | {name: again}), "which is no array")


def test_a_part_is_read_by_one_object_alone(parts):
    name = ending(parts, ".npy")
    schema = json.loads(parts["schema.json"])
    node = {"__module__": "numpy", "__class__": "ndarray", "__loader__": "NdArrayNode",
            "type": "numpy", "file": name, "__id__": 1}  # fmt: skip
    bombs = [node | {"__id__": number} for number in range(1, 1000)]
    schema["more"] = bombs
    refused(forged(parts | {"schema.json": json.dumps(schema)}), f"read its part '{name}'")


def test_texts_and_files_have_a_largest_size(parts, tmp_path, monkeypatch):
    path = tmp_path / "m"
    path.write_bytes(b"toppush model 1 sha256 ")
    os.truncate(path, archive.LARGEST + 200)
    for read in (files.load, archive.read_about):
        with pytest.raises(ModelError, match="1,073,741,824"):
            read(path)
    monkeypatch.setattr(archive, "LARGEST_TEXT", 100)
    refused(forged(parts), r"part '\w+\.json' is longer than 100 bytes")
    monkeypatch.setattr(archive, "LARGEST", 100)
    refused(forged(parts), "larger than 100 bytes")


def test_rows_of_forged_width_are_not_made(parts):
    schema = json.loads(parts["schema.json"])
    wide = json.dumps(schema).replace('"content": "3"', '"content": "10000000000"')
    assert wide.count("10000000000") >= 1
    refused(forged(parts | {"schema.json": wide}), "10000000000")
