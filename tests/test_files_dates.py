"""Dates: their parts, and columns of dates in tables."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from files import quick_fit, write
from toppush import files
from toppush.files import Columns, DataError, ModelError
from toppush.files.fit_partitions import ReadingOptions, merged_columns, summarise
from toppush.metrics import average_precision
from toppush.modelfile import saving
from toppush.tables.dates import date_parts

MOMENTS = st.datetimes(datetime(1700, 1, 1), datetime(2250, 1, 1))


@given(st.lists(st.one_of(st.none(), MOMENTS), min_size=1), st.sampled_from(["us", "ns"]))
def test_parts_are_those_of_the_standard_library(moments, unit):
    names, parts = date_parts(np.array(moments, f"datetime64[{unit}]"))
    known = [one for one in moments if one is not None]
    assert ("hour" in names) == any(one.time() != datetime.min.time() for one in known)
    for one, row in zip(moments, parts, strict=True):
        found = dict(zip(names, row.tolist(), strict=True))
        if one is None:
            assert np.isnan(row).all()
            continue
        since = (one.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(days=1)
        assert found["days"] == pytest.approx(since, abs=1e-9)
        assert (found["month"], found["day"]) == (one.month, one.day)
        assert found["weekday"] == one.weekday()
        if "hour" in found:
            at = (one - one.replace(hour=0, minute=0, second=0, microsecond=0)) / timedelta(hours=1)
            assert found["hour"] == pytest.approx(at, abs=1e-9)


@pytest.mark.parametrize("unit", ["Y", "M", "W", "D"])
def test_coarse_units_are_first_days(unit):
    values = np.array(["1969-05-07", "2024-02-29", "NaT"], "datetime64[D]").astype(f"M8[{unit}]")
    names, parts = date_parts(values)
    assert "hour" not in names
    np.testing.assert_array_equal(parts, date_parts(values.astype("datetime64[s]"))[1])


def test_the_hour_is_there_if_it_is_asked_for():
    values = np.array(["2024-02-29", "NaT"], "datetime64[D]")
    names, parts = date_parts(values, hour=True)
    assert names[-1] == "hour"
    np.testing.assert_array_equal(parts[:, -1], [0.0, np.nan])


# ---- columns of tables

KEPT = ["days", "month", "day", "weekday", "hour"]
MANY = 300


def moments(n_rows=MANY, seed=0):
    """Moments of two years; every tenth is missing."""
    rng = np.random.default_rng(seed)
    since = rng.integers(0, 2 * 365 * 24 * 60, n_rows)
    found = [datetime(2023, 1, 1) + timedelta(minutes=int(one)) for one in since]
    return [None if place % 10 == 3 else one for place, one in enumerate(found)]


def dated_rows(n_rows=MANY, seed=0, *, gaps=True):
    """Rows whose label hangs on the weekday and on a number."""
    rng = np.random.default_rng(seed)
    when = moments(n_rows, seed) if gaps else [one or datetime(2023, 5, 5) for one in moments()]
    late = np.array([one is not None and one.weekday() >= 5 for one in when])
    amount = rng.normal(size=n_rows)
    label = (2.0 * late + amount + rng.normal(0, 0.5, n_rows) > 1.5).astype(int)
    return {"when": when, "amount": amount.tolist(), "label": label.tolist()}


def expected_parts(when):
    return date_parts(np.array(when, "datetime64[us]"), hour=True)[1]


@pytest.mark.parametrize("form", ["nan", "codes"])
def test_a_date_is_its_parts(form):
    when = moments()
    columns = Columns(form=form)
    found = columns.fit_transform(pa.table({"when": when}))
    assert columns.get_feature_names_out().tolist() == [f"when ({part})" for part in KEPT]
    np.testing.assert_array_equal(found, expected_parts(when))
    assert columns.filled_ == {"when": sum(one is None for one in when)}
    assert columns.feature_sources() == [0] * 5
    assert columns.coded == []


def test_gaps_of_dates_are_filled_and_marked_once():
    when = moments()
    columns = Columns()
    found = columns.fit_transform(pa.table({"when": when}))
    parts, gaps = expected_parts(when), np.array([one is None for one in when])
    assert columns.get_feature_names_out().tolist()[:2] == ["when (days)", "when (days) is missing"]
    np.testing.assert_array_equal(found[:, 1], gaps)
    filled = np.where(gaps[:, None], np.nanmedian(parts, axis=0), parts)
    np.testing.assert_array_equal(np.delete(found, 1, axis=1), filled)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([0, 1, None, 40], pa.date32()),
        pa.array([0, 86_400_000, None, 40 * 86_400_000], pa.date64()),
        pa.array([0, 86_400, None, 40 * 86_400], pa.timestamp("s", "Europe/Paris")),
        pa.array(["1970-01-01", "1970-01-02", "", "1970-02-10"]),
        pa.array(["1970-01-01T01:00+01:00", "1970-01-02T00:00Z", None, "1970-02-10T00:00Z"]),
        pa.array(["1970-01-01", "1970-01-02", None, "1970-02-10 00:00:00"]).dictionary_encode(),
    ],
    ids=str,
)
def test_dates_of_all_types_are_the_same_numbers_in_utc(column):
    columns = Columns(form="codes").fit(pa.table({"when": column}))
    assert [one.part for one in columns.columns_] == ["days", "month", "day", "weekday"]
    expected = date_parts(np.array([0, 1, "NaT", 40], "datetime64[D]"))[1]
    np.testing.assert_array_equal(columns.transform(pa.table({"when": column})), expected)


def test_parts_that_never_change_are_left_out():
    table = pa.table({"when": pa.array([0, 7, 14], pa.date32()), "x": [1, 2, 3]})
    columns = Columns(form="codes").fit(table)
    assert columns.get_feature_names_out().tolist() == ["when (days)", "when (day)", "x"]
    assert columns.constant_ == []
    same = pa.table({"when": pa.array([7, 7, 7], pa.date32()), "x": [1, 2, 3]})
    assert Columns().fit(same).constant_ == ["when"]


@pytest.mark.parametrize(
    "texts, said",
    [
        (["05/01/2024", "06/01/2024"], ".*'05/01/2024'.*write all of them as"),
        (["2024-01-05T10:00Z", "2024-01-05T10:00"], ".*time zone"),
    ],
)
def test_dates_that_cannot_be_read_are_refused(texts, said):
    with pytest.raises(DataError, match=f"column when: {said}"):
        Columns().fit(pa.table({"when": texts}))
    kept = Columns(categorical=["when"]).fit(pa.table({"when": texts}))
    assert kept.columns_[0].categories == sorted(texts)


def test_what_held_dates_must_hold_dates():
    columns = Columns().fit(pa.table({"when": ["2024-01-05", "2024-01-06"]}))
    with pytest.raises(DataError, match=r"row 2.*column when.*'soon'"):
        columns.transform(pa.table({"when": ["2024-01-05", "soon"]}))
    with pytest.raises(DataError, match=r"column when.*int64"):
        columns.transform(pa.table({"when": [1, 2]}))
    with pytest.raises(DataError, match="column x"):
        Columns().fit(pa.table({"x": [1, 2]})).transform(
            pa.table({"x": pa.array([1, 2], pa.date32())})
        )
    with pytest.raises(DataError, match=r"row 2.*column when.*1 values.*missing"):
        Columns(missing="error").fit(pa.table({"when": ["2024-01-05", None]}))


# ---- models


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dates")
    for ending in ("csv", "parquet"):
        write(folder / f"train.{ending}", dated_rows())
        write(folder / f"new.{ending}", dated_rows(seed=1))
    return folder


@pytest.mark.filterwarnings("ignore::toppush.DegenerateWarning")
@pytest.mark.parametrize("kind", ["linear", "additive", "trees"])
def test_models_of_dates_are_saved_and_read_all_formats(kind, folder, tmp_path):
    model = quick_fit(kind, folder / "train.csv")
    named = {one["name"]: one for one in model.about["columns"]["named"]}
    assert named["when"]["kind"] == "date"
    assert named["when"]["parts"] == KEPT
    assert named["when"]["missing"] == MANY // 10
    files.save(model, tmp_path / "m.toppush")
    again = files.load(tmp_path / "m.toppush")
    assert again.columns.columns_ == model.columns.columns_
    _, scores = files.labelled(model, folder / "new.csv")
    for ending in ("csv", "parquet"):
        np.testing.assert_array_equal(files.labelled(again, folder / f"new.{ending}")[1], scores)


@pytest.mark.filterwarnings("ignore::toppush.DegenerateWarning")
def test_trees_find_the_weekend(folder):
    model = quick_fit("trees", folder / "train.csv", members=3)
    positive, scores = files.labelled(model, folder / "new.csv")
    without = quick_fit("trees", folder / "train.csv", members=3, drop=["when"])
    _, blind = files.labelled(without, folder / "new.csv")
    assert average_precision(positive, scores) > average_precision(positive, blind) + 0.02


@pytest.mark.filterwarnings("ignore::toppush.DegenerateWarning")
@pytest.mark.parametrize("kind", ["linear", "additive", "trees"])
def test_exports_take_the_parts_as_numbers(kind, folder, tmp_path):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    model = quick_fit(kind, folder / "train.csv")
    saving.export_onnx(model, tmp_path / "m.onnx")
    rows = dated_rows(seed=1)
    parts = expected_parts(rows["when"])
    given = {f"when ({part})": parts[:, [at]] for at, part in enumerate(KEPT)}
    given["amount"] = np.array(rows["amount"])[:, None]
    session = runtime.InferenceSession((tmp_path / "m.onnx").read_bytes())
    scores = model.decision_function(pa.table(rows).to_batches()[0])
    np.testing.assert_allclose(session.run(None, given)[0], scores, atol=1e-6)
    if kind == "linear":
        saving.export_json(model, tmp_path / "m.json")
        assert "when (weekday)" in (tmp_path / "m.json").read_text()
    else:
        with pytest.raises(ModelError, match=kind):
            saving.export_json(model, tmp_path / "m.json")


def test_a_forged_part_of_a_date_is_refused(folder):
    model = quick_fit("linear", folder / "train.csv", lam=1.0)
    model.columns.columns_[1] = replace(model.columns.columns_[1], part="century")
    with pytest.raises(ModelError):
        saving.to_bytes(model)


# ---- parts of a file, as workers see them


def looked(folder, *tables):
    how = ReadingOptions("label", (), (), "impute", None)
    paths = [write(folder / f"{place}.parquet", table) for place, table in enumerate(tables)]
    return [summarise(str(path), how) for path in paths]


def test_dates_of_parts_are_those_of_the_whole(tmp_path):
    rows = dated_rows()
    halves = [{name: values[part::2] for name, values in rows.items()} for part in (0, 1)]
    columns = merged_columns(looked(tmp_path, *halves))
    whole = Columns().fit(pa.table(rows).drop_columns("label"))
    assert columns.filled_ == whole.filled_
    for one, other in zip(columns.columns_, whole.columns_, strict=True):
        assert replace(one, fill=0.0) == replace(other, fill=0.0)


def test_parts_of_dates_and_of_texts_do_not_fit(tmp_path):
    rows = dated_rows(20)
    with pytest.raises(DataError, match="column when"):
        merged_columns(looked(tmp_path, rows, rows | {"when": ["a", "b"] * 10}))
