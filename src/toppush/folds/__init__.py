"""Folds by class, group and time, and out-of-fold scores on a common scale."""
