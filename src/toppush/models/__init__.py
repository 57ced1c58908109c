"""scikit-learn estimators: validate, build the problem, solve, record."""

from toppush.models.base import DegenerateWarning
from toppush.models.linear import TopPush
from toppush.models.linear_cv import TopPushCV
from toppush.models.path import toppush_path

__all__ = ["DegenerateWarning", "TopPush", "TopPushCV", "toppush_path"]
