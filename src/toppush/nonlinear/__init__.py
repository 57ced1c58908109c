"""Rankers that are not linear in the columns, by the same push at the top."""
