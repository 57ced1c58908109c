"""Scripts behind the claims about speed and memory; run as `python -m benchmarks.NAME`."""
