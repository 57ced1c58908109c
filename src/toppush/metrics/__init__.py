"""Measures of ranked lists, with intervals and thresholds.

See `toppush.metrics.measures` for what each takes.
"""

from toppush.metrics.measures import (
    FOUR,
    METRICS,
    TopCurve,
    auc,
    average_precision,
    lift_at,
    ndcg,
    partial_auc,
    positives_at_top,
    precision_at_k,
    ranking_loss,
    recall_at_fpr,
    recall_at_k,
    register,
    scorer,
    summary,
    top_curve,
    top_loss,
    top_recall,
)

__all__ = [
    "FOUR",
    "METRICS",
    "TopCurve",
    "auc",
    "average_precision",
    "lift_at",
    "ndcg",
    "partial_auc",
    "positives_at_top",
    "precision_at_k",
    "ranking_loss",
    "recall_at_fpr",
    "recall_at_k",
    "register",
    "scorer",
    "summary",
    "top_curve",
    "top_loss",
    "top_recall",
]
