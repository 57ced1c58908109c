"""Rankers that are not linear, each with the push to the top as its loss."""
