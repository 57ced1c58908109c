"""The benchmark: splits, columns, methods, cells that survive interrupts, statistics, tables."""

import csv
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import warnings
from dataclasses import replace
from importlib import metadata
from importlib.metadata import PackageNotFoundError
from importlib.util import find_spec
from io import BytesIO

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse, stats
from sklearn.datasets import dump_svmlight_file, load_breast_cancer

from reproduce import datasets
from reproduce.benchmark import autogluon
from reproduce.benchmark import summary as summaries
from reproduce.benchmark.cells import Benchmark, Cell, Results, measure
from reproduce.benchmark.columns import Columns, NativeColumns, date_parts, scaled, unscaled
from reproduce.benchmark.methods import METHODS, hash_of_sources
from reproduce.benchmark.pictures import draw_ranks, draw_winners
from reproduce.benchmark.splits import places, split
from reproduce.benchmark.statistics import LEVEL, Ranks, over_sets, resampled_t
from reproduce.benchmark.summary import METRICS, Comparison, summarise
from reproduce.commands import main
from reproduce.datasets import RawTable
from reproduce.results import machine
from toppush.monitor.drift import holm

# Statistics.


def slow_holm(p_values):
    """The step-down procedure, one hypothesis after the other."""
    left, corrected, highest = sorted(enumerate(p_values), key=lambda one: one[1]), {}, 0.0
    while left:
        highest = max(highest, min(1.0, len(left) * left[0][1]))
        corrected[left.pop(0)[0]] = highest
    return [corrected[i] for i in range(len(p_values))]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_is_the_procedure_step_by_step(p_values):
    assert_allclose(holm(p_values), slow_holm(p_values))


def _t_cdf(t):
    """Of four degrees of freedom, by summing the density up."""
    x = np.linspace(0, t, 200_001)
    return 0.5 + np.trapezoid(3 / 8 * (1 + x**2 / 4) ** -2.5, x)


def test_the_resampled_test_is_that_of_nadeau_and_bengio():
    """Mean 0.16 and variance 0.0043 * 2 by hand, of five splits with half as many test rows."""
    found = resampled_t(np.array([0.1, 0.2, 0.15, 0.05, 0.3]), 0.5)
    t = 0.16 / np.sqrt((1 / 5 + 1 / 2) * 0.037 / 4)
    assert_allclose(found.mean, 0.16)
    assert_allclose(found.p_value, 2 * (1 - _t_cdf(t)), rtol=1e-6)


def test_the_resampled_test_holds_its_level_where_the_plain_one_does_not():
    """Ten splits of 300 rows, on which two equal methods differ by chance."""
    rng, found = np.random.default_rng(0), []
    for _ in range(500):
        rows = rng.normal(size=300)
        differences = np.array([rng.choice(rows, 100, replace=False).mean() for _ in range(10)])
        plain = stats.ttest_1samp(differences, 0.0).pvalue
        found.append([resampled_t(differences, 0.5).p_value < LEVEL, plain < LEVEL])
    corrected, plain = np.mean(found, axis=0)
    assert corrected < 0.08  # 0.0475 in 2,000 repetitions
    assert plain > 0.3


DIFFERENCES = st.lists(st.integers(-50, 50), min_size=2, max_size=12).map(
    lambda values: np.array(values) / 100
)


@given(DIFFERENCES, st.floats(0, 2))
def test_the_interval_of_the_resampled_test_agrees_with_its_p_value(differences, ratio):
    found = resampled_t(differences, ratio)
    assert found.low <= found.mean <= found.high
    if np.ptp(differences) == 0.0:
        assert found.p_value == 1.0
        return
    assert (found.p_value < LEVEL) == (found.low > 0.0 or found.high < 0.0)
    assert found.p_value >= resampled_t(differences, 0.0).p_value
    plain = stats.ttest_1samp(differences, 0.0).pvalue
    assert_allclose(resampled_t(differences, 0.0).p_value, plain)


