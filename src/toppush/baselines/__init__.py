"""Structural SVMs by cutting planes, as scikit-learn rankers of two classes.

They are the competitors of the paper that are usable on hundreds of thousands of rows. The others
are in `reproduce.baselines` of the repository.
"""

from toppush.baselines.structural import MAPSVM, OWPC, PartialAUCSVM, RankSVM

__all__ = ["MAPSVM", "OWPC", "PartialAUCSVM", "RankSVM"]
