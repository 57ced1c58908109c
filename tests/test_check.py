"""`toppush check`: what moved in a file since a model was fitted."""

import copy
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from click.testing import CliRunner
from scipy import sparse
from sklearn.datasets import dump_svmlight_file
from sklearn.linear_model import LogisticRegression

from files import DROP, EVERY_KIND, made_rows, quick_fit, write
from toppush import files
from toppush.cli import main
from toppush.cli.check import DRIFTED
from toppush.files import reference as watching
from toppush.files.drift import check_against
from toppush.files.readers import csv
from toppush.files.sources import open_source
from toppush.modeltypes import out_of_fold as unseen
from toppush.monitor.drift import Limits
from toppush.report.check import drift_page

FRAUD = {"label": "fraud", "drop": DROP}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Training rows, and a model of them."""
    folder = tmp_path_factory.mktemp("check")
    model = quick_fit("linear", write(folder / "train.csv", made_rows(2500)), **FRAUD)
    files.save(model, folder / "m.toppush")
    write(folder / "same.csv", made_rows(1500, seed=1))
    write(folder / "moved.csv", changed(age=lambda age: age and age + 8))
    return folder


@pytest.fixture(scope="module")
def model(folder):
    return files.load(folder / "m.toppush")


def changed(seed=2, n_rows=1500, **how):
    """Fresh rows with some columns changed, value by value."""
    rows = made_rows(n_rows, seed=seed)
    for name, change in how.items():
        rows[name] = [change(value) for value in rows[name]]
    return rows


def moved(model, rows, tmp_path, **options):
    found = files.check(model, write(tmp_path / "now.csv", rows), **options)
    return {(one.column, one.what) for one in found.drifted()}


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_fresh_rows_do_not_alarm_and_moved_ones_do(kind, folder, tmp_path):
    model = quick_fit(kind, folder / "train.csv", **FRAUD)
    assert moved(model, made_rows(1500, seed=3), tmp_path) == set()
    assert ("age", "values") in moved(model, changed(age=lambda age: age and age + 8), tmp_path)


def test_each_way_to_move_is_told_of_its_column(model, tmp_path):
    rng = np.random.default_rng(0)

    def sometimes(new):
        return lambda value: new if rng.random() < 0.1 else value

    cases = {
        ("income", "values"): changed(income=lambda income: 2 * income),
        ("income", "range"): changed(income=sometimes(1e9)),
        ("age", "missing"): changed(age=sometimes(None)),
        ("city", "missing"): changed(city=sometimes(None)),
        ("city", "unknown categories"): changed(city=sometimes("Atlantis")),
        ("city", "values"): changed(city=lambda city: city and "Oslo"),
        ("member", "values"): changed(member=lambda member: member and rng.random() < 0.4),
    }  # fmt: skip
    for expected, rows in cases.items():
        found = {one for one in moved(model, rows, tmp_path) if one[0] is not None}
        assert expected in found
        assert {column for column, _ in found} == {expected[0]}


def test_precision_that_fell_is_told_with_labels_only(model, tmp_path):
    rows = made_rows(1500, seed=4)
    rows["fraud"] = np.random.default_rng(0).permutation(rows["fraud"]).tolist()
    assert moved(model, rows, tmp_path) == {(None, "precision")}
    assert moved(model, rows, tmp_path, labels=False) == set()
    unlabelled = {name: values for name, values in rows.items() if name != "fraud"}
    found = files.check(model, write(tmp_path / "n.csv", unlabelled))
    assert not found.labelled
    assert found.parts[0].observed is None


def test_labels_that_are_not_known_yet_are_no_obstacle(model, tmp_path):
    rows = made_rows(1500, seed=4)
    rows["fraud"] = [label if row % 3 else None for row, label in enumerate(rows["fraud"])]
    found = files.check(model, write(tmp_path / "n.csv", rows))
    known = [label for label in rows["fraud"] if label]
    assert found.rows == 1500
    assert found.parts[-1].observed == pytest.approx(known.count("yes") / len(known))
    none = files.check(model, write(tmp_path / "n.csv", rows | {"fraud": [None] * 1500}))
    assert not none.labelled


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".feather"])
def test_streamed_is_whole(ending, model, folder, tmp_path, monkeypatch):
    """Small batches, other formats and plain loops come to the same counts."""
    rows = changed(age=lambda age: age and age + 3)
    whole = files.check(model, write(tmp_path / "now.csv", rows)).as_json()
    monkeypatch.setattr(csv.CsvReader, "block", 3000)
    assert files.check(model, write(tmp_path / f"now{ending}", rows)).as_json() == whole
    city = next(one for one in whole["columns"] if one["name"] == "city")
    listed = [one for one in rows["city"] if one]
    for name, _, now in city["bins"]:
        assert now == pytest.approx(listed.count(name) / len(listed))
    gaps = next(one for one in city["changes"] if one["what"] == "missing")
    assert gaps["now"] == pytest.approx(1 - len(listed) / 1500)


def test_the_rows_of_the_fit_are_where_they_were(model, folder):
    """Summaries are of all training rows, so these have not moved at all."""
    found = files.check(model, folder / "train.csv")
    for column in found.columns:
        assert column.psi == pytest.approx(0.0, abs=1e-6)
        assert column.distance == pytest.approx(0.0, abs=1e-6)
        assert all(one.before == pytest.approx(one.now, abs=1e-6) for one in column.bins)


def test_a_sample_of_many_rows_knows_the_range_of_all(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(watching, "MOST_ROWS", 300)
    found = files.check(quick_fit("linear", folder / "train.csv", **FRAUD), folder / "train.csv")
    assert all(
        one.change("range") is None or one.change("range").now == 0.0 for one in found.columns
    )
    assert max(one.distance for one in found.columns) < 0.1


def matrices(tmp_path, rng, shift):
    """A dense and a sparse file of the same rows."""
    X = rng.normal(size=(1200, 6)) * (rng.random((1200, 6)) < 0.4)
    y = X @ [2, 1, 0, 0, 0, 0] + 0.5 * rng.normal(size=1200) > 1.2
    X[:, 2] += shift
    np.savez(tmp_path / f"{shift}.npz", X=X, y=y)
    dump_svmlight_file(sparse.csr_matrix(X), y.astype(int), str(tmp_path / f"{shift}.svm"))


def test_columns_without_names_go_by_number(tmp_path, rng):
    for shift in (0.0, 0.5):
        matrices(tmp_path, rng, shift)
    said = {}
    for ending in ("npz", "svm"):
        model = quick_fit("linear", tmp_path / f"0.0.{ending}")
        assert files.check(model, tmp_path / f"0.0.{ending}").drifted() == []
        found = files.check(model, tmp_path / f"0.5.{ending}", labels=True)
        said[ending] = {one.column for one in found.drifted("columns")}
        assert found.labelled
    assert said == {"npz": {"number 2"}, "svm": {"number 2"}} or said["svm"] == {"number 3"}


def test_wide_models_watch_some_columns_and_say_so(tmp_path, rng, monkeypatch):
    monkeypatch.setattr(watching, "MOST_COLUMNS", 4)
    matrices(tmp_path, rng, 0.0)
    found = files.check(quick_fit("linear", tmp_path / "0.0.npz"), tmp_path / "0.0.npz")
    assert (len(found.columns), found.left_out) == (4, 2)


def test_models_without_summaries_and_forged_ones_are_refused(model, folder):
    for part, told in (("profile", "fit it again"), ("scores", "fit it again")):
        old = files.Model(model.pipeline, {k: v for k, v in model.about.items() if k != part})
        with pytest.raises(files.ModelError, match=told):
            files.check(old, folder / "same.csv")
    known = model.about["profile"]["columns"]
    for forged in (3, {"columns": 3}, {"columns": {"age": {}}},
                   {"columns": {"age": known["age"] | {"missing": "many"}}},
                   {"columns": {"city": known["city"] | {"shares": [1]}}}):  # fmt: skip
        about = copy.deepcopy(model.about) | {"profile": forged}
        with pytest.raises(files.ModelError, match="cannot be read"):
            files.check(files.Model(model.pipeline, about), folder / "same.csv")


def test_summaries_are_small(model):
    sizes = {name: len(json.dumps(one)) for name, one in model.about["profile"]["columns"].items()}
    assert set(sizes) == {"age", "income", "city", "member"}
    assert max(sizes.values()) < 4000


# ---- the command


def run(*arguments):
    return CliRunner().invoke(main, ["check", *map(str, arguments)])


def test_exit_codes_for_a_scheduler(folder):
    model, same, new = (folder / name for name in ("m.toppush", "same.csv", "moved.csv"))
    calm = run(model, same)
    assert calm.exit_code == 0
    assert "No drift: 4 columns and the scores are as before." in calm.output
    alarm = run(model, new)
    assert alarm.exit_code == DRIFTED == 5
    assert "Drifted: " in alarm.output
    assert "Columns that drifted: age." in alarm.output
    assert run(model, new, "--fail-on", "never").exit_code == 0
    assert run(model, new, "--fail-on", "precision", "--no-labels").exit_code == 0
    assert run(model, new, "--fail-on", "precision,columns").exit_code == DRIFTED
    lax = ("--psi", "5", "--factor", "90", "--share", "0.9", "--precision", "0.9")
    assert run(model, new, *lax).exit_code == 0
    wrong = run(model, new, "--fail-on", "everything")
    assert wrong.exit_code == 2
    assert "'everything' is none of columns, scores, precision, never" in wrong.output
    assert run(model, folder / "m.toppush").exit_code == 1


def test_json_holds_all(folder):
    found = run(folder / "m.toppush", folder / "moved.csv", "--json")
    told = json.loads(found.stdout)
    assert found.exit_code == DRIFTED
    assert told["failed"]
    assert told["limits"]["psi"] == Limits().psi
    assert told["columns"][0]["name"] == "age"
    assert {"column": "age", "what": "values"}.items() <= next(
        one for one in told["drifted"] if one["column"] == "age"
    ).items()
    assert told["parts"][-1]["part"] == 1.0


def test_a_page_without_scripts(folder, tmp_path):
    page = tmp_path / "check.html"
    found = run(folder / "m.toppush", folder / "moved.csv", "--html", page)
    assert found.exit_code == DRIFTED
    text = page.read_text(encoding="utf-8")
    assert "<script" not in text
    assert "Drifted: " in text
    assert len(text) < 60_000
    again = run(folder / "m.toppush", folder / "moved.csv", "--html", folder / "moved.csv")
    assert again.exit_code == 2  # it would be lost


def test_hostile_names_are_only_text(tmp_path):
    name, text = "<img src=x onerror=alert(1)>", "</table><script>alert(2)</script>"
    rows = made_rows(600)
    rows[name] = rows.pop("city")
    model = quick_fit("linear", write(tmp_path / "t.csv", rows), **FRAUD)
    fresh = made_rows(600, seed=1)
    fresh[name] = [text if row % 2 else one for row, one in enumerate(fresh.pop("city"))]
    found = files.check(model, write(tmp_path / "n.csv", fresh))
    page = drift_page(found, model="m<b>", data="d</title>")
    assert not {"<img", "<script", "<b>", "d</title>"} & {
        one for one in ("<img", "<script", "<b>", "d</title>") if one in page
    }
    assert "&lt;img" in page


# ---- weights, groups, times and dates of the fit


def test_weights_of_the_fit_say_what_training_rows_were_like(tmp_path):
    """Rows of weight 0 are as if they had not been there, rows of weight 3 as if three times."""
    rows = made_rows(900)
    rng = np.random.default_rng(0)
    weight = rng.choice([0, 1, 3], 900)
    weighted = quick_fit(
        "linear",
        write(tmp_path / "w.csv", rows | {"w": weight.tolist()}),
        sample_weight="w",
        **FRAUD,
    )
    times = np.repeat(np.arange(900), weight)
    repeated = {name: [values[row] for row in times] for name, values in rows.items()}
    plain = quick_fit("linear", write(tmp_path / "r.csv", repeated), **FRAUD)
    known, expected = (one.about["profile"]["columns"] for one in (weighted, plain))
    assert set(known) == {"age", "income", "city", "member"}
    assert known["age"]["missing"] == pytest.approx(expected["age"]["missing"])
    assert known["age"]["sketch"]["knots"] == expected["age"]["sketch"]["knots"]
    shares = [
        dict(zip(one["city"]["categories"], one["city"]["fractions"], strict=True))
        for one in (known, expected)
    ]
    assert shares[0] == pytest.approx(shares[1])
    assert weighted.scale.prevalence == pytest.approx(plain.scale.prevalence, abs=0.01)


def test_folds_that_tell_what_scores_mean_keep_groups_together(folder, tmp_path, monkeypatch):
    seen = []

    def spy(ranker, refit, X, positive, weight, *, folds, seed):
        seen.append(folds)
        return unseen.learned_scale(ranker, refit, X, positive, weight, folds=folds, seed=seed)

    monkeypatch.setattr(watching, "learned_scale", spy)
    group = np.arange(900) // 9
    rows = write(tmp_path / "g.csv", made_rows(900) | {"who": group.tolist()})
    model = files.fit(rows, model="linear", top=0.3, lam="cv", groups="who", **FRAUD)
    assert model.scale.held_out
    for train, test in seen[0]:
        assert not set(group[train]) & set(group[test])
    when = np.arange(900)
    rows = write(tmp_path / "t.csv", made_rows(900) | {"when": when.tolist()})
    model = files.fit(rows, model="linear", top=0.3, lam="cv", time="when", **FRAUD)
    assert all(when[train].max() < when[test].min() for train, test in seen[1])
    assert model.scale.sketch.rows < 900  # those before the first cut are never held out


def test_dates_that_went_on_are_told(tmp_path):
    def dated(year, seed):
        days = np.random.default_rng(seed).integers(0, 360, 900).astype("m8[D]")
        dates = np.datetime64(f"{year}-01-01") + days
        return made_rows(900, seed=seed) | {"day": [str(one) for one in dates]}

    model = quick_fit("linear", write(tmp_path / "t.csv", dated(2023, 0)), **FRAUD)
    found = files.check(model, write(tmp_path / "n.csv", dated(2024, 1)))
    columns = {one.column for one in found.drifted("columns")}
    assert len(columns) == 1
    assert "day" in columns.pop()


# ---- against other rows than those of the fit


@pytest.fixture(scope="module")
def scored(folder, model):
    """Files of rows with scores that somebody wrote: two months alike, and one that moved."""
    for name, shift, seed in (("may", 0, 11), ("june", 0, 12), ("july", 6, 13)):
        rows = changed(seed=seed, age=lambda age, shift=shift: age and age + shift)
        rows["score"] = np.round(model.decision_function(pa.table(rows)), 6).tolist()
        write(folder / f"{name}.csv", rows)
    return folder


def test_scores_of_others_are_held_against_other_rows(scored):
    may, june, july = (scored / f"{name}.csv" for name in ("may", "june", "july"))
    given = ("--scores", "score", "--label", "fraud", "--before", may)
    calm = run(june, *given)
    assert calm.exit_code == 0, calm.output
    assert "No drift: 4 columns and the scores are as before." in calm.output
    alarm = run(july, *given, "--json")
    assert alarm.exit_code == DRIFTED
    told = json.loads(alarm.stdout)
    assert {one["column"] for one in told["drifted"]} >= {"age", None}
    assert {one["column"] for one in told["drifted"]} <= {"age", None}
    assert told["before"] == str(may)
    assert run(july, "--scores", "score", "--label", "fraud").exit_code == 2


def test_a_model_may_be_held_against_other_rows_than_those_of_its_fit(scored, tmp_path):
    model, may, june = (scored / name for name in ("m.toppush", "may.csv", "june.csv"))
    page = tmp_path / "page.html"
    assert run(model, june, "--before", may, "--html", page).exit_code == 0
    assert page.exists()
    optimistic = run(model, june, "--before", scored / "train.csv")
    assert "was fitted to" in optimistic.output


def test_a_model_that_remembers_nothing_can_be_checked_against_rows(scored, model, tmp_path):
    forgetful = files.Model(
        model.pipeline, {k: v for k, v in model.about.items() if k not in ("scores", "profile")}
    )
    files.save(forgetful, tmp_path / "old.toppush")
    july, may = scored / "july.csv", scored / "may.csv"
    refused = run(tmp_path / "old.toppush", july)
    assert refused.exit_code == 1
    assert "fit it again" in refused.output
    assert "--before" in refused.output
    assert run(tmp_path / "old.toppush", july, "--before", may).exit_code == DRIFTED


def test_rows_without_labels_tell_of_no_precision(scored):
    source = open_source(None, scores="score")
    given = scored / "may.csv", scored / "july.csv"
    found = check_against(source, *given, label="fraud", labels=False)
    assert not found.labelled
    assert {one.precision for one in found.parts} == {None}
    assert "precision" not in {one.what for one in found.changes}
    assert drift_page(found, model="m", data="d")


def test_another_file_without_a_column_is_refused(scored, tmp_path):
    rows = changed(seed=14)
    rows["score"] = [0.0] * 1499 + [1.0]
    del rows["income"]
    source = open_source(None, scores="score")
    with pytest.raises(files.DataError, match="income"):
        check_against(source, scored / "may.csv", write(tmp_path / "n.csv", rows), label="fraud")


def test_skops_files_are_checked_against_rows(tmp_path, rng):
    skops = pytest.importorskip("skops.io")
    frames = {}
    for name, shift in (("before", 0), ("same", 0), ("drifted", 2)):
        X = pd.DataFrame(rng.normal(size=(800, 3)), columns=list("abc"))
        label = X["a"] + rng.normal(size=800) > 1
        X["b"] += shift
        frames[name] = X
        X.assign(label=label.astype(int)).to_csv(tmp_path / f"{name}.csv", index=False)
    fitted = LogisticRegression().fit(frames["before"], frames["before"]["a"] > 1)
    skops.dump(fitted, tmp_path / "m.skops")
    given = tmp_path / "m.skops", tmp_path / "same.csv", "--before", tmp_path / "before.csv"
    options = ("--positive", "1")
    assert run(*given, *options).exit_code == 0, run(*given, *options).output
    moved = run(given[0], tmp_path / "drifted.csv", *given[2:], *options)
    assert moved.exit_code == DRIFTED
    assert "Columns that drifted: b." in moved.output
