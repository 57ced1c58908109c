"""scikit-learn estimators: validate, build the problem, solve, record."""

from toppush.estimators.base import DegenerateWarning
from toppush.estimators.cross_validation import TopPushCV
from toppush.estimators.path import toppush_path
from toppush.estimators.toppush import TopPush

__all__ = ["DegenerateWarning", "TopPush", "TopPushCV", "toppush_path"]
