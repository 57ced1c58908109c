"""Measurements of speed, memory and guarantees; run as `python -m benchmarks.NAME`."""
