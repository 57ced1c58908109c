"""Whoever gives the scores, a list is judged by the same labels and numbers."""

import io
import json
import pickle
import sys
import zipfile
from collections import Counter
from functools import partial

import joblib
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from numpy.testing import assert_array_equal
from sklearn.compose import make_column_transformer
from sklearn.ensemble import IsolationForest, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.multioutput import MultiOutputClassifier
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    OneHotEncoder,
    OrdinalEncoder,
    StandardScaler,
)

from files import DROP, made_rows, quick_fit, write
from toppush import files
from toppush.files.readers import reading
from toppush.files.sources import (
    ColumnSource,
    EstimatorSource,
    ModelSource,
    Wanted,
    caution_scores,
    open_source,
)
from toppush.metrics.scoring import positives_of, scores_of
from toppush.modelfile.foreign import load_estimator
from toppush.modelfile.trust import UntrustedError

pd = pytest.importorskip("pandas", reason="needs pandas, an extra")
skops_io = pytest.importorskip("skops.io", reason="needs skops, an extra")
FEATURES = ["age", "income", "city", "member"]
FRAUD = Wanted("fraud")
TREE = "sklearn.tree._tree.Tree"


def read(source, path, wanted=FRAUD):
    with reading(path) as file:
        return source.read(file, wanted)


def frame_of(table):
    """As pandas reads it from a file, where a gap is NaN; pandas 2 would keep a None."""
    return pd.DataFrame(table).fillna(np.nan)


def fitted(last, table):
    prepare = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["city"]),
        (make_pipeline(SimpleImputer(), StandardScaler()), ["age", "income", "member"]),
    )
    frame = frame_of(table)
    return make_pipeline(prepare, last).fit(frame[FEATURES], frame["fraud"])


@pytest.fixture(scope="module")
def train():
    return made_rows(150)


@pytest.fixture(scope="module")
def held():
    return made_rows(200, seed=1)


@pytest.fixture(scope="module")
def logistic(train):
    return fitted(LogisticRegression(), train)


def test_the_three_entrances_agree(tmp_path, held):
    """A model file, the same pipeline by skops, and the scores that it wrote."""
    model = quick_fit("linear", write(tmp_path / "t.csv", made_rows(150)), label="fraud", drop=DROP)
    files.save(model, tmp_path / "m.toppush")
    skops_io.dump(model.pipeline, tmp_path / "m.skops")
    rows = write(tmp_path / "held.csv", held)
    ours = read(open_source(tmp_path / "m.toppush"), rows)
    with pytest.raises(UntrustedError, match=r"toppush\.models.*--trust"):
        open_source(tmp_path / "m.skops")
    trusted = skops_io.get_untrusted_types(file=tmp_path / "m.skops")
    theirs = read(open_source(tmp_path / "m.skops", trusted=trusted), rows, Wanted("fraud", "yes"))
    scored = write(tmp_path / "scored.csv", {"s": ours.scores.tolist(), "y": held["fraud"]})
    alone = read(open_source(None, scores="s"), scored, Wanted("y"))
    for found in (theirs, alone):
        assert_array_equal(found.positive, ours.positive)
        np.testing.assert_allclose(found.scores, ours.scores, rtol=1e-12)
        assert found.label.positive == ours.label.positive == "yes"
    assert_array_equal(alone.scores, ours.scores)


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".parquet", ".feather"])
def test_an_estimator_scores_files_as_it_scores_frames(ending, tmp_path, logistic, held):
    found = read(EstimatorSource(logistic), write(tmp_path / f"held{ending}", held))
    expected = logistic.decision_function(frame_of(held))
    np.testing.assert_allclose(found.scores, expected, rtol=1e-12)
    assert_array_equal(found.positive, np.array(held["fraud"]) == "yes")
    assert found.label.positive == "yes"


