"""Figures that pages derive from result files: counts, ranges, ratios; results/claims.csv.

python -m benchmarks.claims

A claim is a row: the file it is about, what is claimed in words, and its value.
"""

import csv
import io
from collections.abc import Iterable, Iterator

import numpy as np

from benchmarks.common import RESULTS
from benchmarks.summary import read

Claim = tuple[str, str, object]


def column(name: str, title: str, **where: object) -> list[float]:
    """The numbers of a column, of the rows whose other cells are as said."""
    rows = [row for row in read(name) if all(row[one] == value for one, value in where.items())]
    return [float(row[title]) for row in rows]


def ends(file: str, claim: str, values: Iterable[float]) -> Iterator[Claim]:
    """The least and the greatest of some numbers."""
    least, *_, greatest = sorted(values)
    yield file, f"least {claim}", least
    yield file, f"greatest {claim}", greatest


def count(file: str, claim: str, holds: Iterable[bool]) -> Claim:
    """How many of all."""
    found = list(holds)
    return file, claim, f"{sum(found)} of {len(found)}"


def of_fits() -> Iterator[Claim]:
    ratios = column("speed-fits", "ratio to liblinear", method="TopPush")
    yield count("speed-fits", "sets not slower than LIBLINEAR", (one <= 1.0 for one in ratios))
    ratios = column("wide", "ratio")
    yield count("wide", "fits not slower than LIBLINEAR", (one <= 1.0 for one in ratios))
    yield "wide", "greatest ratio to LIBLINEAR", max(ratios)
    twice = (one <= 2.0 for one in column("choice-speed", "ratio"))
    yield count("choice-speed", "sets at most twice logistic regression's time", twice)
    rows, seconds = column("rows", "rows"), column("rows", "seconds")
    yield (
        "rows",
        "slope of log time against log rows",
        np.polyfit(np.log(rows), np.log(seconds), 1)[0],
    )
    fits = read("pairwise-fits")
    yield from ends("pairwise-fits", "time of a fit over the threshold family's",
                    (row["pairwise s"] / row["threshold s"] for row in fits))  # fmt: skip


def of_parts() -> Iterator[Claim]:
    """What rounds of boosting cost, and how exact sums and single precision are."""
    yield from ends("objective-cost", "share of a round", column("objective-cost", "ratio"))
    gaps = column("same", "gap", type="float32") + column("same-gpu", "gap", type="float32")
    yield "same", "greatest gap of single precision", max(gaps)
    yield "explain", "greatest error of a sum of contributions", max(column("explain", "error"))


def of_clusters() -> Iterator[Claim]:
    by = {one: column("cluster_speed", "seconds", side=one)[0] for one in ("dask", "threads")}
    yield "cluster_speed", "two workers over two threads", by["dask"] / by["threads"]
    yield from ends("gpu-dense", "times 16 cores", column("gpu-dense", "cpu / gpu"))
    yield from ends("threads", "two threads over one", column("threads", "speed-up"))


def claims() -> Iterator[Claim]:
    for some in (of_fits, of_parts, of_clusters):
        for file, claim, value in some():
            yield file, claim, value if isinstance(value, str) else f"{value:.6g}"


def as_csv() -> str:
    """All claims as the text of their file."""
    text = io.StringIO()
    rows = [["file", "claim", "value"], *dict.fromkeys(claims())]
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def write() -> None:
    """Renew the file."""
    (RESULTS / "claims.csv").write_text(as_csv(), encoding="utf-8")


if __name__ == "__main__":
    write()
