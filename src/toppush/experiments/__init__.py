"""Experiments that the command line runs: the demonstration and the paper's evidence."""