def slow_wilcoxon(differences):
    """Exact p-value from all signs of the ranks of absolute differences."""
    ranks = stats.rankdata(np.abs(differences))
    sums = [sum(r for r, s in zip(ranks, signs, strict=True) if s)
            for signs in itertools.product([0, 1], repeat=ranks.size)]  # fmt: skip
    observed, middle = ranks[differences > 0].sum(), ranks.sum() / 2
    return np.mean(np.abs(np.array(sums) - middle) >= abs(observed - middle) - 1e-9)


@given(st.lists(st.integers(1, 10**6), min_size=3, max_size=8, unique=True), st.integers(0, 255))
def test_the_signed_rank_test_over_sets_is_exact(sizes, signs):
    differences = np.array([s if signs >> i & 1 else -s for i, s in enumerate(sizes)]) / 10**6
    found = over_sets(differences)
    assert_allclose(found.p_value, slow_wilcoxon(differences))
    half = stats.t.ppf(0.975, differences.size - 1) * stats.sem(differences)
    assert_allclose([found.low, found.high], found.mean + half * np.array([-1, 1]))


def test_one_set_tests_nothing():
    for differences in (np.array([0.3]), np.array([0.0, 0.0])):
        assert over_sets(differences).p_value == 1.0


def test_critical_difference_is_that_of_the_published_example():
    """Demsar 2006, section 3.2.2: four classifiers on fourteen sets."""
    ranks = Ranks([""] * 14, [""] * 4, np.zeros((14, 4)))
    assert_allclose(ranks.critical_difference, 1.25, atol=0.005)


def test_ranks_share_ties_and_put_what_is_missing_last():
    ranks = Ranks(["a"], list("vwxyz"), np.array([[0.5, 0.7, 0.5, np.nan, np.nan]]))
    assert ranks.table.tolist() == [[2.5, 1.0, 2.5, 4.5, 4.5]]
    assert ranks.order[0] == 1


@given(st.integers(2, 8), st.integers(1, 10), st.integers(0, 100))
def test_groups_join_exactly_the_pairs_that_are_not_apart(n_rankers, n_sets, seed):
    means = np.random.default_rng(seed).normal(size=(n_sets, n_rankers))
    ranks = Ranks([""] * n_sets, [""] * n_rankers, means)
    places, groups = ranks.mean[ranks.order], ranks.groups()
    for i in range(n_rankers):
        for j in range(i + 1, n_rankers):
            joined = any(first <= i and j <= last for first, last in groups)
            assert joined == (places[j] - places[i] <= ranks.critical_difference)


# Metrics.


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), min_size=2, max_size=150))
def test_metrics_are_those_of_slow_code(rows):
    y, scores = (np.array(part) for part in zip(*rows, strict=True))
    if y.all() or not y.any():
        return
    found, negatives = measure(y, scores.astype(float)), np.sort(scores[~y])[::-1]
    for count in (3, 10, 30):
        bar = negatives[count - 1] if negatives.size >= count else -1
        assert_allclose(found[f"recall_{count}"], np.mean(scores[y] > bar))
    assert found["pos_at_top"] == np.mean(scores[y] > negatives[0])
    assert found["precision_100"] == pytest.approx(np.mean(y)) or y.size > 100
    assert set(found) == set(METRICS)


# Splits.


@given(st.integers(0, 9), st.integers(30, 400), st.integers(30, 300))
def test_random_splits_keep_the_classes_and_the_most_rows(number, n_rows, most_rows):
    y = np.arange(n_rows) % 5 == 0
    train, test = places(RawTable(np.zeros((n_rows, 1)), y), number, most_rows)
    assert not set(train) & set(test)
    assert train.size + test.size == min(n_rows, most_rows)
    assert abs(test.size - train.size / 2) <= 1
    assert_allclose(y[train].sum(), train.size / 5, atol=1)


@given(st.integers(0, 9), st.integers(30, 300), st.integers(2, 20), st.integers(0, 50))
def test_no_group_is_on_both_sides(number, most_rows, n_groups, seed):
    groups = np.random.default_rng(seed).integers(n_groups, size=200)
    train, test = places(RawTable(None, np.zeros(200, bool), groups), number, most_rows)
    assert not set(groups[train]) & set(groups[test])
    assert train.size + test.size <= most_rows
    assert train.size == min(200, most_rows) - round(min(200, most_rows) / 3)


