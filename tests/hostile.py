"""Problems made to break the solver: one for every number, of all kinds that ever did.

    python tests/hostile.py --problems 2000            # numbers 0 to 1999, a table at the end
    python tests/hostile.py --problems 2000 --seed 7000 --csv found.csv
    python tests/hostile.py --seconds 3600 --jobs 2    # as many as fit
    python tests/hostile.py --replay 1234              # one again, with all its numbers

Every fit is judged by `checker`, which shares no code with the library. A line is printed for each
that fails; the exit code is 1 if one did.
"""

import argparse
import csv
import re
import tempfile
import time
import traceback
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import count, islice, takewhile
from pathlib import Path

import numpy as np
from scipy import sparse

from checker import Checker, count_of_top
from toppush import TopPush, on_disk

LOSSES = ("truncated_quadratic", "logistic", "exponential")


@dataclass(frozen=True)
class Problem:
    """Rows of two classes, what a fit is to do with them, and the form in which it gets them."""

    number: int
    values: str
    shape: str
    weighting: str
    holding: str
    X: np.ndarray
    y: np.ndarray
    sample_weight: np.ndarray | None
    lam: float
    top: float | str
    loss: str
    solver: str = "newton"
    tol: float = 1e-4
    max_iter: int = 10_000

    def ranker(self):
        options = {"loss": self.loss, "solver": self.solver, "tol": self.tol}
        return TopPush(self.lam, top=self.top, max_iter=self.max_iter, n_threads=1, **options)

    @property
    def stiffness(self):
        """The power of ten of lam in units of the rows' size, in steps of eight."""
        size = np.ptp(self.X.astype(np.longdouble), axis=0).max()
        power = np.log10(self.lam) - 2 * np.log10(max(size, np.longdouble(1e-300)))
        return f"lam/|x|^2 > 1e{min(max(8 * int(power // 8), -48), 16):+d}"

    def __str__(self):
        rows = f"{self.X.shape[0]} x {self.X.shape[1]} {self.X.dtype}, {self.y.sum()} positive"
        return (
            f"{self.number}: {self.values}; {self.shape}; weights {self.weighting}; "
            f"{self.holding}; {rows}; {self.loss}, lam={self.lam:.3g}, top={self.top}, "
            f"{self.solver}, tol={self.tol:g}, max_iter={self.max_iter}"
        )


# Shapes: rows, columns, and which rows are positive.


def _plain_shape(rng):
    return rng.integers(5, 301), rng.integers(1, 31), rng.uniform(0.05, 0.95)


SHAPES = {
    "plain": (12, _plain_shape),
    "one positive": (1, lambda rng: (rng.integers(5, 120), rng.integers(1, 12), 0.0)),
    "one negative": (1, lambda rng: (rng.integers(5, 120), rng.integers(1, 12), 1.0)),
    "two rows": (0.3, lambda rng: (2, rng.integers(1, 4), 0.5)),
    "d > n": (2, lambda rng: (rng.integers(5, 41), rng.integers(41, 80), rng.uniform(0.2, 0.8))),
    "one column": (1.5, lambda rng: (rng.integers(5, 200), 1, rng.uniform(0.1, 0.9))),
    "d > 1000": (0.3, lambda rng: (rng.integers(10, 60), rng.integers(1001, 1300), 0.5)),
}


def _positives(rng, n_rows, share):
    n_pos = min(max(round(share * n_rows), 1), n_rows - 1)
    return rng.permutation(np.arange(n_rows) < n_pos)


# Values: each takes rows of a normal distribution, positives shifted, and makes them hostile.


def _ties(rng, X):
    return np.clip(np.round(X), -1, rng.choice([1, 2, 5]))


def _zeros_and_ones(rng, X):
    return (X - rng.uniform(-0.5, 1.5) > 0.0).astype(np.float64)


