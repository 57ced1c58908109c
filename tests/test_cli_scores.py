"""Commands on lists that others made: files of scores, and skops files of any estimator."""

import json
import pickle
import re

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from files import made_rows, write
from test_cli import run
from test_sources import TREE, fitted, read
from toppush import files
from toppush.files.sources import open_source

skops_io = pytest.importorskip("skops.io", reason="needs skops, an extra")
SCORES = ("scored.csv", "--scores", "s", "--label", "fraud")
SKOPS = ("lr.skops", "held.csv", "--label", "fraud")
OURS = ("m.toppush", "held.csv")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model, scores by it, an estimator of scikit-learn, and what somebody else may hand in."""
    folder = tmp_path_factory.mktemp("scores")
    train, held = made_rows(150), made_rows(300, seed=1)
    model = files.fit(write(folder / "t.csv", train), label="fraud", drop=["id"], lam=0.1, top=0.3)
    files.save(model, folder / "m.toppush")
    _, scores = files.labelled(model, write(folder / "held.csv", held))
    logistic = fitted(LogisticRegression(), train)
    skops_io.dump(logistic, folder / "lr.skops")
    (folder / "lr.pkl").write_bytes(pickle.dumps(logistic))
    mine = {"s": scores.tolist(), "low": (-scores).tolist(), "gap": [None] + [1.0] * 299}
    mine["lr"] = read(open_source(folder / "lr.skops"), folder / "held.csv").scores.tolist()
    write(folder / "scored.csv", held | mine | {"flat": [1.0] * 300, "one": ["yes"] * 300})
    return folder


@pytest.fixture(autouse=True)
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)


def measured(*arguments):
    return json.loads(run("evaluate", *arguments, "--json", "--draws", "20").stdout)["metrics"]


def test_scores_alone_measure_as_the_model_that_made_them():
    assert measured(*SCORES) == measured(*OURS)


def test_an_estimator_measures_as_its_scores():
    alone = measured("scored.csv", "--scores", "lr", "--label", "fraud")
    for one, other in zip(measured(*SKOPS), alone, strict=True):
        assert one.pop("metric") == other.pop("metric")
        assert one == pytest.approx(other, rel=1e-9)


def test_thresholds_agree_and_turn_round():
    wanted = ("--fpr", "0.1")
    ours = json.loads(run("threshold", *OURS, *wanted, "--json").stdout)
    alone = json.loads(run("threshold", *SCORES, *wanted, "--json").stdout)
    turned = ("scored.csv", "--scores", "low", "--label", "fraud", "--lower-is-better")
    low = json.loads(run("threshold", *turned, *wanted, "--json").stdout)
    ours, alone, low = (found["thresholds"][0] for found in (ours, alone, low))
    assert alone == ours
    assert low == ours | {"score": -ours["score"]}
    said = run("threshold", *turned, *wanted).stdout
    assert "Rows with a score below the threshold are alarms" in said
    assert "low, the lowest first" in said


@pytest.mark.long
@pytest.mark.parametrize("arguments", [SCORES, SKOPS, OURS], ids=["scores", "skops", "ours"])
def test_every_source_has_a_page(arguments, tmp_path):
    page = tmp_path / "page.html"
    run("report", *arguments, "--columns", "id", "-o", page)
    text = page.read_text(encoding="utf-8")
    assert "client " in text
    assert "Positive class" in text
    assert ("Influence of the columns" in text) == (arguments is not SCORES)


@pytest.mark.long
def test_a_page_of_an_estimator_stands_beside_logistic_regression(tmp_path):
    page = tmp_path / "page.html"
    run("report", *SKOPS, "--train", "t.csv", "-o", page)
    assert "Comparison with logistic regression" in page.read_text(encoding="utf-8")


@pytest.mark.long
def test_a_page_of_low_scores_says_so(tmp_path):
    page = tmp_path / "page.html"
    turned = ("--scores", "low", "--label", "fraud", "--lower-is-better")
    run("report", "scored.csv", *turned, "-o", page)
    assert "The lowest values of low are ranked first" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("scored.csv",), "--scores"),
        ((), "Missing argument 'DATA'"),
        ((*OURS, "--scores", "s"), "leave"),
        ((*OURS, "--positive", "yes"), "--positive"),
        ((*OURS, "--lower-is-better"), "--lower-is-better"),
        ((*OURS, "--trust", "a.B"), "--trust"),
        (("none.csv", "--scores", "s"), "exist"),
    ],
)
def test_wrong_usage(arguments, said):
    assert re.search(said, run("evaluate", *arguments, code=2).stderr)


@pytest.mark.parametrize("command", [("evaluate",), ("threshold", "--fpr", "0.1"), ("report",)])
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("scored.csv", "--scores", "z", "--label", "fraud"), "column 'z'"),
        (("scored.csv", "--scores", "s", "--label", "fraut"), r"'fraud'\?"),
        (("scored.csv", "--scores", "s"), "column 'label'"),
        (
            ("scored.csv", "--scores", "gap", "--label", "fraud"),
            "line 2.*column gap",
        ),
        (("scored.csv", "--scores", "city", "--label", "fraud"), "column city"),
        (("scored.csv", "--scores", "s", "--label", "one"), "'yes'"),
        (("scored.csv", "--scores", "s", "--label", "fraud", "--positive", "x"), "'x'"),
        (("lr.pkl", "held.csv", "--label", "fraud"), "pickle"),
        (("held.csv", "held.csv"), "model"),
        (("lr.skops", "t.csv", "--label", "member"), "--positive"),
    ],
)
def test_what_cannot_be_used_is_a_sentence(command, arguments, said, tmp_path):
    written = ("-o", tmp_path / "p.html") if command == ("report",) else ()
    assert re.search(said, run(*command, *arguments, *written, code=1).stderr)
    assert not (tmp_path / "p.html").exists()


def test_rows_of_one_class_are_told(tmp_path):
    one = ("lr.skops", "scored.csv", "--label", "one")
    assert "--positive" in run("evaluate", *one, code=1).stderr
    one = (*one, "--positive", "yes")
    assert "every row has the same label" in run("evaluate", *one, code=1).stderr
    run("report", *one, "-o", tmp_path / "p.html", code=1)
    assert "negatives" in run("threshold", *one, "--fpr", "0.1", code=3).stderr


def test_a_type_is_trusted_by_name(folder, tmp_path):
    from sklearn.ensemble import RandomForestClassifier

    skops_io.dump(fitted(RandomForestClassifier(3), made_rows(150)), tmp_path / "f.skops")
    forest = ("evaluate", tmp_path / "f.skops", *SKOPS[1:], "--draws", "20")
    assert f"add --trust {TREE}" in run(*forest, code=1).stderr
    assert "RandomForestClassifier, the highest first" in run(*forest, "--trust", TREE).stdout


def test_flat_scores_bring_a_caution():
    said = run("evaluate", "scored.csv", "--scores", "flat", "--label", "fraud", "--draws", "20")
    assert re.search("1 different", said.stderr)


def test_scores_the_wrong_way_round_bring_a_caution():
    said = run("evaluate", "scored.csv", "--scores", "low", "--label", "fraud", "--draws", "20")
    assert "add --lower-is-better" in said.stderr


def test_a_score_file_is_not_written_over(folder):
    before = (folder / "scored.csv").read_bytes()
    assert "would be lost" in run("report", *SCORES, "-o", "scored.csv", code=2).stderr
    assert (folder / "scored.csv").read_bytes() == before


def test_ties_count_in_proportion(tmp_path):
    table = {"s": [1, 1, 0, 0], "y": [1, 0, 1, 0]}
    path = write(tmp_path / "ties.csv", table)
    found = measured(path, "--scores", "s", "--label", "y")
    values = {one["metric"]: one["value"] for one in found if len(one) == 4}
    assert values["auc"] == 0.5
    assert values["positives_at_top"] == 0
    assert np.isclose(values["average_precision"], 0.5)
