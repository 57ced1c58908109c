"""Files that the tests of `toppush.files` and of the command line read."""

import csv

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

QUICK = {
    "auto": {"effort": "quick"},
    "linear": {"lam": 0.1, "top": 0.3},
    "additive": {"lam": 0.1, "top": 0.3},
    "trees": {"members": 2, "top": 0.1},
    "net": {"members": 2},
}
"""Model types, and options with which a fit takes a moment; of networks, seconds."""
EVERY_KIND = [pytest.param(one, marks=[pytest.mark.long] * (one == "net")) for one in QUICK]
ENGINES = {"trees": "lightgbm", "net": "torch"}
CITIES = ["Lyon", "Oslo", "Rome", "São Paulo"]
DROP = ["id"]


def made_rows(n_rows, seed=0, gaps=0.05):
    """Rows of a small fraud table: an id, two numbers, a city, a flag, a label; None for gaps."""
    rng = np.random.default_rng(seed)
    age, income = rng.normal(40, 10, n_rows).round(1), rng.lognormal(10, 1, n_rows).round(2)
    city, member = rng.choice(CITIES, n_rows), rng.random(n_rows) < 0.5
    score = 0.1 * (age - 40) + 1.5 * (city == "Rome") + 0.3 * np.log(income)
    score += rng.normal(0, 1, n_rows)
    label = np.where(score > np.quantile(score, 0.85), "yes", "no")
    no_age, no_city = rng.random((2, n_rows)) < gaps
    return {
        "id": [f"client {i}" for i in range(n_rows)],
        "age": [None if gap else float(x) for x, gap in zip(age, no_age, strict=True)],
        "income": income.tolist(),
        "city": [None if gap else str(x) for x, gap in zip(city, no_city, strict=True)],
        "member": member.tolist(),
        "fraud": label.tolist(),
    }


def quick_fit(kind, path, **options):
    """A small model of a kind; the test skips without what fits it."""
    from toppush import files

    if kind in ENGINES:
        pytest.importorskip(ENGINES[kind], reason=f"needs {ENGINES[kind]}, an extra")
    return files.fit(path, model=kind, threads=1, **QUICK[kind] | options)


def odd_rows(n_rows=200, seed=7):
    """Rows with a text that no model knows, and gaps where training rows had none."""
    rows = made_rows(n_rows, seed=seed)
    rows["city"][:2] = ["Atlantis", None]
    rows["member"][3] = rows["income"][5] = None
    return rows


def as_text(value):
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def write_csv(path, table, delimiter=","):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(table)
        rows = zip(*table.values(), strict=True)
        writer.writerows([as_text(value) for value in row] for row in rows)
    return path


def write(path, table):
    """The table in the format of the path's ending."""
    ending = path.suffix
    if ending in (".csv", ".tsv"):
        return write_csv(path, table, "\t" if ending == ".tsv" else ",")
    arrow = pa.table(table)
    if ending == ".parquet":
        pyarrow.parquet.write_table(arrow, path, row_group_size=97)
    elif ending == ".feather":
        pyarrow.feather.write_feather(arrow, str(path), chunksize=53)
    elif ending == ".arrow":
        with pa.ipc.new_stream(str(path), arrow.schema) as sink:
            sink.write_table(arrow, max_chunksize=61)
    return path
