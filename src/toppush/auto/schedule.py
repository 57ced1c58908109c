"""The order of fits: successive halving, from all members on some rows to a few on all rows.

The time limit is checked before each member. When it is over, the members fitted to the most rows
are combined; an interrupt ends the fit without a result.
"""

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from sklearn.exceptions import ConvergenceWarning, FitFailedWarning

from toppush.auto.combination import MemberScores, choose_weights
from toppush.auto.members import FitData, FittedMember, Member
from toppush.folds.scores import location_and_scale
from toppush.folds.splits import some_rows
from toppush.models.base import DegenerateWarning
from toppush.models.progress import Line
from toppush.types import Array, Mask, Where

FIRST_ROWS, FIRST_ROWS_IN_TIME = 8_000, 1_000
"""Minimum number of rows of the first round, without and with a time limit."""
GROWTH = 6.0
"""Ratio of the rows of a round to those of the round before."""
SLOWER = 1.3
"""Factor by which a fit may take longer than in proportion to its rows."""


@dataclass
class Schedule:
    """Fits members one after another, and notes why others are left out."""

    members: Mapping[str, Member]
    scoring: str | None
    seconds: float | None = None
    line: Line | None = None
    left_out: dict[str, str] = field(default_factory=dict)
    _failure: Exception | None = None
    _began: float = field(default_factory=lambda: time.perf_counter())

    def run(self, data: FitData) -> tuple[dict[str, FittedMember], Where]:
        """Fit members in rounds of more and more rows, dropping about half after each.

        Returns the fitted members and the rows that they were fitted to: some, if time was short.
        """
        for name, member in self.members.items():
            if (why := member.left_out(data)) is not None:
                self.left_out[name] = why
        names = [name for name in self.members if name not in self.left_out]
        self._require_some(names)
        fitted: dict[str, FittedMember] = {}
        where: Where = np.arange(data.n_rows)
        for rows in self._rounds(data, len(names)):
            part = data if len(rows) == data.n_rows else data.part(rows)
            scale = SLOWER * len(rows) / len(where)
            expected = {name: scale * fitted[name].seconds for name in names if name in fitted}
            names = sorted(names, key=lambda name: expected.get(name, 0.0))
            if not (more := self._fit_each(names, part, expected)):
                break
            fitted, where = more, rows
            if len(rows) < data.n_rows:
                names = self._useful(fitted, part)
        self._require_some(list(fitted))
        for name in fitted:
            self.left_out.pop(name, None)
        return fitted, where

    def _rounds(self, data: FitData, n_members: int) -> list[Where]:
        """The rows of each round; the last has all. A single member has nothing to compete with."""
        least = FIRST_ROWS if self.seconds is None else FIRST_ROWS_IN_TIME
        rounds: list[Where] = [np.arange(data.n_rows)]
        n_rows = data.n_rows / GROWTH
        while data.on_dask is None and n_members > 1 and n_rows >= least:
            rounds.insert(0, some_rows(data.positive, int(n_rows)))
            n_rows /= GROWTH
        return rounds

    def close(self, weights: dict[str, float]) -> None:
        """Show the final state."""
        if self.line is not None:
            if self.left_out:
                left = ", ".join(f"{name} ({why})" for name, why in self.left_out.items())
                self.line.write(f"left out: {left}", last=True)
            shares = ", ".join(f"{name} {weight:.0%}" for name, weight in weights.items())
            seconds = time.perf_counter() - self._began
            self.line.write(f"combined: {shares}  {seconds:.1f} s", last=True)

    def _require_some(self, names: list[str]) -> None:
        if not names:
            reasons = "; ".join(f"{name}: {why}" for name, why in self.left_out.items())
            raise ValueError(
                f"none of the members can be fitted ({reasons}); name others."
            ) from self._failure

    def _fit_each(
        self, names: list[str], data: FitData, expected: dict[str, float]
    ) -> dict[str, FittedMember]:
        """Fit members one after another, as long as there is time."""
        fitted: dict[str, FittedMember] = {}
        for place, name in enumerate(names):
            seconds = expected.get(name) or self._compared(name, fitted)
            if self._is_late(seconds) and (fitted or expected):
                self.left_out[name] = "there was no time left"
                continue
            self._show(name, place, len(names), data.n_fitted)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", (ConvergenceWarning, DegenerateWarning))
                    member = self.members[name].fit(data)
                    held = np.concatenate([held for _, held in data.folds])
                    if not np.isfinite(member.out_of_fold[held]).all():
                        raise ValueError("some of its scores are not finite numbers")
            except Exception as error:  # one that fails does not take the others with it
                self._failure = error
                why = (str(error).strip() or type(error).__name__).splitlines()[0]
                why = self.left_out[name] = f"its fit failed: {why}"
                warnings.warn(f"{name} is left out: {why}", FitFailedWarning, stacklevel=6)
                continue
            fitted[name] = member
        return fitted

    def _compared(self, name: str, fitted: dict[str, FittedMember]) -> float:
        """Seconds that a fit probably takes, by those of another member; 0 if it is not known."""
        other, times = self.members[name].compared or ("", 0.0)
        return times * fitted[other].seconds if other in fitted else 0.0

    def _is_late(self, expected: float) -> bool:
        if self.seconds is None:
            return False
        return time.perf_counter() - self._began + expected > self.seconds

    def _show(self, name: str, place: int, total: int, n_rows: int) -> None:
        if self.line is None:
            return
        seconds = time.perf_counter() - self._began
        text = f"{name} on {n_rows:,} rows, {place + 1} of {total} members  {seconds:.1f} s"
        if place:
            text += f"  about {seconds / place * (total - place):.0f} s left"
        self.line.write(text)

    def _useful(self, fitted: dict[str, FittedMember], some: FitData) -> list[str]:
        """About half of the members of a round: those with the greatest weights."""
        scores, _, _ = standardised(fitted, some)
        weights = choose_weights(scores, self.scoring, some.seed)
        weight = dict(zip(fitted, weights, strict=True))
        most = max(some.effort.n_kept, (len(fitted) + 1) // 2)
        kept = [name for name in sorted(weight, key=weight.__getitem__)[-most:] if weight[name]]
        for name in fitted:
            if name not in kept:
                self.left_out[name] = f"behind on {some.n_rows:,} rows"
        return kept


def known_rows(fitted: Mapping[str, FittedMember]) -> Mask:
    """Rows that all members have out-of-fold scores of."""
    scores = np.array([member.out_of_fold for member in fitted.values()])
    return np.asarray(~np.isnan(scores).any(axis=0))


def second_scores(fitted: Mapping[str, FittedMember]) -> Array:
    """Scores by second fold models, a row for each member; out-of-fold scores if it has none."""
    members = fitted.values()
    return np.array([each.out_of_fold if each.second is None else each.second for each in members])


def standardised(
    fitted: Mapping[str, FittedMember], data: FitData
) -> tuple[MemberScores, Array, Array]:
    """Out-of-fold scores of all members, with what was subtracted and divided by.

    Negatives have mean 0, all rows standard deviation 1.
    """
    known = known_rows(fitted)
    scores, positive = np.array([each.out_of_fold for each in fitted.values()]), data.positive
    scores, positive = scores[:, known], positive[known]
    weight = np.ones(len(positive)) if data.weight is None else data.weight[known]
    units = np.array([location_and_scale(row, positive) for row in scores])
    centers, scales = units[:, 0], units[:, 1]
    standard = (scores - centers[:, None]) / scales[:, None]
    return MemberScores(standard, positive, weight), centers, scales
