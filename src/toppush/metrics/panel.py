"""Which measures a list of some length can show: what ``toppush evaluate`` prints."""

from collections.abc import Collection

from toppush.metrics.bootstrap import Measure, measure
from toppush.metrics.ranking import LEAST_NEGATIVES, METRICS

__all__ = ["Panel", "chosen", "measures", "panel"]

DEPTHS = (10, 50, 100, 500, 1000, 5000, 10_000, 50_000, 100_000)
RATES = (0.0001, 0.001, 0.01, 0.1)
FRACTIONS = (0.001, 0.01, 0.1)
Panel = dict[str, tuple[str, dict[str, float]]]
"""What a figure is called -> the measure and its parameters."""


def panel(n_rows: int, n_negatives: int) -> Panel:
    """Every measure with its parameters, those that so many rows can show.

    >>> from toppush.metrics.panel import panel
    >>> list(panel(60, 50))[-3:]
    ['precision_at_k(50)', 'recall_at_k(50)', 'recall_at_fpr(0.1)']
    """
    wanted: Panel = {
        name: (name, {})
        for name, metric in METRICS.items()
        if not metric.needs and n_negatives >= LEAST_NEGATIVES.get(name, 1)
    }
    for rate in RATES[1:]:
        wanted[f"partial_auc({rate:g})"] = ("partial_auc", {"max_fpr": rate})
    for fraction in FRACTIONS:
        if fraction * n_rows >= 1:
            wanted[f"lift_at({fraction:g})"] = ("lift_at", {"fraction": fraction})
    for k in DEPTHS:
        if k <= n_rows:
            wanted[f"precision_at_k({k})"] = ("precision_at_k", {"k": k})
            wanted[f"recall_at_k({k})"] = ("recall_at_k", {"k": k})
    for rate in RATES:
        if rate * n_negatives >= 1:
            wanted[f"recall_at_fpr({rate:g})"] = ("recall_at_fpr", {"max_fpr": rate})
    return wanted


def chosen(n_rows: int, n_negatives: int, names: Collection[str]) -> Panel:
    """Some of the measures of the panel, each named once.

    >>> from toppush.metrics.panel import chosen
    >>> chosen(60, 50, ["auc", "precision_at_k(10)"])
    {'auc': ('auc', {}), 'precision_at_k(10)': ('precision_at_k', {'k': 10})}
    """
    known = panel(n_rows, n_negatives)
    for name in names:
        if name not in known:
            raise ValueError(f"{name!r} is none of the measures {', '.join(known)}.")
    return {name: known[name] for name in dict.fromkeys(names)}


def measures(wanted: Panel) -> dict[str, Measure]:
    """The measures of a panel, as `toppush.metrics.bootstrap` takes them."""
    return {key: measure(name, **given) for key, (name, given) in wanted.items()}
