"""Loading a model takes memory in proportion to its file, whatever numbers the file holds."""

import contextlib
import io
import json

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

from files import DROP, EVERY_KIND, made_rows, quick_fit, write
from memory import CLEAR, Peak
from test_files_archive import array_bytes
from test_files_models import archive_of, forged, node
from test_files_preparation import CASES, Y
from toppush import TopPush
from toppush.files import ModelError
from toppush.modelfile import archive, saving
from toppush.modelfile.foreign import load_estimator

pytestmark = [
    pytest.mark.skipif(not CLEAR.exists(), reason="needs Linux, which tells the peak of memory"),
    pytest.mark.filterwarnings("ignore"),
]
FREE, FOR_A_BYTE = 64 << 20, 50
LARGE = (1 << 24, 1 << 40, -1)


def numbers_of(parts):
    """Every place of the schema that holds a whole number, as JSON within it."""
    schema = json.loads(parts["schema.json"])
    nodes, found = [schema], []
    while nodes:
        at = nodes.pop()
        if isinstance(at, dict):
            content = at.get("content")
            if at.get("__loader__") == "JsonNode" and isinstance(json.loads(content), int):
                found.append(at)
            nodes.extend(at.values())
        elif isinstance(at, list):
            nodes.extend(at)
    return schema, found


def forgeries(parts, most=None):
    """Files with one of the numbers replaced: those in the schema, then those in arrays."""
    schema, places = numbers_of(parts)
    rng = np.random.default_rng(0)
    for at in rng.permutation(len(places))[:most]:
        was = places[at]["content"]
        for number in LARGE[: None if most is None else 1]:
            places[at]["content"] = json.dumps(number)
            yield forged(parts | {"schema.json": json.dumps(schema)})
        places[at]["content"] = was
    names = [name for name in parts if name.endswith(".npy")]
    for at in rng.permutation(len(names))[:most]:
        array = np.load(io.BytesIO(parts[names[at]]))
        if array.dtype.kind in "iu" and array.dtype.itemsize > 1 and array.size:
            flat = array.reshape(-1).copy()
            flat[rng.integers(flat.size)] = min(1 << 24, np.iinfo(array.dtype).max)
            yield forged(parts | {names[at]: array_bytes(flat.reshape(array.shape))})


def require_little_memory(data):
    peak = Peak()
    with contextlib.suppress(ModelError):
        saving.from_bytes(data)
    assert peak.bytes() <= FREE + FOR_A_BYTE * len(data)


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    return write(tmp_path_factory.mktemp("rows") / "train.csv", made_rows(300))


@pytest.mark.long
@pytest.mark.parametrize("kind", EVERY_KIND)
def test_no_number_in_a_model_makes_it_large(kind, rows):
    parts = archive_of(quick_fit(kind, rows, label="fraud", drop=DROP))
    require_little_memory(forged(parts))
    for data in forgeries(parts, most=12):
        require_little_memory(data)


@pytest.mark.slow
@pytest.mark.parametrize("kind", EVERY_KIND)
def test_no_number_at_all_in_a_model_makes_it_large(kind, rows):
    for data in forgeries(archive_of(quick_fit(kind, rows, label="fraud", drop=DROP))):
        require_little_memory(data)


@pytest.mark.long
@pytest.mark.parametrize("step, rows", CASES.values(), ids=CASES)
def test_no_number_in_a_preparation_makes_a_model_large(step, rows):
    model = make_pipeline(step, TopPush(0.1, top=0.5)).fit(rows, Y)
    for data in forgeries(archive_of(saving.as_model(model))):
        require_little_memory(data)


def test_consistent_degrees_are_counted_before_rows_are_made():
    """All that a degree determines, forged together."""
    step = PolynomialFeatures(2).fit(np.ones((3, 4)))
    rows = np.random.default_rng(0).normal(size=(80, 4))
    parts = archive_of(saving.as_model(make_pipeline(step, TopPush(0.1, top=0.5)).fit(rows, Y)))
    for degree, outputs in ((40, 135_751), (1 << 24, (1 << 24) + 1)):
        schema = parts["schema.json"].decode()
        for was, number in (('"2"', degree), ('"15"', outputs)):
            schema = schema.replace(f'"content":{was}', f'"content":"{number}"')
        data = forged(parts | {"schema.json": schema})
        assert str(degree) in schema
        with pytest.raises(ModelError):
            saving.from_bytes(data)
        require_little_memory(data)


@pytest.mark.long
@pytest.mark.parametrize("kind", EVERY_KIND)
def test_arrays_of_other_shapes_are_not_spread_over_each_other(kind, rows):
    """An array of n and one of m would make n x m numbers."""
    parts = archive_of(quick_fit(kind, rows, label="fraud", drop=DROP))
    for name in [name for name in parts if name.endswith(".npy")]:
        array = np.load(io.BytesIO(parts[name]))
        if array.dtype.kind != "f" or not array.size:
            continue
        long = np.resize(array, (20_000, *[1] * array.ndim))
        require_little_memory(forged(parts | {name: array_bytes(long)}))


def shared_lists(depth, reference):
    """Lists of five, four of them by reference to the first: 5^depth in all."""
    inner = node("builtins", "list", "ListNode", content=[])
    for level in range(depth):
        again = reference | {"__id__": inner["__id__"]}
        lists = [inner, again, again, again, again]
        inner = node("builtins", "list", "ListNode", content=lists) | {"__id__": level + 2}
    return inner


EMPTY = node("builtins", "list", "ListNode", content=[])


