"""The search of a cross-validation: which pairs of lam and top are fitted on which folds."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toppush.designs.local import one_blas_thread
from toppush.models.base import TrainingRows
from toppush.models.choice import Judge, results
from toppush.models.fold_fits import NOTHING, FoldFits, fit_fold
from toppush.models.path import Grid
from toppush.models.progress import Tally
from toppush.system.threads import in_threads
from toppush.types import Array, Mask, Where

EVERY, KEPT, LEAST_KEPT = 3, 0.25, 10
"""Every so manieth fold is the first to fit all pairs; the share, and the number, of pairs that go
on to the other folds."""


def named(lam: float, top: float, pairwise: bool | None) -> dict[str, Any]:
    """A pair as results tell it, with its family where that was asked for."""
    pair = {"lam": lam, "top": top}
    return pair if pairwise is None else {**pair, "pairwise": pairwise}


@dataclass
class PairSearch:
    """The folds, and what was found on them for the pairs that were tried so far.

    The pairs of the grid come first. Of many pairs all are fitted on some folds, and those that
    rank best there on the others.
    """

    given: TrainingRows
    folds: list[tuple[Where, Where]]
    grid: Grid
    judge: Judge
    n_jobs: int | None
    tally: Tally | None
    families: bool = False
    """Whether pairs tell their family."""
    pairs: list[dict[str, Any]] = field(default_factory=list)
    fitted: list[FoldFits] = field(default_factory=list)
    table: dict[str, Any] = field(default_factory=dict)

    def begin(self, families: tuple[bool, ...]) -> int:
        """Try the grid in each family; the index of the best pair.

        A top of one negative is the same problem in both, and is tried once.
        """
        self.fitted = [NOTHING] * len(self.folds)
        tops = self.grid.tops
        for pairwise in families:
            best = self.run(self.grid.lams, tops, pairwise)
            tops = tuple(top for top in tops if not isinstance(top, Integral) or top > 1)
        return best

    def run(self, lams: Array, tops: tuple[float, ...], pairwise: bool) -> int:
        """Try more pairs; the index of the best of all so far."""
        told, n_before = pairwise if self.families else None, len(self.pairs)
        self.pairs += [named(float(lam), top, told) for top in tops for lam in lams]
        new, every = np.arange(n_before, len(self.pairs)), range(len(self.folds))
        first = every[::EVERY] if len(self.pairs) > LEAST_KEPT else every
        others = [fold for fold in every if fold not in first]
        self._fit(new, first)
        self._fit(new[self._is_promising(first)[new]], others)
        best = self._judge_all()
        while self.table["n_folds"][best] < len(every):  # all that went on have no solution
            self._fit(np.flatnonzero(self.table["n_folds"] < len(every)), others)
            best = self._judge_all()
        return best

    def _is_promising(self, folds: Sequence[int]) -> Mask:
        """Which of all pairs so far rank well enough on some folds to go on to the others."""
        enough = max(LEAST_KEPT, int(KEPT * len(self.pairs)))
        order = np.argsort(self._results(folds)["rank_test_score"], kind="stable")
        return np.isin(np.arange(len(order)), order[:enough])

    def _judge_all(self) -> int:
        """Set the table; the index of the best pair."""
        self.table = self._results(range(len(self.folds)))
        return int(np.argmin(self.table["rank_test_score"]))

    def end(self) -> None:
        """Let the line that counts the fits stay."""
        if self.tally is not None:
            self.tally.close()

    def _fit(self, numbers: NDArray[np.int_], folds: Sequence[int]) -> None:
        """Fit the pairs of these numbers on some of the folds."""
        for pairwise in (False, True):
            some = [n for n in numbers if self.pairs[n].get("pairwise", False) == pairwise]
            if some and folds:
                self._fit_family(pairwise, some, folds)

    def _fit_family(self, pairwise: bool, numbers: Sequence[int], folds: Sequence[int]) -> None:
        pairs = [(self.pairs[n]["top"], self.pairs[n]["lam"]) for n in numbers]
        lams = sorted({lam for _, lam in pairs}, reverse=True)
        tops = {(type(top), top): top for top, _ in pairs}  # 1 is not 1.0
        table = np.full((len(tops), len(lams)), -1)
        for n, (top, lam) in zip(numbers, pairs, strict=True):
            table[list(tops).index((type(top), top)), lams.index(lam)] = n
        if self.tally is not None:
            self.tally.total += len(folds) * len(numbers)
        done = (lambda: None) if self.tally is None else self.tally
        grid = replace(self.grid, lams=np.array(lams), tops=tuple(tops.values()), pairwise=pairwise)
        run = partial(fit_fold, self.given, grid=grid, judge=self.judge, numbers=table, done=done)
        with one_blas_thread():
            n_at_once = self.given.rows.n_concurrent_fits(len(folds), self.n_jobs)
            found = in_threads(run, [self.folds[fold] for fold in folds], n_at_once)
        for fold, fits in zip(folds, found, strict=True):
            self.fitted[fold] = self.fitted[fold].joined(fits)

    def _results(self, folds: Sequence[int]) -> dict[str, Any]:
        """The table of all pairs on some of the folds."""
        fitted = [self.fitted[fold] for fold in folds]
        degenerate = frozenset[int]().union(*(fold.degenerate for fold in fitted))
        return results(
            self.pairs,
            [fold.measured for fold in fitted],
            np.isin(np.arange(len(self.pairs)), list(degenerate)),
            [fold.seconds for fold in fitted],
        )
