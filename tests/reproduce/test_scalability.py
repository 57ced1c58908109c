"""Time against rows: what is measured, to which accuracy, and when competitors get no more rows."""

from itertools import product

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import sparse
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression

from reproduce import datasets, scalability
from reproduce.commands import main


@pytest.fixture(scope="module")
def rows():
    X, y = load_breast_cancer(return_X_y=True)
    return sparse.csr_array(X / X.max(axis=0)), y == 0


@pytest.fixture(scope="module")
def grown():
    """Growth on made rows to which the paper's method gets no time at all."""
    rows = datasets.made("made-real-sim", n_rows=900, n_columns=400)
    dataset = datasets.Dataset("made-real-sim", *rows, files=(), is_made=True)
    sizes, quiet = [100, 200, 400], {"seed": 0, "tell": lambda text: None}
    return scalability.scalability(dataset, [0.1, 0.01], sizes, limit=0.0, **quiet)


def test_scalability_gives_rivals_no_more_rows_than_they_can_take(grown):
    (table,) = grown.tables
    assert "made data" in grown.title
    cases = [tuple(row[:3]) for row in table.rows]
    ours = list(product(["100", "200", "400"], ["TopPush"], ["0.1", "0.01"]))
    competitors = [("100", "paper", "0.1"), ("100", "paper", "0.01"), ("100", "LIBLINEAR", "-")]
    assert sorted(cases) == sorted(ours + competitors)
    assert [row[2] for row in table.rows if row[-1] == "stopped"] == ["0.1", "0.01"]
    paper = next(note for note in table.notes if "rows, paper" in note)
    assert paper.endswith("paper: - (lam 0.1, 0 sizes), - (lam 0.01, 0 sizes).")


def test_scalability_is_measured_where_there_is_a_signal(grown):
    (table,) = grown.tables
    for _, method, _, seconds, _, gap, objective, ap, _ in table.rows:
        assert float(seconds) > 0
        assert float(ap) > 0.4  # a third is positive
        if method == "TopPush":
            assert float(gap) <= scalability.TOL
            assert float(objective) < 0.9


def test_the_papers_method_goes_on_until_the_gap_is_proven(rows):
    X, y = rows
    found = scalability.fit_by_the_paper(1.0, 60.0, X, y)
    assert found.upper - found.lower <= scalability.TOL * found.upper
    ours = scalability.fit_ours(1.0, X, y)
    assert found.upper == pytest.approx(ours.upper, rel=2 * scalability.TOL)
    assert found.at_zero == 1.0


def test_bounds_of_a_logistic_regression_hold_its_optimum(rows):
    X, y = rows
    optimum = LogisticRegression(solver="liblinear", tol=1e-12, max_iter=10_000).fit(X, y)
    upper, lower = scalability.logistic_bounds(optimum, X, y)
    assert lower <= upper <= lower * (1 + 1e-9)
    weights, padded = (
        np.append(optimum.coef_, optimum.intercept_),
        np.c_[X.toarray(), np.ones(y.size)],
    )
    losses = np.log1p(np.exp(-np.where(y, 1, -1) * (padded @ weights)))
    assert upper == pytest.approx(weights @ weights / 2 + losses.sum())
    rough = LogisticRegression(solver="liblinear", tol=0.3).fit(X, y)
    worse, below = scalability.logistic_bounds(rough, X, y)
    assert below < lower < worse


def test_slopes_are_those_of_the_fits_that_finished():
    line = scalability.Line("paper", 1.0, None)
    for n_rows, seconds, gap in [(10, 1.0, 1e-3), (100, 100.0, 1e-4), (1000, 100.0, 0.5)]:
        line.timings.append(scalability.Timing(n_rows, seconds, 1, gap, 0.5, 0.9))
    assert line.slope() == "2.00"
    line.timings.append(scalability.Timing(10**4, 1e4, 1, 1e-3, 0.5, 0.9))
    assert line.slope(2) == "1.00"
    assert line.is_over(9_999.0)
    assert not line.is_over(10_000.0)


@pytest.mark.long
def test_scalability_by_one_command(tmp_path):
    out = tmp_path / "out"
    words = ["figure-scalability", "--set", "made-url", "--largest", "2048"]
    ran = CliRunner().invoke(main, [*words, "--lams", "1,0.1", "--out", str(out)])
    assert ran.exit_code == 0, ran.output
    assert "made data" in ran.stdout
    assert len((out / "figure-scalability.csv").read_text().splitlines()) == 1 + 6 * (2 + 2 + 1)


def test_made_rows_are_as_many_and_as_full_as_said():
    rows = scalability.made_rows(500, seed=0)
    assert rows.X.shape == (500 + scalability.N_HELD_OUT, scalability.MADE_COLUMNS)
    assert np.all(rows.X.sum(axis=1) == scalability.MADE_DRAWS)
    assert scalability.sizes_up_to(2_000_000)[-3:] == [125_000, 500_000, 2_000_000]
