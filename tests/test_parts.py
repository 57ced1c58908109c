"""A file in parts, read and fitted by workers: the model of the whole file."""

import json
import re
import sys

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.datasets import dump_svmlight_file
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from toppush import files
from toppush.cli import main

distributed = pytest.importorskip("distributed", reason="needs Dask, the extra [dask]")
parts_module = pytest.importorskip("toppush.files.fit_partitions")

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

FIT = {"label": "fraud", "lam": 0.1, "top": 0.2}


@pytest.fixture
def frame(rng):
    """Numbers, texts, true and false, and gaps in the texts."""
    n_rows = 240
    y = rng.random(n_rows) < 0.3
    made = pd.DataFrame(
        {
            "amount": rng.normal(size=n_rows) + 2.0 * y,
            "age": rng.integers(18, 90, n_rows),
            "city": rng.choice(["Lyon", "Oslo", "Rome"], n_rows),
            "known": rng.random(n_rows) < 0.5,
            "fraud": np.where(y, "yes", "no"),
        }
    )
    made["city"] = made["city"].where(rng.random(n_rows) > 0.1)
    return made


def write_parts(frame, folder, n_parts=3):
    folder.mkdir()
    size = -(-len(frame) // n_parts)
    for number in range(n_parts):
        part = frame.iloc[number * size : (number + 1) * size]
        part.to_parquet(folder / f"part-{number}.parquet")
    return folder


def without_fill(column):
    """The medians of the parts' medians are not those of all rows."""
    return {name: value for name, value in column.items() if name != "fill"}


def write_whole(frame, path):
    frame.to_parquet(path)
    return path


@pytest.mark.parametrize(
    "scale, loss",
    [("maxabs", "truncated_quadratic"), ("standard", "logistic"), ("none", "logistic")],
)
def test_model_is_that_of_the_whole_file(client, frame, tmp_path, scale, loss):
    given = FIT | {"scale": scale, "loss": loss}
    whole = files.fit(write_whole(frame, tmp_path / "all.parquet"), **given)
    model = files.fit_parts(write_parts(frame, tmp_path / "rows"), **given)
    assert_allclose(model.ranker.coef_, whole.ranker.coef_, rtol=0, atol=1e-4)
    assert_allclose(model.ranker.solution_.upper, whole.ranker.solution_.upper, rtol=1e-4)
    assert [without_fill(one) for one in model.about["columns"]["named"]] == [
        without_fill(one) for one in whole.about["columns"]["named"]
    ]
    assert model.about["label"] == whole.about["label"]
    data = model.about["data"]
    assert (data["rows"], data["parts"]) == (240, 3)
    assert data["positives"] == whole.about["data"]["positives"]
    for name, value in model.about["training"].items():
        assert value == pytest.approx(whole.about["training"][name], abs=1e-3)


def test_saved_model_ranks_the_whole_file_alike(client, frame, tmp_path):
    path = write_whole(frame, tmp_path / "all.parquet")
    whole, model = (
        files.fit(path, **FIT),
        files.fit_parts(write_parts(frame, tmp_path / "rows"), **FIT),
    )
    files.save(model, tmp_path / "m.toppush")
    found, expected = (
        files.labelled(one, path)[1] for one in (files.load(tmp_path / "m.toppush"), whole)
    )
    assert_allclose(found, expected, rtol=0, atol=1e-3)


@pytest.mark.long
@pytest.mark.parametrize("given", [{"lam": 0.1}, {}])
def test_cross_validation_on_the_workers(client, frame, tmp_path, given):
    model = files.fit_parts(write_parts(frame, tmp_path / "rows"), label="fraud", cv=2, **given)
    assert model.about["fit"]["chosen_by_cv"]
    assert model.about["training"]["auc"] > 0.8


def test_gap_is_filled_with_the_median_of_the_parts_medians(client, frame, tmp_path):
    frame["age"] = frame["age"].astype(float)
    frame.loc[:40, "age"] = np.nan
    sizes, medians = [39, 80, 80], [frame["age"][i * 80 : i * 80 + 80].median() for i in range(3)]
    model = files.fit_parts(write_parts(frame, tmp_path / "rows"), **FIT)
    age = next(one for one in model.columns.columns_ if one.name == "age")
    assert age.had_missing
    assert age.fill in medians
    assert age.fill == np.median(np.repeat(medians, sizes))
    assert model.columns.filled_["age"] == 41


def test_column_that_one_part_has_no_value_of(client, frame, tmp_path):
    frame.loc[:79, "city"] = None
    frame["age"] = frame["age"].astype(float)
    frame.loc[80:159, "age"] = np.nan
    model = files.fit_parts(write_parts(frame, tmp_path / "rows"), **FIT)
    kinds = {one.name: one for one in model.columns.columns_}
    assert kinds["city"].categories == ["Lyon", "Oslo", "Rome"]
    assert kinds["city"].had_missing
    assert kinds["age"].had_missing
    assert model.columns.filled_["age"] == 80


def test_text_that_one_part_alone_has(client, frame, tmp_path):
    frame.loc[200, "city"] = "Turin"
    model = files.fit_parts(write_parts(frame, tmp_path / "rows"), **FIT)
    assert "city=Turin" in model.columns.get_feature_names_out()


def test_labels_and_constants_are_those_of_all_parts(client, frame, tmp_path):
    frame = frame.sort_values("fraud").reset_index(drop=True)  # "yes" fills the last part alone
    frame["fraud"] = frame["fraud"].map({"yes": "fraud", "no": "legit"})
    frame["part"] = np.repeat([1, 2, 3], 80)
    frame["year"] = 2024
    frame["number"] = np.arange(240)
    with pytest.warns(UserWarning, match="--drop number"):
        model = files.fit_parts(write_parts(frame, tmp_path / "rows"), **FIT)
    assert (model.label.positive, model.label.why) == ("fraud", "the rarer of two strings")
    assert model.about["columns"]["constant"] == ["year"]
    part = {one.name: one for one in model.columns.columns_}["part"]
    assert (part.low, part.high) == (1.0, 3.0)
    assert "--drop number" in model.about["warnings"][0]


def test_more_folds_than_positives_of_all_parts_are_refused(client, frame, tmp_path):
    n_pos = int((frame["fraud"] == "yes").sum())
    folder = write_parts(frame, tmp_path / "rows")
    with pytest.raises(files.DataError, match=f"{n_pos + 1} folds .* there are {n_pos} positives"):
        files.fit_parts(folder, label="fraud", cv=n_pos + 1)


def test_all_bad_columns_of_a_part_are_named(client, frame, tmp_path):
    frame["when"] = "5/1/2024"
    frame["amount"] = frame["amount"].where(frame.index != 7, np.inf)
    with pytest.raises(files.DataError, match=r"2 columns.*--drop"):
        files.fit_parts(write_parts(frame, tmp_path / "rows"), **FIT)


@pytest.mark.parametrize("first", [0, 1])
def test_libsvm_parts_of_different_width(client, rng, tmp_path, first):
    X, y = rng.normal(size=(90, 12)), rng.random(90) < 0.4
    X[rng.random(X.shape) < 0.6] = 0.0
    X[y, 0] = 3.0
    X[:30, 8:] = 0.0
    X = sparse.csr_array(X)
    dump_svmlight_file(X, y.astype(int), str(tmp_path / "all.svm"), zero_based=first == 0)
    (tmp_path / "rows").mkdir()
    for number in range(3):
        part = slice(30 * number, 30 * number + 30)
        name = str(tmp_path / "rows" / f"{number}.svm")
        dump_svmlight_file(X[part], y[part].astype(int), name, zero_based=first == 0)
    given = {"lam": 0.1, "top": 0.3}
    whole = files.fit(tmp_path / "all.svm", **given)
    model = files.fit_parts(tmp_path / "rows" / "*.svm", **given)
    assert model.about["layout"] == whole.about["layout"]
    assert_allclose(model.ranker.coef_, whole.ranker.coef_, rtol=0, atol=1e-4)


def test_csv_parts(client, frame, tmp_path):
    (tmp_path / "rows").mkdir()
    for number in range(2):
        part = frame.iloc[number * 120 : number * 120 + 120]
        part.to_csv(tmp_path / "rows" / f"{number}.csv", index=False)
    (tmp_path / "rows" / "_SUCCESS").write_text("")
    (tmp_path / "rows" / "notes.md").write_text("not rows")
    model = files.fit_parts(tmp_path / "rows", **FIT)
    whole = files.fit(write_whole(frame, tmp_path / "all.parquet"), **FIT)
    assert_allclose(model.ranker.coef_, whole.ranker.coef_, rtol=0, atol=1e-4)


def spoil_other_columns(frame):
    return frame.rename(columns={"age": "years"})


def spoil_texts_for_numbers(frame):
    return frame.assign(age=frame["city"].fillna("x"))


def spoil_labels(frame):
    return frame.assign(fraud=np.where(frame["fraud"] == "yes", 1.0, 0.0))


def spoil_infinite(frame):
    return frame.assign(amount=np.inf)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (spoil_other_columns, "has other columns than .*column 'age' is not in both"),
        (spoil_texts_for_numbers, "column age: holds strings, and numbers in other parts"),
        (spoil_labels, "the labels are"),
        (spoil_infinite, "is infinite"),
    ],
)
def test_part_that_does_not_fit_is_named(client, frame, tmp_path, spoil, said):
    folder = write_parts(frame, tmp_path / "rows")
    spoil(frame.iloc[:80]).to_parquet(folder / "part-1.parquet")
    with pytest.raises(files.DataError, match=f"part-1.parquet.*{said}"):
        files.fit_parts(folder, **FIT)