@given(st.integers(30, 300), st.integers(5, 1000), st.integers(0, 50))
def test_all_test_rows_are_later_than_training_rows(most_rows, n_times, seed):
    times = np.random.default_rng(seed).integers(n_times, size=200)
    table, starts = RawTable(None, np.zeros(200, bool), times=times), []
    for number in range(10):
        train, test = places(table, number, most_rows)
        assert not test.size or times[test].min() > times[train].max()
        assert train.size + test.size <= min(most_rows, 120)
        starts.append(times[train].min())
    assert n_times < 100 or len(set(starts)) > 4


def test_windows_of_few_splits_cover_the_whole_time():
    times = np.arange(1000)
    table = RawTable(None, np.zeros(1000, bool), times=times)
    parts = [places(table, number, 1000) for number in range(3)]
    assert min(train.min() for train, _ in parts) == 0
    assert max(test.max() for _, test in parts) > 800


def test_a_split_with_one_class_is_an_error():
    table = RawTable(np.zeros((90, 1)), np.arange(90) < 20, times=np.arange(90))
    with pytest.raises(ValueError, match="one class"):
        split(table, 0, 90)


TABLE = """ID_1;age;city;asked;day;label;code
1;20;Ulm;01/02/2020;3;yes;x
2;?;;03/02/2020;1;no;x
3;30;Bonn;02/05/2020;2;;y
4;40;Ulm;04/05/2020;5;no;y
"""


@pytest.fixture
def table_folder(tmp_path):
    """A data directory with a raw table and what is to be known of it."""
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables/few.csv").write_text(TABLE)
    about = {"file": "few.csv.xz", "label": "label", "positive": "yes", "drop": ["ID_*"],
             "group": None, "time": "day"}  # fmt: skip
    about = {"few": about, "grouped": about | {"group": "code", "time": "asked"}, "none":
             about | {"file": "gone.csv"}}  # fmt: skip
    (tmp_path / "tables/tables.json").write_text(json.dumps(about))
    return tmp_path


def test_raw_tables_are_read_as_they_are_described(table_folder):
    assert datasets.table_names(table_folder) == ["few", "grouped"]
    table = datasets.load_table("few", table_folder)
    assert list(table.X) == ["age", "city", "asked", "code"]
    assert table.y.tolist() == [True, False, False]
    assert table.times.tolist() == [3, 1, 5]
    assert np.isnan(table.X["age"][1])
    grouped = datasets.load_table("grouped", table_folder)
    assert grouped.groups.tolist() == ["x", "x", "y"]
    assert_array_equal(np.argsort(grouped.times), [0, 1, 2])
    with pytest.raises(datasets.FetchError, match="none"):
        datasets.load_table("none", table_folder)


# Columns.


def made_table(n_rows=300, seed=0):
    """Numbers, a category, a date and a text, all of which say something about the class."""
    rng = np.random.default_rng(seed)
    y = rng.random(n_rows) < 0.3
    words = np.array(["call", "home", "now", "prize", "win", "later", "soon", "meet"])
    texts = [" ".join(rng.choice(words[3:] if one else words[:5], 6)) for one in y]
    frame = pd.DataFrame(
        {
            "age": 1.5 * y + rng.normal(size=n_rows),
            "is new": rng.random(n_rows) < 0.5,
            "city {x}": np.where(y & (rng.random(n_rows) < 0.7), "Ulm", "Bonn"),
            "asked": [f"{1 + i % 12}/{1 + i % 28}/2020 10:00" for i in range(n_rows)],
            "text": [f"{text} {i}" for i, text in enumerate(texts)],
        }
    )
    frame.loc[::7, "age"] = np.nan
    frame.loc[3::9, ["city {x}", "text"]] = None
    return frame, y


def test_columns_are_numbers_dates_categories_and_texts():
    frame, _ = made_table()
    assert Columns.of(frame) == Columns(["age", "is new"], ["asked"], ["city {x}"], ["text"])


def test_dates_have_parts():
    found = date_parts(pd.DataFrame({"a": ["2/1/1970 6:00", None]}))
    assert found.loc[0].tolist() == [31.25, 2, 6, 6]  # a Sunday
    assert found.loc[1].isna().all()


