"""From raw tables, as their publishers pack them, to a list in use: by commands alone."""

import gzip

import numpy as np
import pytest

from test_cli import result, run

pytestmark = pytest.mark.long
TABLES = {
    "bank-marketing": ("y", "duration", 0.35),
    "give-me-some-credit": ("SeriousDlqin2yrs", "id", 0.30),
}
"""Label, column that is dropped, and an average precision that nobody should miss."""
POSITIVE = ("yes", "1", "1.0")


@pytest.fixture(params=TABLES)
def given(request, shared_file, tmp_path):
    """Rows to train on and rows that come later, in files; label, column to drop, precision."""
    with gzip.open(shared_file(f"data/tables/{request.param}.csv.gz"), "rt") as file:
        header, *lines = file.read().splitlines()
    order = np.random.default_rng(0).permutation(len(lines))[:24_000]
    for name, part in (("train.csv", order[:12_000]), ("new.csv", order[12_000:])):
        text = "\n".join([header, *(lines[row] for row in part)]) + "\n"
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path, *TABLES[request.param]


def test_from_the_raw_table_to_a_list_in_use(given):
    pytest.importorskip("lightgbm")
    folder, label, drop, least = given
    model, new = folder / "m.toppush", folder / "new.csv"
    fitted = result(
        "fit", folder / "train.csv", "-o", model, "--label", label, "--drop", drop,
        "--effort", "quick", "--threads", 1,
    )  # fmt: skip
    board = {row["name"]: row for row in fitted["leaderboard"]}
    assert board["combination"]["average_precision"] > least
    assert {"logistic", "boosted", "forest"} <= set(board)
    assert not [said for said in fitted["warnings"] if "zero" in said]

    listed = result("rank", model, new, "--limit", 100, "--columns", label, "--explain", 3)
    rows = listed["ranked"]
    assert np.mean([str(row[label]) in POSITIVE for row in rows]) > 0.4
    assert all(row["why"] for row in rows)
    assert [row["percentile"] for row in rows] == sorted(
        (row["percentile"] for row in rows), reverse=True
    )
    assert all(0.0 < row["probability"] < 1.0 for row in rows)

    found = result(
        "threshold", model, new, "--value", 10, "--cost", 2, "--per-day", 20, "--rows-per-day", 1000
    )["thresholds"]
    assert len(found) >= 2
    measured = {
        one["metric"]: one["value"] for one in result("evaluate", model, new, "--draws", 50)[
            "metrics"
        ] if "k" not in one
    }  # fmt: skip
    assert measured["average_precision"] > least
    page, watched = folder / "page.html", folder / "check.html"
    run("report", model, new, "-o", page, "--value", 10, "--cost", 2)
    assert 'id="budget"' in page.read_text(encoding="utf-8")
    checked = run("check", model, new, "--html", watched)
    assert "No drift" in checked.stdout
    assert watched.is_file()
