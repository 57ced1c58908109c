"""Dask's workers die, or lose what they hold: the same answer, to the last bit.

Groups are lost on workers that are threads of this process. Tests that kill workers run on
processes, and a worker is killed by itself when it is asked: no kill races the end of a fit.
"""

import copy
import os
import pickle
import signal
import sys
from contextlib import contextmanager

import pytest
from numpy.testing import assert_array_equal

from holders import check_same, lazy, made, solved
from toppush import TopPush
from toppush.designs import LocalDesign
from toppush.problem.losses import LOSSES
from toppush.problem.objective import TopPushProblem
from toppush.solvers import SOLVERS, solve
from toppush.solvers.newton import interior_point
from toppush.solvers.newton.state import Positives

dask = pytest.importorskip("dask", reason="needs Dask, the extra [dask]")
distributed = pytest.importorskip("distributed", reason="needs Dask, the extra [dask]")
da = pytest.importorskip("dask.array", reason="needs Dask, the extra [dask]")
cluster = pytest.importorskip("toppush.designs.dask")
groups = sys.modules["toppush.designs.dask.groups"]
workers_module = sys.modules["toppush.designs.dask.workers"]
GROUPS = sys.modules["toppush.designs.dask.groups"].GROUPS

pytestmark = [pytest.mark.sampled(2), pytest.mark.filterwarnings("ignore::ResourceWarning")]

N_ROWS = 300
FORKED = {"distributed.worker.multiprocessing-method": "forkserver"}
PRELOADED = ["distributed", "dask.array", "toppush.designs.dask", "toppush.solvers"]
"""What the process has imported from which workers are forked: a new one is there sooner."""


def test_logged_calls_come_back_in_order():
    past = groups.CallLog(at_a_time=10)
    assert list(past.batches()) == [[]]
    past.add([b"abc", b"defghi"])
    past.add([b"jklmnopqrstuvw"])
    past.add([b"x"])
    for _ in range(2):
        assert list(past.batches()) == [[b"abc", b"defghi"], [b"jklmnopqrstuvw"], [b"x"]]
    past.close()


@pytest.mark.parametrize("solver", sorted(SOLVERS))
@pytest.mark.parametrize("formed", [True, False])
def test_read_only_functions_change_nothing(solver, formed, rng, monkeypatch):
    """A lost block is not asked them again."""
    if not formed:
        monkeypatch.setattr(interior_point, "FORMED", 1)
    X, y = made("dense", rng, n_rows=150, n_columns=5)
    asked = set()

    class Watched(LocalDesign):
        def each(self, function, *arguments):
            before = _contents(self.blocks[0])
            answers = super().each(function, *arguments)
            if getattr(function, "read_only", False):
                asked.add(function.__name__)
                assert _contents(self.blocks[0]) == before, function.__name__
            return answers

    for k, loss in ((1, "truncated_quadratic"), (5, "logistic")):
        with Watched(X, y) as design:
            problem = TopPushProblem(design, LOSSES[loss], 0.01, k)
            solve(problem, solver=solver, tol=1e-4, max_iter=30)
    assert len(asked) >= 4


def _contents(block):
    """All that a block keeps, but for the count of what it read."""
    positives = block.known.find(Positives)
    state = block.work, None if positives is None else positives.gram_weights
    tally, entries = block.rows.tally, block.rows.tally.entries
    tally.entries = 0
    contents = pickle.dumps(copy.deepcopy((block.scores, state)))
    tally.entries = entries
    return contents


def test_a_group_out_of_step_does_not_answer(rng):
    X, y = made("dense", rng)
    group = groups.Group(0, [groups.read_partition(0, 12, X, y)], 2)
    call = [groups.Call("sum", groups.block_sizes, ()).packed()]
    assert group.ask(0, call)[0].n_rows == N_ROWS
    assert group.ask(0, call) is None
    assert group.ask(1, call) is not None


def before_rounds(monkeypatch, rounds, act):
    """Call `act(design)` before each of some rounds of a fit, once; returns those still to come."""
    ahead, ask = set(rounds), cluster.DaskDesign._round

    def round_of(design, *question):
        if design._n_rounds in ahead:
            ahead.remove(design._n_rounds)
            act(design)
        return ask(design, *question)

    monkeypatch.setattr(cluster.DaskDesign, "_round", round_of)
    return ahead


