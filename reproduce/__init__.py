"""Reproduction of the paper: `python -m reproduce table2`; not part of the wheel."""
