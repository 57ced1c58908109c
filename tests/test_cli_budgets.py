"""Commands that know a budget: thresholds for it, lists per group, errors as sentences."""

import json
import re

import numpy as np
import pytest

from files import made_rows, write
from test_cli import run
from toppush.thresholds.budgets import (
    expected_true_positives,
    group_means,
    grouped_lists,
    threshold_for_budget,
)
from toppush.thresholds.guarantees import threshold_at_precision, threshold_at_recall
from toppush.thresholds.profit import best_length

SCORES = ("held.csv", "--scores", "s", "--label", "fraud")


@pytest.fixture(scope="module")
def held():
    """Rows with scores that have ties, amounts, and groups of which one has no positive."""
    rng, rows = np.random.default_rng(3), made_rows(1500, seed=1)
    positive = np.array(rows["fraud"]) == "yes"
    score = (rng.normal(size=1500) + 2.5 * positive).round(2)
    branch = rng.choice(["north", "south", "west"], 1500)
    branch[:4] = "empty"
    rows["fraud"][:4] = ["no"] * 4
    positive[:4] = False
    amount = rng.exponential(100, 1500).round(2)
    more = {"s": score.tolist(), "low": (-score).tolist(), "branch": branch.tolist()}
    more |= {"amount": amount.tolist(), "gap": [None, *amount[1:].tolist()]}
    return rows | more, positive, score, branch, amount


@pytest.fixture(scope="module")
def folder(held, tmp_path_factory):
    folder = tmp_path_factory.mktemp("budgets")
    write(folder / "held.csv", held[0])
    return folder


@pytest.fixture(autouse=True)
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)


def answers(*arguments, source=SCORES, code=0):
    ran = run("threshold", *source, *arguments, "--json", code=code)
    return json.loads(ran.stdout)["thresholds"]


def test_promises_are_those_of_the_library(held):
    _, positive, score, *_ = held
    precise, found = answers("--precision", 0.7, "--recall", 0.5, "--confidence", 0.9)
    expected = threshold_at_precision(positive, score, min_precision=0.7, confidence=0.9)
    assert (precise["score"], precise["rows"], precise["true_positives"]) == (
        expected.score, expected.rows, expected.true_positives,
    )  # fmt: skip
    assert precise["precision"] == pytest.approx(expected.observed)
    assert precise["rows_per_day"] is None
    expected = threshold_at_recall(positive, score, min_recall=0.5, confidence=0.9)
    assert found["score"] == expected.score
    assert found["recall"] == pytest.approx(expected.observed)


def test_a_day_has_a_threshold_on_average_and_one_that_is_sure(held):
    _, positive, score, *_ = held
    mean, sure = answers("--per-day", 20, "--rows-per-day", 700)
    for one, confidence in ((mean, None), (sure, 0.95)):
        given = {"budget": 20, "rows_per_day": 700, "confidence": confidence}
        assert one["score"] == threshold_for_budget(score, **given).score
        hits = expected_true_positives(positive, score, rows=700, above=one["score"])
        assert one["positives_per_day"] == vars(hits)
    assert mean["rows_per_day"]["expected"] <= 20
    assert sure["rows_per_day"]["expected"] < mean["rows_per_day"]["expected"]
    assert mean["confidence"] is None


@pytest.mark.parametrize("value", ["amount", "120"])
def test_the_greatest_profit_is_that_of_the_library(held, value):
    _, positive, score, _, amount = held
    [found] = answers("--value", value, "--cost", "30")
    worth = amount if value == "amount" else 120
    expected = best_length(positive, score, value=worth, cost=30)
    assert (found["score"], found["rows"]) == (expected.score, expected.length)
    assert found["profit"] == pytest.approx(vars(expected.expected))
    assert found["observed_profit"] == pytest.approx(expected.observed)
    assert found["profit_per_day"] is None
    [found] = answers("--value", value, "--cost", "30", "--rows-per-day", 500)
    assert found["profit_per_day"]["low"] == pytest.approx(expected.expected.low / 3)


def test_scores_of_which_the_lowest_is_best_turn_round():
    wanted = ("--precision", 0.5, "--value", 9, "--cost", 1)
    low = ("held.csv", "--scores", "low", "--label", "fraud", "--lower-is-better")
    for one, other in zip(answers(*wanted), answers(*wanted, source=low), strict=True):
        assert one.pop("score") == -other.pop("score")
        assert one == other
    assert "score below" in run("threshold", *low, *wanted).stdout


def test_groups_have_lists_of_their_own(held):
    _, positive, score, branch, amount = held
    money = ("--value", "amount", "--cost", "30")
    ran = run("threshold", *SCORES, "--by", "branch", "--budget", 15, *money, "--json")
    found = json.loads(ran.stdout)["by"]
    lists = grouped_lists(positive, score, branch, budget=15, value=amount, cost=30)
    assert (found["groups"], found["without_positives"], found["reviewed"]) == (4, ["empty"], 49)
    assert found["true_positives"] == pytest.approx(lists.metrics["true_positives"].sum())
    for name, one in group_means(lists).items():
        assert found["means"][name] == pytest.approx(vars(one.mean) | {"groups": one.groups})
    ran = run("evaluate", *SCORES, "--by", "branch", "--budget", 15, *money, "--json")
    assert json.loads(ran.stdout)["by"] == found


def test_people_read_it_too():
    wanted = ("--precision", 0.7, "--per-day", 20, "--rows-per-day", 700, "--value", "120",
              "--cost", 5, "--by", "branch", "--budget", 15)  # fmt: skip
    said = run("threshold", *SCORES, *wanted).stdout
    for words in ("precision >= 70%", "<= 20 a day on average", "<= 20 a day on 95% of days",
                  "per day", "optimistic", "Means over groups of branch",
                  "without a positive (1: empty)"):  # fmt: skip
        assert words in said
    assert max(map(len, (line for line in said.splitlines() if "──" in line))) <= 80


def test_what_cannot_be_promised_is_said_beside_what_can():
    ran = run("threshold", *SCORES, "--recall", 0.5, "--precision", 0.999, "--json", code=3)
    none, some = json.loads(ran.stdout)["thresholds"]
    assert none["score"] is None
    assert none["why"] in ran.stderr
    assert some["score"] is not None
    ran = run("threshold", *SCORES, "--precision", 0.999, code=3)
    assert ran.stdout == ""


@pytest.mark.parametrize(
    "command, arguments, code, sentence",
    [
        ("threshold", [], 2, "threshold"),
        ("threshold", ["--value", "3"], 2, "--value.*--cost"),
        ("threshold", ["--cost", "3"], 2, "--cost needs --value too"),
        ("threshold", ["--per-day", "3"], 2, "--per-day needs --rows-per-day too"),
        ("threshold", ["--by", "branch"], 2, "--by.*--budget"),
        ("threshold", ["--value", "nothing", "--cost", "1"], 1, "nothing"),
        ("threshold", ["--value", "gap", "--cost", "1"], 1, "missing"),
        ("threshold", ["--value", "city", "--cost", "1"], 1, "numbers"),
        ("threshold", ["--value", "1", "--cost", "-1"], 1, "cost must be at least 0"),
        ("threshold", ["--per-day", "1", "--rows-per-day", "9999"], 3, "9,998"),
        ("evaluate", ["--budget", "3"], 2, "--by"),
        ("evaluate", ["--by", "nothing"], 1, "nothing"),
    ],
)
def test_errors_are_sentences(command, arguments, code, sentence):
    ran = run(command, *SCORES, *arguments, code=code)
    assert re.search(sentence, " ".join(ran.stderr.split()))