def _duplicates(rng, X):
    return X[rng.integers(0, max(1, len(X) // 3), len(X))]


def _holes(rng, X):
    X = np.where(rng.random(X.shape) < 0.7, 0.0, X)
    X[rng.random(len(X)) < 0.2] = 0.0
    X[:, rng.random(X.shape[1]) < 0.2] = 0.0
    return X


def _row_scales(rng, X):
    return X * 10.0 ** rng.uniform(-8, 8, (len(X), 1))


def _column_scales(rng, X):
    return X * 10.0 ** rng.uniform(-6, 6, X.shape[1])


def _extreme_columns(rng, X):
    return X * rng.choice([1e-150, 1.0, 1e150], X.shape[1])


def _cauchy(rng, X):
    return X + rng.standard_cauchy(X.shape)


def _shifted(*offsets):
    return lambda rng, X: X + rng.choice(offsets) * rng.choice([-1.0, 1.0, 1.0])


def _times(factor):
    return lambda rng, X: X * factor


def _single(change):
    return lambda rng, X: change(rng, X).astype(np.float32)


VALUES = {
    "plain": (3, lambda rng, X: X),
    "float32": (2, _single(lambda rng, X: X)),
    "float32 + 10": (1, _single(_shifted(10.0))),
    "float32 + 1e3": (1, _single(_shifted(1e3))),
    "float32 + 1e4": (1, _single(_shifted(1e4))),
    "float32 rows 1e-3..1e3": (
        1,
        _single(lambda rng, X: X * 10.0 ** rng.uniform(-3, 3, (len(X), 1))),
    ),
    "offset 1e2..1e5": (1, _shifted(1e2, 1e3, 1e4, 1e5)),
    "offset 1e6..1e8": (1, _shifted(1e6, 1e7, 1e8)),
    "rows 1e-8..1e8": (2, _row_scales),
    "columns 1e-6..1e6": (2, _column_scales),
    "columns 1e+-150": (1, _extreme_columns),
    "x 1e30": (0.7, _times(1e30)),
    "x 1e80": (0.7, _times(1e80)),
    "x 1e-100": (0.7, _times(1e-100)),
    "Cauchy": (2, _cauchy),
    "ties": (1, _ties),
    "0/1": (1, _zeros_and_ones),
    "duplicates": (1, _duplicates),
    "holes": (1, _holes),
}

EXTREME = ("x 1e30", "x 1e80", "x 1e-100", "columns 1e+-150")

HOLDINGS = {
    "dense": 6, "Fortran order": 1, "CSR": 3, "disk": 0.7, "disk CSR": 0.7, "torch": 0.7,
    "torch CSR": 0.7, "Dask": 0.05,
}  # fmt: skip

WEIGHTINGS = {
    "none": (6, lambda rng, n: None),
    "1e-12..1e12": (1, lambda rng, n: 10.0 ** rng.uniform(-12, 12, n)),
    "some zero": (1, lambda rng, n: rng.choice([0.0, 0.5, 1.0, 3.0], n)),
    "all 1e-12": (0.5, lambda rng, n: np.full(n, 1e-12)),
    "all 1e12": (0.5, lambda rng, n: np.full(n, 1e12)),
}


def hostile_problem(number):
    """The problem of this number; numbers near each other have nothing in common."""
    rng = np.random.default_rng(number)
    shape, values, weighting = (_draw(rng, kinds) for kinds in (SHAPES, VALUES, WEIGHTINGS))
    n_rows, n_columns, share = SHAPES[shape][1](rng)
    y = _positives(rng, n_rows, share)
    X = rng.normal(size=(n_rows, n_columns)) + y[:, None] * rng.choice([0.0, 0.3, 1.0, 3.0])
    X = VALUES[values][1](rng, X)
    weight = _with_both_classes(WEIGHTINGS[weighting][1](rng, n_rows), y)
    holding = rng.choice(list(HOLDINGS), p=_shares(HOLDINGS.values()))
    about = {"values": values, "shape": shape, "weighting": weighting, "holding": str(holding)}
    terms = _parameters(rng, np.sum(~y)) | {"lam": _lam(rng, X, values)}
    return Problem(number, X=X, y=y, sample_weight=weight, **about, **terms)


def _draw(rng, kinds):
    return rng.choice(list(kinds), p=_shares(weight for weight, _ in kinds.values()))


def _shares(weights):
    weights = np.array(list(weights), dtype=np.float64)
    return weights / weights.sum()


def _with_both_classes(weight, y):
    """A row of each class must count."""
    if weight is not None:
        for one in (y, ~y):
            weight[np.flatnonzero(one)[0]] = max(weight[one].max(), 1e-12)
    return weight


def _parameters(rng, n_neg):
    solver = rng.choice(["newton", "paper"], p=[0.93, 0.07])
    short = rng.integers(1, 12) if rng.random() < 0.04 else 10_000
    return {
        "top": _top(rng, n_neg),
        "loss": str(rng.choice(LOSSES)),
        "solver": str(solver),
        "tol": float(rng.choice([1e-4, 1e-6, 1e-2], p=[0.7, 0.2, 0.1])),
        "max_iter": 300 if solver == "paper" else int(short),
    }


def _lam(rng, X, values):
    """From 1e-8 to 1e4, now and then far outside; mostly in proportion to rows of extreme size.

    Where it is not, and the classes overlap, X+'a and X-'b must agree to more digits than a
    float64 dual has, and all that can be asked for is bounds that hold.
    """
    lam = rng.choice([10.0 ** rng.uniform(-8, 4), 1e-12, 1e200], p=[0.96, 0.02, 0.02])
    in_proportion = values in EXTREME and lam < 1e200 and rng.random() < 0.95
    return float(lam * np.abs(X).max() ** 2) if in_proportion else float(lam)


def _top(rng, n_neg):
    tops = [1, int(rng.integers(1, n_neg + 1)), float(rng.uniform(0.001, 1.0)), 1.0, "auto"]
    return tops[rng.choice(5, p=[0.3, 0.2, 0.25, 0.15, 0.1])]


# Ways to hold the rows.


class Holder:
    """Puts rows where a problem wants them; a folder and a Dask client are made when needed."""

    def __enter__(self):
        self._exits = ExitStack()
        return self

    def __exit__(self, *failure):
        self._exits.close()

    @cached_property
    def _folder(self):
        return Path(self._exits.enter_context(tempfile.TemporaryDirectory(prefix="hostile-")))

    @cached_property
    def _client(self):
        distributed = __import__("distributed")
        cluster = self._exits.enter_context(
            distributed.LocalCluster(
                n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
            )
        )
        return self._exits.enter_context(distributed.Client(cluster))

    def hold(self, problem):
        """X, y and sample weights as the fit is to get them."""
        X, y, weight = problem.X, problem.y, problem.sample_weight
        if problem.holding == "Dask":
            return self._dask(X, y, weight)
        return self._held(X, problem.holding), y, weight

    def _held(self, X, holding):
        if holding == "Fortran order":
            return np.asfortranarray(X)
        if holding == "CSR":
            return sparse.csr_array(X)
        if holding == "disk":
            np.save(self._folder / "rows.npy", X)
            return on_disk.open(self._folder / "rows.npy", "64GiB")
        if holding == "disk CSR":
            sparse.save_npz(self._folder / "rows.npz", sparse.csr_array(X), compressed=False)
            return on_disk.open(self._folder / "rows.npz", "64GiB")
        if holding.startswith("torch"):
            return _tensor(X, holding)
        return np.ascontiguousarray(X)

    def _dask(self, X, y, weight):
        import dask.array as da

        assert self._client is not None  # the fit finds the running client by itself
        size = -(-len(y) // 3)
        rows = da.from_array(X, chunks=(size, X.shape[1]))
        weight = None if weight is None else da.from_array(weight, chunks=size)
        return rows, da.from_array(y, chunks=size), weight


def _tensor(X, holding):
    import torch

    torch.set_num_threads(1)
    if holding == "torch":
        return torch.tensor(np.ascontiguousarray(X))
    rows = sparse.csr_array(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch: its CSR is in beta
        return torch.sparse_csr_tensor(
            torch.tensor(rows.indptr), torch.tensor(rows.indices), torch.tensor(rows.data), X.shape
        )


def can_hold(holding):
    """Whether what this needs is installed."""
    from importlib.util import find_spec

    needs = {"Dask": "distributed", "torch": "torch", "torch CSR": "torch"}.get(holding)
    return needs is None or find_spec(needs) is not None


# The verdict on a fit.


@dataclass(frozen=True)
class Outcome:
    """How a fit of a problem ended, and what is wrong with it."""

    number: int
    values: str
    shape: str
    weighting: str
    holding: str
    loss: str
    solver: str
    stiffness: str
    status: str
    gap: float
    warned: str
    seconds: float
    complaints: tuple[str, ...]

    @property
    def kinds(self):
        """The words with which its complaints begin, once each."""
        return sorted({text.partition(":")[0] for text in self.complaints})

    @property
    def stalled(self):
        """The paper's method does not promise a gap."""
        return self.solver == "newton" and self.status == "STALLED" and not self.gap <= 0.01


def judged(problem, holder):
    """Fit a problem, and let the checker judge the solution."""
    about = {name: getattr(problem, name) for name in _COMMON}
    if not can_hold(problem.holding):
        return Outcome(**about, status="skipped", gap=0.0, warned="", seconds=0.0, complaints=())
    X, y, weight = holder.hold(problem)
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            ranker = problem.ranker().fit(X, y, sample_weight=weight)
        except Exception as error:
            ranker, crash = None, f"crash: {_told(error)}"
    seconds = time.perf_counter() - began
    warned = sorted({one.category.__name__ for one in caught})
    about |= {"warned": " ".join(warned), "seconds": seconds}
    if ranker is None:
        return Outcome(**about, status="crash", gap=np.inf, complaints=(crash,))
    solution = ranker.solution_
    wrong = [*complaints(problem, ranker), *_about_warnings(problem, solution, caught)]
    gap = float(solution.relative_gap)
    return Outcome(**about, status=solution.status.name, gap=gap, complaints=tuple(wrong))


_COMMON = ("number", "values", "shape", "weighting", "holding", "loss", "solver", "stiffness")


def complaints(problem, ranker):
    """What is wrong with a fitted ranker, by the checker."""
    solution = ranker.solution_
    weight = problem.sample_weight
    n_neg = np.sum(~problem.y & (True if weight is None else weight > 0))
    k = ranker.top_ if problem.top == "auto" else count_of_top(problem.top, n_neg)
    if not 1 <= k <= n_neg:
        return [f"top: {k} of {n_neg} negatives"]
    wrong = [] if k == ranker.top_ else [f"top: {ranker.top_}, which should be {k}"]
    if solution.n_iter > problem.max_iter:
        wrong.append(f"status: {solution.n_iter} iterations of {problem.max_iter}")
    terms = {"lam": problem.lam, "k": k, "loss": problem.loss}
    checker = Checker(problem.X, problem.y, sample_weight=weight, **terms)
    return wrong + checker.complaints(solution, tol=problem.tol)


def _about_warnings(problem, solution, caught):
    """A fit that did not do what was asked says so; nothing else is said."""
    names = {one.category.__name__ for one in caught}
    for one in caught:
        if one.category.__name__ not in ("ConvergenceWarning", "DegenerateWarning"):
            yield f"warning: {one.category.__name__}: {one.message} ({_place(one)})"
    if not solution.status.success and "ConvergenceWarning" not in names:
        yield f"silent: {solution.status.name} without a warning"
    short = problem.solver == "newton" and not solution.relative_gap <= 1.01 * problem.tol
    if short and not names:
        yield f"silent: {solution.status.name} with a gap of {solution.relative_gap:.3g}"
    at_zero = {"logistic": np.log(2.0)}.get(problem.loss, 1.0)
    if not solution.upper <= at_zero * (1 + problem.tol) and not names:
        yield f"silent: {solution.upper:.6g} is worse than zero, {at_zero:.6g}"


def _place(warning):
    return f"{Path(warning.filename).name}:{warning.lineno}"


def _told(error):
    ours = [one for one in traceback.extract_tb(error.__traceback__) if "toppush" in one.filename]
    where = f" ({Path(ours[-1].filename).name}:{ours[-1].lineno})" if ours else ""
    return f"{type(error).__name__}: {str(error)[:200]}{where}"


# The command.


def outcomes(numbers):
    """Judge the problems of these numbers, one after the other."""
    with Holder() as holder:
        for number in numbers:
            yield judged(hostile_problem(int(number)), holder)


def _share_of(numbers):
    return list(outcomes(numbers))


def _in_parts(numbers, jobs):
    """Judge on several processors, 50 problems at a time."""
    parts = iter(lambda: list(islice(numbers, 50)), [])
    with ProcessPoolExecutor(jobs) as pool:
        waiting = [pool.submit(_share_of, part) for part in islice(parts, 2 * jobs)]
        while waiting:
            yield from waiting.pop(0).result()
            waiting.extend(pool.submit(_share_of, part) for part in islice(parts, 1))


def run(first, problems=None, seconds=None, jobs=1):
    """Outcomes of the problems from number `first` on, until the count or the time is reached."""
    numbers = count(first) if problems is None else iter(range(first, first + problems))
    end = None if seconds is None else time.monotonic() + seconds
    limited = takewhile(lambda _: end is None or time.monotonic() < end, numbers)
    yield from outcomes(limited) if jobs == 1 else _in_parts(limited, jobs)


def table(found, by):
    """Lines of counts: one for every kind, one column for every outcome."""
    columns = ["all", "fails", "CONVERGED", "SETTLED", "MAX_ITER", "STALLED", "gap>1%"]
    wrong = sorted({kind for one in found for kind in one.kinds})
    lines = [f"{by:24}" + "".join(f"{name:>11}" for name in [*columns, *wrong])]
    for kind in [*sorted({getattr(one, by) for one in found}), "all"]:
        own = [one for one in found if kind in (getattr(one, by), "all")]
        counts = Counter(one.status for one in own)
        counts |= {"all": len(own), "fails": sum(bool(one.complaints) for one in own)}
        counts["gap>1%"] = sum(one.stalled for one in own)
        counts |= Counter(kind for one in own for kind in one.kinds)
        lines.append(f"{kind:24}" + "".join(f"{counts[name]:>11}" for name in [*columns, *wrong]))
    return "\n".join(lines)


BY = ("values", "shape", "weighting", "holding", "loss", "solver", "stiffness")


def summary(found):
    parts = [table(found, by) for by in BY]
    stalled = sum(one.stalled for one in found)
    share = stalled / max(len(found), 1)
    parts.append(f"{len(found)} problems, {sum(bool(one.complaints) for one in found)} fail, ")
    parts[-1] += f"{stalled} stalled with a gap over 1 % ({share:.2%}), "
    parts[-1] += f"{sum(one.status == 'skipped' for one in found)} skipped, "
    parts[-1] += f"{sum(one.seconds for one in found):.0f} s in fits"
    return "\n\n".join(parts)


def _line(one):
    return (
        f"{one.number:>8} {one.values} | {one.shape} | {one.weighting} | {one.holding} | "
        f"{one.loss} | {one.solver} | {one.status} | gap {one.gap:.2g} | {one.warned} | "
        + "; ".join(one.complaints)
    )


def _write(path, found):
    names = [field.name for field in fields(Outcome)]
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        for one in found:
            writer.writerow(
                [*(getattr(one, name) for name in names[:-1]), "; ".join(one.complaints)]
            )


def replay(number):
    """Judge one problem, and print everything about it."""
    problem = hostile_problem(number)
    print(problem)
    with Holder() as holder:
        one = judged(problem, holder)
    print(_line(one))
    return one


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--problems", type=int, default=None, help="how many; 2000 if no --seconds")
    parser.add_argument("--seconds", type=float, default=None, help="stop after so long")
    parser.add_argument("--seed", type=int, default=0, help="number of the first problem")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--csv", type=Path, help="write a row for every problem")
    parser.add_argument("--only", help="show failures whose line matches this expression")
    parser.add_argument("--replay", type=int, metavar="NUMBER", help="only this problem")
    options = parser.parse_args()
    if options.replay is not None:
        raise SystemExit(bool(replay(options.replay).complaints))
    problems = 2000 if options.problems is None and options.seconds is None else options.problems
    found = []
    for one in run(options.seed, problems, options.seconds, options.jobs):
        found.append(one)
        line = _line(one)
        if (one.complaints or one.stalled) and re.search(options.only or "", line):
            print(line, flush=True)
    print(summary(found))
    if options.csv:
        _write(options.csv, found)
    raise SystemExit(any(one.complaints for one in found))


if __name__ == "__main__":
    main()
