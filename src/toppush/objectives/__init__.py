"""The pairwise push as an objective of gradient boosting.

`TopPushObjective` plugs into LightGBM and XGBoost; `push` is the mathematics for whoever boosts
by himself.
"""

from toppush.objectives.boosting import TopPushObjective
from toppush.objectives.pairs import Push
from toppush.objectives.push import push
from toppush.objectives.rows import LabelledRows, label_rows

__all__ = ["LabelledRows", "Push", "TopPushObjective", "label_rows", "push"]
