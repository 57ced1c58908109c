"""Generalisation bounds from the training rows: the paper's Theorem 3, corrected.

A positive x misranks badly when a share of at least delta of all negatives scores as high:

    h_b(x, w) = Pr(w.x <= w.z),  z a new negative;      P_b(w, delta) = Pr(h_b(x, w) >= delta)

The theorem bounds P_b(w, delta) by the training loss and terms that vanish with more rows.
`printed_bound` is the last display of the paper's proof. Read closely, that proof slips:

1. Lemma 1 counts the positives less than 1 above the highest negative, and says they are at
   most n_pos times the loss. A positive 0.9 above it is counted whole and loses 0.01. With all
   positives at score 0.9 and all negatives at 0 the lemma is false once delta < 0.01.
2. Lemma 1 holds at delta; the last step uses it at delta / 2.
3. A net of width 1/(2 sqrt m) has 9 rho / eps = 18 rho sqrt(m), not 9 rho sqrt(m), to the d
   points, and moving to it changes the loss by G / sqrt(m), not G rho / sqrt(m).
4. The inequality of Talagrand and Bousquet is used as if the loss were at most 2 rho, and 1 in
   the variance term; it reaches (1 + 2 rho)^2.

`top_bound` follows the same steps with constants that hold. It measures h_b by a ramp that
falls from 1 to 0 between -1/sqrt(m) and -margin, where the paper has the training loss; so the
ramp is at most 1, its slope 1 / (margin - 1/sqrt(m)), and slip 2 does not arise. The
price for slip 1 is a factor before the loss. `halfspace_bound` replaces the margin by a count
of half-spaces and needs neither the factor nor a bound on the rows and the weights.

Paper: m -> n_pos, n -> n_neg, d -> n_features, rho -> radius, t = log(2 / (1 - confidence)).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from math import e, inf, log, sqrt

__all__ = ["TopBound", "halfspace_bound", "printed_bound", "top_bound"]

MIN_POSITIVES = 12  # the theorem's assumption: (1 - 1/sqrt(12))^2 >= 1/2
MAX_ROWS = 2**62  # where the search for enough rows gives up


@dataclass(frozen=True, slots=True)
class TopBound:
    """At most `probability_bound` of new positives have `delta` of the negatives above them.

    ``probability_bound = empirical_term + deviation_term``; true with probability `confidence`
    over the training rows. `n_pos_needed` and `n_neg_needed` are the fewest rows for which both
    numbers are below 1, all else equal; None where no number of rows is enough.
    """

    delta: float
    confidence: float
    empirical_term: float
    deviation_term: float
    n_pos_needed: int | None
    n_neg_needed: int | None

    @property
    def probability_bound(self) -> float:
        """Upper bound on P_b(w, delta)."""
        return self.empirical_term + self.deviation_term

    @property
    def vacuous(self) -> bool:
        """Whether the bound says nothing: a probability or a share of at least 1."""
        return self.probability_bound >= 1 or self.delta >= 1

    def __str__(self) -> str:
        if not self.vacuous:
            return (
                f"With confidence {self.confidence:g}, at most {self.probability_bound:.3g} of new "
                f"positives have {self.delta:.3g} or more of the negatives at or above them."
            )
        return (
            f"Vacuous: the bound is {self.probability_bound:.3g} at delta {self.delta:.3g}, and "
            f"only numbers below 1 say anything; {self._remedy()}"
        )

    def _remedy(self) -> str:
        if self.n_pos_needed is None or self.n_neg_needed is None:
            return "no number of rows would help: a smaller empirical loss is needed."
        return (
            f"it takes at least {self.n_pos_needed:,} positives and {self.n_neg_needed:,} "
            "negatives at this empirical loss."
        )


def top_bound(
    *,
    empirical_loss: float,
    n_pos: int,
    n_neg: int,
    n_features: int,
    radius: float,
    confidence: float = 0.95,
    margin: float = 0.5,
) -> TopBound:
    """Theorem 3 with constants that hold, for every |w| <= radius at once.

    With s = 1/sqrt(m), u = t + log m and E = 4 rho / ((margin - s) sqrt(n))::

        P_b(w, delta) <= L / (1 - margin - s)^2 + sqrt((t + d log(1 + 4 rho sqrt(m))) / (2m))
        delta = E + sqrt(2u/n (1/4 + 2E)) + u/(3n)

    Parameters
    ----------
    empirical_loss : float
        L, the mean truncated quadratic loss of the training positives against the highest
        training negative, without the penalty.
    n_pos, n_neg, n_features : int
        Training positives (at least 12), training negatives and columns; all rows |x| <= 1.
    radius : float
        Bound on |w| fixed before the data are seen: sqrt(2 / lam) always is one, as the
        objective at w = 0 is 1.
    confidence : float in (0, 1), default=0.95
        1 - 2 exp(-t).
    margin : float in (0, 1), default=0.5
        Also fixed in advance. Smaller weakens delta, larger the factor before the loss.
    """
    _check_data(empirical_loss, n_pos, n_neg, n_features, fewest=MIN_POSITIVES)
    _check("radius", radius, 0 < radius < inf, "above 0 and finite")
    _check("margin", margin, 0 < margin < 1, "between 0 and 1")
    rates = _Mended(empirical_loss, n_features, _exponent(confidence), radius, margin)
    return _bound(rates, n_pos, n_neg, confidence)


def halfspace_bound(
    *,
    empirical_loss: float,
    n_pos: int,
    n_neg: int,
    n_features: int,
    confidence: float = 0.95,
) -> TopBound:
    """Theorem 3 by counting half-spaces: any rows, any linear scorer, no factor on the loss.

    With v = d + 1 and log S(N) = min(N log 2, v log(e N / v)), for every w at once::

        P_b(w, delta) <= L + sqrt(2 log S(m) / m) + sqrt(t / (2m))
        delta = 2 (log S(2n) + log 2 + t) / (n log 2)

    Above the highest training negative lies a half-space empty of training negatives, and all
    such hold little mass (Blumer et al. 1989). The positives with
    h_b(x, w) >= delta fill a half-space too, whose mass is near its share of the training rows.

    Parameters
    ----------
    empirical_loss : float
        `toppush.metrics.top_loss` of the training rows, or anything above it, such as the
        mean truncated quadratic loss.
    n_pos, n_neg, n_features : int
        Training positives, training negatives and columns.
    confidence : float in (0, 1), default=0.95
        1 - 2 exp(-t).
    """
    _check_data(empirical_loss, n_pos, n_neg, n_features, fewest=1)
    rates = _Halfspaces(empirical_loss, n_features, _exponent(confidence))
    return _bound(rates, n_pos, n_neg, confidence)


def printed_bound(
    *,
    empirical_loss: float,
    n_pos: int,
    n_neg: int,
    n_features: int,
    radius: float,
    confidence: float = 0.95,
) -> TopBound:
    """Theorem 3 with the constants printed in the paper; to compare, not to rely on.

    With G = 2 (1 + 2 rho) and u = t + log m::

        P_b(w, delta) <= L + G rho / sqrt(m) + sqrt((2t + 2d log(9 rho) + d log m) / m)
        delta = 4 G (rho + 1) / sqrt(n) + 5 rho u / (3n) + 2 G rho sqrt(2u / n)

    The head of this module says where the proof does not support it.

    Parameters
    ----------
    empirical_loss, n_pos, n_neg, n_features, radius, confidence
        As in `top_bound`.
    """
    _check_data(empirical_loss, n_pos, n_neg, n_features, fewest=MIN_POSITIVES)
    _check("radius", radius, 0 < radius < inf, "above 0 and finite")
    rates = _Printed(empirical_loss, n_features, _exponent(confidence), radius)
    return _bound(rates, n_pos, n_neg, confidence)


@dataclass(frozen=True)
class _Rates(ABC):
    """The terms of a bound as functions of the numbers of rows."""

    empirical_loss: float
    n_features: int
    t: float

    def empirical(self, n_pos: int) -> float:
        return self.empirical_loss

    @abstractmethod
    def deviation(self, n_pos: int) -> float: ...

    @abstractmethod
    def delta(self, n_pos: int, n_neg: int) -> float: ...


class _Halfspaces(_Rates):
    def deviation(self, n_pos: int) -> float:
        return sqrt(2 * self._log_splits(n_pos) / n_pos) + sqrt(self.t / (2 * n_pos))

    def delta(self, n_pos: int, n_neg: int) -> float:
        return 2 * (self._log_splits(2 * n_neg) + log(2) + self.t) / (n_neg * log(2))

    def _log_splits(self, n_rows: int) -> float:
        """Log of a bound on the ways in which half-spaces split n_rows points (Sauer)."""
        dimension = self.n_features + 1
        if n_rows <= dimension:
            return n_rows * log(2)
        return min(n_rows * log(2), dimension * log(e * n_rows / dimension))


@dataclass(frozen=True)
class _Mended(_Rates):
    radius: float
    margin: float

    def empirical(self, n_pos: int) -> float:
        room = 1 - self.margin - 1 / sqrt(n_pos)
        return self.empirical_loss / room**2 if room > 0 else inf

    def deviation(self, n_pos: int) -> float:
        cover = self.n_features * log(1 + 4 * self.radius * sqrt(n_pos))
        return sqrt((self.t + cover) / (2 * n_pos))

    def delta(self, n_pos: int, n_neg: int) -> float:
        room = self.margin - 1 / sqrt(n_pos)
        mean = 4 * self.radius / (room * sqrt(n_neg)) if room > 0 else inf
        union = (self.t + log(n_pos)) / n_neg
        return mean + sqrt(2 * union * (0.25 + 2 * mean)) + union / 3


@dataclass(frozen=True)
class _Printed(_Rates):
    radius: float

    @property
    def slope(self) -> float:
        return 2 * (1 + 2 * self.radius)

    def deviation(self, n_pos: int) -> float:
        cover = self.n_features * (2 * log(9 * self.radius) + log(n_pos))
        return (self.slope * self.radius + sqrt(max(2 * self.t + cover, 0))) / sqrt(n_pos)

    def delta(self, n_pos: int, n_neg: int) -> float:
        union = (self.t + log(n_pos)) / n_neg
        mean = 4 * self.slope * (self.radius + 1) / sqrt(n_neg)
        return mean + 5 / 3 * self.radius * union + 2 * self.slope * self.radius * sqrt(2 * union)


def _bound(rates: _Rates, n_pos: int, n_neg: int, confidence: float) -> TopBound:
    enough = _fewest(
        lambda count: rates.empirical(count) + rates.deviation(count) < 1, start=MIN_POSITIVES
    )
    most = max(n_pos, enough or 0)
    return TopBound(
        delta=rates.delta(n_pos, n_neg),
        confidence=confidence,
        empirical_term=rates.empirical(n_pos),
        deviation_term=rates.deviation(n_pos),
        n_pos_needed=enough,
        n_neg_needed=_fewest(lambda count: rates.delta(most, count) < 1),
    )


def _fewest(holds: Callable[[int], bool], start: int = 1) -> int | None:
    """Smallest count at which a condition that stays true once true holds: double, then halve."""
    high = start
    while not holds(high):
        high *= 2
        if high > MAX_ROWS:
            return None
    low = high // 2 if high > start else start - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _exponent(confidence: float) -> float:
    _check("confidence", confidence, 0 < confidence < 1, "between 0 and 1")
    return log(2 / (1 - confidence))


def _check_data(loss: float, n_pos: int, n_neg: int, n_features: int, fewest: int) -> None:
    _check("empirical_loss", loss, 0 <= loss < inf, "at least 0 and finite")
    _check("n_pos", n_pos, n_pos >= fewest, f"at least {fewest}")
    _check("n_neg", n_neg, n_neg >= 1, "at least 1")
    _check("n_features", n_features, n_features >= 1, "at least 1")


def _check(name: str, value: float, holds: bool, range_: str) -> None:
    if not holds:
        raise ValueError(f"The bound needs {name} {range_}, got {value!r}.")
