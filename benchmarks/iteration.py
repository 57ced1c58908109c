"""Time of an iteration of the paper's solver against the two products it cannot do without.

The data are made: 72,000 rows, 21,000 columns, 3.7 million entries, columns used by a power
law. The products are SciPy's X v and X'u on row blocks of equal numbers of entries, in as many
threads, with blocks and transposes made beforehand. Products and solves take turns, so that
both meet the same machine.

A pass is one product with X or X'. An iteration is two passes, and one more each time the
curvature doubles, which happens in the first iterations alone. `iteration_ms` is the median
over the iterations without a doubling; `overall_ratio` takes the time of the whole solve for
each two passes, start and line search included, and `overall_cpu_ratio` the same by the
processor's clock of all threads, which other work on the machine does not disturb. The bar is
2.5 times the products.

    python -m benchmarks.iteration
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from statistics import median
from time import perf_counter, process_time
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from benchmarks.common import median_seconds, report
from toppush.designs import LocalDesign
from toppush.problem.losses import LOSSES
from toppush.problem.objective import TopPushProblem
from toppush.solvers import SOLVERS

N_ROWS, N_COLUMNS, N_DRAWS = 72_000, 21_000, 3_766_000
"""3.7 million entries are left once those drawn twice are one."""
N_ITERATIONS, ROUNDS = 40, 5
CASES = [
    ("truncated_quadratic", 1),
    ("truncated_quadratic", 720),
    ("logistic", 1),
    ("exponential", 1),
]


def made_rows(rng: np.random.Generator) -> tuple[sparse.csr_array, np.ndarray]:
    popularity = 1.0 / np.arange(1.0, N_COLUMNS + 1.0) ** 0.7
    columns = rng.choice(N_COLUMNS, size=N_DRAWS, p=popularity / popularity.sum())
    rows = rng.integers(0, N_ROWS, size=N_DRAWS)
    entries = sparse.coo_array((rng.random(N_DRAWS), (rows, columns)), (N_ROWS, N_COLUMNS))
    X = sparse.csr_array(entries)
    X.sum_duplicates()
    score = X @ rng.normal(size=N_COLUMNS)
    return X, score + score.std() * rng.normal(size=N_ROWS) > np.quantile(score, 0.8)


class Products:
    """X v and X'u on row blocks, each in its thread."""

    def __init__(self, X: sparse.csr_array, n_threads: int, rng: np.random.Generator) -> None:
        goals = np.linspace(0, X.nnz, n_threads + 1)[1:-1]
        cuts = [0, *np.searchsorted(X.indptr, goals).tolist(), X.shape[0]]
        self.blocks = [X[start:stop] for start, stop in pairwise(cuts)]
        self.transposes = [sparse.csc_array(block.T) for block in self.blocks]
        self.v = rng.normal(size=X.shape[1])
        self.us = [rng.normal(size=block.shape[0]) for block in self.blocks]
        self.pool = ThreadPoolExecutor(n_threads)

    def __call__(self) -> None:
        list(self.pool.map(lambda block: block @ self.v, self.blocks))
        sum(self.pool.map(lambda side, u: side @ u, self.transposes, self.us))


class Measured(NamedTuple):
    """One solve."""

    passes: float
    iteration: float
    """Median seconds of an iteration of two passes."""
    pair: float
    """Seconds of the whole solve for each two passes."""
    pair_cpu: float
    """Processor seconds of all threads for each two passes."""


def solve(design: LocalDesign, name: str, k: int) -> Measured:
    read = design.passes
    problem = TopPushProblem(design, LOSSES[name], 1e-3, k)
    began, began_cpu = perf_counter(), process_time()
    solution = SOLVERS["paper"](problem, tol=0.0, max_iter=N_ITERATIONS)
    seconds, cpu = perf_counter() - began, process_time() - began_cpu
    plain = [
        after.seconds - before.seconds
        for before, after in pairwise(solution.history)
        if after.passes - before.passes < 2.5
    ]
    passes = design.passes - read
    return Measured(passes, median(plain), 2 * seconds / passes, 2 * cpu / passes)


def measure(X: sparse.csr_array, positive: np.ndarray, n_threads: int) -> Iterator[dict[str, Any]]:
    products = Products(X, n_threads, np.random.default_rng(1))
    with LocalDesign(X, positive, n_threads=n_threads) as design:
        assert len(design.blocks) == n_threads
        for name, k in CASES:
            wall, cpu, solves = [], [], []
            for _ in range(ROUNDS):
                wall.append(median_seconds(products, 11))
                solves.append(solve(design, name, k))
                cpu.append(median_seconds(products, 11, process_time))
            passes, iteration, pair, pair_cpu = map(median, zip(*solves, strict=True))
            yield {
                "threads": n_threads,
                "loss": name,
                "k": k,
                "passes": passes,
                "products_ms": 1e3 * median(wall),
                "iteration_ms": 1e3 * iteration,
                "iteration_ratio": iteration / median(wall),
                "overall_ratio": pair / median(wall),
                "overall_cpu_ratio": pair_cpu / median(cpu),
            }


def main() -> None:
    X, positive = made_rows(np.random.default_rng(0))
    print(f"{X.shape[0]} rows, {X.shape[1]} columns, {X.nnz} entries, {positive.sum()} positives")
    rows = [row for n_threads in (1, 2) for row in measure(X, positive, n_threads)]
    report("iteration", list(rows[0]), [list(row.values()) for row in rows])


if __name__ == "__main__":
    main()
