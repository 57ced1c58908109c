"""Pipelines with all of scikit-learn's preprocessing come back from files as they were."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn import preprocessing
from sklearn.compose import ColumnTransformer, make_column_selector, make_column_transformer
from sklearn.impute import KNNImputer, MissingIndicator, SimpleImputer
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    QuantileTransformer,
    SplineTransformer,
    StandardScaler,
    TargetEncoder,
)
from sklearn.utils import all_estimators

from toppush import Status, TopPush, TopPushCV, files
from toppush.files import ModelError
from toppush.modelfile import saving
from toppush.tables.scaling import fit_transform

pytestmark = pytest.mark.filterwarnings("ignore::toppush.DegenerateWarning")
FOR_LABELS = {"LabelBinarizer", "LabelEncoder", "MultiLabelBinarizer"}
"""They transform y, and are no steps of a pipeline."""
EVERY_ONE = {
    name: kind
    for name, kind in all_estimators("transformer")
    if kind.__module__.startswith(preprocessing.__name__) and name not in FOR_LABELS
}


def rows(n_rows=80):
    """Numbers, some of them whole, the same with gaps, as a table with texts, and labels."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n_rows, 4))
    X[:, 3] = rng.integers(0, 3, n_rows)
    y = X[:, 0] + rng.normal(size=n_rows) > 0.5
    gaps = X.copy()
    gaps[::7, 1] = np.nan
    table = pd.DataFrame({"a": X[:, 0], "b": gaps[:, 1], "c": X[:, 3].astype(int)})
    table["text"] = rng.choice(["x", "y", "z"], n_rows)
    return X, gaps, table, y


X, GAPS, TABLE, Y = rows()
MORE = {
    "ufunc": (FunctionTransformer(np.log1p, inverse_func=np.expm1), np.abs(X)),
    "mean": (SimpleImputer(add_indicator=True), GAPS),
    "median": (SimpleImputer(strategy="median"), GAPS),
    "constant": (SimpleImputer(strategy="constant", fill_value=-1.0), GAPS),
    "texts": (make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder()), TABLE),
    "neighbours": (KNNImputer(n_neighbors=3), GAPS),
    "union": (make_union(SimpleImputer(), MissingIndicator()), GAPS),
    "by names": (
        ColumnTransformer(
            [
                ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), ["a", "b"]),
                ("texts", OneHotEncoder(handle_unknown="ignore"), ["text"]),
                ("bent", SplineTransformer(n_knots=4), ["c"]),
            ],
        ),
        TABLE,
    ),
    "rest": (ColumnTransformer([("codes", OneHotEncoder(), [3])], remainder="passthrough"), X),
    "selector": (
        make_column_transformer(
            (KNNImputer(), make_column_selector(dtype_include=float)), (OneHotEncoder(), ["text"])
        ),
        TABLE,
    ),
    "rare": (
        OneHotEncoder(min_frequency=10, drop="first", handle_unknown="infrequent_if_exist"),
        X.round(),
    ),
    "codes": (
        OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
        TABLE[["c", "text"]],
    ),
    "targets": (TargetEncoder(smooth=2.0), TABLE[["c", "text"]]),
    "bins": (
        KBinsDiscretizer(3, encode="onehot-dense", strategy="uniform"),
        X,
    ),
    "box-cox": (PowerTransformer("box-cox"), np.abs(X) + 0.1),
    "normal": (
        QuantileTransformer(
            n_quantiles=20, output_distribution="normal", random_state=np.random.RandomState(1)
        ),
        X,
    ),
    "periodic": (SplineTransformer(extrapolation="periodic"), X),
    "bent twice": (make_pipeline(SplineTransformer(), StandardScaler(with_mean=False)), X),
    "kernel": (Nystroem(n_components=9, random_state=np.random.RandomState(2)), X),
}
CASES = {name: (kind(), X) for name, kind in EVERY_ONE.items()} | MORE
CASES["KernelCenterer"] = EVERY_ONE["KernelCenterer"](), X @ X.T
CASES["KBinsDiscretizer"] = (
    KBinsDiscretizer(strategy="uniform"),
    X,
)
CASES["QuantileTransformer"] = QuantileTransformer(n_quantiles=20), X


@pytest.mark.parametrize("step, rows", CASES.values(), ids=CASES)
def test_every_preparation_comes_back_the_same(step, rows, tmp_path):
    before = make_pipeline(step, TopPush(0.1, top=0.5)).fit(rows, Y)
    files.save(before, tmp_path / "m")
    after = files.load(tmp_path / "m")
    np.testing.assert_array_equal(
        after.pipeline.decision_function(rows), before.decision_function(rows)
    )
    np.testing.assert_array_equal(
        after.decision_function(rows), saving.as_model(before).decision_function(rows)
    )
    assert np.ptp(after.decision_function(rows)) > 0.0


