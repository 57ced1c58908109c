"""Every model type from a file: its options, refusals, descriptions and exports."""

import builtins
import json
import re
import subprocess
import sys
from copy import copy

import numpy as np
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import dump_svmlight_file
from sklearn.pipeline import Pipeline

from files import DROP, ENGINES, EVERY_KIND, QUICK, made_rows, odd_rows, quick_fit, write
from toppush import files
from toppush.files import DataError, ModelError
from toppush.files.compare import compare
from toppush.files.fitting import read_training_file
from toppush.modelfile import saving
from toppush.modelfile.saving import export_onnx
from toppush.modeltypes import MODEL_TYPES, OptionError, model_type_named, model_type_of
from toppush.modeltypes.base import ModelType
from toppush.modeltypes.trees import ensembles
from toppush.system.extras import EXTRAS
from toppush.tables.column_types import Counts
from toppush.tables.columns import FORMS
from toppush.tables.scaling import SCALES

pytestmark = pytest.mark.filterwarnings("ignore::toppush.DegenerateWarning")
every_kind = pytest.mark.parametrize("kind", EVERY_KIND)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kinds")
    write(folder / "train.csv", made_rows(300))
    write(folder / "new.csv", odd_rows())
    return folder


@pytest.fixture(scope="module")
def models(folder):
    """Models by kind, each fitted when it is first asked for."""
    made = {}

    def find(kind):
        if kind not in made:
            made[kind] = quick_fit(kind, folder / "train.csv", label="fraud", drop=DROP)
        return made[kind]

    return find


def batch():
    return pa.table(odd_rows()).to_batches()[0]


# ---- the registry


def test_kinds_say_what_they_are():
    assert set(MODEL_TYPES) == set(QUICK)
    for name, kind in MODEL_TYPES.items():
        assert kind.name == name
        assert kind.form in FORMS
        assert kind.scale is None or kind.scale in SCALES
        made = kind.new_ranker()
        assert model_type_of(made) is kind
        assert kind.engine is None or kind.engine == ENGINES[name]
    assert model_type_of(builtins) is None


OPTIONS = {
    "lam": 0.1, "top": 0.1, "loss": "pairwise", "scale": "none", "cv": 3,
    "members": 2, "threads": 1,
}  # fmt: skip


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("kind", MODEL_TYPES)
def test_options_are_taken_or_refused_with_those_that_are(kind, option, folder):
    if kind in ENGINES:
        pytest.importorskip(ENGINES[kind])
    one = model_type_named(kind)
    given = {option: next(iter(one.losses), "any") if option == "loss" else OPTIONS[option]}
    if (kind, option) == ("auto", "members"):
        given = {option: ("logistic", "trees")}
    if option in one.takes:
        assert one.options(**given) == given
        return
    known = ", ".join(f"--{name}" for name in one.takes)
    with pytest.raises(OptionError, match=f"--{option} is not for --model {kind}, .* {known}"):
        files.fit(folder / "train.csv", label="fraud", model=kind, **given)


@pytest.mark.parametrize(
    "kind, options, said",
    [
        ("linear", {"loss": "pairwise"}, "--model linear takes truncated_quadratic"),
        ("trees", {"loss": "logistic"}, "--model trees.*pairwise"),
        ("net", {"loss": "binary"}, "--model net.*pairwise.*cross_entropy"),
        ("tree", {}, r"'trees'\?"),
    ],
)
def test_values_that_a_kind_does_not_know(kind, options, said, folder):
    if kind in ENGINES:
        pytest.importorskip(ENGINES[kind])
    with pytest.raises(OptionError, match=said):
        files.fit(folder / "train.csv", label="fraud", model=kind, **options)


class FirstColumn(ClassifierMixin, BaseEstimator):
    """A ranker of somebody else's: by one column, the highest first."""

    def __init__(self, column=0, verbose=0):
        self.column, self.verbose = column, verbose

    def fit(self, X, y):
        self.classes_, self.n_features_in_ = np.unique(y), X.shape[1]
        return self

    def decision_function(self, X):
        return np.nan_to_num(X[:, self.column])


class ByColumn(ModelType):
    name, form, scale, takes = "column", "nan", None, ("top",)
    ranker_class = f"{__name__}.FirstColumn"

    def ranker(self, options, rows, seed):
        return self.new_ranker(column=options.get("top", 0))

    def settings(self, ranker, options):
        return {"column": ranker.column}

    def describe(self, settings):
        return f"By column {settings['column']}."


