"""Ctrl-C ends what runs, whoever runs it, and leaves no halves of files."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from test_cli import run
from toppush import files
from toppush.system import threads
from toppush.system.threads import Cancelled, check_cancelled, in_threads

posix = pytest.mark.skipif(os.name != "posix", reason="needs signals")

MARKED = """
import sys, threading, time
import toppush.models.linear_cv
from toppush.designs import LocalDesign
from toppush.system.threads import check_cancelled

enter, leave = LocalDesign.__enter__, LocalDesign.__exit__

def entered(design):
    if threading.current_thread() is not threading.main_thread():
        print("in a fold\\n", end="", flush=True, file=sys.__stdout__)
        while True:
            check_cancelled()
            time.sleep(0.01)
    return enter(design)

def left(design, kind, *error):
    if threading.current_thread() is not threading.main_thread() and kind is None:
        print("a fold is done\\n", end="", flush=True, file=sys.__stdout__)
    return leave(design, kind, *error)

LocalDesign.__enter__, LocalDesign.__exit__ = entered, left
"""
"""Fold threads tell when they begin, go on until they are told to stop, and tell if they end."""


HEARS = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
"""What a shell starts in the background, tests too, does not hear Ctrl-C."""


def interrupted(script, *arguments, at, times=1):
    """Send Ctrl-C after these lines of the output; what else it says, errors, exit code."""
    process = subprocess.Popen(
        [sys.executable, "-c", HEARS + script, *map(str, arguments)], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | {"OMP_NUM_THREADS": "2"},
    )  # fmt: skip
    for line in at:
        said = iter(process.stdout.readline, "")
        assert any(one == f"{line}\n" for one in said), process.communicate()[1]
    for _ in range(times):
        process.send_signal(signal.SIGINT)
        time.sleep(0.01)
    said, errors = process.communicate()
    return said, errors, process.returncode


@pytest.fixture
def table(tmp_path):
    """Rows that keep two folds busy at a time."""
    rng = np.random.default_rng(0)
    y = rng.random(60_000) < 0.1
    X = rng.normal(size=(len(y), 10)) + y[:, None] * 0.3
    path = tmp_path / "rows.npy"
    np.save(path, np.column_stack([X, y]))
    return path


@pytest.mark.long
@posix
def test_a_command_in_cross_validation(table, tmp_path):
    model = tmp_path / "m.toppush"
    model.write_bytes(b"an old model")
    said, errors, code = interrupted(
        MARKED + "from toppush.__main__ import run; run()",
        "fit", table, "-o", model, "--model", "linear", at=["in a fold"] * 2,
    )  # fmt: skip
    assert code == 130
    *folds, last = errors.splitlines()
    assert last == "Stopped by Ctrl-C. What was not finished has not been written."
    assert all(line.startswith("folds: ") for line in folds)
    assert "a fold is done" not in said
    assert model.read_bytes() == b"an old model"
    assert {path.name for path in tmp_path.iterdir()} == {"rows.npy", "m.toppush"}


UNENDING = """
import sys, time
from reproduce import runner
def run(plan, store, tell):
    print("trials run", file=sys.__stdout__, flush=True)
    try:
        time.sleep(600)
    finally:
        time.sleep(600)  # as many processes take to end
runner.run = run
from reproduce.__main__ import run
run()
"""


@posix
@pytest.mark.long
def test_a_comparison_whose_processes_do_not_end_says_that_it_can_go_on(tmp_path):
    y = np.arange(40) % 2
    rows = [f"{2 * label - 1} 1:{i}" for i, label in enumerate(y)]
    (tmp_path / "diabetes_scale.svm").write_text("\n".join(rows), encoding="utf-8")
    arguments = ["table2", "--sets", "diabetes", "--methods", "lr"]
    folders = ["--data", tmp_path, "--out", tmp_path]
    _, errors, code = interrupted(UNENDING, *arguments, *folders, at=["trials run"])
    assert code == 130
    assert errors.splitlines()[-1].endswith("records.sqlite, and the same command goes on.")


HELD_UP = """
import sys, time
from importlib import import_module

def hold(*given, **more):
    print("here", file=sys.__stdout__, flush=True)
    time.sleep(600)

class Importing:
    def find_spec(name, *more):
        if name == where:
            hold()

where = sys.argv.pop(1)
if ":" not in where:
    sys.meta_path.insert(0, Importing)
else:
    home, _, name = where.partition(":")
    *owner, last = name.split(".")
    home = import_module(home)
    setattr(getattr(home, *owner) if owner else home, last, hold)
