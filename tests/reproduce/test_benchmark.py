"""The benchmark: metrics, tests and ranks, every ranker on all types of rows, and tables."""

import csv
import shutil
import warnings
from dataclasses import replace
from importlib import metadata
from importlib.metadata import PackageNotFoundError
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.datasets import dump_svmlight_file, load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

from reproduce import benchmark, contestants
from reproduce import benchmark_tables as tables
from reproduce.benchmark import COSTS, MEASURES, BenchmarkPlan, measure, peak_memory, run_trial
from reproduce.benchmark_tables import draw_ranks, draw_winners, enough, long_table, overview
from reproduce.commands import main
from reproduce.contestants import CONTESTANTS, Refused
from reproduce.methods import METHODS
from reproduce.results import machine
from reproduce.runner import Plan
from reproduce.summaries import Ranks, Summary, overlapping_p
from toppush.monitor.drift import holm

# Tests of many comparisons.


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


def test_critical_difference_is_that_of_the_published_example():
    """Demsar 2006, section 3.2.2: four classifiers on fourteen sets."""
    ranks = Ranks([""] * 14, [""] * 4, np.zeros((14, 4)))
    assert_allclose(ranks.critical_difference, 1.25, atol=0.005)


def test_ranks_share_ties_and_put_what_is_missing_last():
    means = np.array([[0.5, 0.7, 0.5, np.nan, np.nan]])
    ranks = Ranks(["a"], list("vwxyz"), means)
    assert ranks.table.tolist() == [[2.5, 1.0, 2.5, 4.5, 4.5]]
    assert ranks.order[0] == 1
    assert ranks.n_finished.tolist() == [1, 1, 1, 0, 0]


@given(st.integers(2, 8), st.integers(1, 10), st.integers(0, 100))
def test_groups_join_exactly_the_pairs_that_are_not_apart(n_rankers, n_sets, seed):
    means = np.random.default_rng(seed).normal(size=(n_sets, n_rankers))
    ranks = Ranks([""] * n_sets, [""] * n_rankers, means)
    places, groups = ranks.mean[ranks.order], ranks.groups()
    for i in range(n_rankers):
        for j in range(i + 1, n_rankers):
            joined = any(first <= i and j <= last for first, last in groups)
            assert joined == (places[j] - places[i] <= ranks.critical_difference)


def test_overlapping_splits_make_a_difference_less_sure():
    differences = np.array([0.1, 0.2, 0.15, 0.05, 0.3])
    t = 0.16 / (differences.std(ddof=1) * np.sqrt(1 / 5 + 1 / 2))
    alone = overlapping_p(differences, 0.0)
    assert overlapping_p(differences, 0.5) > alone
    assert_allclose(overlapping_p(differences, 0.5), 2 * (1 - _t_cdf(t, 4)), rtol=1e-6)
    assert overlapping_p(np.zeros(3), 0.5) == 1.0
    assert overlapping_p(np.ones(3), 0.5) == 0.0


def _t_cdf(t, degrees):
    """By summing the density up, slowly."""
    x = np.linspace(0, t, 200_001)
    assert degrees == 4
    return 0.5 + np.trapezoid(3 / 8 * (1 + x**2 / 4) ** -2.5, x)


# What is measured.


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), min_size=2, max_size=40))
def test_recalls_are_shares_above_the_negative_in_its_place(rows):
    y, scores = (np.array(part) for part in zip(*rows, strict=True))
    if y.all() or not y.any():
        return
    found, negatives = measure(y, scores.astype(float)), np.sort(scores[~y])[::-1]
    for count in (3, 10):
        bar = negatives[min(count, negatives.size) - 1] if negatives.size >= count else -1
        assert_allclose(found[f"before_{count}"], np.mean(scores[y] > bar))
    assert found["fpr_1e-4"] == found["pos_at_top"] == np.mean(scores[y] > negatives[0])


def test_memory_counts_what_the_block_took():
    with peak_memory() as peak:
        rows = np.ones(32 * 2**20)  # 256 MB, still held when the block ends: the last look is sure
    assert rows.nbytes == 256 * 2**20
    assert 220 <= peak.megabytes <= 320


# Rankers.


