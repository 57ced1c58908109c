"""Following a solve: the live line, the time left, callbacks, and the picture afterwards."""

import io
import math
import re
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from reproduce import baselines
from toppush import Status, TopPush
from toppush.designs import LocalDesign
from toppush.models.progress import FitCounter, LiveLine, describe, seconds_left
from toppush.problem.losses import LOSSES
from toppush.problem.objective import TopPushProblem
from toppush.problem.solution import Iteration
from toppush.solvers import SOLVERS
from toppush.solvers.driver import History

every_solver = pytest.mark.parametrize("solver", SOLVERS)


class Terminal(io.StringIO):
    """Says that someone watches."""

    def isatty(self):
        return True


def geometric_history(n_iter, *, rate=0.5, seconds=0.25, upper=2.0):
    """The relative gap is rate^i after i iterations, each of the same time."""
    return tuple(
        Iteration(upper, upper * (1.0 - rate**i), 3.0 * i, seconds * i)
        for i in range(1, n_iter + 1)
    )


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(90, 4))
    y = np.arange(90) % 3 == 0
    X[y, 0] += 3.0
    return X, y.astype(int)


# The time left.


@pytest.mark.parametrize("rate", [0.9, 0.5, 0.1])
@pytest.mark.parametrize("n_iter", [4, 10])
@pytest.mark.parametrize("seconds", [1e-3, 10.0])
def test_time_left_goes_on_with_the_rate_of_the_gap(seconds, n_iter, rate):
    history = geometric_history(n_iter, rate=rate, seconds=seconds)
    tol = rate ** (n_iter + 7.5)
    assert seconds_left(history, tol) == pytest.approx(7.5 * seconds, rel=1e-6)
    for upper in (1e-3, 1e6):  # the gap is relative
        scaled = geometric_history(n_iter, rate=rate, seconds=seconds, upper=upper)
        assert seconds_left(scaled, tol) == pytest.approx(7.5 * seconds, rel=1e-6)


def test_only_the_last_iterations_tell_the_rate():
    slow = geometric_history(8, rate=0.99)
    last = slow[-1]
    gap = 0.99**8
    fast = tuple(
        Iteration(2.0, 2.0 * (1.0 - gap * 0.5**i), 0.0, last.seconds + i) for i in range(1, 4)
    )
    left = seconds_left(slow + fast, gap * 0.5**5)
    assert left == pytest.approx(2.0)


@pytest.mark.parametrize(
    "history, tol",
    [
        (geometric_history(3), 1e-9),  # too few to tell
        (geometric_history(9), 0.0),  # no goal
        (geometric_history(9), 0.5),  # already there
        (geometric_history(9, rate=1.0), 1e-9),  # no progress
        (geometric_history(9, rate=1.1), 1e-9),  # going back
        ((*geometric_history(9)[:-1], Iteration(2.0, 2.0, 9.0, 9.0)), 1e-9),  # no gap left
        (tuple(Iteration(math.inf, -math.inf, i, i) for i in range(9)), 1e-9),
        (tuple(Iteration(0.0, 0.0, i, i) for i in range(9)), 1e-9),
    ],
)
def test_no_time_left_is_told_where_nothing_tells_it(history, tol):
    assert seconds_left(history, tol) is None


def test_iterations_without_time_between_them_leave_no_time():
    history = geometric_history(9, seconds=0.0)
    assert 0.0 <= seconds_left(history, 1e-6) < 1e-6


# The line.


def test_a_line_holds_what_the_history_holds():
    history = (
        *geometric_history(11),
        Iteration(upper=1.25, lower=1.0, data_passes=31.4, seconds=2.71),
    )
    line = describe(history, 0.0)
    assert re.search(r"iteration +12\b", line)
    for part in ("objective 1.25 ", "bound 1 ", "gap 2.0e-01", "passes 31 ", "2.7 s"):
        assert part in line
    assert "left" not in line
    assert "\n" not in line


def test_a_line_says_how_long_it_will_take():
    assert describe(geometric_history(6, seconds=2.0), 0.5**9).endswith("about 6.0 s left")


def test_a_line_about_an_objective_of_zero():
    assert "gap 0.0e+00" in describe((Iteration(0.0, 0.0, 1.0, 0.1),), 1e-4)


