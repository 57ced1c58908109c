"""A fit of a hostile problem, its rows held in some way, and what is wrong with it."""

import tempfile
import time
import traceback
import warnings
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from checker import Checker, count_of_top
from toppush import on_disk

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
        import distributed

        cluster = self._exits.enter_context(
            distributed.LocalCluster(
                n_workers=2, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0"
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


@dataclass(frozen=True)
class Fit:
    """A fitted ranker, or the error in its place, and the warnings that came."""

    ranker: Any
    error: Exception | None
    caught: list[warnings.WarningMessage]
    seconds: float

    def refused(self, problem):
        """Whether the fit was refused, by an error that names the size that is out of reach."""
        named = any(one in str(self.error) for one in problem.magnitudes)
        return type(self.error) is ValueError and named

    def same(self, other):
        """Whether another fit of the same rows ended the same, bit for bit."""
        if self.error is not None or other.error is not None:
            return str(self.error) == str(other.error)
        ends = [one.ranker.solution_ for one in (self, other)]
        numbers = [(*one.weights, *one.dual, one.threshold, one.upper, one.lower) for one in ends]
        return np.array_equal(*numbers) and ends[0].status is ends[1].status

    @property
    def warned(self):
        """Names of the kinds of warnings."""
        return sorted({one.category.__name__ for one in self.caught})


def fit(problem, X, y, sample_weight, n_jobs=1):
    """Fit the rows, in whatever form, of a problem."""
    ranker, failed, began = problem.ranker(n_jobs), None, time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            ranker.fit(X, y, sample_weight=sample_weight)
        except Exception as error:
            failed = error
    return Fit(ranker, failed, caught, time.perf_counter() - began)


def complaints(problem, done):
    """What is wrong with a fit, in sentences that begin with a word for the kind."""
    if done.refused(problem):
        return [f"warning: {one.category.__name__}: {one.message}" for one in done.caught]
    if done.error is not None:
        return [f"crash: {_told(done.error)}"]
    wrong = [*_about_solution(problem, done.ranker), *_about_warnings(problem, done)]
    return list(dict.fromkeys(wrong))


def judged(problem, holder):
    """Fit a problem, and say how that went."""
    about = {name: getattr(problem, name) for name in _COMMON}
    if not can_hold(problem.holding):
        return Outcome(**about, status="skipped", gap=0.0, warned="", seconds=0.0, complaints=())
    done = fit(problem, *holder.hold(problem))
    again = fit(problem, *holder.hold(problem), n_jobs=2)
    about |= {"warned": " ".join(done.warned), "seconds": done.seconds}
    differs = [] if done.same(again) else ["bits: the same fit on two threads ends in other bits"]
    about["complaints"] = (*complaints(problem, done), *differs)
    if done.error is not None:
        status = "refused" if done.refused(problem) else "crash"
        return Outcome(**about, status=status, gap=np.inf)
    solution = done.ranker.solution_
    return Outcome(**about, status=solution.status.name, gap=float(solution.relative_gap))


_COMMON = ("number", "values", "shape", "weighting", "holding", "loss", "solver", "stiffness")


def _about_solution(problem, ranker):
    """What the checker says."""
    solution = ranker.solution_
    weight = problem.sample_weight
    n_neg = np.sum(~problem.y & (True if weight is None else weight > 0))
    k = ranker.top_ if problem.top == "auto" else count_of_top(problem.top, n_neg)
    if not 1 <= k <= n_neg:
        return [f"top: {k} of {n_neg} negatives"]
    wrong = [] if k == ranker.top_ else [f"top: {ranker.top_}, which should be {k}"]
    if solution.n_iter > problem.max_iter:
        wrong.append(f"status: {solution.n_iter} iterations of {problem.max_iter}")
    terms = {"lam": problem.lam, "k": k, "loss": problem.loss, "pairwise": problem.pairwise}
    checker = Checker(problem.X, problem.y, sample_weight=weight, **terms)
    others = None if solution.dual.size else {"a fit in memory": _in_memory(problem, k)}
    return wrong + checker.complaints(solution, tol=problem.tol, others=others)


def _in_memory(problem, k):
    """Weights of the same problem, to compare a bound with that comes without its dual."""
    plain = replace(problem, holding="dense", top=k, max_iter=10_000)
    ranker = fit(plain, plain.X, plain.y, plain.sample_weight).ranker
    return getattr(ranker, "coef_", np.zeros((1, plain.X.shape[1])))[0]


def _about_warnings(problem, done):
    """A fit that did not do what was asked says so; nothing else is said."""
    solution, names = done.ranker.solution_, done.warned
    for one in done.caught:
        if one.category.__name__ not in ("ConvergenceWarning", "DegenerateWarning"):
            yield f"warning: {one.category.__name__}: {one.message} ({_place(one)})"
    if not solution.status.success and "ConvergenceWarning" not in names:
        yield f"silent: {solution.status.name} without a warning"
    at_zero = {"logistic": np.log(2.0)}.get(problem.loss, 1.0)
    apart = solution.status.name == "SEPARATED" and solution.upper <= 1e-20 * at_zero
    short = problem.solver == "newton" and not solution.relative_gap <= 1.01 * problem.tol
    if short and not apart and not names:
        yield f"silent: {solution.status.name} with a gap of {solution.relative_gap:.3g}"
    if not solution.upper <= at_zero * (1 + problem.tol) and not names:
        yield f"silent: {solution.upper:.6g} is worse than zero, {at_zero:.6g}"


def _place(warning):
    return f"{Path(warning.filename).name}:{warning.lineno}"


def _told(error):
    ours = [one for one in traceback.extract_tb(error.__traceback__) if "toppush" in one.filename]
    where = f" ({Path(ours[-1].filename).name}:{ours[-1].lineno})" if ours else ""
    return f"{type(error).__name__}: {str(error)[:200]}{where}"
