"""Label, weight, group, time and dropped columns are no features of any command or model type."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from files import ENGINES, QUICK, made_rows, write
from test_cli import result, run
from toppush import files, metrics
from toppush.files import compare as comparing
from toppush.report import estimator as report_estimator
from toppush.tables.rows import feature_columns

FEATURES = {"age", "income", "city", "member"}
ROLES = {"weight": "zz_weight", "groups": "zz_group", "time": "zz_time"}
LEAKS = ("zz_label", "zz_copy", *ROLES.values())
"""Each alone ranks the rows perfectly."""
TAKES = dict.fromkeys(("auto", "linear", "additive"), ("groups", "time"))
TAKES |= {"trees": ("groups",), "net": ()}
FITS = [
    pytest.param(kind, role, marks=[pytest.mark.long] * ((kind, role) != ("trees", "groups")))
    for kind, roles in TAKES.items()
    for role in roles or (None,)
]


def leaking_rows(n_rows, seed=0):
    """The usual rows, and beside them columns that say which are positive."""
    rows = made_rows(n_rows, seed=seed)
    labels = rows.pop("fraud")
    del rows["id"]
    positive = [label == "yes" for label in labels]
    days = np.datetime64("2024-01-01T00:00") + np.arange(n_rows) * np.timedelta64(1, "D")
    hours = np.where(positive, np.timedelta64(12, "h"), np.timedelta64(0, "h"))
    return {
        "zz_label": labels,
        "zz_copy": labels,
        "zz_weight": [1.0 + 0.5 * one for one in positive],
        "zz_group": [f"{label} {row % 40}" for row, label in enumerate(labels)],
        "zz_time": [str(time).replace("T", " ") + ":00" for time in days + hours],
    } | rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("leaks")
    write(folder / "train.csv", leaking_rows(300))
    write(folder / "held.csv", leaking_rows(300, seed=1))
    return folder


def training_options(role):
    """One of groups and time is used, the other is dropped."""
    options = ["--label", "zz_label", "--sample-weight", "zz_weight", "--threads", "1"]
    options += [] if role is None else [f"--{role}", ROLES[role]]
    dropped = [name for other, name in ROLES.items() if other not in ("weight", role)]
    return [*options, "--drop", ",".join(["zz_copy", *dropped])]


@pytest.fixture(scope="module")
def fitted(folder):
    made = {}

    def find(kind, role):
        if kind in ENGINES:
            pytest.importorskip(ENGINES[kind])
        if (kind, role) not in made:
            path = made[kind, role] = folder / f"{kind}-{role}.toppush"
            quick = [text for name, value in QUICK[kind].items() for text in (f"--{name}", value)]
            if kind == "linear":
                quick += ["--weights", folder / "weights.json"]
            run("fit", folder / "train.csv", "-o", path, "--model", kind, *quick,
                *training_options(role))  # fmt: skip
            if kind == "linear":
                assert "zz_" not in (folder / "weights.json").read_text().replace("zz_label", "")
        return made[kind, role]

    return find


def columns_named(found):
    """Every value of a key "column", at any depth."""
    if isinstance(found, dict):
        own = [found["column"]] if isinstance(found.get("column"), str) else []
        return own + [name for key in found if key != "label" for name in columns_named(found[key])]
    if isinstance(found, list):
        return [name for one in found for name in columns_named(one)]
    return []


@pytest.mark.parametrize("kind, role", FITS)
def test_no_command_uses_them(kind, role, fitted, folder):
    path, held = fitted(kind, role), folder / "held.csv"
    model = files.load(path)
    assert set(model.columns.feature_names_in_) == FEATURES
    assert set(model.needs(labels=True, carry=LEAKS[1:]).schema) == FEATURES
    assert metrics.average_precision(*files.labelled(model, held)) < 0.95
    shown = ("--columns", ",".join(LEAKS[1:]))
    listed = result("rank", path, held, "--limit", 5, "--explain", 2, *shown)
    reasons = [key for row in listed["ranked"] for key in row if key.endswith("_column")]
    assert {row[key] for row in listed["ranked"] for key in reasons} - {None} <= FEATURES
    explained = result("explain", path, held, "--row", 3, "--pair", "3,4", "--count", 9)
    assert FEATURES >= set(columns_named([explained["explained"], explained["pairs"]])) > set()
    for before in ([], ["--before", folder / "train.csv"]):
        checked = result("check", path, held, "--fail-on", "never", *before)
        assert {one["name"].split(" (")[0] for one in checked["columns"]} <= FEATURES


@pytest.fixture
def pages(monkeypatch):
    """What the report's pages would be made from; none is drawn."""
    kept = []

    def keep(positive, scores, **page):
        kept.append(page | {"positive": positive, "scores": scores})
        return "<!doctype html>"

    monkeypatch.setattr(report_estimator, "build", keep)
    return kept


@pytest.mark.parametrize("model", ["linear", "auto"])
def test_the_report_takes_columns_that_say_nothing(model, tmp_path, pages):
    """Empty and constant columns are in the table that was fitted, and not in the rows."""
    rows = made_rows(200) | {"empty": [None] * 200, "constant": [1.0] * 200}
    path = write(tmp_path / "train.csv", rows)
    options = {"lam": 0.1, "top": 0.3} if model == "linear" else QUICK["auto"]
    found = files.fit(path, model=model, label="fraud", drop=["id"], threads=1, **options)
    files.save(found, tmp_path / "m.toppush")
    run("report", tmp_path / "m.toppush", path, "--train", path, "-o", tmp_path / "page.html")
    [page] = pages
    assert {page["model"].features.value(row, 0) for row in page["model"].features.rows} != {None}


