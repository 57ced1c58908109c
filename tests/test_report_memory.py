"""Pages where memory is refused: without still pictures, or an error; never a signal."""

import subprocess
import sys

import numpy as np
import pytest

from toppush.report import figures
from toppush.report.ranking import Ranking


@pytest.fixture
def limited(monkeypatch):
    monkeypatch.setattr(figures, "is_limited", lambda: True)
    figures.browser_library.cache_clear()
    yield
    figures.browser_library.cache_clear()


@pytest.fixture(scope="module")
def chart():
    labels = np.arange(40) % 3 == 0
    return figures.scores_figure(Ranking.of(labels, np.linspace(-1, 1, 40)))


def test_a_process_of_its_own_draws_the_same(chart, monkeypatch):
    plain = figures.pictures([chart])
    assert plain["scores"].startswith("<svg")
    monkeypatch.setattr(figures, "is_limited", lambda: True)
    assert figures.pictures([chart]) == plain


@pytest.mark.parametrize("end", ["os.abort()", "sys.exit(1)"])
def test_without_the_renderer_there_are_no_pictures(end, chart, limited, monkeypatch):
    monkeypatch.setattr(figures, "CONVERTER", f"import os, sys; {end}")
    with pytest.warns(UserWarning, match="ulimit -v"):
        assert figures.pictures([chart]) == {}
    with pytest.raises(MemoryError, match="ulimit -v"):
        figures.browser_library()


@pytest.mark.long
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of Linux")
@pytest.mark.parametrize("gigabytes", [2, 8, 16])
def test_a_report_under_a_limit_does_not_end_by_a_signal(gigabytes, tmp_path):
    rows = [f"{label},{place / 40}" for place, label in enumerate("nynny" * 8)]
    (tmp_path / "scored.csv").write_text("\n".join(["label,score", *rows]))
    command = [sys.executable, "-m", "toppush", "report", "scored.csv", "--scores", "score"]
    limits = f'ulimit -v {gigabytes << 20} -c 0; exec "$@"'
    ran = subprocess.run(
        ["bash", "-c", limits, "bash", *command, "-o", "page.html"],
        cwd=tmp_path, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert "ulimit -v" in ran.stderr
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "vegaEmbed" in page
    assert page.count("has no static picture") > 3
