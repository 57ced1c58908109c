"""Rankers that are not linear, with the contract of scikit-learn."""

from toppush.nonlinear.trees import TopPushTrees

__all__ = ["TopPushTrees"]
