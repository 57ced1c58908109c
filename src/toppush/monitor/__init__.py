"""Drift of columns and scores relative to a reference profile."""