def test_all_preprocessing_is_among_the_cases():
    assert {"OneHotEncoder", "SplineTransformer", "TargetEncoder"} <= set(EVERY_ONE) <= set(CASES)
    assert len(EVERY_ONE) >= 15


def test_what_was_saved_is_left_as_it_was(tmp_path):
    generator = np.random.RandomState(3)
    pipeline = make_pipeline(
        SplineTransformer(),
        QuantileTransformer(n_quantiles=20, random_state=generator),
        TopPush(0.1, top=0.5),
    ).fit(X, Y)
    scores = pipeline.decision_function(X)
    files.save(pipeline, tmp_path / "m")
    assert pipeline[1].random_state is generator
    assert pipeline[-1].solution_.dual.size == len(Y)
    np.testing.assert_array_equal(pipeline.decision_function(X), scores)
    again = files.load(tmp_path / "m").pipeline
    assert again[1].random_state is None


def test_forged_splines_are_refused(tmp_path):
    from test_files_archive import array_bytes
    from test_files_models import archive_of, forged

    pipeline = make_pipeline(SplineTransformer(), TopPush(0.1, top=0.5)).fit(X, Y)
    parts = archive_of(saving.as_model(pipeline))
    knots = [name for name, part in parts.items() if name.endswith(".npy") and b"(11,)" in part]
    assert knots
    for bad in (np.full(11, np.nan), np.arange(11.0)[::-1], np.ones(3), np.ones((2, 2))):
        with pytest.raises(ModelError, match="model"):
            saving.from_bytes(forged(parts | {knots[0]: array_bytes(bad)}))


def test_skops_alone_opens_a_fitted_ranker(tmp_path):
    for ranker in (TopPush(0.1, top=0.5), TopPushCV(lams=[0.1], tops=(0.5,))):
        skops.io.dump(ranker.fit(X, Y), tmp_path / "r.skops")
        named = skops.io.get_untrusted_types(file=tmp_path / "r.skops")
        again = skops.io.load(tmp_path / "r.skops", trusted=named)
        assert again.solution_.status is Status.CONVERGED
        assert again.solution_.history == ranker.solution_.history
        np.testing.assert_array_equal(again.decision_function(X), ranker.decision_function(X))


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_sizes_found_without_a_copy_are_those_of_scikit_learn(kind):
    rng = np.random.default_rng(0)
    rows = (rng.normal(size=(50, 4)) * [1.0, 0.0, 1e-3, 1e6]).astype(kind)
    ours, theirs = MaxAbsScaler(), MaxAbsScaler()
    found = fit_transform(ours, rows)
    np.testing.assert_array_equal(found, theirs.fit_transform(rows))
    assert found.dtype == kind
    assert vars(ours).keys() == vars(theirs).keys()
    assert ours.n_samples_seen_ == theirs.n_samples_seen_
    for name in ("scale_", "max_abs_"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))


def test_sizes_of_rows_with_gaps_are_scikit_learns():
    rows = np.array([[1.0, np.nan], [-4.0, 2.0]])
    np.testing.assert_array_equal(fit_transform(MaxAbsScaler(), rows), [[0.25, np.nan], [-1, 1]])


@pytest.mark.long
def test_skops_trusts_as_much_as_without_us_and_torch_stays_unloaded():
    code = (
        "import sys; from toppush.modelfile.trust import FAR_ARRAYS, skops_io; skops_io()\n"
        "from skops.io._trusted_types import SKLEARN_ESTIMATOR_TYPE_NAMES as names\n"
        "assert not set(FAR_ARRAYS) & set(sys.modules), 'as if never hidden'\n"
        "print(len(set(names)), 'torch' in sys.modules)"
    )
    without = (
        "from skops.io._trusted_types import SKLEARN_ESTIMATOR_TYPE_NAMES as names\n"
        "print(len(set(names)))"
    )
    with_us, alone = (
        subprocess.run([sys.executable, "-c", one], check=True, capture_output=True, text=True)
        for one in (code, without)
    )
    assert with_us.stdout.split() == [*alone.stdout.split(), "False"]


def test_a_scaled_pipeline_is_still_folded(tmp_path):
    files.save(make_pipeline(MaxAbsScaler(), TopPush(0.1, top=0.5)).fit(X, Y), tmp_path / "m")
    assert files.load(tmp_path / "m").linear is not None
