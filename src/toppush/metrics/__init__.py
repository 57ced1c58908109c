"""Metrics of ranked lists, with intervals.

See `toppush.metrics.ranking` for their parameters.
"""

from toppush.metrics.curve import TopCurve, register, top_curve
from toppush.metrics.ranking import (
    FOUR,
    METRICS,
    Metric,
    auc,
    average_precision,
    lift_at,
    metric,
    ndcg,
    partial_auc,
    positives_at_top,
    precision_at_k,
    ranking_loss,
    recall_at_10_false_positives,
    recall_at_fpr,
    recall_at_k,
    scorer,
    summary,
    top_loss,
    top_recall,
)

__all__ = [
    "FOUR",
    "METRICS",
    "Metric",
    "TopCurve",
    "auc",
    "average_precision",
    "lift_at",
    "metric",
    "ndcg",
    "partial_auc",
    "positives_at_top",
    "precision_at_k",
    "ranking_loss",
    "recall_at_10_false_positives",
    "recall_at_fpr",
    "recall_at_k",
    "register",
    "scorer",
    "summary",
    "top_curve",
    "top_loss",
    "top_recall",
]