from toppush.__main__ import run
run()
"""
"""A function, or an import, that does not come to an end."""


@pytest.mark.long
@posix
@pytest.mark.parametrize(
    ("where", "times"),
    [
        ("toppush.cli", 1),
        ("toppush.cli", 3),
        ("toppush.files.fitting:read_training_file", 3),
        ("toppush.models.forest:TopForest.fit", 1),  # after another base model is done
        ("toppush.models.forest:TopForest.fit", 3),
        ("toppush.modelfile.saving:to_bytes", 1),
    ],
)
def test_a_fit_writes_nothing_wherever_it_is(where, times, table, tmp_path):
    rows = tmp_path / "some.npy"
    np.save(rows, np.load(table)[:500])
    before = {path.name for path in tmp_path.iterdir()}
    _, errors, code = interrupted(
        HELD_UP, where, "fit", rows, "-o", tmp_path / "m.toppush", "--members", "logistic,forest",
        at=["here"], times=times,
    )  # fmt: skip
    assert code == 130
    assert errors.endswith("Stopped by Ctrl-C. What was not finished has not been written.\n")
    assert "Traceback" not in errors
    assert {path.name for path in tmp_path.iterdir()} == before


@pytest.mark.long
@posix
def test_a_command_that_has_hardly_begun():
    _, errors, code = interrupted(HELD_UP, "toppush.system.interrupts", "demo", at=["here"])
    assert (errors, code) == ("", 130)


@posix
@pytest.mark.long
def test_a_choice_by_cross_validation_in_python(table):
    script = MARKED + (
        "import numpy as np\n"
        "from toppush import TopPushCV\n"
        "rows = np.load(sys.argv[1])\n"
        "ranker = TopPushCV()\n"
        "try:\n"
        "    ranker.fit(rows[:, :-1], rows[:, -1])\n"
        "except KeyboardInterrupt:\n"
        "    print('left:', [name for name in vars(ranker) if name.endswith('_')])\n"
    )
    said, errors, code = interrupted(script, table, at=["in a fold"] * 2)
    assert (errors, code) == ("", 0)
    assert "a fold is done" not in said
    assert "left: []" in said


ENDLESS = """
import hashlib
import click
from toppush.__main__ import run
from toppush.cli import main
from toppush.system.writing import written_whole

@main.command()
@click.argument("path")
def endless(path):
    with written_whole(path) as temporary:
        temporary.write_text("half")
        print("compiled code runs", flush=True)
        hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)

run()
"""


@posix
def test_ctrl_c_when_everything_is_done_changes_nothing(tmp_path):
    script = (
        "import atexit, time\n"
        "def end(): print('ends', flush=True); time.sleep(0.2)\n"
        "atexit.register(end)\n"
        "from toppush.__main__ import run; run()"
    )
    _, errors, code = interrupted(script, "--version", at=["ends"])
    assert (errors, code) == ("", 0)


@posix
def test_a_command_in_compiled_code_that_does_not_look_up(tmp_path):
    _, errors, code = interrupted(ENDLESS, "endless", tmp_path / "m", at=["compiled code runs"])
    assert code == 130
    assert errors == "Stopped by Ctrl-C. What was not finished has not been written.\n"
    assert not list(tmp_path.iterdir())


def test_every_command_ends_with_130_and_a_line(monkeypatch, tmp_path):
    def interrupt(*given, **more):
        raise KeyboardInterrupt

    path = tmp_path / "x.csv"
    path.touch()
    for name in ("fit", "load"):
        monkeypatch.setattr(files, name, interrupt)
    for arguments in (("fit", path, "-o", tmp_path / "m"), ("rank", path, path)):
        ran = run(*arguments, code=130)
        assert ran.stderr == "Stopped by Ctrl-C. What was not finished has not been written.\n"
    assert list(tmp_path.iterdir()) == [path]


# Threads.


def test_results_come_in_order():
    for n_jobs in (1, 3):
        assert in_threads(lambda item: item * item, range(50), n_jobs) == [
            item * item for item in range(50)
        ]


class Trouble(Exception):
    pass


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_an_error_ends_the_others_and_those_that_wait(failing):
    """Whichever it is: nobody waits for an earlier item first."""
    begun, ends, began = threading.Event(), [], []

    def work(item):
        began.append(item)
        if item == failing:
            begun.wait()
            raise Trouble
        begun.set()
        try:
            while True:
                check_cancelled()
        except Cancelled:
            ends.append(item)
            raise

    with pytest.raises(Trouble):
        in_threads(work, range(50), 3)
    assert set(ends) == set(began) - {failing}
    assert len(began) < 50
    check_cancelled()


def test_an_interrupt_ends_them_too(monkeypatch):
    begun, ends = threading.Event(), []

    def work(item):
        begun.set()
        try:
            while True:
                check_cancelled()
        finally:
            ends.append(item)

    def interrupt(*given):
        begun.wait()
        raise KeyboardInterrupt

    monkeypatch.setattr(threads, "wait", interrupt)
    with pytest.raises(KeyboardInterrupt):
        in_threads(work, range(10), 2)
    assert 0 < len(ends) <= 2


def test_designs_and_long_sums_ask(monkeypatch, rng):
    from toppush.designs import LocalDesign
    from toppush.designs.blocks import Block

    X, y = rng.normal(size=(60, 3)), np.arange(60) % 2 == 1
    over = threading.Event()
    over.set()
    for n_jobs in (1, 2):
        monkeypatch.setattr("toppush.designs.local.ENTRIES_PER_THREAD", 1)
        with LocalDesign(X, y, n_jobs=n_jobs) as design:
            token = threads._cancelled.set(over)
            try:
                with pytest.raises(Cancelled):
                    design.apply(Block.score, np.ones(3))
                many = np.zeros(100_000, int)  # more than one part
                with pytest.raises(Cancelled):
                    design.blocks[0].rows.gram(many, np.ones(len(many)))
            finally:
                threads._cancelled.reset(token)