@pytest.mark.parametrize("kind, role", FITS)
def test_the_report_and_its_baseline_do_not_use_them(kind, role, fitted, folder, tmp_path, pages):
    model, held, train = fitted(kind, role), folder / "held.csv", folder / "train.csv"
    run("report", model, held, "--train", train, "-o", tmp_path / "page.html")
    [page] = pages
    assert metrics.average_precision(page["positive"], page["baseline"].scores) < 0.95
    assert set(page["preview"].column_names) == FEATURES
    assert not re.findall("zz_[a-z]+", str(page))
    run("report", model, held, "--train", train, "-o", tmp_path / "page.html",
        "--columns", "zz_copy,zz_time")  # fmt: skip
    np.testing.assert_array_equal(pages[1]["baseline"].scores, page["baseline"].scores)
    assert pages[1]["preview"].column_names == ["zz_copy", "zz_time"]


def compared(path, role, *methods):
    ran = run("compare", path, "--cv", 2, "--json", *training_options(role),
              *(["--methods", ",".join(methods)] if methods else []))  # fmt: skip
    return json.loads(ran.stdout)["folds"]


def test_compare_does_not_use_them(folder):
    found = compared(folder / "train.csv", "groups", "logistic regression", "TopPush linear")
    assert all(max(measures["AP"]) < 0.95 for measures in found.values())


@pytest.mark.long
@pytest.mark.parametrize("role", ["groups", "time"])
def test_no_method_of_compare_uses_them(role, tmp_path):
    pytest.importorskip("lightgbm")
    pytest.importorskip("torch")
    path = write(tmp_path / "train.csv", leaking_rows(600))
    found = compared(path, role, *comparing.competitors())
    assert len(found) >= 6
    assert all(max(measures["AP"]) < 0.95 for measures in found.values())


@pytest.mark.long
def test_a_fit_on_a_cluster_does_not_use_them(folder):
    distributed = pytest.importorskip("distributed")
    dropped = [name for name in LEAKS if name != "zz_label"]
    with distributed.Client(processes=False, dashboard_address=":0"):
        model = files.fit_parts(folder / "train.csv", label="zz_label", drop=dropped, lam=0.1)
    assert set(model.columns.feature_names_in_) == FEATURES


def foreign(rows, columns):
    """Somebody's pipeline, which is given `columns` and ranks by two of them."""
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    taken = ColumnTransformer([("numbers", SimpleImputer(), ["age", "income"])])
    return make_pipeline(taken, LogisticRegression()).fit(rows[columns], rows["zz_label"])


def test_an_estimator_that_is_given_the_label_leaves_it_to_itself(folder, tmp_path, pages):
    """A transformer may drop the label; the baseline and the page get no such rows."""
    skops_io = pytest.importorskip("skops.io")
    rows = pd.read_csv(folder / "train.csv")
    columns = ["zz_label", "age", "income", "city"]
    skops_io.dump(foreign(rows, columns), tmp_path / "m.skops")
    given = (tmp_path / "m.skops", folder / "held.csv", "--label", "zz_label")
    run("report", *given, "--train", folder / "train.csv", "-o", tmp_path / "page.html")
    [page] = pages
    assert metrics.average_precision(page["positive"], page["baseline"].scores) < 0.95
    assert list(page["preview"].columns) == columns[1:]
    now = result("check", *given, "--before", folder / "train.csv", "--fail-on", "never")
    assert {one["name"] for one in now["columns"]} == set(columns[1:])


def test_an_estimator_without_names_is_given_no_label(folder, tmp_path):
    skops_io = pytest.importorskip("skops.io")
    from sklearn.linear_model import LogisticRegression

    rows = pd.read_csv(folder / "train.csv")[["zz_label", "income", "member"]]
    rows.to_csv(tmp_path / "train.csv", index=False)
    X = rows[["income", "member"]].to_numpy(float)
    skops_io.dump(LogisticRegression().fit(X, rows["zz_label"]), tmp_path / "m.skops")
    given = (tmp_path / "m.skops", tmp_path / "train.csv", "--label", "zz_label")
    for labels in ("--labels", "--no-labels"):
        before = ("--before", tmp_path / "train.csv", labels, "--fail-on", "never")
        checked = result("check", *given, *before)
        assert {one["name"] for one in checked["columns"]} == {"income", "member"}


@pytest.mark.parametrize("command", ["evaluate", "report", "check"])
def test_a_feature_of_the_model_cannot_be_the_label(command, folder, tmp_path):
    model = files.fit(
        folder / "train.csv", label="zz_label", drop=LEAKS[1:], model="linear", lam=0.1, top=0.3
    )
    files.save(model, tmp_path / "m.toppush")
    more = ["-o", tmp_path / "page.html"] * (command == "report")
    ran = run(command, tmp_path / "m.toppush", folder / "held.csv", "--label", "member", *more,
              code=1)  # fmt: skip
    assert "member" in ran.stderr


def test_features_are_all_columns_but_the_others():
    assert feature_columns("abcde", "b", None, "e") == ["a", "c", "d"]