def test_on_a_terminal_one_line_renews_itself():
    stream = Terminal()
    line = LiveLine(1e-9, every=0.1, stream=stream)
    history = geometric_history(40, seconds=0.25)
    for end in range(1, 41):
        line(history[:end])
    line.close(history)
    text = stream.getvalue()
    assert text.count("\n") == 1
    assert text.endswith("\n")
    shown = text.rstrip("\n").split("\r")[1:]
    assert len(shown) == 41
    assert shown[-1].rstrip() == describe(history, 0.0)
    for before, after in pairwise(shown):
        assert len(after) >= len(before.rstrip())  # nothing of the last line is left to see


def test_on_a_terminal_quick_iterations_are_passed_over():
    stream = Terminal()
    line = LiveLine(1e-9, every=0.1, stream=stream)
    history = geometric_history(100, seconds=0.01)
    for end in range(1, 101):
        line(history[:end])
    assert 9 <= stream.getvalue().count("\r") <= 12


def test_elsewhere_lines_follow_each_other_now_and_then():
    stream = io.StringIO()
    line = LiveLine(1e-9, every=0.1, stream=stream)
    history = geometric_history(100, seconds=0.05)  # five seconds
    for end in range(1, 101):
        line(history[:end])
    line.close(history)
    text = stream.getvalue()
    assert "\r" not in text
    lines = text.splitlines()
    assert 5 <= len(lines) <= 7
    assert lines[0] == describe(history[:1], 1e-9)
    assert lines[-1] == describe(history, 0.0)


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_nothing_is_said_about_no_iterations(stream):
    stream = stream()
    LiveLine(1e-4, stream=stream).close(())
    assert stream.getvalue() == ""


# Counting fits.


def test_a_tally_tells_what_is_done_and_the_time_left():
    stream, seconds = io.StringIO(), iter(range(100))
    tally = FitCounter(4, every=0.1, stream=stream, clock=lambda: next(seconds))
    tally()
    tally.total += 2  # a grid may grow
    tally()
    for _ in range(4):
        tally()
    tally.close()
    lines = stream.getvalue().splitlines()
    assert lines[:2] == [
        "folds: 1 of 4 fits  1.0 s  about 3.0 s left",
        "folds: 2 of 6 fits  2.0 s  about 4.0 s left",
    ]
    assert lines[-1] == "folds: 6 of 6 fits  7.0 s"


def test_a_tally_counts_every_thread():
    stream = Terminal()
    tally = FitCounter(400, stream=stream)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: tally(), range(400)))
    tally.close()
    assert "folds: 400 of 400 fits" in stream.getvalue().split("\r")[-1]
    assert stream.getvalue().count("\n") == 1


# The history.


def test_a_history_keeps_and_shows(rows):
    X, y = rows
    seen = []

    def watch(history, weights, threshold):
        seen.append((history, weights, threshold))
        return len(history) == 2

    with LocalDesign(X, y == 1) as design:
        history = History(design, watch)
        assert not history.record(2.0, 1.0, np.ones(4), 0.5)
        assert history.record(1.5, 1.2, np.zeros(4), 0.4)
    assert len(history) == 2
    assert [(at.upper, at.lower) for at in history.iterations] == [(2.0, 1.0), (1.5, 1.2)]
    assert [len(history) for history, *_ in seen] == [1, 2]
    assert_array_equal(seen[0][1], np.ones(4))
    assert seen[1][2] == 0.4


@every_solver
def test_a_watcher_sees_weights_that_belong_to_the_bounds(solver, rows):
    X, y = rows

    def watch(history, weights, threshold):
        scores = X @ weights
        assert threshold == pytest.approx(scores[y == 0].max(), rel=1e-9, abs=1e-12)
        losses = np.maximum(1.0 + threshold - scores[y == 1], 0.0) ** 2
        objective = 0.05 * weights @ weights + losses.mean()
        assert history[-1].upper == pytest.approx(objective, rel=1e-9)
        return False

    with LocalDesign(X, y == 1) as design:
        problem = TopPushProblem(design, LOSSES["truncated_quadratic"], 0.1)
        assert SOLVERS[solver](problem, callback=watch).n_iter > 2