@pytest.mark.parametrize("as_strings", [False, True])
def test_boosters_see_the_same_columns_in_new_rows(as_strings):
    frame, _ = made_table()
    native = NativeColumns(frame, as_strings=as_strings)
    new = made_table(20, seed=1)[0]
    new.loc[0, "city {x}"] = "Kiel"
    rows, more = native(frame), native(new)
    assert list(rows) == list(more)
    assert (rows.dtypes == more.dtypes).all()
    category = rows.columns[6]
    if as_strings:
        assert native.positions() == ([category], ["c7"])
        assert more[category][0] == "Kiel"
        assert not more[["c6", "c7"]].isna().any(axis=None)
    else:
        assert sorted(rows[category].cat.categories) == ["Bonn", "Ulm"]
        assert pd.isna(more[category][0])
        assert rows.shape[1] == 7 + 50


@pytest.mark.parametrize("prepare", [scaled, unscaled])
def test_models_of_numbers_get_no_missing_values(prepare):
    frame, y = made_table()
    made = prepare(frame).fit(frame, y).transform(made_table(50, seed=2)[0])
    made = made.toarray() if sparse.issparse(made) else made
    assert made.shape[0] == 50
    assert np.isfinite(made).all()


# Methods.

FORMS = {
    "frame": lambda: made_table(),
    "array": lambda: (made_table()[0][["age", "is new"]].to_numpy(float), made_table()[1]),
    "sparse": lambda: tuple(
        form(part) for form, part in zip((lambda X: sparse.csr_matrix(np.maximum(X - 15, 0)),
        lambda y: y == 0), load_breast_cancer(return_X_y=True), strict=True)
    ),
}  # fmt: skip
QUICK = ("lr", "lightgbm", "xgboost")
EXPENSIVE = ("top-ranker-thorough", "catboost")


def methods_and_forms():
    for key in METHODS:
        for form in FORMS:
            if key in QUICK and form == "frame":
                yield key, form
            else:
                mark = pytest.mark.slow if key in EXPENSIVE else pytest.mark.long
                yield pytest.param(key, form, marks=mark)


@pytest.mark.parametrize("key, form", list(methods_and_forms()))
def test_every_method_ranks_every_form_of_rows(key, form):
    method = METHODS[key]
    X, y = FORMS[form]()
    if why := method.missing or method.refuses(X):
        pytest.skip(why)
    rows = split(RawTable(X, y), 0, 300)
    scores = method.fit(rows.X, rows.y, 0, 1)(rows.X_test)
    assert measure(rows.y_test, np.asarray(scores, float))["auc"] > 0.6


def test_methods_of_text_refuse_rows_without():
    frame, _ = made_table()
    for key in ("tfidf-lr", "tfidf-svc"):
        assert METHODS[key].refuses(frame) == ""
        assert METHODS[key].refuses(frame.drop(columns="text"))
        assert METHODS[key].refuses(np.zeros((3, 2)))


def test_only_results_of_ours_depend_on_the_sources(monkeypatch, tmp_path):
    assert METHODS["top-ranker"].version("mine") == "mine"
    assert METHODS["top-ranker"].version() == hash_of_sources()
    assert METHODS["lightgbm"].version("mine") == METHODS["lightgbm"].version()
    hashes = set()
    for name, text in [("auto/a.py", "1"), ("auto/a.py", "2"), ("cli/b.py", "3")]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
        monkeypatch.setattr("toppush.__file__", str(tmp_path / "__init__.py"))
        hashes.add(hash_of_sources.__wrapped__())
    assert len(hashes) == 2  # the command line does not count


FAKE = """
import numpy, os, pandas
class TabularPredictor:
    def __init__(self, label, problem_type, eval_metric, path, verbosity):
        self.label, self.path = label, path
    def fit(self, rows, num_gpus, presets, time_limit, num_cpus):
        assert (presets, time_limit, num_cpus) == ("medium_quality", 5, 2)
        weights = rows.drop(columns=self.label).corrwith(rows[self.label])
        os.mkdir(self.path)
        weights.to_json(self.path + "/weights")
    @classmethod
    def load(cls, path):
        made = cls("is_positive", "", "", path, 0)
        made.weights = pandas.read_json(path + "/weights", typ="series")
        return made
    def predict_proba(self, rows):
        return pandas.DataFrame({1: (rows * self.weights).sum(axis=1)})
"""