@pytest.fixture(scope="module")
def table():
    X, y = load_breast_cancer(return_X_y=True)
    frame = pd.DataFrame(X[:300, :4], columns=list("abcd"))
    frame["e"] = pd.Series(np.where(X[:300, 4] > 0.1, "long", "short"), dtype="category")
    frame.iloc[::7, 0] = np.nan
    return frame, y[:300] == 0


FORMS = {
    "frame": lambda frame: frame,
    "array": lambda frame: frame[list("bcd")].to_numpy(),
    "sparse": lambda frame: sparse.csr_matrix(np.maximum(frame[list("bcd")].to_numpy() - 15, 0)),
}
QUICK = ("linear", "lr", "lightgbm")
TRIED = [key for key in CONTESTANTS if not key.startswith("paper-") or key == "paper-toppush"]
"""The paper's competitors are one function of many settings; one of them shows it."""


def rankers_and_forms():
    for key in TRIED:
        for form in FORMS:
            is_first, is_quick = form == "frame", key in QUICK
            if is_first and is_quick:
                yield key, form
            else:
                mark = "long" if is_first or is_quick else "slow"
                yield pytest.param(key, form, marks=getattr(pytest.mark, mark))


@pytest.mark.parametrize("key, form", list(rankers_and_forms()))
def test_every_ranker_ranks_every_form_of_rows(key, form, table):
    if not CONTESTANTS[key].is_available:
        pytest.skip(f"{CONTESTANTS[key].needs} is not installed")
    frame, y = table
    found = run_trial(CONTESTANTS[key], FORMS[form](frame), y, seed=0)
    assert found["auc"] > (0.75 if form != "sparse" else 0.6)
    assert {one.key for one in (*benchmark.MEASURES, *benchmark.COSTS)} <= set(found)


def test_a_network_refuses_rows_that_would_not_fit():
    with pytest.raises(Refused, match=r"3,231,961.*30,000,000"):
        CONTESTANTS["mlp"].fit(sparse.csr_matrix((2, 3_231_961)), np.array([True, False]), 0)


class OnDevice(BaseEstimator):
    """Stands for a network, and takes whatever it is given."""

    hidden, n_members = (256, 128), 8

    def __init__(self, device=None, n_jobs=None, random_state=None):
        self.device, self.n_jobs, self.random_state = device, n_jobs, random_state

    def fit(self, X, y):
        self.n_features_in_ = X.shape[1]
        return self

    def decision_function(self, X):
        return np.arange(X.shape[0], dtype=float)


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
def test_a_network_on_a_gpu_is_refused_nothing_and_has_no_cpu_seconds(monkeypatch):
    rows, y = sparse.random(30, 20_000, format="csr", random_state=0), np.arange(30) % 2 == 0
    monkeypatch.setattr(contestants, "TopPushNet", OnDevice)
    for name, device in {"": None, "A 100": "cuda"}.items():
        for module in (contestants, benchmark):
            monkeypatch.setattr(module, "gpu_name", lambda name=name: name)
        score = CONTESTANTS["net"].fit(rows[:, :9], y, 0)
        assert score.args[0][-1].device == device
    found = run_trial(CONTESTANTS["net"], rows, y, seed=0)
    assert found["gpu"] == "A 100"
    assert all(np.isnan(found[one.key]) for one in COSTS)
    assert all(0.0 <= found[one.key] <= 1.0 for one in MEASURES)
    assert "gpu" not in run_trial(CONTESTANTS["mlp"], rows, y, seed=0)
    monkeypatch.setattr(contestants, "gpu_name", lambda: "")
    with pytest.raises(Refused, match="20,000 columns"):
        CONTESTANTS["net"].fit(rows, y, 0)


def test_costs_that_nobody_measured_are_not_shown():
    plan = BenchmarkPlan(["a"], ["net"], trials=3, sizes={"a": (9, 9, 3)})
    values = {one.key: np.ones(3) for one in MEASURES}
    values |= {one.key: np.full(3, np.nan) for one in COSTS}
    found = {("a", "net"): Summary("a", "net", values, [0, 1, 2], "", np.nan, np.nan)}
    (row,) = long_table(plan, found, {"a": "a"}).rows
    assert row[-4:] == ["1.000", "", "", ""]
    (row,) = overview(plan, found, [], {"a": "a"}, [0], "seconds_fitting").rows
    assert row == ["TopPushNet", "GPU"]


