"""The paper's protocol, its records and tables, and runs that are killed."""

import csv
import io
import json
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest
from click.testing import CliRunner
from numpy.testing import assert_allclose
from scipy import sparse, stats
from sklearn.datasets import dump_svmlight_file, load_breast_cancer

from reproduce import errata as errata_module
from reproduce.commands import main
from reproduce.growth import Growth, Timed, as_table, draw, measure
from reproduce.limits import Limits, TimeLeft, forecast, in_words
from reproduce.methods import IN_PAPER, METHODS, POWERS, Grid, Method
from reproduce.protocol import N_FOLDS, choose, extend, foresee_trial, pick, run_trial
from reproduce.results import Result, report
from reproduce.runner import Plan, run, usual_settings
from reproduce.store import DONE, FAILED, OUT_OF_TIME, Record, Store, key_of
from reproduce.summaries import paired, summarise
from reproduce.table2 import PUBLISHED, result, table2
from reproduce.tables import Table


@pytest.fixture(scope="module")
def rows():
    X, y = load_breast_cancer(return_X_y=True)
    return sparse.csr_array(X / X.max(axis=0)), y == 0


@pytest.fixture(scope="module")
def directory(tmp_path_factory, rows):
    """A data directory in which `diabetes` is a part: eight columns of other rows."""
    folder, (X, y) = tmp_path_factory.mktemp("data"), rows
    write_rows(folder, X[:240], y[:240])
    return str(folder)


PLANNED = {"data": ["diabetes"], "methods": ["lr", "svm-rank"], "trials": 2}
N_RECORDS = 4 + 2
"""Trials, and a timing of each method."""


@pytest.fixture(scope="module")
def plan(directory):
    return Plan(**PLANNED, directory=directory)