@pytest.fixture
def fake_autogluon(tmp_path, monkeypatch):
    """An interpreter that has something of the interface of AutoGluon."""
    package = tmp_path / "packages/autogluon/tabular.py"
    about = tmp_path / "packages/autogluon.tabular-1.0.dist-info/METADATA"
    for path, text in (package, FAKE), (about, "Name: autogluon.tabular\nVersion: 1.0\n"):
        path.parent.mkdir(parents=True)
        path.write_text(text)
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\n[ "$1" = -I ] && shift\nexport PYTHONPATH={tmp_path}/packages\n'
        f'exec {sys.executable} -P "$@"\n'
    )
    python.chmod(0o755)
    monkeypatch.setenv(autogluon.INTERPRETER, str(python))
    autogluon._asked.cache_clear()
    yield package
    autogluon._asked.cache_clear()


@pytest.mark.skipif(sys.platform == "win32", reason="the interpreter is a shell script")
def test_autogluon_runs_in_its_own_environment(fake_autogluon):
    X, y = load_breast_cancer(return_X_y=True)
    assert METHODS["autogluon-medium-120"].package == "autogluon 1.0"
    assert METHODS["autogluon-medium-120"].missing == ""
    score = autogluon.fit(X[:200], y[:200] == 0, 0, 2, presets="medium_quality", seconds=5)
    assert measure(y[200:] == 0, score(sparse.csr_matrix(X[200:])))["auc"] > 0.8
    with pytest.raises(RuntimeError, match="AssertionError"):
        autogluon.fit(X[:200], y[:200], 0, 1, presets="medium_quality", seconds=5)


@pytest.mark.parametrize("python", ["", "/no/such/python", sys.executable])
def test_without_autogluon_the_reason_is_said(python, monkeypatch):
    if find_spec("autogluon") is not None:
        pytest.skip("AutoGluon is installed here")
    monkeypatch.setenv(autogluon.INTERPRETER, python)
    autogluon._asked.cache_clear()
    assert (python or autogluon.INTERPRETER) in autogluon.missing()
    autogluon._asked.cache_clear()


def test_the_version_of_a_build_for_the_cpu_is_recorded(monkeypatch):
    """XGBoost without gigabytes for GPUs has another name."""
    installed = {"xgboost-cpu": "3.2.0", "numpy": "2.2.0"}

    def version(name):
        if name not in installed:
            raise PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr(metadata, "version", version)
    found = machine("xgboost", "catboost")
    assert (found["xgboost"], found["numpy"], found["catboost"]) == ("3.2.0", "2.2.0", None)


# Cells and their file.


def record(seconds=1.0, **values):
    metrics = dict.fromkeys(METRICS, 0.5) | values
    sizes = {"n_train": 200, "n_test": 100, "n_pos_train": 20, "n_columns": 3}
    return {"status": "done", **metrics, "seconds_fit": seconds, "seconds_score": 0.0, **sizes,
            "finished": "2026"}  # fmt: skip


def test_the_first_split_of_all_sets_comes_before_the_second():
    cells = list(Benchmark(["a", "b"], ["lr", "top-ranker"], splits=2, label="x").cells())
    found = [(cell.split, cell.data, cell.method) for cell in cells]
    assert found == list(itertools.product([0, 1], "ab", ["lr", "top-ranker"]))
    assert {cell.version for cell in cells if cell.method == "top-ranker"} == {"x"}


def test_lines_that_kills_left_unfinished_are_ignored(tmp_path):
    path = tmp_path / "results.jsonl"
    cells = [Cell("a", i, "lr", "1", 100) for i in range(3)]
    results = Results(path)
    results.write(cells[0], record())
    whole = path.read_bytes()
    results.write(cells[1], record())
    both = path.read_bytes()
    for size in range(len(whole), len(both)):
        path.write_bytes(both[:size])
        again = Results(path)
        assert list(again.records) == cells[:1]
        again.write(cells[2], record())
        assert list(Results(path).records) == [cells[0], *cells[1:2] * (size == len(both) - 1),
                                               cells[2]]  # fmt: skip


