"""The course of a fit: all members on some of the rows, then those worth it on all rows.

The time limit is checked before each base model. When it is over, the fitted ones are combined; an
interrupt ends the fit without a result.
"""

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from sklearn.exceptions import ConvergenceWarning, FitFailedWarning

from toppush.auto.combination import Lists, choose_weights
from toppush.auto.members import Candidate, Fitted, Given, Settings
from toppush.folds.cross_fitted import some_rows
from toppush.models.base import DegenerateWarning
from toppush.models.progress import Line
from toppush.types import Array, Mask, Where

RUNG_ROWS, WORTH = 8_000, 6.0
"""Rows of the first round, and how many times as many there must be for it to be worth its time."""
SLOWER = 1.3
"""By how much more than in proportion to its rows a fit may take longer."""


@dataclass(frozen=True)
class Done:
    """A member that was fitted."""

    fitted: Fitted
    seconds: float
    n_rows: int


@dataclass
class Course:
    """Fits members one after another and keeps what is done."""

    members: Mapping[str, Candidate]
    settings: Settings
    scoring: str | None
    seconds: float | None = None
    line: Line | None = None
    left_out: dict[str, str] = field(default_factory=dict)
    _failure: Exception | None = None
    _began: float = field(default_factory=lambda: time.perf_counter())

    def run(self, given: Given) -> tuple[dict[str, Done], Where]:
        """Fit to some rows, drop those that are behind, and fit the others to all rows.

        What was fitted, and to which rows: to some of them if time was short.
        """
        names, everything = self._able(given), np.arange(given.n_rows)
        first: dict[str, Done] = {}
        some = some_rows(given.positive, RUNG_ROWS)
        if not given.n_elsewhere and given.n_rows >= WORTH * RUNG_ROWS and len(names) > 1:
            part = given.part(some)
            first = self._fit_each(names, part, {})
            names = self._worth(first, part)
        scale = SLOWER * given.n_rows / len(some)
        expected = {name: scale * one.seconds for name, one in first.items()}
        names = sorted(names, key=lambda name: expected.get(name, 0.0))
        if done := self._fit_each(names, given, expected):
            return done, everything
        self._require_some(list(first))
        for name in first:
            self.left_out.pop(name, None)
        return first, some

    def close(self, weights: dict[str, float]) -> None:
        """Show for good how it ended."""
        if self.line is not None:
            shares = ", ".join(f"{name} {weight:.0%}" for name, weight in weights.items())
            seconds = time.perf_counter() - self._began
            self.line.write(f"combined: {shares}  {seconds:.1f} s", last=True)

    def _able(self, given: Given) -> list[str]:
        for name, member in self.members.items():
            if (why := member.left_out(given)) is not None:
                self.left_out[name] = why
        able = [name for name in self.members if name not in self.left_out]
        self._require_some(able)
        return able

    def _require_some(self, names: list[str]) -> None:
        if not names:
            told = "; ".join(f"{name}: {why}" for name, why in self.left_out.items())
            raise ValueError(
                f"none of the members can be fitted ({told}); name others."
            ) from self._failure

    def _fit_each(
        self, names: list[str], given: Given, expected: dict[str, float]
    ) -> dict[str, Done]:
        """Fit members one after another, as long as there is time."""
        found: dict[str, Done] = {}
        for place, name in enumerate(names):
            if self._is_late(expected.get(name, 0.0)) and (found or expected):
                self.left_out[name] = "there was no time left"
                continue
            self._tell(name, place, len(names), given.n_taught)
            began = time.perf_counter()
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", (ConvergenceWarning, DegenerateWarning))
                    fitted = self.members[name].fit(given, self.settings)
                    _require_finite(fitted, given)
            except Exception as error:
                self._leave_out(name, error)
                continue
            found[name] = Done(fitted, time.perf_counter() - began, given.n_taught)
        return found

    def _leave_out(self, name: str, error: Exception) -> None:
        """One member that fails does not take the others with it."""
        self._failure = error
        why = (str(error).strip() or type(error).__name__).splitlines()[0]
        self.left_out[name] = f"its fit failed: {why}"
        warnings.warn(f"{name} is left out: its fit failed: {why}", FitFailedWarning, stacklevel=7)

    def _is_late(self, expected: float) -> bool:
        if self.seconds is None:
            return False
        return time.perf_counter() - self._began + expected > self.seconds

    def _tell(self, name: str, place: int, total: int, n_rows: int) -> None:
        if self.line is None:
            return
        seconds = time.perf_counter() - self._began
        told = f"{name} on {n_rows:,} rows, {place + 1} of {total} members  {seconds:.1f} s"
        if place:
            told += f"  about {seconds / place * (total - place):.0f} s left"
        self.line.write(told)

    def _worth(self, first: dict[str, Done], some: Given) -> list[str]:
        """Members that have a part in the combination of the first round."""
        if not first:
            return []
        lists, _, _ = standardised(first, some)
        weights = choose_weights(lists, self.scoring, self.settings.seed)
        kept = [name for name, weight in zip(first, weights, strict=True) if weight > 0.0]
        for name in first:
            if name not in kept:
                self.left_out[name] = f"behind on {some.n_rows:,} rows"
        return kept


def _require_finite(fitted: Fitted, given: Given) -> None:
    held = np.concatenate([held for _, held in given.folds])
    if not np.isfinite(fitted.out_of_fold[held]).all():
        raise ValueError("some of its scores are not finite numbers")


def held_scores(done: dict[str, Done]) -> tuple[Array, Mask]:
    """Scores of rows that were held out, a row for each member, and which have one of each."""
    scores = np.array([one.fitted.out_of_fold for one in done.values()])
    return scores, ~np.isnan(scores).any(axis=0)


def second_scores(done: Mapping[str, Done]) -> Array:
    """Scores by second fits, a row for each member; those of the only fit if there is one."""
    fits = [one.fitted for one in done.values()]
    return np.array([one.out_of_fold if one.second is None else one.second for one in fits])


def standardised(done: dict[str, Done], given: Given) -> tuple[Lists, Array, Array]:
    """Held-out scores of all members, negatives at mean 0, with deviation 1; both of before."""
    scores, known = held_scores(done)
    scores, positive = scores[:, known], given.positive[known]
    weight = np.ones(len(positive)) if given.weight is None else given.weight[known]
    centers = np.array([one[~positive].mean() for one in scores])
    scales = np.array([float(one.std()) or 1.0 for one in scores])
    units = (scores - centers[:, None]) / scales[:, None]
    return Lists(units, positive, weight), centers, scales
