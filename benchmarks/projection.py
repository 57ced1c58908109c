"""Time of the exact projection (k = 1) for 1e5 and 1e7 entries in every hard order.

Half of the entries are on either side. `growth` is the time per entry at 1e7 over that at 1e5,
which a linear method keeps near 1 (the bar is 3); `times_random` compares with the random order
of the same size. It runs in one thread and is timed by the processor's clock of this process,
so that other work on the machine does not count.

    python -m benchmarks.projection
"""

import time
from functools import partial

import numpy as np

from benchmarks.common import median_seconds, report
from toppush.problem.tops import project

SIZES = {100_000: 31, 10_000_000: 5}
"""Entries, and how often each is timed."""

ORDERS = {
    "random": lambda x: x,
    "sorted": np.sort,
    "reversed": lambda x: np.sort(x)[::-1].copy(),
    "constant": lambda x: np.full_like(x, x[0]),
    "one giant": lambda x: np.where(np.arange(len(x)) == len(x) // 2, 1e300, x),
    "subnormal": lambda x: np.ldexp(np.rint(x * 2**20), -1074),
    "1e300": lambda x: x * 1e300,
    "exponential spread": lambda x: x * np.exp(np.linspace(-300, 300, len(x))),
    "rounded": lambda x: x.round(1),
}


def time_per_entry(order: str, n_entries: int, repeats: int) -> float:
    rng = np.random.default_rng(0)
    positives, negatives = (ORDERS[order](rng.normal(size=n_entries // 2)) for _ in range(2))
    work = partial(project, positives, negatives)
    return median_seconds(work, repeats, time.process_time) / n_entries


def main() -> None:
    times = {
        (order, n): time_per_entry(order, n, repeats)
        for order in ORDERS
        for n, repeats in SIZES.items()
    }
    rows = [
        (
            order,
            n,
            seconds * n,
            seconds * 1e9,
            seconds / times["random", n],
            seconds / times[order, min(SIZES)],
        )
        for (order, n), seconds in times.items()
    ]
    columns = ("order", "entries", "median_cpu_s", "ns_per_entry", "times_random", "growth")
    report("projection", columns, rows)


if __name__ == "__main__":
    main()