def test_the_papers_rivals_are_foreseen_by_their_middle_setting(monkeypatch, table):
    """A search on few rows may meet settings that take longer there than on all of them."""
    frame, y = table
    monkeypatch.setattr(benchmark, "load", lambda name, directory: (frame, y))
    settings = []

    def fit(X, y, C):
        settings.append(C)
        return lambda rows: np.zeros(rows.shape[0])

    competitor = CONTESTANTS["paper-svm-map"]
    told = replace(competitor, method=replace(competitor.method, fit=fit))
    found = BenchmarkPlan.foresee("made", None, told)
    assert set(settings) == {1.0}
    assert found["sizes"][-1] == y.size
    assert found["seconds_trial"] > 0.0
    assert BenchmarkPlan.foresee("made", None, CONTESTANTS["lr-default"])["sizes"][-1] == y.size


@pytest.mark.parametrize("form", FORMS)
def test_the_papers_rivals_see_columns_as_its_authors_had_them(form, table, monkeypatch):
    """All from 0 to 1 in the training rows; sparse rows as they were published."""
    frame, y = table
    seen = []

    def fit(X, y):
        seen.append(X.toarray())
        return lambda rows: np.zeros(rows.shape[0])

    told = replace(METHODS["toppush"], fit=fit, grids={})
    X = FORMS[form](frame)
    contestants._by_the_paper(told)(X, y, 0)
    if form == "sparse":
        assert_allclose(seen[0], X.toarray())
    else:
        assert_allclose(seen[0].min(axis=0), 0.0, atol=1e-12)
        assert_allclose(seen[0].max(axis=0), 1.0)
    monkeypatch.setattr(benchmark, "load", lambda name, directory: (X, y))
    competitor = replace(CONTESTANTS["paper-toppush"], method=told)
    BenchmarkPlan.foresee("made", None, competitor)
    assert_allclose(np.sort(seen[-1], axis=0), np.sort(seen[0], axis=0))  # in another order


def test_a_forest_of_sparse_rows_is_that_of_the_array():
    X, y = sparse.random(200, 40, 0.1, format="csr", random_state=0), np.arange(200) % 3 == 0
    model = RandomForestClassifier(300, min_samples_leaf=2, random_state=5).fit(X.toarray(), y)
    found = CONTESTANTS["forest"].fit(X, y, 5)(X)
    assert_allclose(found, model.predict_proba(X.toarray())[:, 1])


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


@pytest.mark.parametrize("n_sets, n_rankers", [(1, 2), (2, 13), (15, 21)])
def test_pictures_have_room_for_their_words(n_sets, n_rankers):
    titles = [one.title for one in CONTESTANTS.values()][:n_rankers]
    sets = [f"set {i}" for i in range(n_sets)]
    ranks = Ranks(sets, titles, np.random.default_rng(0).random((n_sets, n_rankers)))
    names = {name: name for name in sets}
    drawn = draw_winners(ranks, "recall before 10", names), draw_ranks(dict.fromkeys("abc", ranks))
    for figure, _ in drawn:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # as of axes that collapse
            figure.savefig(BytesIO(), format="svg")
        right = figure.axes[0].xaxis.label.get_window_extent().x1
        assert right <= figure.bbox.x1


# The command.