# In the estimator.


@every_solver
def test_verbose_prints_where_the_fit_ended(solver, rows, capsys):
    ranker = TopPush(0.1, solver=solver, verbose=1).fit(*rows)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == describe(ranker.solution_.history, 0.0)
    TopPush(0.1, solver=solver, verbose=0).fit(*rows)
    assert capsys.readouterr().out == ""


def test_verbose_changes_nothing(rows):
    quiet, loud = (TopPush(0.1, verbose=verbose).fit(*rows) for verbose in (0, 1))
    assert_array_equal(quiet.coef_, loud.coef_)


class Recorder:
    """A callback that writes down what it is told, and may stop or fail."""

    def __init__(self, *, stop_at=None, fail_at=None):
        self.stop_at, self.fail_at = stop_at, fail_at
        self.calls, self.rankers, self.data = [], [], []

    def setup(self, estimator, context):
        self.calls.append(("setup", None))

    def teardown(self, estimator, context):
        self.calls.append(("teardown", None))

    def on_fit_task_begin(
        self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None
    ):
        self.calls.append((f"begin {context.task_name}", context.task_id))

    def on_fit_task_end(
        self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None
    ):
        self.calls.append((f"end {context.task_name}", context.task_id))
        if context.task_name != "iteration":
            return False
        self.rankers.append(fitted_estimator)
        self.data.append((X, y))
        if context.task_id == self.fail_at:
            raise RuntimeError("the callback failed")
        return context.task_id == self.stop_at


@pytest.fixture
def with_callbacks():
    pytest.importorskip("sklearn.callback", reason="needs scikit-learn 1.9 for its callbacks")


@every_solver
def test_a_callback_is_told_of_each_iteration(solver, rows, with_callbacks):
    recorder = Recorder()
    ranker = TopPush(0.1, solver=solver).set_callbacks(recorder).fit(*rows)
    iterations = [
        (f"{side} iteration", number)
        for number in range(ranker.n_iter_)
        for side in ("begin", "end")
    ]
    assert recorder.calls == [
        ("setup", None),
        ("begin fit", 0),
        *iterations,
        ("end fit", 0),
        ("teardown", None),
    ]
    plain = TopPush(0.1, solver=solver).fit(*rows)
    assert_array_equal(ranker.coef_, plain.coef_)


@every_solver
@pytest.mark.parametrize("number", [0, 3])
def test_a_callback_may_stop_the_fit(number, solver, rows, with_callbacks):
    recorder = Recorder(stop_at=number)
    ranker = TopPush(0.1, solver=solver, tol=1e-10).set_callbacks(recorder).fit(*rows)
    assert ranker.solution_.status is Status.STOPPED
    assert ranker.solution_.status.success
    assert ranker.n_iter_ == number + 1
    assert recorder.calls[-2:] == [("end fit", 0), ("teardown", None)]
    assert ranker.predict(rows[0]).shape == (90,)


@every_solver
def test_a_callback_is_torn_down_after_an_error(solver, rows, with_callbacks):
    recorder = Recorder(fail_at=2)
    ranker = TopPush(0.1, solver=solver).set_callbacks(recorder)
    with pytest.raises(RuntimeError, match="callback"):
        ranker.fit(*rows)
    assert recorder.calls[-1] == ("teardown", None)
    assert recorder.calls.count(("teardown", None)) == 1
    assert not [name for name in vars(ranker) if name.endswith("_")]
    recorder.fail_at = None
    assert ranker.fit(*rows).n_iter_ > 2


@every_solver
def test_the_ranker_of_an_iteration_predicts(solver, rows, with_callbacks):
    X, y = rows
    recorder = Recorder()
    ranker = TopPush(0.1, solver=solver).set_callbacks(recorder).fit(X, y)
    assert len(recorder.rankers) == ranker.n_iter_
    for early in recorder.rankers:
        assert early.decision_function(X)[y == 0].max() == pytest.approx(0.0, abs=1e-9)
        assert set(early.predict(X)) <= {0, 1}
    last = recorder.rankers[-1]
    assert_array_equal(last.coef_, ranker.coef_)
    assert_array_equal(last.predict(X), ranker.predict(X))
    assert recorder.rankers[0].coef_.tobytes() != ranker.coef_.tobytes()
    for told, given in zip(recorder.data[0], (X, y), strict=True):
        assert_array_equal(told, given)


