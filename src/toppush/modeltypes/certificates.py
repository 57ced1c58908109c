"""A fit's bounds as JSON can hold them, and back."""

import math
from typing import Any

import numpy as np

from toppush.problem.solution import Iteration, Solution, Status
from toppush.types import Array


def certificate(ranker: object) -> dict[str, Any] | None:
    """The bounds of a fit and how it ended, as JSON can hold them; an average has none."""
    found: Solution | None = getattr(ranker, "solution_", None)
    if found is None:
        return None
    return {
        "upper": _finite(found.upper),
        "lower": _finite(found.lower),
        "relative_gap": _finite(found.relative_gap),
        "n_iter": found.n_iter,
        "status": found.status.name,
        "sentence": found.status.value,
        "history": [[_finite(number) for number in at] for at in found.history],
    }


def solution(known: dict[str, Any], weights: Array, threshold: float) -> Solution:
    """The solution that a certificate is of, without the duals of the training rows."""
    return Solution(
        weights=weights,
        threshold=threshold,
        dual=np.empty(0),
        upper=_number(known["upper"]),
        lower=_number(known["lower"], -math.inf),
        n_iter=int(known["n_iter"]),
        status=Status[known["status"]],
        history=tuple(
            Iteration(*(_number(number, -math.inf) for number in at)) for at in known["history"]
        ),
    )


def _finite(number: float) -> float | None:
    return float(number) if math.isfinite(number) else None


def _number(number: float | None, otherwise: float = math.inf) -> float:
    return otherwise if number is None else float(number)
