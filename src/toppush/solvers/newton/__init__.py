"""The certified interior-point method."""
