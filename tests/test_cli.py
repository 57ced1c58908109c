"""The command `toppush`: results for people and programs, exit codes, and a whole run."""

import errno
import io as io_module
import json
import os
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score

from files import made_rows, write
from reproduce import commands
from toppush import files
from toppush.cli import main
from toppush.cli.info import baseline_caution
from toppush.cli.output import ThrottledStream, lines_to_stderr
from toppush.files import compare as comparing
from toppush.files.fitting import read_training_file
from toppush.files.ranking import COLUMNS
from toppush.system.extras import EXTRAS

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
               "--categorical", "member", "--scale", "standard"]  # fmt: skip
    found = result("fit", folder / "train.csv", "-o", folder / "k.toppush", *options)
    assert found["label"] == {
        "column": "fraud", "positive": "no", "others": ["yes"], "why": "as named",
    }  # fmt: skip
    assert found["data"]["rows"] == 500
    assert found["columns"]["dropped"] == ["city", "id"]
    assert {one["name"]: one["kind"] for one in found["columns"]["named"]} == {
        "age": "number", "income": "number", "member": "category",
    }  # fmt: skip
    assert found["fit"]["chosen_by_cv"]
    assert found["fit"]["top"] == 0.1
    assert found["fit"]["loss"] == "logistic"
    assert found["certificate"]["lower"] <= found["certificate"]["upper"]
    model = files.load(folder / "k.toppush")
    assert [name for name, _ in model.pipeline.steps] == ["columns", "scale", "ranker"]
    assert model.ranker.cv.random_state == 5


@pytest.mark.parametrize(
    "text, top", [("1", 1), ("25", 25), ("1%", 0.01), ("0.5", 0.5), ("auto", "auto")]
)
def test_tops_on_the_command_line(text, top, folder):
    run("fit", folder / "train.csv", "-o", folder / "t.toppush", "--label", "fraud", "--drop", "id",
        "--lam", "1", "--top", text)  # fmt: skip
    assert files.load(folder / "t.toppush").ranker.top == top


@pytest.mark.parametrize(
    "options, lams, tops",
    [
        (["--model", "linear"], None, None),
        (["--top", "auto"], None, ("auto",)),
        (["--top", "cv", "--lam", "0.5"], [0.5], None),
        (["--lam", "0.5"], [0.5], None),
    ],
)
def test_cv_means_cross_validation_and_auto_what_toppush_means(options, lams, tops, folder):
    run("fit", folder / "train.csv", "-o", folder / "cv.toppush", "--label", "fraud", "--drop",
        "id", "--cv", "2", *options)  # fmt: skip
    ranker = files.load(folder / "cv.toppush").ranker
    assert (ranker.lams, ranker.tops) == (lams, tops)


def test_a_model_far_behind_logistic_regression_says_so_first():
    about = {
        "baseline": {"average_precision": 0.70, "logistic_regression": 0.75},
        "seconds": {"solving": 1.0},
    }
    (caution,) = baseline_caution(about)
    assert caution.startswith("Caution: logistic regression")
    assert "0.750 against 0.700" in caution
    about["baseline"]["average_precision"] = 0.745
    assert baseline_caution(about) == []


def test_a_fit_is_compared_with_logistic_regression_on_its_folds(folder):
    found = result("fit", folder / "train.csv", "-o", folder / "b.toppush", "--label", "fraud",
                   "--drop", "id", "--cv", "3", "--model", "linear")  # fmt: skip
    model = files.load(folder / "b.toppush")
    given = read_training_file(folder / "train.csv", label="fraud", drop=["id"])
    X = given.rows.X
    for _, step in given.preparation():
        X = step.fit_transform(X)
    slow = cross_val_score(
        LogisticRegression(), X, given.positive, cv=model.ranker.cv, scoring="average_precision"
    )
    assert found["baseline"]["logistic_regression"] == pytest.approx(slow.mean(), abs=1e-3)
    assert 0.0 < found["baseline"]["average_precision"] <= 1.0
    given = result("fit", folder / "train.csv", "-o", folder / "b.toppush", "--label", "fraud",
                   "--drop", "id", "--lam", "1", "--top", "1")  # fmt: skip
    assert "baseline" not in given  # no folds, no comparison