NAMED = "top-ranker,lr-default,linear-svc"


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A run on a small data set, and where it put its files."""
    folder, out = tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("out")
    write_rows(folder)
    words = ["--sets", "diabetes,cover,bank-marketing", "--trials", "3", "--data", str(folder)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOPPUSH_CACHE", str(out / "cache"))
        quicker = replace(CONTESTANTS["top-ranker"], fit=CONTESTANTS["lr"].fit)
        patch.setitem(CONTESTANTS, "top-ranker", quicker)
        return run("--methods", NAMED, "--out", str(out), *words), out


def write_rows(folder):
    """Few rows under the name of diabetes."""
    X, y = load_breast_cancer(return_X_y=True)
    path = str(folder / "diabetes_scale.svm")
    dump_svmlight_file(X[:240, :8], np.where(y[:240], 1, -1), path, zero_based=False)


def run(*words):
    return CliRunner().invoke(main, ["benchmark", *words])


@pytest.mark.long
def test_a_run_writes_means_differences_ranks_and_pictures(ran):
    said, out = ran
    assert said.exit_code == 0, said.output
    assert "cover is left out" in said.stderr
    assert "bank-marketing is left out" in said.stderr
    means = read(out / "benchmark.csv")
    assert [row["splits"] for row in means] == ["3", "3", "3"]
    assert all(0.5 < float(row["AUC"]) <= 1.0 for row in means)
    against = {row["against"] for row in read(out / "benchmark-differences.csv")}
    assert against == {"LR, untuned", "LinearSVC"}
    assert {row["sets"] for row in read(out / "benchmark-ranks.csv")} == {"1"}
    assert (out / "benchmark.svg").exists()
    assert (out / "benchmark-ranks.png").exists()


@pytest.mark.long
def test_records_make_the_same_tables_again_without_data(ran, tmp_path):
    _, out = ran
    shown = run("--show", "--methods", NAMED, "--trials", "3",
                "--store", str(out / "benchmark.sqlite"), "--out", str(tmp_path))  # fmt: skip
    assert shown.exit_code == 0, shown.output
    for path in out.glob("*.csv"):
        assert (tmp_path / path.name).read_text() == path.read_text()


@pytest.mark.long
def test_without_a_mean_there_are_tables_and_no_pictures(tmp_path, monkeypatch):
    def fail(X, y, seed):
        raise ValueError("no rows please")

    write_rows(tmp_path)
    monkeypatch.setitem(CONTESTANTS, "lr", replace(CONTESTANTS["lr"], fit=fail))
    out = tmp_path / "out"
    words = ["--sets", "diabetes", "--methods", "lr", "--trials", "1"]
    said = run(*words, "--data", str(tmp_path), "--out", str(out))
    assert said.exit_code == 0, said.output
    (row,) = read(out / "benchmark.csv")
    assert (row["splits"], "no rows please" in ",".join(row.values())) == ("0", True)
    assert not list(out.glob("*.svg"))


def read(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def test_sets_of_many_rows_have_ten_trials():
    sizes = {"a": (50_000, 50_000, 3), "b": (1, 100_000, 3)}
    for kind in (Plan, BenchmarkPlan):
        plan = kind(["a", "b"], ["lr"], sizes=sizes)
        assert [plan.n_trials(name) for name in plan.data] == [30, 10]


@pytest.mark.parametrize(
    "n_done, n_all, is_shown", [(4, 30, False), (5, 30, True), (3, 3, True), (2, 3, False)]
)
def test_means_of_few_splits_are_not_shown(n_done, n_all, is_shown):
    plan = BenchmarkPlan(["a"], ["lr"], trials=n_all, sizes={"a": (9, 9, 3)})
    values = {one.key: np.ones(n_done) for one in (*MEASURES, *COSTS)}
    found = Summary("a", "lr", values, list(range(n_done)), "", np.nan, np.nan)
    (row,) = long_table(plan, {("a", "lr"): enough(plan, found)}, {"a": "a"}).rows
    assert row[2:4] == [str(n_done if is_shown else 0), str(n_all)]
    assert bool(row[4]) == is_shown
    assert row[-1] == ("" if is_shown else f"only {n_done} of {n_all} splits")


# Derived tables, from means and tests of three sets and four rankers.

RESULTS = Path(__file__).resolve().parents[2] / "results"
RANKERS = ["top-ranker", "linear", "lr", "lightgbm"]
SIZES = {"few": (9, 9, 3), "many": (9, 9, 3000), "other": (9, 9, 3)}
AP = {
    "few": [0.30, 0.20, 0.25, 0.28],
    "many": [0.900, 0.895, 0.910, None],
    "other": [0.50, 0.30, 0.20, 0.50],
}
SECONDS = [10.0, 2.0, 0.5, 1.0]


@pytest.fixture
def compared_rankers():
    """A plan, its summaries, and the tests of TopRanker against the others."""
    plan = BenchmarkPlan(list(SIZES), RANKERS, trials=10, sizes=SIZES)
    summaries = {}
    for data, means in AP.items():
        for ranker, mean, seconds in zip(RANKERS, means, SECONDS, strict=True):
            if mean is not None:
                noise = np.linspace(-1e-4, 1e-4, 10)
                values = {one.key: mean + noise for one in MEASURES}
                values |= {one.key: np.full(10, seconds) for one in COSTS}
                trials = list(range(10))
                one = Summary(data, ranker, values, trials, "", np.nan, np.nan)
                summaries[data, ranker] = one
    return plan, summaries, tables.compare(plan, summaries, "ap")


def rows_of(table):
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def test_the_best_of_each_set_and_losses_are_named(compared_rankers):
    plan, summaries, tested = compared_rankers
    names = {data: data for data in SIZES}
    rows = rows_of(tables.best_table(plan, summaries, tested, names))
    assert [row["AP, best"] for row in rows] == ["TopRanker 0.300", "LR 0.910 ○", "TopRanker 0.500"]
    assert [row["AP, TopRanker"] for row in rows] == ["0.300", "0.900", "0.500"]
    assert tables.losses(tested, names).rows == [["AP", "many", "LR", "0.010"]]


@pytest.mark.parametrize("n_splits, best", [(8, "TopRanker 0.900"), (9, "LR 0.910 ○")])
def test_means_of_few_splits_are_not_the_best(n_splits, best, compared_rankers):
    plan, summaries, tested = compared_rankers
    whole = summaries["many", "lr"]
    values = {key: numbers[-n_splits:] for key, numbers in whole.values.items()}
    trials = whole.trials[-n_splits:]
    summaries["many", "lr"] = replace(whole, values=values, trials=trials)
    rows = rows_of(tables.best_table(plan, summaries, tested, {data: data for data in SIZES}))
    assert rows[1]["AP, best"] == best


def test_mean_ranks_by_type_of_rows_are_those_of_slow_code(compared_rankers):
    plan, summaries, _ = compared_rankers
    ranks = {key: tables.ranked(plan, summaries, key) for key in tables.DRAWN}
    found = {row["rows"]: row["AP"] for row in rows_of(tables.by_rows(plan, ranks))}

    def expected(sets, rankers):
        means = {}
        for place in rankers:
            own = []
            for data in sets:
                values = [-1.0 if AP[data][i] is None else AP[data][i] for i in rankers]
                mine = -1.0 if AP[data][place] is None else AP[data][place]
                above, equal = sum(x > mine for x in values), sum(x == mine for x in values)
                own.append(above + (equal + 1) / 2)
            means[CONTESTANTS[RANKERS[place]].title] = np.mean(own)
        first = sorted(means.items(), key=lambda item: item[1])[:3]
        return ", ".join(f"{name} {mean:.2f}" for name, mean in first)

    assert found["any"] == expected(SIZES, range(4))
    assert found["at most 1000 columns"] == expected(["few", "other"], range(4))
    assert found["more than 1000 columns"] == expected(["many"], range(4))
    assert found["any, linear rankers"] == expected(SIZES, [1, 2])


def test_nearly_the_best_and_its_time(compared_rankers):
    plan, summaries, _ = compared_rankers
    rows = {row.pop("ranker"): row for row in rows_of(tables.nearly_best(plan, summaries))}
    assert rows["LR"] == {"nearly best": "1", "of": "3", "time": "0.05"}
    assert rows["LightGBM"] == {"nearly best": "1", "of": "2", "time": "0.1"}
    assert "TopPushCV" not in rows  # 0.015 below the best where it is nearest


def test_a_ranker_on_a_gpu_has_no_time(compared_rankers):
    plan, summaries, _ = compared_rankers
    for data in ("few", "other"):
        summaries[data, "lightgbm"].values["seconds_fitting"][:] = np.nan
    assert "LightGBM" not in [row[0] for row in tables.nearly_best(plan, summaries).rows]


def test_few_sets_give_no_rank():
    n_sets = len({row["set"] for row in read(RESULTS / "benchmark.csv")})
    ranks = read(RESULTS / "benchmark-ranks.csv")
    assert all(bool(row["mean rank"]) == (2 * int(row["sets"]) >= n_sets) for row in ranks)
    assert not all(row["mean rank"] for row in ranks)


@pytest.mark.long
@pytest.mark.parametrize("command, store", [("benchmark", "benchmark"), ("table2", "records")])
def test_our_records_make_our_tables(command, store, tmp_path):
    """In a copy, as a store that is opened may be written to."""
    shutil.copy(RESULTS / f"{store}.sqlite", tmp_path)
    shown = CliRunner().invoke(main, [command, "--show", "--out", str(tmp_path)])
    assert shown.exit_code == 0, shown.output
    for made in tmp_path.glob("*.csv"):
        ours = RESULTS / made.name
        assert made.read_text(encoding="utf-8") == ours.read_text(encoding="utf-8"), (
            f"run python -m reproduce {command} --show"
        )