def test_the_positive_label_turns_an_estimator_round(tmp_path, logistic, held):
    path = write(tmp_path / "held.csv", held)
    one, other = (
        read(EstimatorSource(logistic), path, Wanted("fraud", by)) for by in ("yes", "no")
    )
    assert_array_equal(one.scores, -other.scores)
    assert_array_equal(one.positive, ~other.positive)


def test_further_columns_come_as_texts_and_numbers(tmp_path, logistic, held):
    held = held | {"amount": np.arange(200.0).tolist(), "zip": ["007"] * 200}
    path = write(tmp_path / "held.csv", held | {"s": np.arange(200.0).tolist()})
    model = quick_fit("linear", write(tmp_path / "t.csv", made_rows(99)), label="fraud", drop=DROP)
    wanted = Wanted("fraud", strings=("zip", "city"), numbers=("amount",))
    for source in (ModelSource(model), EstimatorSource(logistic), ColumnSource("s")):
        found = read(source, path, wanted)
        assert_array_equal(found.numbers("amount"), np.arange(200.0))
        assert found.strings("zip").to_pylist() == ["007"] * 200
        assert found.strings("city").to_pylist() == held["city"]


def test_labels_need_not_be_there(tmp_path, logistic, held):
    unlabelled = {name: values for name, values in held.items() if name != "fraud"}
    path = write(tmp_path / "new.csv", unlabelled | {"s": np.arange(200.0).tolist()})
    model = quick_fit("linear", write(tmp_path / "t.csv", made_rows(99)), label="fraud", drop=DROP)
    for source in (ModelSource(model), EstimatorSource(logistic), ColumnSource("s")):
        found = read(source, path, Wanted(labelled=False, strings=("id",)))
        assert len(found.scores) == found.seen.rows == len(found.columns) == 200
        with pytest.raises(files.DataError, match="no labels"):
            _ = found.positive


def test_a_column_may_be_low_at_the_top(tmp_path):
    path = write(tmp_path / "s.csv", {"s": [0.1, 0.9, 0.5], "label": [1, 0, 0]})
    found = read(ColumnSource("s", lower_is_better=True), path, Wanted())
    assert_array_equal(found.scores, [-0.1, -0.9, -0.5])
    assert_array_equal(found.positive, [True, False, False])


@pytest.mark.parametrize("kind", ["npz", "npy", "svm"])
def test_matrices_go_to_estimators_without_names(kind, tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)).round(3), rng.integers(0, 2, 60)
    path = tmp_path / f"rows.{kind}"
    if kind == "npz":
        np.savez(path, X=X, y=y)
    elif kind == "npy":
        np.save(path, np.column_stack([X, y]))
    else:
        lines = [
            f"{label} " + " ".join(f"{j + 1}:{x}" for j, x in enumerate(row))
            for label, row in zip(y, X, strict=True)
        ]
        path.write_text("\n".join(lines) + "\n")
    estimator = LogisticRegression().fit(X, y)
    found = read(EstimatorSource(estimator), path, Wanted())
    np.testing.assert_allclose(found.scores, estimator.decision_function(X), rtol=1e-12)
    assert_array_equal(found.positive, y == 1)
    table = write(
        tmp_path / "rows.csv", {f"x{j}": X[:, j].tolist() for j in range(3)} | {"y": y.tolist()}
    )
    scores = read(EstimatorSource(estimator), table, Wanted("y")).scores
    np.testing.assert_allclose(scores, found.scores, rtol=1e-12)  # sums of sparse rows round apart