@pytest.mark.parametrize(
    "option, module, registry",
    [
        ("--model", "toppush.modeltypes", "MODEL_TYPES"),
        ("--loss", "toppush.problem.losses", "LOSSES"),
        ("--scale", "toppush.tables.scaling", "SCALES"),
        ("--missing", "toppush.tables.columns", "WAYS"),
    ],
)
def test_choices_are_those_of_the_registry_when_it_is_asked(option, module, registry, monkeypatch):
    monkeypatch.setattr(f"{module}.{registry}", ("made-up", "other"))
    assert f"{option} [made-up|other" in run("fit", "--help").stdout
    ran = run("fit", "train.csv", "-o", "x", option, "maxabs", code=2)
    assert re.search(r"'maxabs'.*'made-up'.*'other'", ran.stderr)


def test_rank_lists_and_writes(folder):
    model = files.load(folder / "m.toppush")
    expected = files.rank(model, folder / "new.parquet", limit=7, columns=("id",))
    listed = result("rank", folder / "m.toppush", folder / "new.parquet", "--limit", 7,
                    "--columns", "id")  # fmt: skip
    assert listed["ranked"] == expected.to_pylist()
    assert listed["rows"] == 200
    run("rank", folder / "m.toppush", folder / "new.parquet", "-o", folder / "r.csv", "--limit", 7,
        "--columns", "id")  # fmt: skip
    written = (folder / "r.csv").read_text().splitlines()
    assert written[0] == "rank,percentile,probability,score,row,id"
    assert [line.split(",")[5] for line in written[1:]] == expected["id"].to_pylist()


def test_evaluate_agrees_with_the_metrics(folder):
    from toppush import metrics

    found = result("evaluate", folder / "m.toppush", folder / "held.csv", "--draws", 50)
    y, scores = files.labelled(files.load(folder / "m.toppush"), folder / "held.csv")
    assert found["positives"] == y.sum()
    names = set()
    for one in found["metrics"]:
        given = {key: one[key] for key in ("k", "max_fpr", "fraction") if key in one}
        assert one["value"] == pytest.approx(metrics.METRICS[one["metric"]](y, scores, **given))
        assert one["low"] <= one["high"]
        names.add(one["metric"])
    assert names == set(metrics.METRICS)
    assert [one["k"] for one in found["metrics"] if one["metric"] == "precision_at_k"] == [
        10, 50, 100, 500,
    ]  # fmt: skip


def test_threshold_is_that_of_the_library(folder):
    from toppush.thresholds.guarantees import threshold_at_fpr

    found = result("threshold", folder / "m.toppush", folder / "held.csv", "--fpr", 0.05)
    y, scores = files.labelled(files.load(folder / "m.toppush"), folder / "held.csv")
    expected = threshold_at_fpr(scores[~y], max_fpr=0.05)
    (answer,) = found["thresholds"]
    assert answer["score"] == expected.score
    assert answer["recall"] == pytest.approx(np.mean(scores[y] > expected.score))
    assert answer["fpr"] <= 0.05


@pytest.fixture(scope="module")
def comparison(folder):
    """What the command printed of two folds, what it was given, and what was told on the way."""
    found, told, compare = [], [], comparing.compare

    def noted(training, *, progress, **options):
        found.append(compare(training, progress=lambda *step: told.append(step), **options))
        return found[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparing, "compare", noted)
        printed = result("compare", folder / "new.parquet", "--label", "fraud", "--drop", "id",
                         "--cv", 2)  # fmt: skip
    return printed, found[0], told


def test_compare_sets_methods_side_by_side(comparison):
    found, _, _ = comparison
    assert list(found["folds"])[:4] == [
        "TopRanker", "logistic regression", "linear SVM", "LightGBM",
    ]  # fmt: skip
    for measures in found["folds"].values():
        assert all(len(values) == 2 for values in measures.values())
        assert min(measures["AUC"]) > 0.6


