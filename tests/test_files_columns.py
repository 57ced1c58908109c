"""Columns against slow, obvious code; dense and sparse; folded weights against the pipeline."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, RobustScaler, StandardScaler

from files import made_rows
from toppush import TopPush
from toppush.files import Columns, DataError, Model
from toppush.modeltypes.linear_score import fold
from toppush.tables import columns as columns_module
from toppush.tables.column_types import Counts

pytestmark = pytest.mark.filterwarnings("ignore::toppush.DegenerateWarning")

numbers = st.one_of(st.none(), st.floats(-1e6, 1e6), st.just(float("nan")))
texts = st.one_of(st.none(), st.sampled_from(["", "a", "b", "ab", "é", "a\x00"]))
flags = st.one_of(st.none(), st.booleans())
rows = st.lists(st.tuples(numbers, texts, flags), min_size=1, max_size=12)


def gone(value):
    return value is None or value == "" or value != value


def reference(train, test, form="filled"):
    """Outputs of columns, cell by cell, and how many gaps and unknown texts there are."""
    outputs, missing, unseen = [], {}, {}
    for name, column in train.items():
        known = [value for value in column if not gone(value)]
        if not known or (len(set(known)) == 1 and len(known) == len(column)):
            continue
        text = isinstance(known[0], str)
        kinds = sorted(set(known)) if text else None
        for value in test[name]:
            missing[name] = missing.get(name, 0) + gone(value)
            unseen[name] = unseen.get(name, 0) + (text and not gone(value) and value not in kinds)
        if text and form == "codes":
            known_at = {kind: float(place) for place, kind in enumerate(kinds)}
            places = [np.nan if gone(v) else known_at.get(v, len(kinds)) for v in test[name]]
            outputs.append(places)
        elif text:
            outputs += [[float(value == kind) for value in test[name]] for kind in kinds]
        else:
            fill = np.median([float(value) for value in known]) if form == "filled" else np.nan
            outputs.append([fill if gone(value) else float(value) for value in test[name]])
        if len(known) < len(column) and (form == "filled" or (form == "nan" and text)):
            outputs.append([float(gone(value)) for value in test[name]])
    return np.transpose(outputs), missing, unseen


def as_arrow(found):
    kinds = {"x": pa.float64(), "t": pa.string(), "f": pa.bool_()}
    return pa.table({name: pa.array(found[name], kinds[name]) for name in found})


@pytest.mark.parametrize(
    "share, form",
    [(0.0, "filled"), (10.0, "filled"), (10.0, "nan"), (10.0, "codes")],
    ids=["dense", "sparse", "nan", "codes"],
)
@given(train=rows, test=rows)
def test_columns_are_as_the_reference(share, form, train, test):
    train, test = (dict(zip("xtf", zip(*part, strict=True), strict=True)) for part in (train, test))
    if all(gone(value) for value in train["x"]) and not all(v is None for v in train["x"]):
        return  # NaN and nothing else is refused
    if all(gone(value) for value in train["t"]) and not all(v is None for v in train["t"]):
        return
    if all(len(set(column)) == 1 for column in train.values()):
        with pytest.raises(DataError, match="no column is left"):
            Columns(form=form).fit(as_arrow(train))
        return
    expected, missing, unseen = reference(train, test, form)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns_module, "DENSE_SHARE", share)
        patch.setattr(columns_module, "BLOCK_BYTES", 8)
        found = Columns(form=form).fit(as_arrow(train))
        out = found.transform(as_arrow(test))
    assert found.sparse_ == (share > 0.0 and form == "filled")
    dense = out.toarray() if found.sparse_ else out
    np.testing.assert_array_equal(dense, expected)
    assert len(found.get_feature_names_out()) == expected.shape[1]
    counts = Counts()
    found.read(as_arrow(test).combine_chunks().to_batches()[0], counts)
    assert dict(counts.missing) == {name: n for name, n in missing.items() if n}
    assert dict(counts.unseen) == {name: n for name, n in unseen.items() if n}


@pytest.mark.parametrize(
    "scaler", [MaxAbsScaler(), StandardScaler(), StandardScaler(with_mean=False), None]
)
@given(seed=st.integers(0, 1000))
def test_folded_score_is_the_pipelines(scaler, seed):
    table = made_rows(80, seed=seed)
    y = np.array(table.pop("fraud")) == "yes"
    del table["id"]
    steps = [Columns(), *([clone(scaler)] if scaler else []), TopPush(0.1, top=0.1)]
    pipeline = make_pipeline(*steps)
    pipeline.fit(pa.table(table), y)
    new = made_rows(40, seed=seed + 1)
    new["city"][0] = "Atlantis"
    batch = pa.table(new).to_batches()[0]
    expected = pipeline.decision_function(batch)
    np.testing.assert_allclose(Model(pipeline).decision_function(batch), expected, atol=1e-9)


def test_a_scaler_that_is_not_known_is_not_folded(rng):
    X, y = rng.normal(size=(50, 3)), np.arange(50) % 2
    pipeline = make_pipeline(RobustScaler(), TopPush(top=0.5)).fit(X, y)
    assert fold(pipeline.steps) is None
    expected = pipeline.decision_function(X)
    np.testing.assert_array_equal(Model(pipeline).decision_function(X), expected)


def test_data_frames_are_tables():
    table = made_rows(50)
    del table["id"]
    expected = Columns().fit_transform(pa.table(table))
    for frame in (pd.DataFrame(table, index=np.arange(50) * 2), pl.DataFrame(table)):
        np.testing.assert_array_equal(Columns().fit_transform(frame), expected)
    with pytest.raises(TypeError, match="expected"):
        Columns().fit(np.ones((3, 2)))


def test_types_that_hold_numbers_or_texts():
    table = pa.table(
        {
            "small": pa.array([1, None, 3], pa.int8()),
            "half": pa.array([1.5, 2.5, 3.5], pa.float32()),
            "price": pa.array([1, 2, 3]).cast(pa.decimal128(30, 2)),
            "kind": pa.array(["a", "b", "a"]).dictionary_encode(),
            "code": pa.array([5, 6, 5]).dictionary_encode(),
            "view": pa.array(["u", "v", None], pa.string_view()),
        }
    )
    out = Columns().fit_transform(table)
    names = ["small", "small is missing", "half", "price", "kind=a", "kind=b", "code"]
    names += ["view=u", "view=v", "view is missing"]
    assert Columns().fit(table).get_feature_names_out().tolist() == names
    expected = [[1, 0, 1.5, 1, 1, 0, 5, 1, 0, 0], [2, 1, 2.5, 2, 0, 1, 6, 0, 1, 0],
                [3, 0, 3.5, 3, 1, 0, 5, 0, 0, 1]]  # fmt: skip
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize(
    "column, said",
    [
        (pa.array([1, 2], pa.time32("s")), "dates"),
        (pa.array([1, 2], pa.duration("s")), "dates"),
        (pa.array([[1], [2]]), "neither"),
        (pa.array([b"x", b"y"]), "not UTF-8"),
        (pa.array([float("nan")] * 2), "number"),
    ],
)
def test_types_that_hold_neither(column, said):
    with pytest.raises(ValueError, match=said):
        Columns().fit(pa.table({"a": [1, 2], "b": column}))


@pytest.mark.parametrize(
    "column, said",
    [
        (["1,234", "2", None, "3"], "'1,234'.*--categorical"),
        (["1", "2", "3", "4", "5", "6", "7", "8", "9", "x"], "'x'"),
    ],
)
def test_numbers_among_texts_are_refused_with_a_way_out(column, said):
    table = pa.table({"code": column})
    with pytest.raises(DataError, match=said):
        Columns().fit(table)
    kept = Columns(categorical=("code",)).fit_transform(table)
    assert kept.shape[0] == len(column)


@pytest.mark.parametrize("text", ["2\x0b", " 2", "1_000"])
def test_what_only_looks_like_a_number_is_a_text(text):
    found = Columns().fit(pa.table({"code": [text, "a"]}))
    assert found.columns_[0].categories == sorted([text, "a"])