def test_an_npz_file_may_hold_scores(tmp_path):
    np.savez(tmp_path / "s.npz", score=np.arange(4.0), y=[0, 0, 1, 1], names=list("abcd"))
    found = read(ColumnSource("score"), tmp_path / "s.npz", Wanted(strings=("names",)))
    assert_array_equal(found.scores, np.arange(4.0))
    assert found.strings("names").to_pylist() == list("abcd")
    with pytest.raises(files.DataError, match=r"column 'scores'.*'score'\?\)"):
        read(ColumnSource("scores"), tmp_path / "s.npz", Wanted())


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"s": [1.0, None], "y": [0, 1]}, "line 3.*column s.*missing.*1.*2"),
        ({"s": [1.0, "inf"], "y": [0, 1]}, "line 3.*column s"),
        ({"s": ["a", "2"], "y": [0, 1]}, r"column s.*'a'"),
        ({"s": [1.0, 2.0], "y": [1, 1]}, "every.*1"),
        ({"s": [1.0, 2.0, 3.0], "y": [0, 1, 2]}, "3 different labels"),
        ({"s": [1.0, 2.0], "y": [0, None]}, "missing"),
        ({"t": [1.0, 2.0], "y": [0, 1]}, "column 's'.*'t'.*'y'"),
        ({"s": [1.0, 2.0], "x": [0, 1]}, "column 'y'"),
        ({"s": [], "y": []}, "holds no rows"),
    ],
)
def test_scores_that_cannot_be_used_are_told_with_their_place(table, said, tmp_path):
    path = write(tmp_path / "s.csv", table)
    with pytest.raises(files.DataError, match=said) as caught:
        read(ColumnSource("s"), path, Wanted("y"))
    assert str(caught.value).startswith(str(path))


def test_the_label_is_no_score(tmp_path):
    path = write(tmp_path / "s.csv", {"label": [0, 1]})
    with pytest.raises(files.DataError, match="scores"):
        read(ColumnSource("label"), path, Wanted())


def test_dates_are_no_scores(tmp_path):
    table = pa.table({"s": pa.array([1, 2], pa.timestamp("s")), "y": [0, 1]})
    pyarrow.parquet.write_table(table, tmp_path / "s.parquet")
    with pytest.raises(files.DataError, match="column s"):
        read(ColumnSource("s"), tmp_path / "s.parquet", Wanted("y"))


def test_classes_that_are_not_the_labels_are_told(tmp_path, train, held):
    frame = frame_of(train)
    numbers = frame[["income", "member"]].to_numpy(float)
    estimator = LogisticRegression().fit(numbers, frame["fraud"] == "yes")
    table = {"a": held["income"], "b": held["member"], "fraud": held["fraud"]}
    path = write(tmp_path / "h.csv", table)
    with pytest.raises(files.DataError, match=r"0\.0.*1\.0"):
        read(EstimatorSource(estimator), path)
    found = read(EstimatorSource(estimator), path, Wanted("fraud", "yes"))
    rows = np.column_stack([table["a"], table["b"]]).astype(float)
    assert_array_equal(found.scores, estimator.decision_function(rows))


def test_what_an_estimator_complains_of_is_a_sentence(tmp_path, logistic, held):
    path = write(tmp_path / "h.csv", held | {"age": ["old"] * 200})
    with pytest.raises(files.ModelError, match=r"h\.csv.*LogisticRegression"):
        read(EstimatorSource(logistic), path)
    short = write(tmp_path / "s.csv", {"age": held["age"], "fraud": held["fraud"]})
    with pytest.raises(files.DataError, match=r"columns 'income'.*'city'.*'member'"):
        read(EstimatorSource(logistic), short)


# --- skops files


def test_a_type_that_skops_does_not_trust_is_named_by_the_user(tmp_path, train, held):
    forest = fitted(RandomForestClassifier(5, random_state=0), train)
    skops_io.dump(forest, tmp_path / "f.skops")
    with pytest.raises(UntrustedError, match=rf"f\.skops: it holds {TREE}.* add --trust {TREE}$"):
        load_estimator(tmp_path / "f.skops")
    opened = load_estimator(tmp_path / "f.skops", [TREE])
    found = read(EstimatorSource(opened), write(tmp_path / "h.csv", held))
    assert_array_equal(found.scores, forest.predict_proba(frame_of(held))[:, 1])


class Evil:
    def predict(self, X):
        return X

    def __reduce__(self):
        return exec, ("raise SystemExit('the file was executed')",)