def test_info_says_what_the_model_is(folder):
    found = result("info", folder / "m.toppush")
    shortened = ("certificate", "scores", "profile")
    assert found == {
        key: value for key, value in files.load(folder / "m.toppush").about.items()
        if key not in shortened
    } | {key: found[key] for key in shortened}  # fmt: skip
    assert found["scores"] == {"held_out": True}
    assert found["profile"] == {"left_out": 0}
    shown = run("info", folder / "m.toppush").stdout
    assert "500 of train.csv" in shown
    assert shown.startswith("Positive: fraud = yes, the rarer of two strings (negative: no).\n")


def test_info_does_not_import_the_engines_of_models(folder):
    code = (
        "import sys; from toppush.cli import main; "
        f"main(['info', {str(folder / 'm.toppush')!r}], standalone_mode=False); "
        "assert not {'sklearn', 'scipy', 'pyarrow', 'lightgbm'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.long
def test_the_demo_needs_no_more_than_the_command_line():
    """The README's first command installs the extra [cli] alone."""
    beyond = [name for name, extra in EXTRAS.items() if extra == "reproduce"]
    assert "psutil" in beyond
    code = (
        f"import sys; sys.modules |= dict.fromkeys({beyond}); from importlib import import_module; "
        "demo = import_module('toppush.cli.demo'); demo.N_SPLITS = 1; demo.run()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.long
def test_demo_compares_the_default(tmp_path, monkeypatch):
    demo = import_module("toppush.cli.demo")

    monkeypatch.setattr(demo, "N_SPLITS", 2)
    monkeypatch.setenv("COLUMNS", "80")
    found = result("demo", "--picture", tmp_path / "d.png")
    assert list(found["splits"])[:2] == ["TopRanker", "LogisticRegression"]
    assert (tmp_path / "d.png").exists()
    measures = {
        ranker: {name: np.array(values) for name, values in measures.items()}
        for ranker, measures in found["splits"].items()
    }
    labels = {ranker: np.arange(200) < 9 for ranker in measures}
    made = demo.Demo(measures, found["seconds"], labels, found["leaderboard"], 1, 1, 1)
    monkeypatch.setattr(demo, "run", lambda seed: made)
    printed = run("demo", "--picture", tmp_path / "d.png").stdout
    rows = [line for line in printed.splitlines() if "±" in line]
    assert [row.split()[0] for row in rows] == list(found["splits"])
    assert max(map(len, rows)) <= 80
    assert "…" not in printed
    kept = CliRunner().invoke(commands.main, ["demo", "--out", str(tmp_path / "kept")])
    assert kept.exit_code == 0
    lines = (tmp_path / "kept" / "demo.csv").read_text(encoding="utf-8").splitlines()[1:]
    assert [" ".join(line.split(",")).split() for line in lines] == [row.split() for row in rows]
    assert (tmp_path / "kept" / "demo-leaderboard.csv").exists()


@pytest.mark.parametrize(
    "arguments, code, said",
    [
        (["fit", "train.csv", "-o", "x", "--lam", "1"], 1, "column 'label'"),
        (["fit", "train.csv", "-o", "x", "--label", "fraud", "--lam", "1", "--top", "0.3"], 0, ""),
        (
            ["fit", "train.csv", "-o", "x", "--label", "income", "--drop", "id"],
            1,
            "different labels",
        ),
        (["fit", "train.csv", "-o", "x", "--lam", "-1"], 2, "0 nor.*cv"),
        (["fit", "train.csv", "-o", "x", "--top", "0"], 2, "count.*1"),
        (["fit", "train.csv", "-o", "x", "--top", "200%"], 2, "count.*1"),
        (["fit", "train.csv", "-o", "none/x", "--lam", "1"], 2, "folder"),
        (["fit", "train.csv"], 2, "Missing option"),
        (["fit", "nowhere.csv", "-o", "x"], 2, "exist"),
        (["rank", "train.csv", "held.csv"], 1, r"train\.csv"),
        (["rank", "m.toppush", "m.toppush"], 1, "format"),
        (["rank", "m.toppush", "held.csv", "--columns", "x"], 1, "column 'x'"),
        (["rank", "m.toppush", "held.csv", "-o", "r.docx"], 1, "written"),
        (["threshold", "m.toppush", "held.csv", "--fpr", "0.0001"], 3, "29956"),
        (["threshold", "m.toppush", "train.csv", "--fpr", "0.1"], 1, "fitted"),
        (["threshold", "m.toppush", "held.csv", "--fpr", "2"], 2, r"0\.0<x<1\.0"),
        (["unknown"], 2, "command"),
    ],
)
def test_exit_codes(arguments, code, said, folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert re.search(said, run(*arguments, code=code).stderr)


def test_warnings_go_to_the_error_stream(folder):
    ran = run("evaluate", folder / "m.toppush", folder / "train.csv", "--draws", 10, "--json")
    assert "Warning: the model was fitted to this file" in ran.stderr
    assert json.loads(ran.stdout)["rows"] == 500


# Options that take many values, or one.


@pytest.mark.parametrize(
    "given",
    [
        ["--drop", "id", "--drop", "leak"],
        ["--drop", "id,leak"],
        ["--drop", "leak, id", "--drop", "leak"],
        ["--drop", "leak", "--drop", "id", "--drop", ""],
    ],
)
def test_repeats_and_commas_drop_the_same(given, tmp_path):
    rows = made_rows(80)
    rows["leak"] = [int(label == "yes") for label in rows["fraud"]]
    path = write(tmp_path / "t.csv", rows)
    found = result(
        "fit", path, "-o", tmp_path / "m", "--label", "fraud", "--lam", 1, "--top", 0.3, *given
    )
    assert found["columns"]["dropped"] == ["id", "leak"]
    assert {one["name"] for one in found["columns"]["named"]} == {"age", "income", "city", "member"}


def test_a_name_with_a_comma_is_one_column(tmp_path):
    rows = made_rows(80)
    rows["city, land"] = rows.pop("city")
    path = write(tmp_path / "t.csv", rows)
    given = ["--drop", "id,age", "--drop", "city, land", "--categorical", "member"]
    found = result(
        "fit", path, "-o", tmp_path / "m", "--label", "fraud", "--lam", 1, "--top", 0.3, *given
    )
    assert found["columns"]["dropped"] == ["age", "city, land", "id"]
    listed = result("rank", tmp_path / "m", path, "--columns", "city, land", "--columns", "id,age")
    assert list(listed["ranked"][0]) == [*COLUMNS, "city, land", "id", "age"]


def test_columns_of_reports_repeat_too(folder, tmp_path):
    ran = run("report", folder / "m.toppush", folder / "held.csv", "-o", tmp_path / "r.html",
              "--columns", "id", "--columns", "city")  # fmt: skip
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "optimistic" not in ran.stderr
    assert "fitted to" not in page
    assert "client " in page
    assert "S\\u00e3o Paulo" in page or "São Paulo" in page


def noting(seen):
    """A stand-in for some work, which notes what it is given and goes no further."""

    def note(*given, **options):
        seen.append(given)
        raise files.DataError("noted")

    return note


def test_columns_of_comparisons_repeat_too(folder, monkeypatch):
    seen = []
    monkeypatch.setattr(comparing, "compare", noting(seen))
    CliRunner().invoke(main, ["compare", str(folder / "train.csv"), "--label", "fraud",
                              "--drop", "id", "--drop", "income"])  # fmt: skip
    (((given,)),) = seen
    assert given.rows.X.column_names == ["age", "city", "member"]


@pytest.mark.parametrize("option, values", [("--lam", "12"), ("--label", "ab"), ("-o", "xy")])
def test_an_option_for_one_value_is_given_once(option, values, folder):
    given = [part for value in values for part in (option, value)]
    ran = run("fit", folder / "train.csv", "-o", "x", *given, code=2)
    assert "takes one value; give it once" in ran.stderr


# Labels.


@pytest.fixture(scope="module")
def frauds(tmp_path_factory):
    """A folder with tables whose rarer label, fraud, comes first in the alphabet."""
    folder = tmp_path_factory.mktemp("labels")
    for name, seed in (("train", 0), ("held", 1)):
        rows = made_rows(300, seed=seed)
        rows["label"] = ["fraud" if label == "yes" else "legit" for label in rows.pop("fraud")]
        del rows["id"]
        write(folder / f"{name}.csv", rows)
    run("fit", folder / "train.csv", "-o", folder / "m", "--lam", 1, "--top", 0.3)
    return folder


def test_the_rarer_of_two_texts_is_positive(frauds):
    ran = run("fit", frauds / "train.csv", "-o", frauds / "again", "--lam", 1, "--top", 0.3)
    assert ran.stdout.splitlines()[0] == (
        "Positive: label = fraud, the rarer of two strings (negative: legit). Use --positive "
        "legit to rank the other class first."
    )
    found = result("fit", frauds / "train.csv", "-o", frauds / "again", "--lam", 1, "--top", 0.3)
    assert found["label"]["positive"] == "fraud"
    assert found["label"]["why"] == "the rarer of two strings"
    assert found["data"]["positives"] == 45
    turned = result("fit", frauds / "train.csv", "-o", frauds / "turned", "--lam", 1, "--top", 0.3,
                    "--positive", "legit")  # fmt: skip
    assert turned["data"]["positives"] == 255


@pytest.mark.parametrize(
    "command",
    [("evaluate", "--draws", 10), ("threshold", "--fpr", 0.2), ("rank",), ("report", "-o", "r")],
    ids=lambda command: command[0],
)
def test_every_command_says_which_label_is_positive_first(command, frauds, monkeypatch):
    monkeypatch.chdir(frauds)
    name, *options = command
    ran = run(name, "m", "held.csv", *options)
    first = "Positive: label = fraud, as in the model (negative: legit)."
    assert ran.stdout.splitlines()[0] == first
    assert result(name, "m", "held.csv", *options)["label"]["positive"] == "fraud"


def test_compare_says_which_label_is_positive_first(frauds, comparison, monkeypatch):
    monkeypatch.setattr(comparing, "compare", lambda *given, **options: comparison[1])
    ran = run("compare", frauds / "train.csv", "--cv", 2)
    assert ran.stdout.startswith("Positive: label = fraud, the rarer of two strings")
    assert "logistic regression" in ran.stdout


# Cautions.


def test_a_report_on_the_training_rows_is_cautioned(frauds, tmp_path):
    ran = run("report", frauds / "m", frauds / "train.csv", "-o", tmp_path / "r.html")
    assert "Warning: the model was fitted to this file" in ran.stderr
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "which the model was fitted to" in page


def test_more_folds_than_positives_are_refused(frauds):
    ran = run("fit", frauds / "train.csv", "-o", frauds / "x", "--cv", 46, code=1)
    assert re.search(r"46 folds.*--cv.*45 positives.*\('fraud'\)", ran.stderr)
    assert not (frauds / "x").exists()
    fixed = "--lam", 1, "--top", 1
    run("fit", frauds / "train.csv", "-o", frauds / "x", "--cv", 46, *fixed)  # no folds


def test_ids_are_cautioned_and_constant_columns_left_out(tmp_path):
    rows = made_rows(80) | {"customer": list(range(80)), "year": [2024] * 80, "land": ["F"] * 80}
    ran = run("fit", write(tmp_path / "t.csv", rows), "-o", tmp_path / "m", "--label", "fraud",
              "--lam", 1, "--top", 0.3)  # fmt: skip
    assert "id,customer: left out" in ran.stderr
    assert "Left out, the same in every row: year, land." in ran.stdout
    assert "--drop id,customer" in run("info", tmp_path / "m").stdout
    del rows["year"], rows["land"]
    run("rank", tmp_path / "m", write(tmp_path / "new.csv", rows))  # which needs neither


def test_columns_of_another_unit_are_cautioned(folder, tmp_path):
    rows = made_rows(50, seed=3)
    rows["income"] = [1e6 * value for value in rows["income"]]
    path = write(tmp_path / "cents.csv", rows)
    for command in (["rank"], ["evaluate", "--draws", 10], ["report", "-o", tmp_path / "r"]):
        ran = run(command[0], folder / "m.toppush", path, *command[1:])
        assert "far larger than any that the model was fitted to" in ran.stderr
        assert "income (" in ran.stderr
        assert "age (" not in ran.stderr
    assert result("rank", folder / "m.toppush", path)["larger"]["income"] > 1e3
    assert "larger" not in run("rank", folder / "m.toppush", folder / "held.csv").stderr


# Errors.


def test_all_bad_columns_are_named_at_once(tmp_path):
    rows = made_rows(80) | {"height": [f"{row}.5" for row in range(80)]}
    rows["income"][7], rows["height"][3] = "much", "tall"
    ran = run("fit", write(tmp_path / "t.csv", rows), "-o", tmp_path / "m", "--label", "fraud",
              code=1)  # fmt: skip
    assert re.search("2 columns", ran.stderr)
    assert "--drop income,height" in ran.stderr
    assert re.search(r"line 9.*column 3.*'much'", ran.stderr)
    assert "'tall'" in ran.stderr


def test_help_shows_whole_sentences(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for group in (main, commands.main):
        shown = CliRunner().invoke(group, ["--help"]).stdout
        words = " ".join(shown[shown.index("Commands:") :].split())
        for name, command in group.commands.items():
            first = " ".join(command.help.split()).split(". ")[0].split(" Example:")[0]
            assert f"{name} {first.rstrip('.')}" in words


def test_whole_numbers_of_a_carried_column_are_shown_without_a_point(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    rows = made_rows(100)
    rows["number"] = [None if row == 3 else 2478 + 3 * (row % 50) for row in range(100)]
    write(tmp_path / "train.csv", rows)
    model = tmp_path / "m"
    run("fit", tmp_path / "train.csv", "-o", model, "--label", "fraud", "--drop", "id,city",
        "--lam", "1", "--top", "30%")  # fmt: skip
    shown = run("rank", model, tmp_path / "train.csv", "--columns", "number").stdout
    numbers = re.findall(r"\b2[456]\d\d\b[.0]*", shown)
    assert numbers
    assert all(number.isdigit() for number in numbers)


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["fit", "train.csv", "-o", "x", "--label", "frud"], r"'frud'.*'fraud'\?\)"),
        (["fit", "train.csv", "-o", "x", "--label", "fraud", "--drop", "Id,agee,q"],
         r"columns 'Id'.*'id'\?\).*'agee'.*'age'\?\).*'q'"),
        (["rank", "m.toppush", "held.csv", "--columns", "idd"], r"'idd'.*'id'\?\)"),
        (["fit", "train.csv", "-o", "x", "--label", "fraud", "--drop", "frauds"], "'frauds';"),
        (["fit", "train.csv", "-o", "x", "--label", "fraud", "--groups", "frauds"], "'frauds';"),
        (["fit", "train.csv", "-o", "x", "--label", "fraud", "--positive", "ys"],
         r"'ys'.*'yes'\?\)"),
        (["fit", "train.csv", "-o", "x", "--lable", "fraud"], "--label"),
        (["fti", "train.csv"], "'fti'"),
    ],
)  # fmt: skip
def test_did_you_mean(arguments, said, folder, monkeypatch):
    monkeypatch.chdir(folder)
    ran = CliRunner().invoke(main, arguments)
    assert ran.exit_code in (1, 2)
    assert re.search(said, ran.stderr)


def test_an_error_that_nobody_foresaw_is_a_sentence_and_a_file(folder, tmp_path, monkeypatch):
    def broken(*arguments, **options):
        secret = "a value of the data"
        return {}[len(secret)]

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("toppush.files.load", broken)
    monkeypatch.setattr(sys, "argv", ["toppush", "rank", "m.toppush", "held out.csv"])
    ran = run("rank", folder / "m.toppush", folder / "held.csv", code=4)
    assert "Traceback" not in ran.output
    (written,) = tmp_path.glob("toppush-error-*.txt")
    assert f"Please send {written}" in ran.stderr
    text = written.read_text()
    assert re.search(r"m\.toppush.*'held.*out\.csv'", text)
    assert "KeyError: 19" in text
    assert "numpy" in text
    assert "a value of the data" not in text.replace('secret = "a value of the data"', "")


@pytest.mark.parametrize(
    "error, code, said",
    [
        (MemoryError("16 GiB"), 1, "16.*GiB"),
        (OSError("no space left"), 1, "space"),
        (RuntimeError("odd"), 4, r"\(RuntimeError"),
    ],
)
def test_what_is_said_of_an_error(error, code, said, folder, tmp_path, monkeypatch):
    def broken(*arguments, **options):
        raise error

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("toppush.files.load", broken)
    ran = run("rank", folder / "m.toppush", folder / "held.csv", code=code)
    assert re.search(said, ran.stderr)


def test_an_error_of_another_package_is_none_of_ours(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("toppush.files.load", lambda path: np.linalg.inv(np.zeros((2, 3))))
    ran = run("rank", folder / "m.toppush", folder / "held.csv", code=4)
    assert "LinAlgError" in ran.stderr


# Progress.


class Tty(io_module.StringIO):
    def isatty(self):
        return True


def test_a_fit_shows_how_far_it_is_on_the_error_stream(folder, monkeypatch):
    stream = Tty()
    monkeypatch.setattr(sys, "stderr", stream)
    with lines_to_stderr():
        print("12 of 45", end="\r")
    assert stream.getvalue() == "12 of 45\r"


def test_elsewhere_a_line_comes_now_and_then():
    now = [0.0]
    out = io_module.StringIO()
    stream = ThrottledStream(out, every=10.0, clock=lambda: now[0])
    for second in range(36):
        now[0] = float(second)
        stream.write(f"{second} s\n")
    assert out.getvalue() == "10 s\n20 s\n30 s\n"


def test_fit_follows_its_ranker_unless_json_is_wanted(folder, monkeypatch):
    import toppush.files.fitting as fitting

    asked = []
    fit_and_warn = fitting.fit_and_warn
    monkeypatch.setattr(fitting, "fit_and_warn", lambda ranker, *given: asked.append(
        ranker.verbose) or fit_and_warn(ranker, *given))  # fmt: skip
    given = ["fit", folder / "train.csv", "-o", folder / "v", "--label", "fraud", "--drop", "id",
             "--lam", 1, "--top", 0.3]  # fmt: skip
    ran = run(*given)
    assert "iteration  " not in ran.stdout
    result(*given)
    assert asked == [1, 0]
    assert files.load(folder / "v").ranker.verbose == 0


def test_compare_tells_of_every_fit(comparison):
    _, found, told = comparison
    n_all = 2 * len(found.values)
    assert [done for done, _, _ in told] == list(range(n_all))
    assert {total for _, total, _ in told} == {n_all}
    assert told[-1][2].startswith("fold 2 of 2, ")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example_and_json(command):
    shown = run(command, "--help").stdout
    assert f"Example: toppush {command}" in shown
    assert "--json" in shown


def test_names_with_brackets_are_shown_as_they_are(tmp_path):
    rows = made_rows(80)
    rows["[red]age"] = rows.pop("age")
    ran = run("fit", write(tmp_path / "t.csv", rows), "-o", tmp_path / "m", "--label", "fraud",
              "--drop", "id", "--lam", "1", "--top", "0.3")  # fmt: skip
    assert "[red]age" in ran.stdout


def installed():
    """The command as it is installed beside this interpreter."""
    command = shutil.which("toppush", path=str(Path(sys.executable).parent))
    assert command is not None
    return command


def terminal(*arguments, code=0):
    """Run in a process of its own; what went to its output."""
    ran = subprocess.run(
        [installed(), *map(str, arguments)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONWARNINGS": "error::ResourceWarning", "COLUMNS": "80"},
    )
    assert ran.returncode == code, ran.stderr
    assert "Traceback" not in ran.stderr
    return ran.stdout


@pytest.mark.long
def test_the_exit_code_is_ours_soon_after_a_file_was_read(folder):
    """pyarrow's threads once aborted every second process that ended so."""
    for _ in range(3):
        terminal("threshold", folder / "m.toppush", folder / "held.csv", "--fpr", "0.0001",
                 code=3)  # fmt: skip


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


def in_process(*arguments):
    return run(*arguments).stdout


@pytest.mark.parametrize("call", [in_process, pytest.param(terminal, marks=pytest.mark.slow)])
def test_a_whole_run(call, tmp_path, monkeypatch):
    """From a raw CSV with texts and gaps to a model, a threshold, a ranked list, a report."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "train.csv", made_rows(1500))
    write(tmp_path / "held.csv", made_rows(1500, seed=1))
    new = made_rows(1000, seed=2)
    truth = new.pop("fraud")
    new["city"][:5] = ["Atlantis"] * 5
    write(tmp_path / "new.csv", new)
    fitted = call("fit", "train.csv", "-o", "fraud.toppush", "--label", "fraud", "--drop", "id",
                      "--cv", "2", "--top", "10%")  # fmt: skip
    assert "Missing values imputed" in fitted
    assert "Certificate of the training objective" in fitted
    measured = json.loads(call("evaluate", "fraud.toppush", "held.csv", "--json"))
    area = next(one for one in measured["metrics"] if one["metric"] == "auc")
    assert 0.8 < area["low"] <= area["value"] <= area["high"]
    line = json.loads(call("threshold", "fraud.toppush", "held.csv", "--fpr", "0.05", "--json"))
    ranked = call("rank", "fraud.toppush", "new.csv", "-o", "ranked.csv", "--columns", "id")
    assert "city 5" in ranked
    names, *rows = [row.split(",") for row in (tmp_path / "ranked.csv").read_text().splitlines()]
    assert names == [*COLUMNS, "id"]
    scores = np.array([float(row[3]) for row in rows])
    assert (np.diff(scores) <= 0).all()
    assert all(f"client {int(row) - 1}" == name for *_, row, name in rows)
    fraud = np.array([truth[int(row[4]) - 1] == "yes" for row in rows])
    assert fraud[:50].mean() > 3 * fraud.mean()
    alarms = scores > line["thresholds"][0]["score"]
    assert alarms[~fraud].mean() < 0.08
    assert "1,500 of train.csv" in call("info", "fraud.toppush")
    told = json.loads(
        call("report", "fraud.toppush", "held.csv", "--train", "train.csv", "--columns",
                 "id,city", "-o", "report.html", "--json")
    )  # fmt: skip
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert told["rows"] == 1500
    assert "Comparison with logistic regression" in page
    assert "client " in page


@pytest.mark.long
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, which Linux has")
@pytest.mark.parametrize("arguments", [["--help"], ["info"], ["info", "--json"]])
def test_output_that_cannot_be_written_is_reported(arguments, folder):
    """A full disk with a sentence, a closed pipe without; also what is written at the end."""
    if arguments[0] == "info":
        arguments = [*arguments, folder / "m.toppush"]
    command = [sys.executable, "-m", "toppush", *map(str, arguments)]
    with open("/dev/full", "w") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert ended.returncode == 1
    assert len(ended.stderr.splitlines()) == 1
    assert os.strerror(errno.ENOSPC) in ended.stderr
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as closed:
        ended = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, text=True)
    assert (ended.returncode, ended.stderr) == (1, "")


def test_formulas_are_written_as_they_are_if_asked(folder, tmp_path):
    rows = made_rows(20, seed=4) | {"id": ["=1+1"] * 20}
    new = write(tmp_path / "new.csv", rows)
    for options, cell in (((), "'=1+1"), (("--raw-cells",), "=1+1")):
        run(
            "rank", folder / "m.toppush", new, "-o", tmp_path / "r.csv", "--columns", "id", *options
        )
        lines = (tmp_path / "r.csv").read_text().splitlines()
        assert all(line.split(",")[-1].strip('"') == cell for line in lines[1:])
