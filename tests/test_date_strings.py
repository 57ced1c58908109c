"""Dates that are written as text, in data frames, Arrow tables and files."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.pipeline import make_pipeline

from toppush import TopPush, TopPushTrees, TopRanker, files
from toppush.files import Columns, DataError, ModelError
from toppush.modelfile import saving
from toppush.tables.column_types import Counts
from toppush.tables.columns import LearnedPart, merge
from toppush.tables.dates import date_order, date_parts, parse_date
from toppush.tables.frames import FROM_DTYPE, FrameColumns, FrameSummary
from toppush.tables.rows import LoadedRows, Roles, take_roles

TIMES = st.datetimes(datetime(1700, 1, 1), datetime(2250, 1, 1))
DATES = {"ymd": "%Y{0}%m{0}%d", "dmy": "%d{0}%m{0}%Y", "mdy": "%m{0}%d{0}%Y"}
CLOCKS = {"": "days", " %H:%M": "minutes", "T%H:%M:%S": "seconds", " %H:%M:%S.%f": "microseconds"}


def rounded(time, unit):
    """Without what is smaller than a unit."""
    zeros = {"days": 4, "minutes": 2, "seconds": 1, "microseconds": 0}[unit]
    names = ("microsecond", "second", "minute", "hour")[:zeros]
    return time.replace(**dict.fromkeys(names, 0))


formats = st.tuples(st.sampled_from("-/."), st.sampled_from(list(CLOCKS)))


@given(st.lists(TIMES, min_size=1), st.sampled_from(list(DATES)), formats)
def test_dates_are_read_as_they_were_written(times, order, written):
    mark, clock = written
    times = [rounded(time, CLOCKS[clock]) for time in times]
    strings = [time.strftime(DATES[order].format(mark) + clock) for time in times]
    assert [parse_date(text, order) for text in strings] == times
    found = date_order(strings)
    if order == "ymd" or any(time.day > 12 for time in times):
        assert found == order
    else:
        assert found is None


SHORT = {"short ymd": "%y/%m/%d", "short dmy": "%d/%m/%y", "short mdy": "%m/%d/%y"}


@given(
    st.lists(st.datetimes(datetime(1969, 1, 1), datetime(2068, 12, 31)), min_size=1),
    st.sampled_from(list(SHORT)),
    st.sampled_from(list(CLOCKS)),
)
def test_dates_with_two_digit_years_are_read_if_one_order_is_possible(times, order, clock):
    times = [rounded(time, CLOCKS[clock]) for time in times]
    strings = [time.strftime(SHORT[order] + clock) for time in times]
    assert [parse_date(text, order) for text in strings] == times
    possible = [name for name in SHORT if all(parse_date(text, name) for text in strings)]
    assert date_order(strings) == (order if possible == [order] else None)


def test_short_dates_of_a_table_are_dates():
    strings = ["1/1/13 3:36", "1/12/13 0:00", "10/25/13 17:30"]
    assert date_order(strings) == "short mdy"
    assert parse_date(strings[2], "short mdy") == datetime(2013, 10, 25, 17, 30)
    assert parse_date("25/10/13 0:00", "short mdy") is None


@given(st.lists(TIMES, min_size=1), st.integers(-14 * 4, 14 * 4))
def test_times_with_a_zone_are_read_in_utc(times, quarters):
    offset = timedelta(minutes=15 * quarters)
    strings = [
        f"{(time + offset).isoformat(' ', 'microseconds')}{'+' if quarters >= 0 else '-'}"
        f"{abs(quarters) // 4:02d}:{abs(quarters) % 4 * 15:02d}"
        for time in times
    ]
    assert date_order(strings) == "ymd"
    assert [parse_date(text, "ymd") for text in strings] == times
    assert date_order([*strings, "2024-01-01 10:00"]) is None


@given(
    st.from_regex(
        r"[12][0-9]{3}-[01][0-9]-[0-3][0-9]([ T][0-2][0-9]"
        r"(:[0-5][0-9](:[0-5][0-9](\.[0-9]{1,6})?)?)?(Z|[+-][01][0-9](:?[0-5][0-9])?)?)?",
        fullmatch=True,
    )
)
def test_what_pyarrow_reads_is_read_alike(text):
    for zone in (None, "UTC"):
        try:
            expected = pa.array([text]).cast(pa.timestamp("us", zone))[0].value
        except pa.ArrowInvalid:
            continue
        since = np.datetime64(parse_date(text, "ymd"), "us").astype(int)
        assert since == expected


@given(st.text(max_size=12), st.sampled_from(list(DATES)))
def test_any_string_is_a_date_or_none(text, order):
    found = parse_date(text, order)
    assert found is None or found.tzinfo is None


@pytest.mark.parametrize(
    "strings",
    [
        ["03/04/2024", "05/06/2024"],  # March or April
        ["13/01/2024", "01/13/2024"],
        ["30.02.2024"],
        ["2024-03-01", "14.03.2024"],
        ["01/02/03", "24/03/15"],  # the year first, or the day
        ["03-14-24"],
        ["1.25.13"],  # a version
        ["1/25/13", "1/25/2013"],
        ["12:30", "13:45"],
        ["2024-01-05T10:00Z", "2024-01-05T10:00"],
        ["2024-01-05 25:00"],
        ["2024-13-01"],
        ["2024-03/01"],
        ["2024"],
        ["20240301"],
        ["soon"],
        ["2024-01-05Z"],
        [""],
        [],
    ],
)
def test_what_is_no_date_or_ambiguous_is_not_read(strings):
    assert date_order(strings) is None


def test_the_year_may_come_first_in_any_order():
    assert parse_date("2024-03-14", "dmy") == parse_date("14.03.2024", "dmy")


# ---- frames and files


def numbers_of_frame(frame):
    with pytest.warns(UserWarning, match="'when'"):
        columns = FrameColumns.of(frame, FROM_DTYPE)
    return columns, columns.numbers(frame)


@given(
    st.lists(st.one_of(st.none(), st.just(""), TIMES), min_size=2),
    st.sampled_from(list(DATES)),
    formats,
)
def test_frames_and_files_read_the_same_parts(times, order, written):
    mark, clock = written
    times = [rounded(time, CLOCKS[clock]) if time else time for time in times]
    known = [time for time in times if time]
    assume(order == "ymd" or any(time.day > 12 for time in known))
    assume(len(set(known)) > 1)
    style = DATES[order].format(mark) + clock
    strings = [time.strftime(style) if time else time for time in times]
    expected, parts = date_parts(np.array([time or None for time in times], "datetime64[us]"))
    columns, numbers = numbers_of_frame(pd.DataFrame({"when": strings}))
    assert columns.dates == {0: list(expected)}
    np.testing.assert_array_equal(numbers, parts)
    table = pa.table({"when": pa.array(strings, pa.string())})
    learned = Columns(form="nan").fit(table)
    names = [column.part for column in learned.columns_]
    np.testing.assert_array_equal(
        learned.transform(table), parts[:, [list(expected).index(name) for name in names]]
    )
    assert learned.filled_.get("when", 0) == len(times) - len(known)


def test_the_order_is_decided_by_all_parts_of_a_frame():
    parts = [pd.DataFrame({"when": [text]}) for text in ("03/04/2024", "05/14/2024 12:00")]
    found = FrameSummary.merge([FrameSummary.of(part, FROM_DTYPE) for part in parts])
    with pytest.warns(UserWarning, match="read as dates"):
        columns = found.settle()
    assert columns.formats == {0: ["mdy"]}
    assert columns.dates == {0: ["days", "month", "day", "weekday", "hour"]}
    assert columns.numbers(parts[0])[0, 1:].tolist() == [3.0, 4.0, 0.0, 0.0]


@pytest.mark.parametrize("strings", [["03/04/2024", "05/06/2024"] * 40, ["12:30", "13:45"] * 40])
def test_other_strings_stay_categories_of_frames(strings):
    frame = pd.DataFrame({"when": strings})
    if "/" in strings[0]:
        with pytest.warns(UserWarning, match=r"'when'.*'03/04/2024'.*categories"):
            columns = FrameColumns.of(frame, FROM_DTYPE)
    else:
        columns = FrameColumns.of(frame, FROM_DTYPE)
    assert columns.categories == {0: sorted(set(strings))}
    assert columns.dates == {}


def test_an_empty_string_is_missing_in_frames_and_files():
    frame = pd.DataFrame({"city": ["Oslo", "", None, "Rome"]})
    columns = FrameColumns.of(frame, FROM_DTYPE)
    assert columns.categories == {0: ["Oslo", "Rome"]}
    expected = [[0.0], [np.nan], [np.nan], [1.0]]
    np.testing.assert_array_equal(columns.numbers(frame), expected)
    table = pa.table({"city": ["Oslo", "", None, "Rome"]})
    np.testing.assert_array_equal(Columns(form="codes").fit_transform(table), expected)


N_ROWS = 240
DAYS = [datetime(2023, 1, 1) + timedelta(hours=31 * row) for row in range(N_ROWS)]
Y = np.array([day.weekday() >= 5 for day in DAYS]) ^ (np.arange(N_ROWS) % 10 == 0)


@pytest.mark.parametrize("as_table", [pd.DataFrame, pl.DataFrame, pa.table, "array"])
def test_rankers_of_frames_learn_from_date_strings(as_table, tmp_path):
    noise = np.random.default_rng(0).standard_normal(N_ROWS).tolist()
    columns = {"x": noise, "when": [day.strftime("%d.%m.%Y %H:%M") for day in DAYS]}
    if as_table == "array":
        table = np.array(list(columns.values()), dtype=object).T
    else:
        table = as_table(columns)
    with pytest.warns(UserWarning, match="read as dates"):
        ranker = TopRanker(["forest"]).fit(table, Y)
    assert ranker.dates_ == {1: ["days", "month", "day", "weekday", "hour"]}
    typed = TopRanker(["forest"]).fit(pd.DataFrame({"x": noise, "when": DAYS}), Y)
    scores = ranker.decision_function(table)
    np.testing.assert_array_equal(
        scores, typed.decision_function(pd.DataFrame({"x": noise, "when": DAYS}))
    )
    files.save(ranker, tmp_path / "m.toppush")
    opened = files.load(tmp_path / "m.toppush").ranker
    np.testing.assert_array_equal(opened.decision_function(table), scores)
    assert len(ranker.explain(table)) == N_ROWS


def test_trees_take_date_strings_as_categories_and_refuse_dates():
    pytest.importorskip("lightgbm")
    strings = [day.strftime("%Y-%m") + "-01" for day in DAYS]
    table = pd.DataFrame({"when": strings, "kind": ["x", "y"] * (N_ROWS // 2)})
    ranker = TopPushTrees(n_members=2, max_rounds=5).fit(table, Y)
    assert set(ranker.categories_) == {0, 1}
    with pytest.raises(ValueError, match="'when'"):
        TopPushTrees(n_members=2, max_rounds=5).fit(table.assign(when=DAYS), Y)


@pytest.mark.filterwarnings("ignore::toppush.DegenerateWarning")
@pytest.mark.parametrize("style", ["%d.%m.%Y", "%m/%d/%Y %H:%M", "%Y/%m/%d"])
def test_files_read_date_strings_and_remember_their_order(style, tmp_path):
    def write(name, style):
        lines = [f"{day.strftime(style)},{row % 7},{int(y)}\n"
                 for row, (day, y) in enumerate(zip(DAYS, Y, strict=True))]  # fmt: skip
        (tmp_path / name).write_text("when,x,label\n" + "".join(lines))
        return tmp_path / name

    model = files.fit(write("rows.csv", style), lam=0.1, top=0.3)
    named = {one["name"]: one for one in model.about["columns"]["named"]}
    assert named["when"]["kind"] == "date"
    assert named["when"]["order"] == date_order([day.strftime(style) for day in DAYS])
    files.save(model, tmp_path / "m.toppush")
    again = files.load(tmp_path / "m.toppush")
    _, scores = files.labelled(again, tmp_path / "rows.csv")
    np.testing.assert_array_equal(scores, files.labelled(model, tmp_path / "rows.csv")[1])
    iso = "%Y-%m-%d %H:%M" if "%H" in style else "%Y-%m-%d"
    typed = files.fit(write("iso.csv", iso), lam=0.1, top=0.3)
    np.testing.assert_array_equal(files.labelled(typed, tmp_path / "iso.csv")[1], scores)
    (tmp_path / "bad.csv").write_text("when,x,label\n14.03.2024,1,1\nsoon,1,0\n03/14/2024,1,0\n")
    with pytest.raises(DataError, match="when"):
        files.labelled(again, tmp_path / "bad.csv")


def test_ambiguous_dates_of_files_are_refused_with_a_way_out():
    table = pa.table({"when": ["03/04/2024", "05/06/2024"]})
    with pytest.raises(DataError, match=r"'03/04/2024'.*--categorical when"):
        Columns().fit(table)
    assert Columns(categorical=["when"]).fit_transform(table).tolist() == [[1, 0], [0, 1]]


def test_times_of_rows_may_be_date_strings():
    strings = ["14.03.2024", "01.04.2024 12:00", "02.01.2023"]
    rows = LoadedRows(pa.table({"x": [1, 2, 3], "when": strings}), None, None, {})
    rest, values = take_roles(rows, Roles(time="when"))
    assert rest.X.column_names == ["x"]
    assert np.argsort(values.time).tolist() == [2, 0, 1]
    rows = rows._replace(X=pa.table({"x": [1, 2], "when": ["03/04/2024", "05/06/2024"]}))
    with pytest.raises(DataError, match="'03/04/2024'"):
        take_roles(rows, Roles(time="when"))


def test_a_forged_order_of_dates_is_refused():
    table = pa.table({"when": ["14.03.2024", "15.04.2023"], "x": [1.0, 2.0]})
    pipeline = make_pipeline(Columns(), TopPush(0.1, top=0.5)).fit(table, [0, 1])
    columns = pipeline[0].columns_
    columns[0] = replace(columns[0], order="century")
    with pytest.raises(ModelError):
        saving.to_bytes(saving.as_model(pipeline))


def test_zoned_strings_of_frames_are_in_utc():
    frame = pd.DataFrame({"when": ["2024-01-05T01:00+01:00", "2024-01-06 12:00Z"]})
    _, numbers = numbers_of_frame(frame)
    day = (datetime(2024, 1, 5, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)).days
    assert numbers[:, 0].tolist() == [day, day + 1.5]


# ---- days between dates


def bookings(n_rows=300, seed=0):
    """Bookings whose start is later than the booking, some without a start; long waits cancel."""
    rng = np.random.default_rng(seed)
    booked = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, n_rows), "D")
    wait = rng.integers(0, 60, n_rows)
    start = (booked + pd.to_timedelta(wait, "D")).to_series(index=range(n_rows))
    start[rng.random(n_rows) < 0.1] = None
    table = pd.DataFrame({"start": start, "x": rng.normal(size=n_rows), "booked": booked})
    return table, (wait + rng.normal(0, 10, n_rows) > 55).astype(int)


def test_days_between_dates_become_a_number():
    table, _ = bookings()
    columns = FrameColumns.of(table, FROM_DTYPE)
    between = (table["booked"] - table["start"]).dt.days.to_numpy()
    numbers = columns.numbers(table)
    assert columns.dates[2][-1] == "since 0"
    np.testing.assert_array_equal(numbers[:, -1], between)
    assert columns.sources.tolist() == [0, 0, 0, 0, 1, 2, 2, 2, 2, 2]
    in_files = Columns(form="nan").fit(pa.Table.from_pandas(table))
    assert in_files.get_feature_names_out()[-1] == "booked (days since start)"
    np.testing.assert_array_equal(in_files.transform(table)[:, -1], between)


def test_long_times_between_dates_are_no_change_of_units():
    table, _ = bookings()
    table["start"] = table["booked"] + pd.to_timedelta(np.arange(len(table)) % 2, "s")
    columns = Columns(form="nan").fit(pa.Table.from_pandas(table))
    counts = Counts()
    columns.matrix(table.assign(start=pd.Timestamp("2030-01-01")), counts)
    assert not counts.larger


def test_many_columns_of_dates_are_not_paired():
    table, _ = bookings()
    many = pd.concat([table["booked"].rename(f"date {n}") for n in range(6)], axis=1)
    parts = FrameColumns.of(many, FROM_DTYPE).dates.values()
    assert {name for names in parts for name in names} == {"days", "month", "day", "weekday"}


def test_parts_of_a_table_agree_on_days_between_dates():
    table, _ = bookings()
    table.loc[:149, "start"] = pd.NaT  # the first part has no start, so no difference either
    arrow = pa.Table.from_pandas(table)
    parts = [LearnedPart(Columns().learn(half), len(half), "") for half in split_in_two(arrow)]
    merged = merge(parts, arrow.column_names)
    assert "booked (days since start)" not in merged.get_feature_names_out()
    assert np.isfinite(merged.transform(arrow)).all()


def split_in_two(table):
    return table.slice(0, 150), table.slice(150)


def test_a_model_file_keeps_days_between_dates(tmp_path):
    table, y = bookings(600)
    wait = TopRanker(["logistic"]).fit(table, y)
    assert wait.leaderboard_[0]["average_precision"] > 0.4  # the days alone do not show the wait
    path = tmp_path / "rows.csv"
    table.assign(label=y).to_csv(path, index=False)
    model = files.fit(path, members=["logistic"])
    files.save(model, tmp_path / "model.toppush")
    loaded = files.load(tmp_path / "model.toppush")
    arrow = pa.Table.from_pandas(table).to_batches()[0]
    np.testing.assert_array_equal(loaded.decision_function(arrow), model.decision_function(arrow))


@pytest.mark.parametrize("forged", [{"since": "nowhere"}, {"since_order": "dym"}, {"since": 1}])
def test_forged_days_between_dates_are_refused(tmp_path, forged):
    table, y = bookings()
    path = tmp_path / "rows.csv"
    table.assign(label=y).to_csv(path, index=False)
    model = files.fit(path, members=["logistic"], model="auto")
    columns = model.columns
    columns.columns_ = [
        replace(column, **forged) if hasattr(column, "since") else column
        for column in columns.columns_
    ]
    with pytest.raises(ModelError):
        files.save(model, tmp_path / "model.toppush")  # saving checks what loading does
