"""Every model type by commands, from fit to report."""

import json
import re
import signal
import subprocess
import sys

import numpy as np
import pytest

from files import ENGINES, EVERY_KIND, QUICK, made_rows, odd_rows, write
from test_cli import result, run
from test_files_models import archive_of, forged
from toppush import files
from toppush.modeltypes import MODEL_TYPES
from toppush.system.extras import EXTRAS

every_kind = pytest.mark.parametrize("kind", EVERY_KIND)
FIT = ("--label", "fraud", "--drop", "id", "--threads", "1")
SENTENCES = {
    "auto": "effort quick, seed 0",
    "linear": "lam 0.1, top 77 of the negatives, as given",
    "additive": "The sum of a curve of each of 4 columns: lam 0.1",
    "trees": "Boosted trees: 2 members of",
    "net": "Networks: 2 members with 256 and 128 hidden units",
}
CROSS_FITTED = {"auto", *ENGINES}
"""Kinds that have scores of rows unseen and no certificate."""
MOVES = {
    "auto": "Contributions are weighted means over the base models",
    "linear": "To the right: larger values rank higher",
    "additive": "The score is a sum of one curve for each column",
    "trees": "Shapley values",
    "net": "Shapley values",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli-kinds")
    write(folder / "train.csv", made_rows(300))
    write(folder / "held.csv", made_rows(600, seed=1))
    write(folder / "new.csv", odd_rows())
    return folder


def options_of(kind):
    return [text for name, value in QUICK[kind].items() for text in (f"--{name}", str(value))]


@pytest.fixture(scope="module")
def fitted(folder):
    """The model file of a kind, and what was printed when it was made."""
    made = {}

    def find(kind):
        if kind in ENGINES:
            pytest.importorskip(ENGINES[kind])
        if kind not in made:
            path = folder / f"{kind}.toppush"
            exports = ["--onnx", folder / f"{kind}.onnx"]
            exports += ["--weights", folder / "linear.json"] * (kind == "linear")
            ran = run("fit", folder / "train.csv", "-o", path, "--model", kind, *FIT,
                      *options_of(kind), *exports)  # fmt: skip
            made[kind] = path, ran.stdout
        return made[kind]

    return find


@every_kind
def test_fit_and_info_say_what_the_model_is(kind, fitted, folder):
    path, printed = fitted(kind)
    told = run("info", path).stdout
    about = result("info", path)
    assert about["model"] == kind
    for text in (printed, told):
        assert SENTENCES[kind] in text
        assert ("Certificate of the training objective" in text) == ("certificate" in about)
        assert ("Out-of-fold" in text) == ("out_of_fold" in about)
        assert ("(optimistic)" in text) == ("training" in about)
    assert ("out_of_fold" in about) == (kind in CROSS_FITTED)
    assert ("certificate" in about) == (kind not in CROSS_FITTED)
    assert (folder / f"{kind}.onnx").stat().st_size > 100
    if kind == "linear":
        weights = json.loads((folder / "linear.json").read_text())
        assert weights["format"] == "toppush weights 1"
        assert weights["label"]["positive"] == "yes"


@pytest.mark.parametrize(
    "kind", [pytest.param(one, marks=[pytest.mark.long] * (one != "trees")) for one in QUICK]
)
def test_what_follows_a_fit(kind, fitted, folder, tmp_path):
    path, _ = fitted(kind)
    listed = result("rank", path, folder / "new.csv", "--limit", 5)
    best = files.rank(files.load(path), folder / "new.csv", limit=5)
    assert listed["ranked"] == best.to_pylist()
    assert (listed["unseen"], listed["rows"]) == ({"city": 1}, 200)
    found = result("evaluate", path, folder / "held.csv", "--draws", 20)
    measures = {one["metric"]: one["value"] for one in found["metrics"]}
    assert measures["auc"] > 0.7
    (answer,) = result("threshold", path, folder / "held.csv", "--fpr", 0.05)["thresholds"]
    assert answer["fpr"] <= 0.05
    page = tmp_path / "report.html"
    run("report", path, folder / "held.csv", "--train", folder / "train.csv", "-o", page)
    text = page.read_text(encoding="utf-8")
    assert MOVES[kind] in text
    assert ("The optimum lies between" in text) == (kind not in CROSS_FITTED)
    assert "Logistic regression with scikit-learn" in text


@pytest.mark.parametrize(
    "options, said",
    [
        (["--model", "trees", "--lam", "1"],
         "--lam.*--model trees.*--top.*--loss.*--members.*--cv.*--groups"),
        (["--model", "linear", "--members", "3"], "--members.*--model linear"),
        (["--model", "net", "--cv", "3"], "--cv.*--model net"),
        (["--model", "additive", "--tol", "0.1"], "--tol.*--model additive"),
        (["--model", "trees", "--loss", "logistic"], "--model trees.*pairwise"),
        (["--model", "forest"], "'forest'.*'auto'.*'linear'.*'additive'"),
        (["--model", "auto", "--lam", "1"], "--lam.*--model auto.*--effort"),
        (["--members", "3"], "3.*--model auto"),
        (["--members", "trees,loggistic"], r"'loggistic'.*'logistic'\?\)"),
        (["--members", "-1"], "1 nor"),
        (["--scoring", "roc_auc"], "'roc_auc'.*--model auto.*average_"),
        (["--model", "trees", "--cluster", "local"], "cluster"),
        (["--threads", "2", "--cluster", "local"], "cluster"),
    ],
)  # fmt: skip
def test_options_that_do_not_go_together(options, said, folder, tmp_path):
    if "net" in options:
        pytest.importorskip("torch")
    given = ["fit", folder / "train.csv", "-o", tmp_path / "m", "--label", "fraud", *options]
    assert re.search(said, " ".join(run(*given, code=2).stderr.split()))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "kind, options, code",
    [
        ("trees", ("--top", "100000", "--members", "1"), 1),
        ("additive", ("--top", "100000", "--lam", "1"), 1),
        ("additive", ("--cv", "100"), 1),
        ("net", ("--members", "1"), 2),
    ],
)
def test_fits_that_cannot_be_end_with_a_sentence(kind, options, code, folder, tmp_path):
    if kind in ENGINES:
        pytest.importorskip(ENGINES[kind])
    given = ["fit", folder / "train.csv", "-o", tmp_path / "m", *FIT, "--model", kind, *options]
    ran = run(*given, code=code)
    assert ran.stderr.startswith("Error: ")
    assert "should not have happened" not in ran.stderr
    assert not list(tmp_path.iterdir())


