"""The order of the gallery: from a first list to what is special."""

from pathlib import Path

STORIES = [
    "first_list",
    "fraud_budget",
    "choosing_top",
    "zero_is_optimal",
    "reading_the_certificate",
    "trees_and_linear",
    "threshold_with_guarantee",
    "custom_objective",
    "torch_loss",
    "torch_net",
    "millions_of_rows",
]


def by_story(filename: str) -> int:
    """Where a file stands."""
    return STORIES.index(Path(filename).stem)
