"""The command `toppush`: results for people and programs, exit codes, and a whole run."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score

from files import made_rows, write
from toppush import io
from toppush.cli import main
from toppush.cli.fit import describe
from toppush.io.fitting import read_training

COMMANDS = ("fit", "rank", "evaluate", "compare", "threshold", "info", "demo")


def run(*arguments, code=0):
    """Run in this process; what went to the output and to the error stream."""
    ran = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert ran.exit_code == code, ran.output
    assert ran.exception is None or isinstance(ran.exception, SystemExit)
    return ran


def result(*arguments):
    return json.loads(run(*arguments, "--json").stdout)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    write(folder / "train.csv", made_rows(500))
    write(folder / "held.csv", made_rows(600, seed=1))
    write(folder / "new.parquet", made_rows(200, seed=2))
    run("fit", folder / "train.csv", "-o", folder / "m.toppush", "--label", "fraud",
        "--drop", "id", "--lam", "0.1", "--top", "30%")  # fmt: skip
    return folder


def test_fit_reports_what_it_did(folder):
    options = ["--label", "fraud", "--positive", "no", "--drop", "id,city", "--lam", "cv",
               "--top", "0.1", "--cv", "3", "--seed", "5", "--loss", "logistic",
               "--categorical", "member", "--kernel", "nystroem:15", "--scale",
               "standard"]  # fmt: skip
    found = result("fit", folder / "train.csv", "-o", folder / "k.toppush", *options)
    assert found["label"] == {"column": "fraud", "positive": "no", "others": ["yes"]}
    assert found["data"]["rows"] == 500
    assert found["columns"]["dropped"] == ["city", "id"]
    assert {one["name"]: one["kind"] for one in found["columns"]["named"]} == {
        "age": "number", "income": "number", "member": "category",
    }  # fmt: skip
    assert found["fit"]["chosen_by_cv"]
    assert found["fit"]["top"] == 0.1
    assert found["fit"]["loss"] == "logistic"
    assert found["certificate"]["lower"] <= found["certificate"]["upper"]
    model = io.load(folder / "k.toppush")
    assert [name for name, _ in model.pipeline.steps] == ["columns", "scale", "kernel", "ranker"]
    assert model.ranker.cv.random_state == 5


@pytest.mark.parametrize(
    "text, top", [("1", 1), ("25", 25), ("1%", 0.01), ("0.5", 0.5), ("auto", "auto")]
)
def test_tops_on_the_command_line(text, top, folder):
    run("fit", folder / "train.csv", "-o", folder / "t.toppush", "--label", "fraud", "--drop", "id",
        "--lam", "1", "--top", text)  # fmt: skip
    assert io.load(folder / "t.toppush").ranker.top == top


@pytest.mark.parametrize(
    "options, lams, tops",
    [
        ([], None, None),
        (["--top", "auto"], None, ("auto",)),
        (["--top", "cv", "--lam", "0.5"], [0.5], None),
        (["--lam", "0.5"], [0.5], None),
    ],
)
def test_cv_means_cross_validation_and_auto_what_toppush_means(options, lams, tops, folder):
    run("fit", folder / "train.csv", "-o", folder / "cv.toppush", "--label", "fraud", "--drop",
        "id", "--cv", "2", *options)  # fmt: skip
    ranker = io.load(folder / "cv.toppush").ranker
    assert (ranker.lams, ranker.tops) == (lams, tops)


def test_a_model_far_behind_logistic_regression_says_so_first():
    about = {
        "beside": {"average_precision": 0.70, "logistic_regression": 0.75},
        "seconds": {"solving": 1.0},
    }
    caution, *rest = describe(about)
    assert caution.startswith("Caution: logistic regression ranks the whole list better")
    assert "0.750 against 0.700" in caution
    about["beside"]["average_precision"] = 0.745
    assert describe(about) == rest


def test_a_fit_is_compared_with_logistic_regression_on_its_folds(folder):
    found = result("fit", folder / "train.csv", "-o", folder / "b.toppush", "--label", "fraud",
                   "--drop", "id", "--cv", "3")  # fmt: skip
    model = io.load(folder / "b.toppush")
    given = read_training(folder / "train.csv", label="fraud", drop=["id"])
    X = given.rows.X
    for _, step in given.preparation():
        X = step.fit_transform(X)
    slow = cross_val_score(
        LogisticRegression(), X, given.positive, cv=model.ranker.cv, scoring="average_precision"
    )
    assert found["beside"]["logistic_regression"] == pytest.approx(slow.mean(), abs=1e-3)
    assert 0.0 < found["beside"]["average_precision"] <= 1.0
    given = result("fit", folder / "train.csv", "-o", folder / "b.toppush", "--label", "fraud",
                   "--drop", "id", "--lam", "1", "--top", "1")  # fmt: skip
    assert "beside" not in given  # no folds, no comparison


def test_rank_lists_and_writes(folder):
    model = io.load(folder / "m.toppush")
    expected = io.rank(model, folder / "new.parquet", limit=7, columns=("id",))
    listed = result("rank", folder / "m.toppush", folder / "new.parquet", "--limit", 7,
                    "--columns", "id")  # fmt: skip
    assert listed["ranked"] == expected.to_pylist()
    assert listed["rows"] == 200
    run("rank", folder / "m.toppush", folder / "new.parquet", "-o", folder / "r.csv", "--limit", 7,
        "--columns", "id")  # fmt: skip
    written = (folder / "r.csv").read_text().splitlines()
    assert written[0] == "rank,score,row,id"
    assert [line.split(",")[3] for line in written[1:]] == expected["id"].to_pylist()


def test_evaluate_agrees_with_the_metrics(folder):
    from toppush import metrics

    found = result("evaluate", folder / "m.toppush", folder / "held.csv", "--draws", 50)
    y, scores = io.labelled(io.load(folder / "m.toppush"), folder / "held.csv")
    assert found["positives"] == y.sum()
    names = set()
    for one in found["measures"]:
        given = {key: one[key] for key in ("k", "max_fpr", "fraction") if key in one}
        assert one["value"] == pytest.approx(metrics.METRICS[one["measure"]](y, scores, **given))
        assert one["low"] <= one["high"]
        names.add(one["measure"])
    assert names == set(metrics.METRICS)
    assert [one["k"] for one in found["measures"] if one["measure"] == "precision_at_k"] == [
        10, 50, 100, 500,
    ]  # fmt: skip


def test_threshold_is_that_of_the_library(folder):
    from toppush.thresholds import threshold_at_fpr

    found = result("threshold", folder / "m.toppush", folder / "held.csv", "--fpr", 0.05)
    y, scores = io.labelled(io.load(folder / "m.toppush"), folder / "held.csv")
    expected = threshold_at_fpr(scores[~y], max_fpr=0.05)
    assert found["score"] == expected.score
    assert found["order"] == expected.order
    assert found["recall"] == pytest.approx(np.mean(scores[y] > expected.score))
    assert found["observed_fpr"] <= 0.05


def test_compare_sets_methods_side_by_side(folder):
    found = result("compare", folder / "train.csv", "--label", "fraud", "--drop", "id", "--cv", 2)
    assert list(found["folds"])[:4] == [
        "TopPush", "TopPush family", "logistic regression", "linear SVM",
    ]  # fmt: skip
    for measures in found["folds"].values():
        assert all(len(values) == 2 for values in measures.values())
        assert min(measures["AUC"]) > 0.6
    ran = run("compare", folder / "new.parquet", "--label", "fraud", "--drop", "id", "--cv", 2)
    assert "logistic regression" in ran.stdout


def test_info_says_what_the_model_is(folder):
    found = result("info", folder / "m.toppush")
    assert found == {
        key: value for key, value in io.load(folder / "m.toppush").about.items()
        if key != "certificate"
    } | {"certificate": found["certificate"]}  # fmt: skip
    assert "500 of train.csv" in run("info", folder / "m.toppush").stdout


def test_demo_as_json(tmp_path):
    found = result("demo", "--picture", tmp_path / "d.png")
    assert set(found["splits"]) == {"TopPush", "LogisticRegression"}
    assert (tmp_path / "d.png").exists()


@pytest.mark.parametrize(
    "arguments, code, said",
    [
        (["fit", "train.csv", "-o", "x", "--lam", "1"], 1, "has no column 'label'"),
        (["fit", "train.csv", "-o", "x", "--label", "fraud", "--lam", "1"], 0, ""),
        (
            ["fit", "train.csv", "-o", "x", "--label", "income", "--drop", "id"],
            1,
            "different labels",
        ),
        (["fit", "train.csv", "-o", "x", "--lam", "-1"], 2, "neither a number above 0 nor cv"),
        (["fit", "train.csv", "-o", "x", "--top", "0"], 2, "give a count from 1"),
        (["fit", "train.csv", "-o", "x", "--top", "200%"], 2, "give a count from 1"),
        (["fit", "train.csv", "-o", "none/x", "--lam", "1"], 2, "is not a folder"),
        (["fit", "train.csv"], 2, "Missing option"),
        (["fit", "nowhere.csv", "-o", "x"], 2, "does not exist"),
        (["rank", "train.csv", "held.csv"], 1, "train.csv: it is not a model file"),
        (["rank", "m.toppush", "m.toppush"], 1, "name the format"),
        (["rank", "m.toppush", "held.csv", "--columns", "x"], 1, "has no column 'x'"),
        (["rank", "m.toppush", "held.csv", "-o", "r.docx"], 1, "cannot be written"),
        (["threshold", "m.toppush", "held.csv", "--fpr", "0.0001"], 3, "needs at least 29956"),
        (["threshold", "m.toppush", "train.csv", "--fpr", "0.1"], 1, "was fitted to this file"),
        (["threshold", "m.toppush", "held.csv", "--fpr", "2"], 2, "0.0<x<1.0"),
        (["unknown"], 2, "No such command"),
    ],
)
def test_exit_codes(arguments, code, said, folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert said in run(*arguments, code=code).stderr


def test_warnings_go_to_the_error_stream(folder):
    ran = run("evaluate", folder / "m.toppush", folder / "train.csv", "--draws", 10, "--json")
    assert "Warning: the model was fitted to this file" in ran.stderr
    assert json.loads(ran.stdout)["rows"] == 500


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example_and_json(command):
    shown = run(command, "--help").stdout
    assert f"Example: toppush {command}" in shown
    assert "--json" in shown


def test_names_with_brackets_are_shown_as_they_are(tmp_path):
    rows = made_rows(80)
    rows["[red]age"] = rows.pop("age")
    ran = run("fit", write(tmp_path / "t.csv", rows), "-o", tmp_path / "m", "--label", "fraud",
              "--drop", "id", "--lam", "1")  # fmt: skip
    assert "[red]age" in ran.stdout


def installed():
    """The command as it is installed beside this interpreter."""
    command = shutil.which("toppush", path=str(Path(sys.executable).parent))
    assert command is not None
    return command


def terminal(*arguments, cwd, code=0):
    ran = subprocess.run(
        [installed(), *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONWARNINGS": "error::ResourceWarning", "COLUMNS": "80"},
    )
    assert ran.returncode == code, ran.stderr
    assert "Traceback" not in ran.stderr
    return ran.stdout


def test_shell_completion_is_there(tmp_path):
    ran = subprocess.run(
        [installed()], capture_output=True, text=True, check=True,
        env=os.environ | {"_TOPPUSH_COMPLETE": "zsh_source"},
    )  # fmt: skip
    assert "compdef" in ran.stdout


def test_help_loads_nothing_heavy():
    script = (
        "import sys; from click.testing import CliRunner; from toppush.cli import main; "
        "assert CliRunner().invoke(main, ['--help']).exit_code == 0; print(*sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in ran.stdout.split()}
    assert "click" in loaded
    assert not loaded & {"numpy", "scipy", "sklearn", "pyarrow", "skops", "matplotlib", "rich"}


def test_a_whole_run_in_a_terminal(tmp_path):
    """From a raw CSV with texts and gaps to a model, a threshold, a ranked list, a report."""
    write(tmp_path / "train.csv", made_rows(1500))
    write(tmp_path / "held.csv", made_rows(1500, seed=1))
    new = made_rows(1000, seed=2)
    truth = new.pop("fraud")
    new["city"][:5] = ["Atlantis"] * 5
    write(tmp_path / "new.csv", new)
    fitted = terminal("fit", "train.csv", "-o", "fraud.toppush", "--label", "fraud", "--drop", "id",
                      "--cv", "3", cwd=tmp_path)  # fmt: skip
    assert "Gaps filled" in fitted
    assert "Certificate: objective" in fitted
    measured = json.loads(terminal("evaluate", "fraud.toppush", "held.csv", "--json", cwd=tmp_path))
    area = next(one for one in measured["measures"] if one["measure"] == "auc")
    assert 0.8 < area["low"] <= area["value"] <= area["high"]
    line = json.loads(
        terminal("threshold", "fraud.toppush", "held.csv", "--fpr", "0.05", "--json", cwd=tmp_path)
    )
    ranked = terminal("rank", "fraud.toppush", "new.csv", "-o", "ranked.csv", "--columns", "id",
                      cwd=tmp_path)  # fmt: skip
    assert "Texts that the model does not know: city 5." in ranked
    names, *rows = [row.split(",") for row in (tmp_path / "ranked.csv").read_text().splitlines()]
    assert names == ["rank", "score", "row", "id"]
    scores = np.array([float(row[1]) for row in rows])
    assert (np.diff(scores) <= 0).all()
    assert all(f"client {int(row) - 1}" == name for _, _, row, name in rows)
    fraud = np.array([truth[int(row[2]) - 1] == "yes" for row in rows])
    assert fraud[:50].mean() > 3 * fraud.mean()
    alarms = scores > line["score"]
    assert alarms[~fraud].mean() < 0.08
    assert "1,500 of train.csv" in terminal("info", "fraud.toppush", cwd=tmp_path)
    told = json.loads(
        terminal("report", "fraud.toppush", "held.csv", "--train", "train.csv", "--columns",
                 "id,city", "-o", "report.html", "--json", cwd=tmp_path)
    )  # fmt: skip
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert told["rows"] == 1500
    assert "Beside logistic regression" in page
    assert "client " in page