def test_a_kind_of_ones_own_goes_all_the_way(folder, tmp_path, monkeypatch):
    monkeypatch.setitem(MODEL_TYPES, "column", ByColumn())
    model = files.fit(folder / "train.csv", label="fraud", drop=DROP, model="column", top=1)
    files.save(model, tmp_path / "m")
    again = files.load(tmp_path / "m")
    np.testing.assert_array_equal(
        again.decision_function(batch()), pa.table(odd_rows())["income"].fill_null(0.0)
    )
    assert model.model_type.describe(model.about["fit"]) == "By column 1."
    with pytest.raises(ModelError, match=r"ONNX.*--model"):
        export_onnx(again, tmp_path / "m.onnx")
    training = read_training_file(folder / "train.csv", label="fraud", drop=DROP)
    assert set(compare(training, methods=["TopPush column"], cv=2).values) == {"TopPush column"}
    monkeypatch.delitem(MODEL_TYPES, "column")
    with pytest.raises(ModelError, match="FirstColumn"):
        files.load(tmp_path / "m")


# ---- rows in, scores out


@every_kind
def test_a_batch_is_scored_as_the_pipeline_does_it(kind, models):
    model, counts = models(kind), Counts()
    expected = model.pipeline.decision_function(pa.table(odd_rows()))
    np.testing.assert_allclose(model.decision_function(batch(), counts), expected, atol=1e-9)
    assert counts.unseen == {"city": 1}
    assert counts.missing["member"] == counts.missing["income"] == 1


@every_kind
def test_files_are_scored_in_the_same_order_as_rows(kind, models, folder):
    model = models(kind)
    ranked = files.rank(model, folder / "new.csv")
    scores = model.decision_function(batch())
    np.testing.assert_allclose(ranked["score"], np.sort(scores)[::-1], atol=1e-12)
    np.testing.assert_array_equal(ranked["row"], np.argsort(-scores, kind="stable") + 1)


@every_kind
def test_matrices_dense_and_sparse(kind, tmp_path, rng):
    X = rng.normal(size=(160, 4)) * (rng.random((160, 4)) < 0.5)
    y = X[:, 0] + X[:, 1] + rng.normal(size=160) * 0.5 > 0.5
    np.save(tmp_path / "rows.npy", np.column_stack([X, y]))
    dump_svmlight_file(X, y.astype(int), str(tmp_path / "rows.svm"), zero_based=False)
    scores = []
    for name in ("rows.npy", "rows.svm"):
        model = quick_fit(kind, tmp_path / name)
        files.save(model, tmp_path / "m")
        positive, found = files.labelled(files.load(tmp_path / "m"), tmp_path / name)
        np.testing.assert_array_equal(positive, y)
        np.testing.assert_array_equal(found, files.labelled(model, tmp_path / name)[1])
        scores.append(found)
        if name.endswith("svm"):
            rows = sparse.csr_array(X)
            np.testing.assert_allclose(model.decision_function(rows), found, atol=1e-9)
    dense, thin = scores
    assert np.corrcoef(np.argsort(np.argsort(dense)), np.argsort(np.argsort(thin)))[0, 1] > 0.9


def test_trees_are_handed_sparse_rows_as_they_are(tmp_path, rng, monkeypatch):
    from toppush.models.trees import TopPushTrees

    pytest.importorskip("lightgbm")
    seen = []
    fit = TopPushTrees.fit
    monkeypatch.setattr(TopPushTrees, "fit", lambda self, X, y: seen.append(X) or fit(self, X, y))
    X = sparse.random_array((100, 50), density=0.05, rng=rng, format="csr")
    dump_svmlight_file(X, np.arange(100) % 2, str(tmp_path / "rows.svm"), zero_based=True)
    quick_fit("trees", tmp_path / "rows.svm")
    assert seen[0].nnz == X.nnz


