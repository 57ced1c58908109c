"""An average precision of 1.000 in a comparison is reported with what to check."""

import warnings

import numpy as np
import pytest

import toppush
from files import made_rows, write
from test_cli import run
from toppush import TopRanker, report
from toppush.metrics.cautions import perfect_caution
from toppush.report import page as report_page
from toppush.tables.leakage import LeakageWarning

PERFECT = "1.000"


@pytest.fixture
def labels():
    return np.arange(60) % 4 == 0


@pytest.fixture
def leaked(tmp_path):
    """A table in which a column is a copy of the label."""
    rows = made_rows(200)
    rows["copy"] = [1.0 if label == "yes" else 0.0 for label in rows["fraud"]]
    rows["plain"] = list(rows["income"])
    return write(tmp_path / "leaked.csv", rows)


def test_only_perfect_lists_are_named():
    said = perfect_caution({"first": 1.0, "second": 0.9996, "third": 0.9994})
    assert "first, second:" in said
    assert PERFECT in said
    assert "third" not in said
    assert perfect_caution({"third": 0.9994}) == perfect_caution({}) == ""


def test_compare_in_python_prints_it(labels):
    noise = np.random.default_rng(0).normal(size=60)
    lists = {"leak": labels + 0.0, "noise": noise}
    assert f"Caution: leak: average precision {PERFECT}" in repr(toppush.compare(lists, y=labels))
    lists["leak"] = noise + labels
    assert PERFECT not in repr(toppush.compare(lists, y=labels))


def test_compare_of_lists_warns(leaked):
    ran = run("compare", leaked, "--label", "fraud", "--scores", "copy,plain", "--draws", 10)
    assert f"Warning: copy: average precision {PERFECT}" in ran.stderr


def test_compare_of_methods_warns(leaked):
    given = ("compare", leaked, "--label", "fraud", "--cv", 2, "--methods", "logistic regression")
    ran = run(*given, "--drop", "id,plain")
    assert f"Warning: logistic regression: average precision {PERFECT}" in ran.stderr
    assert PERFECT not in run(*given, "--drop", "id,plain,copy").stderr


def test_the_report_warns_on_the_page_and_off_it(labels, monkeypatch):
    monkeypatch.setattr(report_page, "_render", lambda context, drawn: str(context["cautions"]))
    noise = np.random.default_rng(0).normal(size=60)
    with pytest.warns(UserWarning, match=f"logistic regression: average precision {PERFECT}"):
        page = report.build(labels, noise, baseline=report.Baseline(labels + 0.0))
    assert f"logistic regression: average precision {PERFECT}" in page
    assert PERFECT not in report.build(labels, noise, baseline=report.Baseline(-noise))


def test_the_leaderboard_warns_once(labels):
    X = np.column_stack([labels, np.random.default_rng(0).normal(size=60)])
    with pytest.warns(LeakageWarning):
        ranker = TopRanker(["logistic"], cv=2).fit(X, labels)
    with pytest.warns(UserWarning, match=PERFECT):
        board = ranker.leaderboard_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ranker.leaderboard_ is board


def test_fit_warns_of_the_leaderboard(leaked, tmp_path):
    ran = run("fit", leaked, "-o", tmp_path / "m.toppush", "--label", "fraud", "--drop", "id,plain",
              "--effort", "quick", "--members", "logistic", "--threads", 1)  # fmt: skip
    assert PERFECT in ran.stderr