@pytest.fixture(scope="module")
def whole(tmp_path_factory, directory):
    """What the command says that makes this table, and where it put its files."""
    out = tmp_path_factory.mktemp("whole")
    words = ["table2", "--sets", "diabetes,url", "--methods", "lr,svm-rank"]
    words += ["--trials", "2", "--jobs", "2", "--data", directory, "--out", str(out)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOPPUSH_CACHE", str(out / "cache"))
        return CliRunner().invoke(main, words), out


def write_rows(folder, X, y):
    path, labels = str(folder / "diabetes_scale.svm"), np.where(y, 1, -1)
    dump_svmlight_file(X[:, :8], labels, path, zero_based=False)


# Choosing.


def fixed(values):
    """A method whose held-out rule has a given value for each setting."""

    def fit(X, y, **setting):
        good = values[tuple(setting.values())]
        scores = {True: 1.0, False: 0.0}

        def score(rows):
            # The first `good` share of the positives rank above every negative.
            flags = rows[:, [0]].toarray().ravel() > 0
            out = np.array([scores[bool(flag)] for flag in flags]) - 2.0
            positives = np.flatnonzero(flags)
            out[positives[: round(good * len(positives))]] = 3.0
            out[positives[round(good * len(positives)) :]] = -5.0
            return out

        return score

    return fit


def labelled(n=200):
    y = np.arange(n) % 2 == 0
    return sparse.csr_array(np.column_stack([y, np.ones(n)])).astype(float), y


@pytest.mark.parametrize(
    "best, tried, chosen",
    [
        ({1.0: 0.9}, 3, 1.0),  # inside: no further value
        ({10.0: 0.8, 100.0: 0.9, 1000.0: 0.5}, 5, 100.0),  # extended twice upwards
        ({0.1: 0.9}, 4, 0.1),  # extended once downwards
        ({}, 3, 1.0),  # all tie: the middle
    ],
)
def test_a_grid_grows_while_its_best_is_at_an_end(best, tried, chosen):
    values = {(10.0**power,): 0.2 for power in range(-6, 7)}
    values |= {(value,): score for value, score in best.items()}
    grid = Grid((0.1, 1.0, 10.0), least=1e-6, greatest=1e6)
    method = Method("x", "x", fixed(values), {"lam": grid})
    setting, n_settings = choose(method, labelled(), seed=0)
    assert setting["lam"] == pytest.approx(chosen)
    assert n_settings == tried


def test_fits_that_share_work_are_made_together():
    """The same choice by one call a fold and C, and by one more for a tau beyond the grid."""
    values = {(C, tau): 0.2 for C in (1.0, 10.0) for tau in (0.125, 0.25, 0.5, 1.0)}
    values |= {(1.0, 0.5): 0.8, (1.0, 0.25): 0.9}
    grids = {"C": Grid((1.0, 10.0), step=1.0), "tau": Grid((0.5, 1.0), step=2.0, greatest=1.0)}
    alone = Method("x", "x", fixed(values), grids)
    asked = []

    def fit_together(X, y, taus, C):
        asked.append((C, tuple(taus)))
        return [fixed(values)(X, y, C=C, tau=tau) for tau in taus]

    together = replace(alone, together="tau", fit_together=fit_together)
    found = choose(together, labelled(), seed=0)
    assert found == choose(alone, labelled(), seed=0)
    assert found[0] == {"C": 1.0, "tau": 0.25}
    beyond = [(0.25,), (0.125,)]
    assert asked == [
        (C, taus) for taus in [(0.5, 1.0), *beyond] for C in (1.0, 10.0) for _ in range(N_FOLDS)
    ]


def test_fits_that_are_made_together_are_foreseen_together():
    asked = []

    def fit_together(X, y, values, C):
        asked.append((C, values))

    grids = {"C": POWERS, "tau": Grid((0.25, 0.5, 1.0))}
    method = Method("x", "x", fixed({}), grids, together="tau", fit_together=fit_together)
    found = foresee_trial(method, *labelled())
    assert set(asked) == {(1.0, (0.25, 0.5, 1.0))}
    assert found["sizes"][-1] == 200


@pytest.mark.parametrize("C", [0.1, 10.0])
def test_aatp_of_many_taus_is_that_of_each(C):
    X, y = (part[:60] for part in load_breast_cancer(return_X_y=True))
    X, y, method = sparse.csr_array(X[:, :4] / X[:, :4].max(axis=0)), y == 1, METHODS["aatp"]
    values = method.grids["tau"].values
    for tau, score in zip(values, method.fit_together(X, y, values, C=C), strict=True):
        assert_allclose(score(X), method.fit(X, y, C=C, tau=tau)(X), rtol=1e-6, atol=1e-9)


def test_a_grid_ends_where_values_make_no_sense():
    values = {"tau": [0.5, 1.0]}
    assert not extend(values, {"tau": 1.0}, {"tau": Grid((0.5, 1.0), step=2.0, greatest=1.0)})
    assert extend(values, {"tau": 0.5}, {"tau": Grid((0.5, 1.0), step=2.0, greatest=1.0)})
    assert values == {"tau": [0.25, 0.5, 1.0]}


def test_ties_go_to_the_middle_of_the_grid():
    found = {(1e-3, 1e3): 0.5, (1.0, 10.0): 0.5, (1.0, 1.0): 0.4, (10.0, 10.0): 0.5}
    assert pick(found, {"C": POWERS, "cost": POWERS}) == (1.0, 10.0)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("key", ["toppush", "lr", "toppush-cv", "lr-top", "svm-rank"])
def test_a_trial_repeats(key, rows):
    once, again = (run_trial(METHODS[key], *rows, seed=3) for _ in range(2))
    for name in RESULTS:
        assert once[name] == again[name]
    assert once["ap"] > 0.9


RESULTS = ("pos_at_top", "ap", "ndcg", "auc", "setting", "n_settings")


@pytest.mark.parametrize("key", ["lr-top", "toppush-auto"])
def test_shared_fits_give_what_own_fits_give(key, rows):
    X, y = rows
    method = METHODS[key]
    alone = run_trial(method, X[:240], y[:240], seed=3)
    maker = replace(METHODS[method.shares], sharing=(method,))
    shared = run_trial(maker, X[:240], y[:240], seed=3)["also"][key]
    assert {name: shared[name] for name in RESULTS} == {name: alone[name] for name in RESULTS}
    assert shared["seconds_choosing"] > 0.2 * alone["seconds_choosing"]  # as if it had made them


def test_a_fit_that_is_shared_is_made_once(rows):
    X, y = rows
    made = []

    def fit(X, y, **setting):
        made.append((len(y), *setting.values()))
        return METHODS["lr"].fit(X, y, **setting)

    sharing = (METHODS["lr-top"],)
    run_trial(replace(METHODS["lr"], fit=fit, sharing=sharing), X[:240], y[:240], seed=3)
    assert len(made) >= 7 * N_FOLDS
    assert max(Counter(made).values()) <= N_FOLDS  # folds may be as large as one another


@pytest.mark.long
def test_a_run_keeps_the_results_of_shared_fits(tmp_path, directory):
    store, events = Store(tmp_path / "records.sqlite"), []
    plan = Plan(["diabetes"], ["lr-top", "lr"], trials=1, directory=directory)
    run(plan, store, events.append)
    assert [e.config["method"] for e in events if e.config["trial"] == 0] == ["lr", "lr"]
    done = {r.config["method"]: r.result for r in store.records(plan.configs())}
    assert done["lr-top"]["seconds"] == 0.0 < done["lr"]["seconds"]
    assert "also" not in done["lr"]


@pytest.mark.long
def test_every_method_fits_and_scores(rows):
    X, y = rows
    keep = np.r_[0:60, 300:360]
    for method in METHODS.values():
        if method.is_available:
            setting = {
                name: grid.values[len(grid.values) // 2] for name, grid in method.grids.items()
            }
            scores = method.fit(X[keep], y[keep], **setting)(X[keep])
            assert np.shape(scores) == (120,), method.key
            assert np.mean(scores[y[keep]]) > np.mean(scores[~y[keep]]), method.key


# The store.


def config(trial, **more):
    return {"data": "d", "method": "m", "trial": trial, **more}


def test_a_record_comes_back_as_it_was(tmp_path):
    store = Store(tmp_path / "new" / "records.sqlite")
    record = Record(config(1), DONE, {"ap": 0.1 + 0.2}, "", {"cpu": "x"})
    store.write(record)
    store.write(Record(config(1), FAILED, {}))  # what is there stays
    (found,) = store.records()
    assert (found.config, found.status, found.result) == (record.config, DONE, record.result)
    assert store.records([config(2)]) == []
    store.write(Record(config(2), DONE, {}))
    assert store.forget(FAILED, [config(1)]) == 0
    assert store.forget(DONE, [config(1), config(3)]) == 1
    assert [one.config for one in store.records()] == [config(2)]  # others' work is not touched


def test_work_is_claimed_once(tmp_path):
    store = Store(tmp_path / "records.sqlite")
    assert store.claim(config(1))
    assert store.claim(config(1))  # by the same process: a claim of an earlier run of its own
    script = (
        "import sys, time\nfrom reproduce.store import Store\n"
        f"print(Store({str(store.path)!r}).claim({config(2)!r}), flush=True)\ntime.sleep(600)"
    )
    other = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout.readline() == "True\n"
        assert not store.claim(config(2))  # another live process has it
    finally:
        other.kill()
        other.wait()
        other.stdout.close()
    assert store.claim(config(2))  # it is gone
    store.write(Record(config(2), DONE, {}))
    assert not store.claim(config(2))  # it is done


HAMMER = """
import sys
from reproduce.store import DONE, Record, Store, key_of
store, done = Store(sys.argv[1]), 0
for trial in range(25):
    config = {"data": "d", "method": "m", "trial": trial}
    if store.claim(config):
        store.write(Record(config, DONE, {}))
        done += 1
print(done)
"""


def test_many_writers_do_each_piece_once(tmp_path):
    path = tmp_path / "records.sqlite"
    command = [sys.executable, "-c", HAMMER, str(path)]
    writers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    done = [int(writer.communicate()[0]) for writer in writers]
    assert sum(done) == len(Store(path).records()) == 25


def test_refuses_a_file_that_is_no_store(tmp_path):
    (tmp_path / "x.sqlite").write_text("certainly not a database, and long enough to tell")
    with pytest.raises(ValueError, match="results"):
        Store(tmp_path / "x.sqlite")


# Runs.


def test_a_run_fills_the_store_and_only_once(whole, plan):
    ran, out = whole
    assert ran.exit_code == 0, ran.output
    store = Store(out / "records.sqlite")
    records = store.records()
    assert [record.status for record in records] == [DONE] * N_RECORDS
    run(plan, store, lambda event: pytest.fail("nothing was left to do"))
    assert store.records() == records
    times = {name: summary.seconds_training for name, summary in summarise(plan, store).items()}
    assert all(seconds > 0 for seconds in times.values())


@pytest.mark.long
def test_a_run_is_told_of(tmp_path, directory):
    events = []
    one = Plan(["diabetes"], ["lr"], trials=1, directory=directory)
    run(one, Store(tmp_path / "records.sqlite"), events.append)
    begun, ended, *timing = events
    assert (begun.record, begun.n_done, begun.n_all) == (None, 0, 1)
    assert (ended.record.status, ended.n_done) == (DONE, 1)
    assert [event.config["trial"] for event in timing] == [None, None]


@pytest.mark.long
def test_what_fails_or_takes_too_long_is_a_row_that_says_so(tmp_path, rows, directory):
    X, y = rows
    few = np.r_[np.flatnonzero(y)[:1], np.flatnonzero(~y)[:40]]
    bad = tmp_path / "bad"
    bad.mkdir()
    write_rows(bad, X[few], y[few])
    store = Store(tmp_path / "records.sqlite")
    plan = Plan(["diabetes"], ["lr"], trials=1, directory=str(bad))
    run(plan, store)
    (failed,) = store.records()
    assert failed.status == FAILED
    assert "class" in failed.message
    shown = table2(plan, summarise(plan, store), {"diabetes": "diabetes"}).markdown()
    assert "failed (" in shown
    hurried = Plan(["diabetes"], ["aatp"], trials=2, directory=directory, time_limit=0.01)
    run(hurried, store)
    late = [record for record in store.records() if record.status == OUT_OF_TIME]
    assert [record.config["trial"] for record in late] == [0, 1]
    assert "more than 0.01 CPU s" in late[0].message


@pytest.mark.long
def test_a_method_that_would_take_too_long_is_not_begun(tmp_path, directory):
    store = Store(tmp_path / "records.sqlite")
    plan = Plan(["diabetes"], ["aatp"], trials=3, directory=directory, time_limit=0.5)
    run(plan, store, lambda event: event.record or pytest.fail("begun"))
    found = store.records()
    assert [(one.status, one.result["seconds"]) for one in found] == [(OUT_OF_TIME, 0.0)] * 3
    assert found[0].result["foreseen"]["sizes"] == [64, 128, 240]
    shown = table2(plan, summarise(plan, store), {"diabetes": "diabetes"}).markdown()
    said = (
        r"more than 0.5 CPU s for all trials: about \S+ \S+ by fits on up to 240 rows, so not begun"
    )
    assert re.search(said, shown)


def test_trials_that_fail_at_once_do_not_add_up_to_a_long_one():
    """Each of thirty was refused within half a second; the last were called too late."""
    plan = Plan(["a"], ["lr"], time_limit=30.0, sizes={"a": (9, 9, 3)})
    limits, cell = Limits(plan), ("a", "lr")
    for trial in range(29):
        limits.spend(plan.config(*cell, trial), 0.5, FAILED)
    assert limits.left(cell) == 15.5
    limits.spend(plan.config(*cell, 29), 0.0, OUT_OF_TIME)  # written, never begun
    assert limits.left(cell) == 15.5
    limits.spend(plan.config(*cell, 29), 20.0, FAILED)
    assert limits.left(cell) == 0.0


def test_the_more_trials_ended_the_sooner_hopeless_ones_are_not_begun():
    """All of 30 would take 1.5 times the limit: four tell too little, five enough."""
    plan = Plan(["a"], ["lr"], time_limit=200.0, sizes={"a": (9, 9, 3)})
    limits, cell = Limits(plan), ("a", "lr")
    left = []
    for trial in range(5):
        limits.spend(plan.config(*cell, trial), 10.0, DONE)
        left.append(limits.left(cell))
    assert left == [190.0, 180.0, 170.0, 160.0, 0.0]
    assert limits.late(cell).endswith("about 5 min by 5 of 30")


@pytest.mark.long
def test_a_method_that_was_thought_quick_is_foreseen_when_it_is_late(
    tmp_path, directory, monkeypatch
):
    quick = METHODS["lr"].fit

    def slow(X, y, **setting):
        time.sleep(0.02)
        return quick(X, y, **setting)

    monkeypatch.setitem(METHODS, "lr", replace(METHODS["lr"], fit=slow))
    store = Store(tmp_path / "records.sqlite")
    run(Plan(["diabetes"], ["lr"], trials=2, directory=directory, time_limit=0.001), store)
    found = [record for record in store.records() if record.config["trial"] is not None]
    assert [record.status for record in found] == [OUT_OF_TIME] * 2
    forecast_of_all = r"about \S+ \S+ by fits on up to 240 rows$"
    assert all(re.search(forecast_of_all, record.message) for record in found)


@pytest.mark.long
def test_a_forecast_is_known_when_a_trial_is_tried_again(ask, tmp_path):
    """Without it, a method that is not known as slow would begin its hopeless trials anew."""
    words = ["table2", "--sets", "diabetes", "--methods", "lr", "--trials", "2"]
    words += ["--time-limit", "5", "--out", str(tmp_path)]
    store = Store(tmp_path / "records.sqlite")
    assert ask(*words).exit_code == 0
    forecast = {"seconds_trial": 7200.0, "sizes": [128]}
    for record in store.records():
        late = {"seconds": 6.0, "foreseen": forecast}
        store.forget(record.status, [record.config])
        store.write(replace(record, status=OUT_OF_TIME, result=late))
    assert ask(*words, "--again").exit_code == 0
    for record in store.records():
        if record.config["trial"] is None:
            continue
        assert record.status == OUT_OF_TIME
        assert record.result == {"foreseen": forecast, "seconds": 0.0}


def test_a_method_that_runs_out_of_time_says_what_all_trials_would_take(plan):
    limits = Limits(plan)
    cell = ("diabetes", "lr")
    assert limits.late(cell) == "more than 3600 CPU s for all trials"
    limits.foreseen[cell] = {"seconds_trial": 7200.0, "sizes": [128, 240]}
    assert limits.left(cell) == 0.0
    assert re.search(r"4 h.*240 rows", limits.late(cell))
    limits.spend(plan.config(*cell, 0), 10800.0, OUT_OF_TIME)
    assert limits.late(cell).endswith("about 6 h by fits on up to 240 rows")  # it took 3 at least
    limits.count([])
    limits.spend(plan.config(*cell, 0), 3000.0, DONE)
    assert limits.left(cell) == 600.0  # a trial that ended knows better
    assert limits.late(cell).endswith("; about 1.7 h by 1 of 2")
    longer = Limits(replace(plan, trials=10))
    longer.spend(plan.config(*cell, 0), 700.0, DONE)
    assert longer.left(cell) == 2900.0  # half of the trials, or more, can be had
    longer.spend(plan.config(*cell, 1), 800.0, DONE)
    assert longer.left(cell) == 0.0
    assert in_words(100.0) == "1.7 min"
    assert in_words(0.0) == "0 s"
    assert in_words(1e8) == "3.2 years"


def test_sets_that_only_the_store_knows_are_not_in_the_notes(plan):
    other = replace(plan, sizes=plan.sizes | {"w8a": (1, 2, 3)})
    notes = table2(other, {}, {"diabetes": "diabetes"}).notes
    assert notes[-1].startswith("diabetes: ")


def test_time_left_is_by_what_trials_of_a_cell_take(plan):
    def ended(method, trial, seconds, status=DONE):
        return Record(plan.config("diabetes", method, trial), status, {"seconds": seconds})

    left = TimeLeft(plan, [])
    assert left.seconds() is None
    left.note(ended("lr", 0, 10.0))
    assert left.seconds() == 10.0 + 2 * 10.0  # svm-rank as the others on the set
    left.note(ended("svm-rank", 0, 1000.0))
    assert left.seconds() == 10.0 + 1000.0
    left.note(Record(plan.timing_config("diabetes", "lr", {}), DONE, {"seconds": 5.0}))
    assert left.seconds() == 10.0 + 1000.0
    left.note(ended("svm-rank", 1, 5.0, OUT_OF_TIME))
    assert left.seconds() == 10.0
    assert TimeLeft(plan, [ended("lr", 0, 10.0), ended("lr", 1, 10.0)]).seconds() == 20.0


def test_time_left_of_shared_fits_is_none(directory):
    plan = Plan(["diabetes"], ["lr", "lr-top"], trials=2, jobs=2, directory=directory)
    left = TimeLeft(plan, [Record(plan.config("diabetes", "lr", 0), DONE, {"seconds": 8.0})])
    assert left.seconds() == 8.0 / 2


def test_a_forecast_follows_the_growth_of_fits(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("reproduce.limits.time.process_time", lambda: clock[0])

    def fit(X, y):
        assert 0 < y.sum() < len(y)
        if len(y) > 2000:
            raise MemoryError
        clock[0] += 1e-6 * len(y) ** 2

    X, y = np.zeros((50_000, 1)), np.arange(50_000) % 500 == 0
    found = forecast(fit, X, y)
    assert found.sizes == [2000]  # four positives at least
    y = np.arange(50_000) % 10 == 0
    found = forecast(fit, X, y)
    assert found.sizes == [64, 128, 256, 512, 1024]  # then it fails
    assert found.at(50_000) == pytest.approx(1e-6 * 50_000**2)
    assert forecast(fit, X, y, patience=0.3).sizes == [64, 128, 256]
    assert forecast(fit, X[:300], y[:300]).sizes == [64, 128, 256, 300]  # all rows end it


WAITING_RUN = """
import sys
from reproduce.runner import Plan, run
from reproduce.store import Store

def tell(event):
    if (event.record is not None, event.n_done) == AT:
        print("waiting", flush=True)
        sys.stdin.readline()

if __name__ == "__main__":
    run(Plan(**PLANNED, directory=sys.argv[2]), Store(sys.argv[1]), tell)
"""


@contextmanager
def run_that_waits(store, directory, *, at):
    """Another process that runs the plan, says when it is somewhere, and waits there for a line."""
    script = WAITING_RUN.replace("PLANNED", repr(PLANNED)).replace("AT", repr(at))
    words = [sys.executable, "-c", script, str(store.path), directory]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, **pipes) as process:
        try:
            assert process.stdout.readline() == "waiting\n"
            yield process
        finally:
            process.kill()


def measured(plan, store):
    """The table without its times."""
    table = table2(plan, summarise(plan, store), {"diabetes": "diabetes"})
    return [
        [cell for name, cell in zip(table.columns, row, strict=True) if "(s)" not in name]
        for row in table.rows
    ]


@pytest.mark.long
def test_a_killed_run_goes_on_without_loss_or_repetition(tmp_path, directory, plan, whole):
    store = Store(tmp_path / "records.sqlite")
    with run_that_waits(store, directory, at=(True, 2)) as first:
        workers = psutil.Process(first.pid).children(recursive=True)
        first.kill()
    psutil.wait_procs(workers)  # they end when their parent is gone
    before = store.records()
    assert len(before) == 2
    run(plan, store)
    after = store.records()
    assert after[:2] == before  # nothing lost, nothing done twice
    assert len(after) == N_RECORDS
    assert measured(plan, store) == measured(plan, Store(whole[1] / "records.sqlite"))


@pytest.mark.long
def test_two_runs_at_once_share_the_work(tmp_path, directory, plan, whole):
    store = Store(tmp_path / "records.sqlite")
    with run_that_waits(store, directory, at=(False, 0)) as other:
        claimed = []

        def tell(event):
            claimed.append(event.config)
            if event.record is not None and event.n_done == 4:  # one of them is the other's
                other.stdin.write("go on\n")
                other.stdin.close()

        run(plan, store, tell)
        assert other.wait() == 0
    records = store.records()
    assert len(records) == len({record.key for record in records}) == N_RECORDS
    ours = {key_of(config) for config in claimed}
    assert 0 < len(ours) < N_RECORDS
    assert measured(plan, store) == measured(plan, Store(whole[1] / "records.sqlite"))


# Numbers and tables.


def test_paired_differences_as_scipy_has_them(rng):
    ours, theirs = rng.normal(0.3, 1, 30), rng.normal(0, 1, 30)
    found = paired(ours - theirs)
    expected = stats.ttest_rel(ours, theirs)
    interval = expected.confidence_interval(0.9)
    assert_allclose([found.low, found.high], [interval.low, interval.high])
    assert_allclose(found.p_value, expected.pvalue)


@pytest.mark.parametrize("shift, mark", [(-1.0, "●"), (1.0, "○"), (0.0, "")])
def test_marks_are_the_papers(shift, mark, rng):
    noise = rng.normal(0, 0.1, 30)
    assert paired(noise - noise.mean() + shift).mark == mark
    assert paired(np.full(5, shift)).mark == mark


def test_published_values_are_those_of_the_paper():
    assert len(PUBLISHED) == 36
    assert PUBLISHED["w8a", "toppush"]["pos_at_top"] == 0.226
    assert PUBLISHED["spambase", "infinite-push"]["seconds_training"] == 1780.0
    assert PUBLISHED["diabetes", "svm-pauc"]["auc_std"] == 0.167
    assert {method for _, method in PUBLISHED} <= {method.key for method in IN_PAPER}


def test_table2_marks_what_differs_from_the_published_value(tmp_path, directory):
    store = Store(tmp_path / "records.sqlite")
    plan = Plan(["diabetes"], ["toppush", "lr"], trials=3, directory=directory)
    values = {"toppush": [0.12, 0.13, 0.125], "lr": [0.5, 0.51, 0.52]}
    for method, found in values.items():
        for trial, value in enumerate(found):
            record = dict.fromkeys(("pos_at_top", "ap", "ndcg", "auc"), value)
            record |= {"setting": {"lam": 1.0}, "seconds_choosing": 1.0, "seconds_fitting": 0.5}
            store.write(Record(plan.config("diabetes", method, trial), DONE, record))
    table, top, _, against, *_ = result(plan, store, {"diabetes": "diabetes (31% of it)"}).tables
    assert top.rows[1] == ["LR", "0.510 ±0.010○"]
    (ours, lr) = table.rows
    assert ours[0] == "diabetes (31% of it)"
    assert ours[3] == "0.125 ±0.005 (0.123)"
    assert lr[3] == "0.510 ±0.010○ (≠0.064)"
    assert against.rows[0][1].startswith("+0.385 [+0.3")
    assert against.rows[0][1].endswith("] +")
    assert usual_settings(plan, store) == [("diabetes", m, {"lam": 1.0}) for m in ("toppush", "lr")]


TABLE = Table(
    "name", "Title", ["data", "x±y"], [["a|b", "1±2●"], ["a|b", "<3>"]], ["Note."], group=True
)


def test_a_table_in_all_its_forms(tmp_path):
    assert TABLE.markdown().splitlines()[2:5] == [
        "| data   | x±y   |",
        "|--------|-------|",
        "| a\\|b   | 1±2●  |",
    ]
    assert list(csv.reader(io.StringIO(TABLE.csv())))[1:] == [["a|b", "1±2●"], ["a|b", "<3>"]]
    assert "&lt;3&gt;" in TABLE.html()
    assert {path.suffix for path in TABLE.write(tmp_path)} == {".md", ".csv"}
    assert Table.read(tmp_path, TABLE.about()).html() == TABLE.html()
    assert TABLE.shown_rows() == [["a|b", "1±2●"], ["", "<3>"]]


def test_the_report_needs_nothing_else(tmp_path):
    growth = Growth(Timed("TopPush", "(m+n) d"), [1, 2, 4, 8], [1.0, 2.0, 4.0, 8.0], [1] * 4)
    figures = {"table1": (draw([growth]), "a line <up>")}
    Result("table1", "First", [TABLE], figures, {"a": 1}).write(tmp_path)
    Result("errata", "Last", [TABLE]).write(tmp_path)
    page = report(tmp_path)
    assert page.index("First") < page.index("Last")
    assert "data:image/svg+xml;base64," in page
    assert 'alt="a line &lt;up&gt;"' in page
    assert not re.findall(r'(?:src|href)="(?!data:|#)', page)
    with pytest.raises(FileNotFoundError, match="results"):
        report(tmp_path / "empty")


# Growth and errata.


def test_growth_has_the_slope_of_its_times():
    method = Timed("TopPush", "(m+n) d")
    quadratic = Growth(method, [1, 2, 4, 8], [1.0, 4.0, 16.0, 64.0], [1, 2, 4, 8])
    assert quadratic.slope() == pytest.approx(2)
    assert quadratic.slope(per_iteration=True) == pytest.approx(1)
    assert as_table("t", [quadratic]).rows[0][:4] == ["TopPush", "(m+n) d", "2.00", "1.00"]


def test_growth_is_measured_at_doubling_sizes():
    found = measure(Timed("LogisticRanker", "-", smallest=64), seconds=0.0)
    assert found.sizes == [64, 128, 256, 512]
    assert min(found.seconds) > 0


def test_every_erratum_is_shown_by_a_run(directory):
    shown = {row[0]: row[3] for row in errata_module.errata(directory).tables[0].rows}
    assert len(shown) == len(errata_module.ERRATA) == 9
    literal, _, mended = map(int, re.findall(r"\d+", shown["Algorithm 2"]))
    assert min(literal, mended) > 450
    assert int(re.findall(r"wrong on (\d+)", shown["the authors' program"])[0]) > 100
    assert float(re.findall(r"reaches (\S+)", shown["Algorithm 1, line search"])[0]) > 1e20
    gaps = [float(gap) for gap in re.findall(r"([\d.]+)% at", shown["Algorithm 1, stopping"])]
    assert max(gaps) > 5
    counts = [int(count) for count in re.findall(r"(\d+) iterations", shown["influence of lambda"])]
    assert counts == sorted(counts, reverse=True)
    assert "8 columns" in shown["Table 2 and its text"]
    assert "t_(-2)" in shown["Algorithm 1, indices"]


def test_an_erratum_without_its_data_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("TOPPUSH_CACHE", str(tmp_path / "none"))
    monkeypatch.setattr("reproduce.datasets.fetch", _offline)
    monkeypatch.setattr(
        errata_module, "ERRATA", [e for e in errata_module.ERRATA if "Table 2" in e.where]
    )
    (row,) = errata_module.errata(str(tmp_path)).tables[0].rows
    assert row[3] == "not run: no network"


def _offline(name):
    raise RuntimeError("no network")


# The commands.


@pytest.fixture
def ask(monkeypatch, directory, tmp_path):
    """Run `toppush` in this process, with the made data directory."""
    monkeypatch.setenv("TOPPUSH_DATA", directory)
    monkeypatch.setenv("TOPPUSH_CACHE", str(tmp_path / "cache"))

    def run_command(*words):
        return CliRunner().invoke(main, list(words))

    return run_command


def test_datasets_are_listed_and_found(ask, directory):
    listed = {
        row["name"]: row for row in json.loads(ask("datasets", "list", "--json").stdout)["datasets"]
    }
    assert listed["diabetes"]["here"] == "yes"
    assert listed["w8a"]["here"] == "no"
    assert "made" in ask("datasets", "list").stdout
    found = ask("datasets", "path", "diabetes")
    assert found.stdout.strip() == str(Path(directory) / "diabetes_scale.svm")
    missing = ask("datasets", "path", "w8a")
    assert missing.exit_code == 1
    assert "datasets fetch w8a" in missing.stderr
    refused = ask("datasets", "fetch", "nslkdd")
    assert refused.exit_code == 1
    assert "KDDTrain+.txt" in refused.stderr


@pytest.mark.sampled(2)
@pytest.mark.parametrize("what", ["epsilon", "lambda"])
def test_influence_by_one_command(what, ask, tmp_path):
    out = tmp_path / "out"
    ran = ask(f"figure-{what}", "--set", "diabetes", "--out", str(out), "--json")
    assert ran.exit_code == 0, ran.output
    about = json.loads(ran.stdout)
    iterations = [int(row[1]) for row in about["tables"][0]["rows"]]
    assert iterations[0] > 2 * iterations[-1]
    assert (out / f"figure-{what}.svg").exists()
    assert (out / f"figure-{what}.png").exists()


def test_table2_by_one_command(ask, whole):
    ran, out = whole
    assert "url is left out" in ran.stderr
    assert "LR" in ran.stdout
    assert ask("report", "--out", str(out)).stdout.strip() == str(out / "report.html")
    wrong = ask("table2", "--methods", "svm")
    assert wrong.exit_code == 2
    assert re.search("'svm'", wrong.stderr)


@pytest.mark.parametrize(
    "words, said",
    [
        (["--sets", "url"], "directory"),
        (["--show"], r"records\.sqlite.*--show"),
    ],
)
def test_no_table_is_made_of_nothing(words, said, ask, tmp_path):
    ran = ask("table2", *words, "--out", str(tmp_path / "empty"))
    assert ran.exit_code == 1
    assert re.search(said, " ".join(ran.stderr.split()))
    assert not list((tmp_path / "empty").glob("*.csv"))


def test_no_table_is_made_by_nobody(ask, monkeypatch, tmp_path):
    monkeypatch.setattr("reproduce.benchmark.methods.find_spec", lambda name: None)
    words = ["--sets", "diabetes", "--methods", "catboost", "--out", str(tmp_path)]
    ran = ask("benchmark", *words)
    assert ran.exit_code == 1
    assert re.search("missing", " ".join(ran.stderr.split()))


def test_sets_of_many_rows_have_ten_trials():
    plan = Plan(["a", "b"], ["lr"], sizes={"a": (50_000, 50_000, 3), "b": (1, 100_000, 3)})
    assert [plan.n_trials(name) for name in plan.data] == [30, 10]


OURS = Path(__file__).resolve().parents[2] / "results"


@pytest.mark.long
def test_our_records_make_our_tables(tmp_path):
    """In a copy, as a store that is opened may be written to."""
    shutil.copy(OURS / "records.sqlite", tmp_path)
    shown = CliRunner().invoke(main, ["table2", "--show", "--out", str(tmp_path)])
    assert shown.exit_code == 0, shown.output
    for made in tmp_path.glob("*.csv"):
        ours = (OURS / made.name).read_text(encoding="utf-8")
        assert made.read_text(encoding="utf-8") == ours, "run python -m reproduce table2 --show"