def test_help_lists_the_options_of_every_kind():
    told = run("fit", "--help").stdout.split("of the options:")[1].split("With --cluster")[0]
    found, kind = {}, None
    for word in told.split():
        if word in MODEL_TYPES:
            kind = word
        found.setdefault(kind, set()).add(word.removeprefix("--"))
    for name, one in MODEL_TYPES.items():
        assert found[name] == {name, *one.takes} - {"threads"}


@pytest.mark.parametrize("kind", ENGINES)
def test_without_the_engine_a_fit_names_the_extra(kind, folder, tmp_path, monkeypatch):
    from toppush.modeltypes import base

    engine, find = MODEL_TYPES[kind].engine, base.find_spec
    monkeypatch.setattr(base, "find_spec", lambda name: None if name == engine else find(name))
    ran = run("fit", folder / "train.csv", "-o", tmp_path / "m", "--model", kind, code=1)
    assert f"pip install 'toppush[{EXTRAS[MODEL_TYPES[kind].engine]}]'" in ran.stderr


def test_compare_sets_kinds_beside_or_names_them_as_left_out(folder, monkeypatch):
    from toppush.modeltypes import base

    pytest.importorskip("lightgbm")
    find = base.find_spec
    monkeypatch.setattr(base, "find_spec", lambda name: None if name == "torch" else find(name))
    given = ("compare", folder / "train.csv", "--label", "fraud", "--drop", "id", "--cv", 2,
             "--methods", "TopPush trees,TopPush net")  # fmt: skip
    found = result(*given)
    assert set(found["folds"]) == {"TopPush trees"}
    assert min(found["folds"]["TopPush trees"]["AUC"]) > 0.6
    assert "pip install 'toppush[gpu]'" in found["left_out"]["TopPush net"]


@pytest.mark.parametrize(
    "change",
    [{"description": 3}, {"description": ["trees"]}, {"columns": {"named": [{}]}},
     {"out_of_fold": {"rows": "many"}}, {"seconds": {"a": "b"}},
     {"label": {"column": 1}}],
    ids=str,
)  # fmt: skip
def test_info_of_a_forged_description_is_a_sentence(change, fitted, tmp_path):
    path, _ = fitted("trees")
    parts = archive_of(files.load(path))
    parts["about.json"] = json.dumps(json.loads(parts["about.json"]) | change)
    (tmp_path / "m").write_bytes(forged(parts))
    ran = run("info", tmp_path / "m", code=1)
    assert "its description is not one that this version knows" in ran.stderr


KILLED = """
import os, signal, sys
os.fsync = lambda file: os.kill(os.getpid(), signal.SIGKILL)
from toppush.cli import main
main(sys.argv[1:])
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="kills a process as Linux does")
def test_a_killed_fit_leaves_the_old_model(fitted, folder, tmp_path):
    """It is killed when the new file is written, and not yet in its place."""
    path, _ = fitted("trees")
    model = tmp_path / "m.toppush"
    model.write_bytes(path.read_bytes())
    given = ["fit", folder / "held.csv", "-o", model, "--model", "trees", *FIT,
             *options_of("trees")]  # fmt: skip
    ran = subprocess.run([sys.executable, "-c", KILLED, *map(str, given)], capture_output=True)
    assert ran.returncode == -signal.SIGKILL
    assert model.read_bytes() == path.read_bytes()
    assert len(list(tmp_path.iterdir())) == 2  # the new one beside it
    run(*given)
    assert result("info", model)["data"]["rows"] == 600
    assert list(tmp_path.iterdir()) == [model]


@pytest.mark.filterwarnings("default:the ranking cannot be trusted:UserWarning")
@pytest.mark.parametrize("model", ["linear", "trees", "auto"])
def test_a_fit_of_few_positives_is_not_to_be_trusted(model, tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(200) < 5
    np.save(tmp_path / "rows.npy", np.column_stack([rng.normal(size=(200, 2)) + y[:, None], y]))
    options = {"auto": ["--members", "logistic"], "linear": ["--lam", "1", "--top", "10%"]}
    ran = run("fit", tmp_path / "rows.npy", "-o", tmp_path / "m", "--model", model,
              *options.get(model, []))  # fmt: skip
    warned = [line for line in ran.stderr.splitlines() if line.startswith("Warning: the ranking")]
    assert len(warned) == 1
    assert "5 positives" in warned[0]
    assert re.search(r"average precision is \d\.\d+, .* \d\.\d+ to \d\.\d+", warned[0])
    assert warned[0].removeprefix("Warning: ") in files.load(tmp_path / "m").about["warnings"]
