"""Arrow columns of types that are no numbers, dates or strings, or that hold these unusually."""

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, feather

from test_cli import run
from toppush import files

pytestmark = pytest.mark.filterwarnings("ignore::toppush.DegenerateWarning")

N_ROWS = 80
ODD = {
    "list": pa.array([[1, 2]] * N_ROWS),
    "struct": pa.array([{"u": 1}] * N_ROWS),
    "map": pa.array([[("k", 1)]] * N_ROWS, pa.map_(pa.string(), pa.int64())),
    "bytes": pa.array([b"\xff"] * N_ROWS),
    "union": pa.UnionArray.from_sparse(
        pa.array([0, 1] * (N_ROWS // 2), pa.int8()),
        [pa.array([1.0] * N_ROWS), pa.array(["x"] * N_ROWS)],
    ),
    "uuid": pa.array([bytes(16)] * N_ROWS, pa.uuid()),
    "interval": pa.array([pa.MonthDayNano([1, 2, 3])] * N_ROWS),
}
"""Columns whose values are no single number, date or string."""
USUAL = {
    "strings": pa.array(["a", "b"] * (N_ROWS // 2), pa.string_view()),
    "dictionary": pa.array(["a", "b"] * (N_ROWS // 2)).dictionary_encode(),
    "runs": pa.RunEndEncodedArray.from_arrays([N_ROWS // 2, N_ROWS], ["a", "b"]),
}
"""Strings of types that pyarrow hardly computes with."""


@pytest.fixture(scope="module")
def plain_model(tmp_path_factory):
    path = tmp_path_factory.mktemp("plain") / "rows.arrow"
    files.save(
        files.fit(arrow_file(path), lam=1.0, top=0.3, drop=["b"]), path.with_suffix(".toppush")
    )
    return path.with_suffix(".toppush")


def arrow_file(path, odd=None):
    values = np.arange(float(N_ROWS))
    columns = {"a": values, "b": values % 7, "label": (values % 5 == 0).astype(int)}
    feather.write_feather(pa.table(columns | ({} if odd is None else {"b": odd})), path)
    return path


@pytest.mark.parametrize("kind", ODD)
def test_columns_of_no_single_values_are_named_wherever_they_are_used(kind, plain_model, tmp_path):
    path, out = arrow_file(tmp_path / "odd.arrow", ODD[kind]), tmp_path / "out.csv"
    for call in (
        ("fit", path, "-o", out, "--lam", "1", "--top", "1"),
        ("fit", path, "-o", out, "--lam", "1", "--top", "1", "--categorical", "b"),
        ("fit", path, "-o", out, "--lam", "1", "--top", "1", "--groups", "b"),
        ("compare", path, "--methods", "TopPush linear", "--cv", "2"),
        ("rank", plain_model, path, "--columns", "b", "-o", out),
        ("evaluate", plain_model, path, "--by", "b"),
        ("report", plain_model, path, "--columns", "b", "-o", out),
        ("evaluate", path, "--scores", "b"),
    ):
        assert "column b: " in run(*call, code=1).stderr
        assert not out.exists()


@pytest.mark.parametrize("kind", USUAL)
def test_strings_of_rare_types_are_strings(kind, plain_model, tmp_path):
    path, out = arrow_file(tmp_path / "rare.arrow", USUAL[kind]), tmp_path / "out.csv"
    run("rank", plain_model, path, "--columns", "b", "-o", out)
    assert csv.read_csv(out)["b"].to_pylist().count("a") == N_ROWS // 2
    run("compare", path, "--methods", "TopPush linear", "--cv", "2")
    run("fit", path, "-o", tmp_path / "model.toppush", "--lam", "1", "--groups", "b", "--cv", "2")
    assert files.fit(path, lam=1.0, top=0.3).columns.columns_[1].categories == ["a", "b"]
