"""Thresholds with guarantees, review budgets, profit, groups and calibrated scores."""
