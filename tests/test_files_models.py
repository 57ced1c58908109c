"""Model files: the same model back, damage and forgery refused, old files kept; exports."""

import copy
import io as memory
import json
import os
import subprocess
import sys
import zipfile

import numpy as np
import onnxruntime
import pyarrow as pa
import pytest
import skops.io
from sklearn.compose import ColumnTransformer
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, OneHotEncoder, StandardScaler

from files import DROP, EVERY_KIND, made_rows, odd_rows, quick_fit, write
from toppush import TopPush, TopPushCV, files
from toppush.files import ModelError
from toppush.modelfile import archive, saving
from toppush.modelfile.saving import export_json, export_onnx

pytestmark = pytest.mark.filterwarnings("ignore::toppush.DegenerateWarning")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    write(folder / "train.csv", made_rows(400))
    write(folder / "new.csv", made_rows(150, seed=1))
    return folder


@pytest.fixture(scope="module")
def model(folder):
    return files.fit(folder / "train.csv", label="fraud", drop=DROP, lam=0.1, top=0.3)


@pytest.fixture(scope="module", params=EVERY_KIND)
def any_model(request, folder):
    return quick_fit(request.param, folder / "train.csv", label="fraud", drop=DROP)


def test_any_model_comes_back_the_same(any_model, folder, tmp_path):
    """Bit for bit, and the ranker is as it was before it was saved."""
    before = any_model.decision_function(pa.table(odd_rows()).to_batches()[0])
    files.save(any_model, tmp_path / "m.toppush")
    again = files.load(tmp_path / "m.toppush")
    assert again.about == any_model.about == archive.read_about(tmp_path / "m.toppush")
    assert again.model_type is any_model.model_type
    assert again.columns.columns_ == any_model.columns.columns_
    assert files.rank(again, folder / "new.csv").equals(files.rank(any_model, folder / "new.csv"))
    for one in (any_model, again):
        found = one.decision_function(pa.table(odd_rows()).to_batches()[0])
        np.testing.assert_array_equal(found, before)
    assert not hasattr(again.ranker, "out_of_fold_")


def test_any_model_is_saved_as_the_same_bytes(any_model):
    """Again, of a copy, and of what was read: no time, address or order of a set is in it."""
    data = saving.to_bytes(any_model)
    assert saving.to_bytes(any_model) == data
    assert saving.to_bytes(copy.deepcopy(any_model)) == data
    assert saving.to_bytes(saving.from_bytes(data)) == data


@pytest.mark.long
def test_another_process_saves_the_same_bytes(any_model, tmp_path):
    """Of another hash seed, by which sets would have another order."""
    files.save(any_model, tmp_path / "m")
    code = (
        "import sys; from toppush import files\n"
        "files.save(files.load(sys.argv[1]), sys.argv[1] + '2')"
    )
    for seed in ("1", "2"):
        subprocess.run(
            [sys.executable, "-c", code, tmp_path / "m"],
            env=os.environ | {"PYTHONHASHSEED": seed},
            check=True,
        )
        assert (tmp_path / "m2").read_bytes() == (tmp_path / "m").read_bytes()


@pytest.mark.parametrize(
    "options",
    [
        {"model": "linear"},
        {"lam": 0.1, "top": 3, "scale": "standard"},
        {"lam": 0.1, "top": 0.3, "model": "additive"},
    ],
    ids=["cv", "standard", "additive"],
)
def test_a_certificate_comes_back_the_same(options, folder, tmp_path):
    model = files.fit(folder / "train.csv", label="fraud", drop=DROP, **options)
    files.save(model, tmp_path / "m.toppush")
    again = files.load(tmp_path / "m.toppush")
    before, after = model.ranker.solution_, again.ranker.solution_
    assert (after.upper, after.lower, after.status) == (before.upper, before.lower, before.status)
    assert after.history == before.history
    assert after.dual.size == 0
    assert files.rank(again, folder / "new.csv").equals(files.rank(model, folder / "new.csv"))


