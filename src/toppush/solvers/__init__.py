"""Solvers of the TopPush family; each takes a problem and returns a Solution."""

from toppush.solvers.accelerated import accelerated

__all__ = ["SOLVERS", "accelerated"]

SOLVERS = {"paper": accelerated}