@pytest.mark.parametrize("reference", [EMPTY, {}, EMPTY | {"content": [EMPTY]}])
def test_lists_of_lists_are_refused_at_once(reference, rows, tmp_path):
    parts = archive_of(quick_fit("linear", rows, label="fraud", drop=DROP))
    schema = json.loads(parts["schema.json"])
    schema["content"]["content"]["more"] = shared_lists(40, reference)
    data = forged(parts | {"schema.json": json.dumps(schema)})
    assert len(data) < 100_000
    with pytest.raises(ModelError, match=r"the id \d+"):
        saving.from_bytes(data)
    (tmp_path / "m.skops").write_bytes(data[archive.FIRST :])
    with pytest.raises(ModelError, match=r"the id \d+"):
        load_estimator(tmp_path / "m.skops")


def test_deep_schemas_and_many_functions_are_refused(rows):
    parts = archive_of(quick_fit("linear", rows, label="fraud", drop=DROP))
    deep = EMPTY | {"__id__": 0}
    for _ in range(150):
        deep = node("builtins", "list", "ListNode", content=[deep]) | {"__id__": 0}
    function = {"__module__": "numpy", "__class__": "exp", "__loader__": "FunctionNode"}
    for more, number in ((deep, "200"), ([function] * 2000, "2,000")):
        schema = json.loads(parts["schema.json"]) | {"more": more}
        with pytest.raises(ModelError, match=number):
            saving.from_bytes(forged(parts | {"schema.json": json.dumps(schema)}))


@pytest.mark.parametrize("number", [None, 0, False, ""])
def test_arrays_without_an_id_are_refused(number, rows):
    """skops would read the part for each of them."""
    parts = archive_of(quick_fit("linear", rows, label="fraud", drop=DROP))
    schema = json.loads(parts["schema.json"])
    array = {"__module__": "numpy", "__class__": "ndarray", "__loader__": "NdArrayNode"}
    array |= {"type": "numpy", "file": "1.npy", "__id__": number}
    schema["more"] = [array] * 100
    with pytest.raises(ModelError, match=r"1\.npy"):
        saving.from_bytes(forged(parts | {"schema.json": json.dumps(schema)}))


def test_sparse_matrices_stay_within_their_ends():
    """An index beyond the columns would let compiled code read elsewhere."""
    X = sparse.random_array((60, 5), density=0.5, format="csr", rng=np.random.default_rng(0))
    kernel = Nystroem(gamma=0.3, n_components=8, random_state=0)
    pipeline = make_pipeline(kernel, TopPush(0.1, top=0.5)).fit(X, np.arange(60) % 2)
    parts = archive_of(saving.as_model(pipeline))
    name = next(name for name in parts if name.endswith(".npz"))
    for forge in (
        lambda held: held | {"indices": held["indices"] + 10_000_000},
        lambda held: held | {"indptr": held["indptr"][::-1].copy()},
        lambda held: held | {"shape": np.array([8, 1 << 40])},
        lambda held: held | {"shape": np.array([1 << 30, 5]), "format": np.array(b"csc")},
    ):
        with np.load(io.BytesIO(parts[name])) as file:
            held = forge({one: file[one] for one in file.files})
        buffer = io.BytesIO()
        np.savez(buffer, **held)
        with pytest.raises(ModelError):
            saving.from_bytes(forged(parts | {name: buffer.getvalue()}))


@pytest.mark.parametrize("name", ["OneHotEncoder", "codes", "targets", "KBinsDiscretizer"])
def test_encoders_have_categories_for_every_column(name):
    """Rows of a forged width would be looked at column by column."""
    step, rows = CASES[name]
    parts = archive_of(saving.as_model(make_pipeline(step, TopPush(0.1, top=0.5)).fit(rows, Y)))
    schema = json.loads(parts["schema.json"])
    steps = schema["content"]["content"]["steps"]["content"]
    fitted = steps[0]["content"][1]["content"]["content"]
    for number, reason in ((1 << 16, "categories"), (True, "True"), (0, "0"), (2.5, "2.5")):
        fitted["n_features_in_"]["content"] = json.dumps(number)
        with pytest.raises(ModelError, match=reason):
            saving.from_bytes(forged(parts | {"schema.json": json.dumps(schema)}))


def test_steps_that_are_not_tried_at_loading_fail_with_a_sentence():
    step, rows = CASES["mean"]
    parts = archive_of(saving.as_model(make_pipeline(step, TopPush(0.1, top=0.5)).fit(rows, Y)))
    schema = json.loads(parts["schema.json"])
    steps = schema["content"]["content"]["steps"]["content"]
    del steps[0]["content"][1]["content"]["content"]["_fit_dtype"]
    model = saving.from_bytes(forged(parts | {"schema.json": json.dumps(schema)}))
    with pytest.raises(ModelError, match="_fit_dtype"):
        model.decision_function(rows)


def test_a_model_starts_no_processes():
    """It is saved without `n_jobs`, and a file that has it is refused."""
    step, rows = CASES["union"]
    fitted = make_pipeline(clone(step), TopPush(0.1, top=0.5)).fit(rows, Y)
    fitted[0].n_jobs = 2
    data = saving.to_bytes(saving.as_model(fitted))
    assert fitted[0].n_jobs == 2
    again = saving.from_bytes(data)
    assert again.pipeline[0].n_jobs is None
    parts = archive_of(again)
    schema = json.loads(parts["schema.json"])
    union = schema["content"]["content"]["steps"]["content"][0]["content"][1]
    union["content"]["content"]["n_jobs"]["content"] = "2"
    with pytest.raises(ModelError, match="processes"):
        saving.from_bytes(forged(parts | {"schema.json": json.dumps(schema)}))