def test_fitted_pipelines_and_rankers_are_models(tmp_path, rng):
    X, y = rng.normal(size=(60, 3)), np.repeat(["no", "yes"], 30)
    X[:, 2] = rng.integers(0, 3, 60)
    encoded = ColumnTransformer([("codes", OneHotEncoder(), [2])], remainder="passthrough")
    for ranker in (
        TopPush(top=0.2, positive="yes"),
        TopPushCV(positive="yes"),
        make_pipeline(encoded, StandardScaler(), TopPush(np.float64(0.5), top=0.2, positive="yes")),
    ):
        ranker.fit(X, y)
        files.save(ranker, tmp_path / "m")
        again = files.load(tmp_path / "m")
        assert again.ranker.classes_.tolist() == ["no", "yes"]
        np.testing.assert_allclose(again.decision_function(X), ranker.decision_function(X))


def doubled(X):
    return 2 * X


def test_what_is_not_a_model_is_not_saved(tmp_path, rng):
    X, y = rng.normal(size=(40, 3)), np.arange(40) % 2
    other = make_pipeline(MaxAbsScaler(), LogisticRegression()).fit(X, y)
    own = make_pipeline(FunctionTransformer(doubled), TopPush(top=0.5)).fit(abs(X), y)
    with pytest.raises(ModelError, match="ends with TopRanker, TopPush"):
        files.save(Pipeline(other.steps[:1] + own.steps[1:])[:1], tmp_path / "m")
    with pytest.raises(ModelError, match=r"test_files_models\.doubled"):
        files.save(own, tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_every_truncation_and_every_flip_is_refused(any_model, tmp_path, rng):
    good = saving.to_bytes(any_model)
    path = tmp_path / "m"
    for size in [0, 1, 20, 88, *rng.integers(0, len(good) - 1, 40)]:
        path.write_bytes(good[:size])
        with pytest.raises(ModelError, match="m: it is"):
            files.load(path)
    for place in rng.integers(0, len(good), 200):
        bad = bytearray(good)
        bad[place] ^= 1 << rng.integers(8)
        path.write_bytes(bytes(bad))
        with pytest.raises(ModelError, match="m: it is"):
            files.load(path)
        with pytest.raises(ModelError, match="m: it is"):
            archive.read_about(path)


def archive_of(model):
    body = saving.to_bytes(model)[len(archive.MAGIC) + archive.DIGEST + 1 :]
    with zipfile.ZipFile(memory.BytesIO(body)) as file:
        return {name: file.read(name) for name in file.namelist()}


def forged(parts, packing=zipfile.ZIP_STORED):
    """A file with a right checksum around an archive of one's own."""
    buffer = memory.BytesIO()
    with zipfile.ZipFile(buffer, "w", packing) as file:
        for name, content in parts.items():
            file.writestr(name, content)
    return archive.sealed(buffer.getvalue())


def node(module, name, loader, **more):
    return {"__module__": module, "__class__": name, "__loader__": loader, "__id__": 1, **more}


def nodes_with(leaf):
    """Schemas that hide a leaf at the root, in a list, in a key, and in an unread field."""
    empty = node("builtins", "list", "ListNode", content=[])
    yield leaf
    yield node("builtins", "list", "ListNode", content=[leaf])
    yield node("builtins", "dict", "DictNode", content={"a": empty}, key_types=leaf)
    yield {**empty, "other": {"deep": [leaf]}}


ATTACKS = {
    "system": node("posix", "system", "ConstructorFromReduceNode", content={}),
    "function": node("posix", "system", "FunctionNode", content={}),
    "method": node("os", "system", "MethodNode", content={"func": "x", "obj": {}}),
    "type": node("subprocess", "Popen", "TypeNode"),
    "object": node("subprocess", "Popen", "ObjectNode"),
    "estimator": node("sklearn.linear_model._base", "LinearRegression", "ObjectNode"),
    "random": node("numpy.random.mtrand", "RandomState", "RandomStateNode", content={}),
    "bytes": node("numpy", "bytes_", "NdArrayNode", type="numpy", file="a.npy"),
    "partial": node("functools", "partial", "PartialNode", content={}),
    "unknown": node("builtins", "eval", "NoSuchNode"),
}


@pytest.mark.parametrize("leaf", ATTACKS.values(), ids=ATTACKS)
def test_types_that_models_do_not_need_are_not_built(leaf, model, monkeypatch):
    def never(*arguments, **options):
        raise AssertionError("skops was asked to build it")

    parts = archive_of(model)
    monkeypatch.setattr(skops.io, "loads", never)
    for schema in nodes_with(leaf):
        parts["schema.json"] = json.dumps(schema).encode()
        with pytest.raises(ModelError, match="opened"):
            saving.from_bytes(forged(parts))


def test_an_archive_from_elsewhere_runs_nothing(model, tmp_path):
    parts = archive_of(model)
    mark = tmp_path / "ran"
    parts["schema.json"] = json.dumps(
        node("posix", "system", "ConstructorFromReduceNode", content=node(
            "builtins", "tuple", "TupleNode", content=[
                node("builtins", "str", "JsonNode", content=f'"touch {mark}"', is_json=True)
            ]))
    ).encode()  # fmt: skip
    with pytest.raises(ModelError, match=r"posix\.system"):
        saving.from_bytes(forged(parts))
    assert not mark.exists()


@pytest.mark.parametrize(
    "change, said",
    [
        ({"about.json": b"[1]"}, "table"),
        ({"about.json": b"{"}, "cannot be read"),
        ({"about.json": b"[" * 100_000}, "cannot be read"),
        ({"about.json": b'{"certificate": {"upper": 1}}'}, "model"),
        ({"schema.json": b"{"}, "model"),
        ({"schema.json": b"[" * 100_000}, "model"),
        ({"schema.json": json.dumps(node("builtins", "str", "JsonNode", content="1")).encode()},
         "model"),
    ],
)  # fmt: skip
def test_archives_that_make_no_sense(change, said, model):
    with pytest.raises(ModelError, match=said):
        saving.from_bytes(forged(archive_of(model) | change))


def test_packed_archives_are_refused(model):
    with pytest.raises(ModelError, match="is packed"):
        saving.from_bytes(forged(archive_of(model), zipfile.ZIP_DEFLATED))


def test_arrays_of_another_shape_are_refused_or_not_used(any_model, folder):
    parts, refused = archive_of(any_model), 0
    expected = files.rank(any_model, folder / "new.csv")
    for name in [name for name in parts if name.endswith(".npy")]:
        buffer = memory.BytesIO()
        np.save(buffer, np.ones((2, 2, 2)))
        try:
            found = saving.from_bytes(forged(parts | {name: buffer.getvalue()}))
        except ModelError:
            refused += 1
        else:
            assert files.rank(found, folder / "new.csv").equals(expected)
    assert refused >= 3  # weights, scale, classes


def test_a_crash_leaves_the_old_file(model, tmp_path, monkeypatch):
    path = tmp_path / "m.toppush"
    path.write_bytes(b"old")

    def crash(*arguments):
        raise OSError("no space left")

    for name in ("replace", "fsync"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, crash)
            with pytest.raises(OSError, match="no space"):
                files.save(model, path)
        assert path.read_bytes() == b"old"
        assert list(tmp_path.iterdir()) == [path]
    files.save(model, path)
    assert files.load(path).about == model.about
    assert oct(path.stat().st_mode & 0o777) == oct(0o666 & ~current_umask())


def current_umask():
    mask = os.umask(0o22)
    os.umask(mask)
    return mask


def onnx_scores(path, rows):
    session = onnxruntime.InferenceSession(str(path))
    feed = {}
    for one in session.get_inputs():
        values = rows[one.name] if isinstance(rows, dict) else None
        if values is None:
            feed[one.name] = rows
        elif "string" in one.type:
            feed[one.name] = np.array([[value or ""] for value in values], object)
        else:
            feed[one.name] = np.array([[np.nan if v is None else float(v)] for v in values])
    return session.run(None, feed)[0]


def test_onnx_of_any_model_gives_the_same_scores(any_model, tmp_path):
    """With gaps, and texts that are not known; ONNX adds up trees in single precision."""
    export_onnx(any_model, tmp_path / "m.onnx")
    expected = any_model.decision_function(pa.table(odd_rows()).to_batches()[0])
    found = onnx_scores(tmp_path / "m.onnx", odd_rows())
    assert np.ptp(expected) > 1e-3
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize(
    "options",
    [
        {"lam": 0.1, "scale": "standard", "top": 0.3},
        {"lam": 0.1, "scale": "none", "categorical": ["member"], "top": 0.3},
    ],
)
def test_onnx_gives_the_same_scores(options, folder, tmp_path):
    model = files.fit(folder / "train.csv", label="fraud", drop=DROP, **options)
    export_onnx(model, tmp_path / "m.onnx")
    rows = made_rows(200, seed=7)
    rows["city"][:2] = ["Atlantis", None]
    rows["member"][3] = None
    if "categorical" in options:
        rows["member"] = [None if value is None else str(value).lower() for value in rows["member"]]
    batch = pa.table(rows).to_batches()[0]
    expected = model.decision_function(batch)
    found = onnx_scores(tmp_path / "m.onnx", rows)
    assert np.abs(expected).max() > 1e-3
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("kernel", [None, Nystroem(gamma=0.3, n_components=15, random_state=0)])
def test_onnx_of_a_matrix(kernel, tmp_path, rng):
    X, y = rng.normal(size=(80, 4)), np.arange(80) % 2
    steps = [StandardScaler(), *([kernel] if kernel else []), TopPush(0.1, top=0.3)]
    model = files.Model(make_pipeline(*steps).fit(X, y))
    export_onnx(model, tmp_path / "m.onnx")
    expected = model.pipeline.decision_function(X)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(onnx_scores(tmp_path / "m.onnx", X), expected, atol=1e-9 * scale)


def test_columns_may_be_called_as_the_graph_is(folder, tmp_path):
    rows = made_rows(200)
    names = {"age": "score", "income": "step 0", "city": "X"}
    renamed = {names.get(name, name): column for name, column in rows.items()}
    train = write(tmp_path / "t.parquet", renamed)
    model = files.fit(train, label="fraud", drop=DROP, lam=0.1, top=0.3)
    export_onnx(model, tmp_path / "m.onnx")
    expected = model.decision_function(pa.table(renamed).to_batches()[0])
    found = onnx_scores(tmp_path / "m.onnx", renamed)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_weights_as_json_add_up_to_the_score(folder, model, tmp_path):
    export_json(model, tmp_path / "w.json")
    weights = json.loads((tmp_path / "w.json").read_text())
    rows = made_rows(100, seed=3)
    rows["city"][0] = "Atlantis"
    scores = []
    for i in range(100):
        score = -weights["threshold"]
        for name, part in weights["columns"].items():
            value = rows[name][i]
            if value is None:
                score += part["missing"]
            elif "weight" in part:
                score += part["weight"] * float(value)
            else:
                score += part["categories"].get(value, 0.0)
        scores.append(score)
    expected = model.decision_function(pa.table(rows).to_batches()[0])
    np.testing.assert_allclose(scores, expected, atol=1e-12)


def test_features_of_columns_have_no_weights_to_export(tmp_path, rng):
    X, y = rng.normal(size=(80, 4)), np.arange(80) % 2
    pipeline = make_pipeline(Nystroem(n_components=9, random_state=0), TopPush(0.1, top=0.3))
    with pytest.raises(ModelError):
        export_json(files.Model(pipeline.fit(X, y)), tmp_path / "k.json")
