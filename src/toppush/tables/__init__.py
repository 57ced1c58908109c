"""Columns of tables as numbers: types, categories, dates, missing values, labels and roles."""