@pytest.mark.parametrize(
    "given",
    [
        {"top": 3, "lam": 0.1},
        {"loss": "logistic", "formed": 5},
        {"top": 9, "lam": 0.01, "pairwise": True},
        {"solver": "paper", "max_iter": 3},
    ],
)
def test_lost_groups_come_back_to_where_they_stood(client, given, rng, monkeypatch):
    given = dict(given)
    monkeypatch.setattr(interior_point, "FORMED", given.pop("formed", 1000))
    X, y = made("dense", rng)
    undisturbed = solved(lazy(X, 50), y, **given)

    def lose(design):
        member = design._groups[rng.integers(len(design._groups))]
        GROUPS.pop(member.name)

    to_come = before_rounds(monkeypatch, [0, 9, 10, 31], lose)
    disturbed = solved(lazy(X, 50), y, **given)
    assert not to_come
    assert_array_equal(disturbed.weights, undisturbed.weights)
    assert (disturbed.upper, disturbed.lower) == (undisturbed.upper, undisturbed.lower)
    # Blocks of the pairwise family keep nothing from one question to the next.
    n_more = disturbed.history[-1].data_passes - undisturbed.history[-1].data_passes
    assert n_more > 0 or ("pairwise" in given and n_more == 0)


def test_rows_that_are_lost_again_and_again(client, rng, monkeypatch):
    X, y = made("dense", rng)
    ask = cluster.DaskDesign._replies

    def replies(design, members, calls):
        found = ask(design, members, calls)
        if design._n_rounds > 4:
            found.pop(design._groups[1].name, None)
        return found

    monkeypatch.setattr(cluster.DaskDesign, "_replies", replies)
    with pytest.raises(cluster.LostRows, match=r"2.*3.*5 times"):
        TopPush().fit(lazy(X, 50), y)


def test_a_cluster_without_workers(client, rng, monkeypatch):
    monkeypatch.setattr(workers_module, "NO_WORKER", 0.0)
    monkeypatch.setattr(workers_module, "POLL", 0.01)
    X, y = made("dense", rng)

    class Empty:
        asynchronous = False

        def nthreads(self):
            return {}

    monkeypatch.setattr(workers_module, "get_client", Empty)
    with pytest.raises(cluster.LostRows, match="0 s"):
        cluster.DaskDesign(lazy(X, 100), da.from_array(y, chunks=100))


def test_errors_in_blocks_say_where(client, rng):
    X, y = made("dense", rng)
    with (
        cluster.DaskDesign(lazy(X, 100), da.from_array(y, chunks=100)) as design,
        pytest.raises(ZeroDivisionError) as caught,
    ):
        design.sum(_fail)
    assert "in partitions 0" in caught.value.__notes__[0]


def _fail(block):
    raise ZeroDivisionError


@contextmanager
def processes(n_workers):
    """Workers that are processes, each watched and replaced when it dies."""
    with dask.config.set(FORKED):
        distributed.utils.get_mp_context().set_forkserver_preload(PRELOADED)
    with (
        dask.config.set(FORKED),
        distributed.LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address="127.0.0.1:0",
        ) as workers,
        distributed.Client(workers) as client,
    ):
        yield client


def die_when_asked(when):
    """Have this process kill itself in its next round: before its blocks work, or after it."""
    work = groups.Group.ask

    def last(group, *question):
        if when == "after":
            work(group, *question)
        os.kill(os.getpid(), signal.SIGKILL)

    groups.Group.ask = last


@pytest.mark.parametrize(
    "n_workers, deaths",
    [
        pytest.param(2, {30: "after"}, id="one"),
        pytest.param(2, {20: "before", 30: "after"}, id="two", marks=pytest.mark.long),
        pytest.param(
            4,
            {3: "before", 40: "after", 60: "before", 61: "after", 90: "before"},
            id="five",
            marks=pytest.mark.slow,
        ),
    ],
)
@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_workers_die_in_a_fit(n_workers, deaths, rng, monkeypatch):
    X, y = made("dense", rng)
    given, killed = {"tol": 1e-6, "top": 3}, []
    with processes(n_workers) as client:

        def kill(design):
            """In the midst of what the worker is asked next."""
            homes = sorted({member.address for member in design._groups})
            address = homes[rng.integers(len(homes))]
            killed.append(client.run(os.getpid, workers=[address])[address])
            client.run(die_when_asked, deaths[design._n_rounds], workers=[address])

        undisturbed = solved(lazy(X, 50), y, **given)
        before_rounds(monkeypatch, deaths, kill)
        disturbed = solved(lazy(X, 50), y, **given)
    assert len(set(killed)) == len(deaths)
    assert_array_equal(disturbed.weights, undisturbed.weights)
    assert (disturbed.upper, disturbed.lower) == (undisturbed.upper, undisturbed.lower)
    check_same(disturbed, solved(X, y, **given))