@pytest.mark.parametrize(
    "dump", [pickle.dumps, lambda one: b"\x78\x9c" + pickle.dumps(one)], ids=["plain", "packed"]
)
@pytest.mark.parametrize("name", ["m.skops", "m.pkl", "m.joblib"])
def test_a_pickle_is_left_alone(name, dump, tmp_path):
    (tmp_path / name).write_bytes(dump(Evil()))
    with pytest.raises(files.ModelError, match="pickle"):
        open_source(tmp_path / name)


def test_joblib_is_left_alone(tmp_path, logistic):
    for packed in (0, 3):
        joblib.dump(logistic, tmp_path / "m.joblib", compress=packed)
        with pytest.raises(files.ModelError, match="pickle"):
            open_source(tmp_path / "m.joblib")


def write_bytes(path, body):
    path.write_bytes(body)
    return path


def nodes(node):
    """Every object that a schema names."""
    if isinstance(node, dict):
        if "__module__" in node:
            yield node
        for inner in node.values():
            yield from nodes(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from nodes(inner)


def test_a_module_that_a_file_names_is_not_imported(tmp_path, monkeypatch, train):
    """Code runs when a module is imported; each object of a file in turn names another one."""
    (tmp_path / "evil_module.py").write_text("raise SystemExit('the module was imported')")
    monkeypatch.syspath_prepend(tmp_path)
    first = make_pipeline(FunctionTransformer(partial(np.add, 1.0)), OrdinalEncoder())
    pipeline = make_pipeline(first, LogisticRegression()).fit([[0.0], [1.0]], [0, 1])
    body = io.BytesIO(skops_io.dumps(pipeline))
    with zipfile.ZipFile(body) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    trusted = skops_io.get_untrusted_types(data=body.getvalue())
    assert load_estimator(write_bytes(tmp_path / "e.skops", body.getvalue()), trusted)
    refused = Counter()
    for place in range(len(list(nodes(json.loads(parts["schema.json"]))))):
        schema = json.loads(parts["schema.json"])
        node = list(nodes(schema))[place]
        node["__module__"] = "evil_module"
        with zipfile.ZipFile(tmp_path / "e.skops", "w") as archive:
            for name, part in (parts | {"schema.json": json.dumps(schema)}).items():
                archive.writestr(name, part)
        try:
            load_estimator(tmp_path / "e.skops", trusted)
        except files.ModelError:
            refused[node["__loader__"]] += 1
        assert "evil_module" not in sys.modules
    assert {"ObjectNode", "FunctionNode", "PartialNode", "TypeNode"} <= {*refused}


@pytest.mark.parametrize(
    "broken",
    [
        lambda body: b"",
        lambda body: b"rubbish",
        lambda body: body[:-100],
        lambda body: body[: len(body) // 2],
        lambda body: body.replace(b"schema.json", b"scheme.json"),
        lambda body: body.replace(b"LogisticRegression", b"NoSuchRegression.."),
        lambda body: body.replace(b'"__loader__"', b'"__leader__"'),
    ],
)
def test_a_broken_file_is_told(broken, tmp_path, logistic):
    (tmp_path / "m.skops").write_bytes(broken(skops_io.dumps(logistic)))
    with pytest.raises(files.ModelError, match=r"^\S*m\.skops"):
        open_source(tmp_path / "m.skops")


def test_any_zip_file_is_not_an_estimator(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(files.ModelError, match="skops"):
        open_source(tmp_path / "a.zip")
    skops_io.dump({"a": 1}, tmp_path / "d.skops")
    with pytest.raises(files.ModelError, match="estimator"):
        open_source(tmp_path / "d.skops")


def test_a_zip_bomb_is_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr("toppush.modelfile.foreign.LARGEST", 1 << 16)
    with zipfile.ZipFile(tmp_path / "b.skops", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("schema.json", b" " * (1 << 20))
    with pytest.raises(files.ModelError, match="65,536"):
        open_source(tmp_path / "b.skops")


def booster(engine):
    """A small classifier of LightGBM or XGBoost."""
    package = pytest.importorskip(engine, reason=f"needs {engine}, an extra")
    if engine == "lightgbm":
        return package.LGBMClassifier(n_estimators=5, n_jobs=1, verbose=-1)
    return package.XGBClassifier(n_estimators=5, n_jobs=1, enable_categorical=True)


by_engine = pytest.mark.parametrize("engine", ["lightgbm", "xgboost"])


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")  # LightGBM 4.6
@by_engine
def test_boosters_in_skops_files(engine, tmp_path, train, held):
    numbers = train | {"fraud": [int(one == "yes") for one in train["fraud"]]}
    pipeline = fitted(booster(engine), numbers)
    skops_io.dump(pipeline, tmp_path / "m.skops")
    with pytest.raises(UntrustedError, match=type(pipeline[-1]).__name__):
        open_source(tmp_path / "m.skops")
    trusted = skops_io.get_untrusted_types(file=tmp_path / "m.skops")
    source = open_source(tmp_path / "m.skops", trusted=trusted)
    found = read(source, write(tmp_path / "h.csv", held), Wanted("fraud", "yes"))
    expected = pipeline.predict_proba(frame_of(held))[:, 1]
    assert_array_equal(np.argsort(found.scores), np.argsort(expected))


@by_engine
def test_boosters_take_texts_of_a_csv_file_as_categories(engine, tmp_path, train, held):
    learned, new = (frame_of(one).astype({"city": "category"}) for one in (train, held))
    estimator = booster(engine).fit(learned[FEATURES], learned["fraud"] == "yes")
    some = {name: values[:50] for name, values in held.items()}  # perhaps not every city
    path = write(tmp_path / "h.csv", some)
    found = read(EstimatorSource(estimator), path, Wanted("fraud", "yes"))
    expected = estimator.predict_proba(new[FEATURES])[:50, 1]
    assert_array_equal(np.argsort(found.scores), np.argsort(expected))


# --- any estimator, from Python


@pytest.fixture(scope="module")
def three_classes():
    rng = np.random.default_rng(0)
    return rng.normal(size=(90, 2)), rng.choice(["a", "b", "c"], 90)


def test_of_several_classes_one_is_named(three_classes):
    X, y = three_classes
    estimator = LogisticRegression().fit(X, y)
    assert_array_equal(scores_of(estimator, X, "b"), estimator.decision_function(X)[:, 1])
    assert_array_equal(positives_of(estimator, y, "b"), y == "b")
    with pytest.raises(ValueError, match=r"'a'.*'b'.*'c'"):
        scores_of(estimator, X)
    with pytest.raises(ValueError, match="'d'"):
        scores_of(estimator, X, "d")
    with pytest.raises(ValueError, match="y holds 'z'"):
        positives_of(estimator, ["z"], "a")


def test_regressors_and_detectors_have_no_classes(three_classes):
    X, y = three_classes
    regressor = LinearRegression().fit(X, y == "a")
    assert_array_equal(scores_of(regressor, X), regressor.predict(X))
    detector = IsolationForest(n_estimators=5, random_state=0).fit(X)
    assert_array_equal(scores_of(detector, X), detector.decision_function(X))


def test_what_gives_no_scores_is_told(three_classes):
    X, y = three_classes

    class Classes(NearestCentroid):
        predict_proba = decision_function = property()

    with pytest.raises(ValueError, match="scores"):
        scores_of(Classes().fit(X, y), X, "a")
    several = MultiOutputClassifier(LogisticRegression()).fit(X, np.column_stack([y, y]))
    with pytest.raises(ValueError, match="classes"):
        scores_of(several, X)


def test_scores_that_look_wrong_bring_a_caution():
    positive = np.arange(100) < 20
    with pytest.warns(UserWarning, match="2 different"):
        caution_scores(positive, positive.astype(float))
    with pytest.warns(UserWarning, match="100%"):
        caution_scores(positive, np.linspace(0, 0.1, 100) - positive)
    caution_scores(positive, np.random.default_rng(0).normal(size=100))