def test_another_file_is_not_taken_for_results(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"table\.csv"):
        Results(path)


@pytest.mark.parametrize("seconds, wanted", [(100.0, [3, 4]), (130.0, [])])
def test_slow_methods_have_three_splits(seconds, wanted, tmp_path):
    results, plan = Results(tmp_path / "results"), Benchmark(["a"], ["lr"], splits=5, rows=100)
    cells = list(plan.cells())
    for cell in cells[:3]:
        results.write(cell, record(seconds))
    results.write(Cell("b", 0, "lr", "1", 100), record(1e6))
    assert [cell.split for cell in cells if plan._is_wanted(cell, results)] == wanted


def test_a_method_that_was_out_of_time_is_not_begun_on_further_splits(tmp_path):
    results, plan = Results(tmp_path / "results"), Benchmark(["a", "b"], ["lr"], splits=3, rows=100)
    cells = list(plan.cells())
    results.write(cells[0], {"status": "out of time", "message": "stopped after 1 minutes"})

    def wanted(plan, results):
        found = [cell for cell in cells if plan._is_wanted(cell, results)]
        return [(cell.data, cell.split) for cell in found]

    of_b = [("b", 0), ("b", 1), ("b", 2)]
    for read in (results, Results(results.path)):
        assert wanted(plan, read) == of_b
        assert wanted(replace(plan, again=True), read)[:2] == [("a", 0), ("b", 0)]
    results.write(cells[0], record())
    assert wanted(plan, results) == [*of_b[:1], ("a", 1), ("b", 1), ("a", 2), ("b", 2)]


def write_data(folder):
    """Two data sets: a LIBSVM file, and a raw table."""
    X, y = load_breast_cancer(return_X_y=True)
    path = str(folder / "diabetes_scale.svm")
    dump_svmlight_file(X[:240, :8], np.where(y[:240], 1, -1), path, zero_based=False)
    frame, y = made_table()
    frame.assign(label=y.astype(int)).to_csv(folder / "made.csv", index=False)
    about = {"file": "made.csv", "label": "label", "positive": "1", "drop": [], "group": None,
             "time": None}  # fmt: skip
    (folder / "tables.json").write_text(json.dumps({"made": about}))


def run(*words):
    return CliRunner().invoke(main, ["benchmark", *map(str, words)])


def read(path):
    with path.open() as file:
        return list(csv.DictReader(file))


