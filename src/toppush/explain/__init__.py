"""Contributions of columns to scores, and why a row ranks above another."""