def test_trees_that_know_some_of_the_columns_keep_their_numbers(tmp_path, rng):
    """Columns of sparse rows with few entries are not in the texts; all tools count them."""
    nonlinear = pytest.importorskip("toppush.models.trees")
    pytest.importorskip("lightgbm")
    X = rng.normal(size=(200, 4)) * (rng.random((200, 4)) < 0.5)
    y = X[:, 0] + X[:, 2] > 0.3
    wide = sparse.csr_array(np.hstack([np.zeros((200, 3)), X, np.zeros((200, 5))]))
    ranker = nonlinear.TopPushTrees(n_members=2, max_rounds=5).fit(wide, y)
    files.save(ranker, tmp_path / "m")
    model = files.load(tmp_path / "m")
    scores = ranker.decision_function(wide)
    np.testing.assert_array_equal(model.decision_function(wide), scores)
    trees = [tree for one in ensembles(model.ranker) for tree in one.trees]
    used = {feature for tree in trees for feature in tree.feature}
    assert used <= {3, 4, 5, 6}
    onnxruntime = pytest.importorskip("onnxruntime")
    export_onnx(model, tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    (found, _) = session.run(None, {"X": wide.toarray()})
    np.testing.assert_allclose(found.ravel(), scores, atol=1e-5)


@every_kind
def test_columns_without_a_value_are_left_out(kind, tmp_path):
    rows = made_rows(150) | {"nothing": [None] * 150, "same": [3.0] * 150}
    model = quick_fit(kind, write(tmp_path / "t.parquet", rows), label="fraud", drop=DROP)
    assert model.about["columns"]["empty"] == ["nothing"]
    assert model.about["columns"]["constant"] == ["same"]
    new = write(tmp_path / "n.csv", odd_rows())
    assert len(files.rank(model, new)) == 200


@every_kind
def test_what_cannot_be_scored_is_told(kind, models, tmp_path):
    model = models(kind)
    rows = made_rows(20)
    del rows["age"]
    with pytest.raises(DataError, match="column 'age'"):
        files.rank(model, write(tmp_path / "a.csv", rows))
    infinite = made_rows(20) | {"income": [1.0] * 19 + [np.inf]}
    with pytest.raises(DataError, match=r"row 20.*column income.*infinite"):
        files.rank(model, write(tmp_path / "b.parquet", infinite))
    texts = made_rows(20) | {"age": ["old"] * 20}
    with pytest.raises(DataError, match="age"):
        files.rank(model, write(tmp_path / "c.parquet", texts))


@every_kind
def test_what_cannot_be_fitted_is_told(kind, tmp_path):
    rows = made_rows(60) | {"fraud": ["no"] * 60}
    with pytest.raises(DataError, match="'no'"):
        quick_fit(kind, write(tmp_path / "a.csv", rows), label="fraud", drop=DROP)
    rows = write(tmp_path / "b.csv", made_rows(60))
    with pytest.raises(ValueError, match="top"):
        quick_fit(kind, rows, label="fraud", drop=DROP, top=1000)
    with pytest.raises(DataError, match="missing='error'"):
        quick_fit(kind, rows, label="fraud", drop=DROP, missing="error")


@every_kind
def test_a_seed_repeats_a_fit(kind, models, folder):
    again = quick_fit(kind, folder / "train.csv", label="fraud", drop=DROP)
    np.testing.assert_array_equal(
        again.decision_function(batch()), models(kind).decision_function(batch())
    )


# ---- engines


SCORES = """
import sys

class NotInstalled:
    def find_spec(self, name, *more):
        if name.split(".")[0] == sys.argv[3]:
            raise ModuleNotFoundError(f"No module named {name}", name=name)

sys.meta_path.insert(0, NotInstalled())
from toppush import files
from toppush.system.reading import DataError
try:
    model = files.load(sys.argv[1])
    print(repr(files.rank(model, sys.argv[2], limit=3)["score"].to_pylist()))
except ImportError as error:
    print(error)
"""


@pytest.mark.long
@pytest.mark.parametrize(
    "kind", ["trees", pytest.param("net", marks=pytest.mark.long)], ids=["trees", "net"]
)
def test_scoring_without_the_engine(kind, models, folder, tmp_path):
    """Trees need LightGBM, and say so; networks are scored by NumPy."""
    model = models(kind)
    files.save(model, tmp_path / "m")
    ran = subprocess.run(
        [sys.executable, "-c", SCORES, tmp_path / "m", folder / "new.csv", ENGINES[kind]],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    if kind == "trees":
        assert "pip install 'toppush[trees]'" in ran.stdout
    else:
        best = files.rank(model, folder / "new.csv", limit=3)["score"].to_pylist()
        assert json.loads(ran.stdout) == best


@pytest.mark.parametrize("kind", ENGINES)
def test_fitting_without_the_engine_is_refused_before_any_work(kind, monkeypatch):
    from toppush.modeltypes import base

    monkeypatch.setattr(base, "find_spec", lambda name: None)
    extra = EXTRAS[MODEL_TYPES[kind].engine]
    with pytest.raises(ImportError, match=rf"pip install 'toppush\[{extra}\]'"):
        files.fit("nowhere.csv", model=kind)


@pytest.mark.parametrize("kind", ["additive", "trees"])
def test_categories_of_a_matrix_are_not_exported(kind, tmp_path, rng):
    X = rng.integers(0, 4, (800, 2)).astype(float)
    y = (X[:, 0] % 2 == 0) & (rng.random(800) < 0.9)
    ranker = model_type_named(kind).new_ranker(categorical_features=[0]).fit(X, y)
    with pytest.raises(ModelError, match="categories"):
        export_onnx(saving.as_model(ranker), tmp_path / "m.onnx")


# ---- forged trees


def forged_texts(ranker, *texts):
    """A ranker that was fitted, with other texts in it."""
    found = copy(ranker)
    found.texts_ = list(texts)
    return found


@pytest.mark.parametrize(
    "change, said",
    [
        (lambda text: text[: len(text) // 2], "LightGBM"),
        (lambda text: text.replace("left_child=", "left_child"), "'left_child'"),
        (lambda text: text.replace("max_feature_idx=3", "max_feature_idx=2"), "feature_names"),
        (lambda text: "", "'tree'"),
        (lambda text: "tree\nversion=v4\n" * 3, "is to come"),
    ],
)
def test_texts_that_lightgbm_would_crash_on_are_refused(change, said, models):
    *steps, (_, ranker) = models("trees").pipeline.steps
    forged = forged_texts(ranker, change(ranker.texts_[0]))
    pipeline = Pipeline([*steps, ("ranker", forged)])
    with pytest.raises(ModelError, match=said):
        saving.to_bytes(files.Model(pipeline))


def with_first(text, key, value):
    """A text with the first number of a line of its first tree changed, and the tree's size."""
    (old,) = re.search(rf"\n{key}=(\S+)", text).groups()
    (size,) = re.search(r"tree_sizes=(\d+)", text).groups()
    size_now = int(size) + len(value) - len(old)
    text = text.replace(f"\n{key}={old}", f"\n{key}={value}", 1)
    return text.replace(f"tree_sizes={size}", f"tree_sizes={size_now}", 1)


@pytest.mark.parametrize(
    "key, value, said",
    [
        ("left_child", "0", "tree"),
        ("right_child", "0", "tree"),
        ("left_child", "-99", "from -"),
        ("split_feature", "99", "beyond 4"),
        ("num_leaves", "1000000000", "131072"),
    ],
    ids=["cycle", "cycle on the right", "no such leaf", "no such column", "huge"],
)
def test_boosted_trees_with_forged_nodes_are_refused(key, value, said, models):
    *steps, (_, ranker) = models("trees").pipeline.steps
    text = with_first(ranker.texts_[0], key, value)
    pipeline = Pipeline([*steps, ("ranker", forged_texts(ranker, text, *ranker.texts_[1:]))])
    with pytest.raises(ModelError, match=f"LightGBM.*{said}"):
        saving.to_bytes(files.Model(pipeline))


@pytest.fixture(scope="module")
def forest():
    from toppush import TopRanker

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 3)), rng.random(200) < 0.3
    return TopRanker(["forest"], effort="quick").fit(X, y)


def changed_at(name, place, value):
    def change(forest):
        array = getattr(forest, name).copy()
        split = np.flatnonzero(forest.feature_[: forest.starts_[1]] >= 0)
        array[split[0] if place == "split" else place] = value
        setattr(forest, name, array)

    return change


@pytest.mark.parametrize(
    "change, said",
    [
        (changed_at("right_", "split", 0), "no tree"),
        (changed_at("right_", "split", 1), "no tree"),
        (changed_at("right_", "split", 1 << 30), "no tree"),
        (changed_at("right_", "split", -5), "no tree"),
        (changed_at("feature_", "split", 3), "no tree"),
        (changed_at("feature_", "split", 1 << 30), "no tree"),
        (changed_at("starts_", -1, 1 << 40), "shape"),
        (changed_at("starts_", 1, 1 << 40), "follow"),
        (changed_at("starts_", 1, 0), "follow"),
        (changed_at("starts_", 0, 5), "follow"),
        (lambda forest: vars(forest).update(starts_=np.array([0])), "follow"),
        (lambda forest: vars(forest).update(value_=forest.value_[:-1]), "shape"),
        (lambda forest: vars(forest).update(feature_=forest.feature_[:, None]), "shape"),
    ],
)
def test_forests_with_forged_nodes_are_refused(change, said, forest):
    """Circles among the children, columns and children that are not there, huge counts."""
    member = copy(forest.members_["forest"])
    change(member)
    ranker = copy(forest)
    ranker.members_ = {"forest": member}
    with pytest.raises(ModelError, match=said) as refused:
        saving.to_bytes(saving.as_model(ranker))
    assert str(refused.value).endswith(".")


def test_trees_of_other_columns_are_refused(models, rng):
    X, y = rng.normal(size=(60, 2)), np.arange(60) % 2
    other = model_type_named("trees").new_ranker(n_members=1, max_rounds=2).fit(X, y)
    forged = forged_texts(models("trees").ranker, *other.texts_)
    with pytest.raises(ModelError, match="4 columns"):
        saving.to_bytes(saving.as_model(forged))


def test_curves_that_would_never_end_are_refused(models):
    model = models("additive")
    ranker = copy(model.ranker)
    ranker.levels_ = np.full(4, 1 << 30)
    pipeline = Pipeline([*model.pipeline.steps[:-1], ("ranker", ranker)])
    with pytest.raises(ModelError, match="weights"):
        saving.to_bytes(files.Model(pipeline))
    ranker.levels_ = model.ranker.levels_[:2]
    with pytest.raises(ModelError, match="4 columns"):
        saving.to_bytes(files.Model(pipeline))