def test_without_dask_the_extra_is_named(frame, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.delitem(sys.modules, "toppush.designs.dask", raising=False)
    with pytest.raises(ImportError, match=r"dask.*distributed.*'toppush"):
        files.fit_parts(write_parts(frame, tmp_path / "rows"), **FIT)


def test_no_parts(client, tmp_path):
    with pytest.raises(files.DataError, match="ending"):
        files.fit_parts(tmp_path, **FIT)
    with pytest.raises(files.DataError, match="nothing"):
        files.fit_parts(tmp_path / "*.parquet", **FIT)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_scalers_are_those_of_all_rows(rng, kind):
    X = rng.normal(size=(100, 4)) * [1.0, 5.0, 0.0, 1e3]
    X[rng.random(X.shape) < 0.3] = 0.0
    parts = [X[:30], X[30:35], X[35:]]
    parts = [sparse.csr_array(part) for part in parts] if kind == "sparse" else parts
    spreads = [parts_module.column_moments(part) for part in parts]
    for scale, expected in (
        ("maxabs", MaxAbsScaler().fit(X)),
        ("standard", StandardScaler(with_mean=False).fit(X)),
    ):
        found = parts_module._scaler(scale, spreads)
        assert_allclose(found.scale_, expected.scale_, rtol=1e-12)
        assert_allclose(found.transform(X), expected.transform(X), rtol=1e-12)


def run(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def test_command(client, frame, tmp_path):
    folder, model = write_parts(frame, tmp_path / "rows"), tmp_path / "m.toppush"
    options = ["--label", "fraud", "--lam", "0.1", "--top", "20%"]
    address = ["--cluster", client.scheduler.address]
    result = run("fit", folder, "-o", model, *options, *address, "--json")
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert said["data"]["parts"] == 3
    assert files.load(model).about["fit"]["top"] == said["fit"]["top"]
    shown = run("fit", folder, "-o", model, *options, *address).stdout
    assert re.search(r"240.*3 parts", shown)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--cluster", "somewhere"], 1, "tcp://host:8786"),
        (["--effort", "quick", "--cluster", "local"], 2, "cluster"),
        ([], 2, "--cluster"),
    ],
)
def test_command_refuses(frame, tmp_path, words, code, said):
    folder = write_parts(frame, tmp_path / "rows")
    result = run("fit", folder, "-o", tmp_path / "m.toppush", "--label", "fraud", *words)
    assert result.exit_code == code
    assert re.search(said, result.output)
