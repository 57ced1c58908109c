"""Dates: their parts, and columns of dates in tables."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toppush.designs.dates import date_parts

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
