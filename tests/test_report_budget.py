"""The section of a report on how far down the list to go says what the library says."""

import re

import numpy as np
import pytest

from files import made_rows, write
from test_cli import run

pytest.importorskip("altair", reason="needs the extra report")

from test_report import Page
from toppush import report
from toppush.thresholds.budgets import positives_in_first
from toppush.thresholds.demands import Demands, answers
from toppush.thresholds.profit import best_length


@pytest.fixture(scope="module")
def listed():
    rng = np.random.default_rng(7)
    positive = rng.random(900) < 0.15
    return positive, (rng.normal(size=900) + 2.5 * positive).round(1), rng.exponential(90, 900)


@pytest.fixture(scope="module")
def page(listed):
    positive, scores, amounts = listed
    budget = report.Budget(value=amounts, cost=20, per_day=30, rows_per_day=400)
    return report.build(positive, scores, budget=budget)


def section(page):
    return Page(re.search(r'<section id="budget".*?</section>', page, re.DOTALL)[0])


def rows(page, caption):
    """Cells of the table whose caption begins so."""
    table = re.search(rf"<caption>{caption}.*?</table>", page, re.DOTALL)[0]
    found = re.findall(r"<tr>(.*?)</tr>", table.split("<tbody>")[1], re.DOTALL)
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in found]


def test_hits_to_come_are_those_of_the_library(page, listed):
    positive, scores, _ = listed
    shown = rows(page, "Positives expected among the first rows of a day of 400")
    lengths = [int(row[0].replace(",", "")) for row in shown]
    assert lengths == [10, 20, 30, 50, 100, 200, 400]
    expected = positives_in_first(positive, scores, lengths, rows=400)
    for row, one in zip(shown, expected, strict=True):
        assert row[1] == f"{one.expected:,.1f}"
        assert int(row[2]) == pytest.approx(one.low, abs=3)
        assert int(row[3]) == pytest.approx(one.high, abs=3)


def test_scores_to_act_on_are_those_of_the_library(page, listed):
    positive, scores, amounts = listed
    shown = {row[0]: row for row in rows(page, "Rows with a score above the threshold")}
    more = {"per_day": 30, "rows_per_day": 400, "value": amounts, "cost": 20}
    asked = answers(positive, scores, Demands(fpr=0.01, recall=0.8, **more))
    for one in asked:
        row = shown[one.wanted.replace(">=", "≥").replace("<=", "≤")]
        assert row[2:4] == [f"{one.rows:,}", f"{one.true_positives:,}"]
        assert row[6].startswith(f"{one.rows_per_day.expected:,.1f}")
    assert len(shown) + section(page).text.count("cannot be guaranteed") == len(asked) + 2


def test_the_profit_is_told_without_flattering(page, listed):
    positive, scores, amounts = listed
    best = best_length(positive, scores, value=amounts, cost=20)
    text = section(page).text
    assert f"greatest, {best.observed:,.0f}, if" in text
    assert f"({best.length:,} rows)" in text
    assert f"new rows is {best.expected.value:,.0f}" in " ".join(text.split())


def test_without_money_and_days_there_is_less(listed):
    page = report.build(*listed[:2])
    text = section(page).text
    assert re.search("900 new", text)
    assert "per day" not in text
    assert "Greatest profit" not in text
    assert "chart-profit" not in page


@pytest.mark.long
def test_where_no_look_pays_the_page_says_so(listed):
    page = report.build(*listed[:2], budget=report.Budget(value=1, cost=5))
    assert "No review pays on these rows" in section(page).text


@pytest.mark.parametrize("given", [{"value": 1}, {"cost": 1}, {"per_day": 3}])
def test_half_a_budget_is_refused(given):
    with pytest.raises(ValueError, match="give both"):
        report.Budget(**given)


def test_the_command_hands_the_budget_on(tmp_path, listed):
    positive, scores, amounts = listed
    table = {name: values[:900] for name, values in made_rows(900).items()}
    table |= {"fraud": np.where(positive, "yes", "no").tolist()}
    write(tmp_path / "held.csv", table | {"s": scores.tolist(), "worth": amounts.tolist()})
    source = (tmp_path / "held.csv", "--scores", "s", "--label", "fraud")
    out = ("-o", tmp_path / "r.html")
    money = ("--value", "worth", "--cost", 20, "--per-day", 30, "--rows-per-day", 400)
    run("report", *source, *out, *money, "--columns", "id")
    made = (tmp_path / "r.html").read_text(encoding="utf-8")
    best = best_length(positive, scores, value=amounts, cost=20)
    assert f"greatest, {best.observed:,.0f}, if" in section(made).text
    assert "client " in made
    assert ">worth<" not in made
    ran = run("report", *source, *out, "--value", "worth", code=2)
    assert "--value needs --cost too" in ran.stderr