METHODS_RUN = "top-ranker,lr,tfidf-lr"


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A run on small data sets, and where it put its files."""
    folder, out = tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("out")
    write_data(folder)
    words = ["--methods", METHODS_RUN, "--splits", 2, "--rows", 200, "--data", folder, "--out", out]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOPPUSH_CACHE", str(out / "cache"))
        return run(*words), words, out


@pytest.mark.long
def test_a_run_writes_results_and_tables(ran):
    said, _, out = ran
    assert said.exit_code == 0, said.output
    assert "split 1, diabetes, tfidf-lr: not applied: no column of texts" in said.stderr
    means = {(row["data"], row["method"]): row for row in read(out / "benchmark-means.csv")}
    assert {row["splits"] for row in means.values()} == {"2", "0"}
    assert float(means["made", "logistic regression"]["AUC"]) > 0.7
    assert {row["against"] for row in read(out / "benchmark-tests.csv")} == {
        "logistic regression",
        "TF-IDF, logistic regression",
    }


@pytest.mark.long
def test_a_run_goes_on_where_it_was(ran):
    _, words, out = ran
    store, cells = out / "benchmark.jsonl", 12
    assert len(store.read_text().splitlines()) == cells
    whole = store.read_bytes()
    assert run(*words).exit_code == 0
    assert store.read_bytes() == whole
    store.write_bytes(whole[:-30])  # as of a process that was killed
    assert run(*words).exit_code == 0
    assert len(Results(store).records) == cells
    said = run(*words, "--label", "other", "--minutes", 0)
    assert (said.exit_code, hash_of_sources() in said.stderr) == (1, True)
    said = run(*words, "--label", "other", "--compare", hash_of_sources())
    assert said.exit_code == 0, said.output
    assert len(Results(store).records) == cells + 4  # those of others count for both
    methods = [row["method"] for row in read(out / "benchmark-methods.csv")]
    assert methods[:2] == ["TopRanker", f"TopRanker ({hash_of_sources()})"]


@pytest.mark.long
def test_the_tables_are_made_without_data(ran, tmp_path):
    _, _, out = ran
    words = ["--summary", "--store", out / "benchmark.jsonl", "--methods", METHODS_RUN,
             "--splits", 2, "--rows", 200]  # fmt: skip
    said = run(*words, "--out", tmp_path / "a", "--sets", "made")
    assert said.exit_code == 0, said.output
    assert {row["data"] for row in read(tmp_path / "a/benchmark-means.csv")} == {"made"}


@pytest.mark.long
def test_a_cell_that_takes_too_long_is_stopped_and_run_again_if_asked(tmp_path):
    write_data(tmp_path)
    words = ["--methods", "forest", "--splits", 1, "--data", tmp_path, "--out", tmp_path / "out"]
    words += ["--sets", "made"]
    run(*words, "--cell-minutes", 0.001)
    (stopped,) = Results(tmp_path / "out/benchmark.jsonl").records.values()
    assert (stopped["status"], stopped["message"]) == (
        "out of time",
        "stopped after 0.001 minutes",
    )
    run(*words)
    (stopped,) = Results(tmp_path / "out/benchmark.jsonl").records.values()
    assert stopped["status"] == "out of time"
    run(*words, "--again")
    (done,) = Results(tmp_path / "out/benchmark.jsonl").records.values()
    assert done["status"] == "done"


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGINT to send")
def test_ctrl_c_keeps_what_was_finished(tmp_path):
    write_data(tmp_path)
    words = ["benchmark", "--methods", "lr,lightgbm", "--data", str(tmp_path), "--out", "out"]
    with subprocess.Popen(
        [sys.executable, "-m", "reproduce", *words],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "TOPPUSH_CACHE": "cache"},
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        assert "average precision" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
    assert process.returncode == 130
    assert "stopped; out" in said
    assert 1 <= len(Results(tmp_path / "out/benchmark.jsonl").records) < 40


@pytest.mark.parametrize(
    "words, said",
    [
        (["--sets", "no-such-set"], "no-such-set.*made"),
        (["--methods", "no-such-method"], "no-such-method.*lightgbm"),
        (["--summary"], "no results"),
    ],
)
def test_what_is_not_there_is_named(words, said, tmp_path):
    write_data(tmp_path)
    found = run(*words, "--data", tmp_path, "--out", tmp_path / "out")
    assert found.exit_code != 0
    assert re.search(said, " ".join(found.stderr.split()))


# Tables.

DATA = ["a", "b", "c", "d"]
AP = {
    "top-ranker": [0.5, 0.6, 0.7, 0.8],
    "lr": [0.4, 0.5, 0.6, 0.7],
    "forest": [0.45, 0.65, 0.6, 0.8],
}


@pytest.fixture
def compared(tmp_path):
    """Five splits of four sets by three methods, and one of a method that failed."""
    results = Results(tmp_path / "results.jsonl")
    plan = Benchmark(DATA, [*AP, "svc"], splits=5, rows=300, label="now")
    rng = np.random.default_rng(0)
    for cell in plan.cells():
        if cell.method in AP:
            value = AP[cell.method][DATA.index(cell.data)] + 0.001 * rng.normal()
            results.write(cell, record(ap=value, seconds=1.0 + len(cell.method)))
        elif cell.split == 0:
            about = {"status": "failed", "message": "no memory", "finished": "2026"}
            results.write(cell, about)
    return Comparison(results, plan), results, plan


def rows_of(table):
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def test_the_overall_table_counts_and_averages(compared):
    _, results, plan = compared
    made = summarise(results, plan)
    rows = {(row["metric"], row["method"]): row for row in rows_of(made.tables[0])}
    lr, forest = (rows["average precision", METHODS[key].title] for key in ("lr", "forest"))
    assert [lr[key] for key in ("wins", "ties", "losses")] == ["4", "0", "0"]
    assert [forest[key] for key in ("wins", "ties", "losses")] == ["2", "1", "1"]
    assert float(lr["difference"]) == pytest.approx(0.1, abs=0.002)
    assert lr["p"] == "0.12"  # the least of four signs: 2 / 16
    assert lr["p (Holm)"] == "0.25"
    assert rows["average precision", "TopRanker"]["mean rank"] in ("1.25", "1.50")
    assert rows["AUC", "logistic regression"]["ties"] == "4"


def test_tests_on_each_set_are_corrected_for_the_sets(compared):
    comparison, _, _ = compared
    place = [one.method for one in comparison.entrants].index("forest")
    found = comparison.tests(place, "ap")
    assert_allclose([one.p_holm for one in found], slow_holm(
        [one.difference.p_value for one in found]))  # fmt: skip
    assert [one.verdict for one in found][:3] == ["win", "loss", "win"]
    gaps = [comparison.done("a", 0)[i]["ap"] - comparison.done("a", place)[i]["ap"]
            for i in range(5)]  # fmt: skip
    assert found[0].difference == resampled_t(np.array(gaps), 0.5)


def test_a_method_without_results_has_no_rank_and_a_reason(compared):
    comparison, _, _ = compared
    assert comparison.ranks("ap").names == ["TopRanker", "logistic regression", "random forest"]
    means = rows_of(summaries.means(comparison))
    assert {row["trouble"] for row in means if row["method"] == METHODS["svc"].title} == {
        "failed: no memory"
    }


def test_sets_that_a_ranked_method_was_not_tried_on_are_not_ranked(compared):
    _, results, plan = compared
    del results.records[Cell("d", 0, "lr", "1", 300)]
    for number in range(1, 5):
        del results.records[Cell("d", number, "lr", "1", 300)]
    assert Comparison(results, plan).ranks("ap").sets == ["a", "b", "c"]


def test_means_for_ranks_are_over_common_splits(compared):
    _, results, plan = compared
    for number in range(2, 5):
        del results.records[Cell("a", number, "forest", "1", 300)]
    found = Comparison(results, plan)
    ranks = found.ranks("ap")
    ours = [found.done("a", 0)[number]["ap"] for number in (0, 1)]
    assert_allclose(ranks.means[0, ranks.names.index("TopRanker")], np.mean(ours))


def test_other_versions_of_ours_and_other_rows_do_not_count(compared):
    _, results, plan = compared
    more = [Cell("a", 0, "top-ranker", "old", 300), Cell("a", 0, "lr", "1", 900)]
    for cell in more:
        results.write(cell, record(ap=0.0))
    found = Comparison(results, plan)
    assert min(one["ap"] for one in found.done("a", 0).values()) > 0.4
    assert found.mean("a", 1, "ap") > 0.3
    versions = Comparison(results, plan, ["old"])
    assert versions.entrants[1].title == "TopRanker (old)"
    assert versions.mean("a", 1, "ap") == 0.0


def test_a_version_without_results_is_an_error_that_names_those_with(compared):
    _, results, plan = compared
    plan.label = "new"
    with pytest.raises(ValueError, match="--label: now"):
        summarise(results, plan)


@pytest.mark.parametrize("n_sets, n_rankers", [(1, 2), (2, 13), (37, 17)])
def test_pictures_have_room_for_their_words(n_sets, n_rankers):
    titles = [one.title for one in METHODS.values()][:n_rankers]
    sets = [f"set {i}" for i in range(n_sets)]
    ranks = Ranks(sets, titles, np.random.default_rng(0).random((n_sets, n_rankers)))
    ours = {"TopRanker"}
    drawn = draw_winners(ranks, "recall", ours), draw_ranks(dict.fromkeys("abc", ranks), ours)
    for figure, _ in drawn:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # as of axes that collapse
            figure.savefig(BytesIO(), format="svg")
        assert figure.axes[0].xaxis.label.get_window_extent().x1 <= figure.bbox.x1