ITERATING = [
    baselines.RankSVM(100.0),
    baselines.PartialAUCSVM(fpr_high=0.5),
    baselines.AccuracyAtTop(),
    baselines.InfinitePush(),
    baselines.InfinitePush(solver="admm"),
    baselines.InfinitePush(solver="published"),
    baselines.SparseInfinitePush(),
    baselines.PNormPush(),
]
every_baseline = pytest.mark.parametrize("ranker", ITERATING, ids=repr)


@every_baseline
def test_a_baseline_tells_its_callbacks_of_each_iteration(ranker, rows, with_callbacks):
    X, y = rows
    recorder, ranker = Recorder(), clone(ranker)
    ranker.set_callbacks(recorder).fit(X, y)
    n_told = len(ranker.solution_.history)
    assert n_told == ranker.n_iter_ or isinstance(ranker, baselines.AccuracyAtTop)
    assert recorder.calls[:2] == [("setup", None), ("begin fit", 0)]
    assert recorder.calls[2:-2:2] == [("begin iteration", number) for number in range(n_told)]
    assert recorder.calls[-2:] == [("end fit", 0), ("teardown", None)]
    last = recorder.rankers[-1]
    assert_array_equal(last.coef_, ranker.coef_)
    assert last.threshold_ == pytest.approx(ranker.threshold_)


@every_baseline
def test_a_callback_may_stop_a_baseline(ranker, rows, with_callbacks):
    ranker = clone(ranker).set_params(tol=1e-12).set_callbacks(Recorder(stop_at=0))
    ranker.fit(*rows)
    assert ranker.solution_.status is Status.STOPPED
    assert len(ranker.solution_.history) == 1


def test_callbacks_hear_of_weights_in_the_units_of_the_rows(rows, with_callbacks):
    X, y = rows
    recorder, X = Recorder(), 2.0**100 * (X + 2.0**20)
    ranker = baselines.RankSVM(1e3 / 2.0**200).set_callbacks(recorder).fit(X, y)
    assert_array_equal(recorder.rankers[-1].coef_, ranker.coef_)
    assert recorder.rankers[-1].threshold_ == pytest.approx(ranker.threshold_)


@pytest.mark.parametrize(
    "ranker", [baselines.LogisticRanker(), baselines.CostSensitiveSVM()], ids=repr
)
def test_liblinear_tells_its_callbacks_of_the_fit(ranker, rows, with_callbacks):
    recorder = Recorder()
    ranker.set_callbacks(recorder).fit(*rows)
    told = [call for call, _ in recorder.calls]
    assert told == ["setup", "begin fit", "end fit", "teardown"]


def test_no_callbacks_once_they_are_taken_off(rows, with_callbacks):
    recorder = Recorder()
    TopPush(0.1).set_callbacks(recorder).set_callbacks().fit(*rows)
    assert recorder.calls == []


# The picture.


@every_solver
def test_the_picture_shows_the_history(solver, rows):
    pytest.importorskip("matplotlib").use("agg")
    solution = TopPush(0.1, solver=solver).fit(*rows).solution_
    figure = solution.plot()
    bounds, gaps = figure.axes
    history = solution.history
    drawn = {line.get_label(): line.get_data() for line in bounds.lines}
    passes = [at.data_passes for at in history]
    assert_allclose(drawn["objective"], [passes, [at.upper for at in history]])
    assert_allclose(drawn["certified bound"], [passes, [at.lower for at in history]])
    gap = [(at.upper - at.lower) / at.upper for at in history]
    assert_allclose(gaps.lines[0].get_data(), [[at.seconds for at in history], gap], rtol=1e-9)
    assert gaps.get_yscale() == "log"
    for axis in (bounds, gaps):
        assert axis.get_xlabel()
        assert axis.get_ylabel()
    assert {text.get_text() for text in bounds.get_legend().get_texts()} >= {
        "objective",
        "certified bound",
    }
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    assert buffer.getvalue().startswith(b"\x89PNG")
