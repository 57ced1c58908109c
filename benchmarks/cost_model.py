"""What a fit costs on one machine and on a cluster: a model, its inputs measured, and a simulation.

python -m benchmarks.cost_model --measure   # counts rounds, vectors and reads of fits
python -m benchmarks.cost_model             # the tables of docs/scaling.md, from results/

A fit is a sequence of rounds: the driver asks every worker something and waits for all answers.

    seconds = reads x bytes / (workers x bandwidth) x last     products with the rows
            + rounds x (latency + workers x per task)          asking and being answered
            + vectors x 8 features x workers / network         vectors with an entry per feature

The last of n workers takes 1 + spread sqrt(2 log n) times as long as the mean. The driver sends a
vector to each worker, or takes one from each, one after another. The simulation has a scheduler
that does one thing at a time: it hands out the tasks of a round and takes their answers; every
worker's time is random.
"""

import argparse
import csv
import math
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.common import RESULTS, report


@dataclass(frozen=True)
class Machine:
    """Where a fit runs. Bandwidths in bytes a second, times in seconds."""

    name: str
    bandwidth: float
    """Bytes of rows that one worker reads and multiplies in a second."""
    latency: float = 0.0
    """Of a round, however many workers."""
    per_task: float = 0.0
    """The scheduler's work for one task and its answer."""
    network: float = math.inf
    spread: float = 0.0
    """Standard deviation of the logarithm of a task's time."""
    holds: float = math.inf
    """Bytes of rows that fit a worker."""


@dataclass(frozen=True)
class Fit:
    """What a fit asks for."""

    name: str
    n_rows: float
    n_features: float
    entries_per_row: float
    entry_bytes: float
    reads: float
    rounds: float
    vectors: float
    """Vectors with an entry per feature that go out or come back, one per round at most."""

    @property
    def n_bytes(self) -> float:
        return self.n_rows * self.entries_per_row * self.entry_bytes


DISK = Machine("disk, read at 1 GB/s", 1.0e9)
CLUSTER = Machine("cluster", 0.0, latency=2e-3, per_task=3e-4, network=1.25e9, spread=0.1)
"""Assumed, to be set to what yours has; a worker is as fast as a core here."""


def table(name):
    """Rows of a table in results/, as dictionaries; none if it is not there."""
    path = RESULTS / f"{name}.csv"
    return list(csv.DictReader(path.open())) if path.exists() else []


def whole_fits():
    """Bytes of rows that whole fits read in a second: what, bytes, reads, seconds, bandwidth."""
    found = [
        (f"one core, {int(float(row['rows']))} x 20 float32", 80.0 * float(row["rows"]), row)
        for row in table("rows")[-1:]
    ]
    for row in table("url-size"):
        size = 2**30 * float(row["CSR GiB"])
        found.append(("one core, url", size, {**row, "seconds": row["fit seconds"]}))
    for row in table("gpu-dense"):
        n_bytes = 1024.0 * float(row["data"].split()[0])
        found.append((f"16 cores, {row['data']}", n_bytes, {**row, "seconds": row["cpu s"]}))
        found.append((f"H200, {row['data']}", n_bytes, {**row, "seconds": row["gpu s"]}))
    for row in table("gpu-degenerate"):
        n_bytes = 2_396_130.0 * 116 * (8 if row["type"] == "float32" else 12)
        name = f"H200, url {row['type']}, lam {row['lam']}"
        found.append((name, n_bytes, {**row, "seconds": row["gpu s"]}))
    for row in table("out-of-core"):
        n_bytes = 2**30 * float(row["GiB"])
        found.append(
            ("on disk, dense", n_bytes, {**row, "seconds": row["fit s"], "passes": row["reads"]})
        )
    return [
        [name, n_bytes / 2**30, float(row["passes"]), float(row["seconds"]),
         n_bytes * float(row["passes"]) / float(row["seconds"]) / 1e9]
        for name, n_bytes, row in found
    ]  # fmt: skip


def slowest(prefix, **about):
    """A machine as fast as the slowest whole fit that was measured on it."""
    least = min(row[4] for row in whole_fits() if row[0].startswith(prefix))
    return Machine(prefix, 1e9 * least, **about)


def fits():
    """What is predicted, with reads, rounds and vectors as `--measure` counted them."""
    dense, wide = (
        next(row for row in table("rounds") if row["data"].startswith(name) and row["top"] == top)
        for name, top in (("dense", "0.01"), ("made", "1"))
    )

    def counted(row):
        return {name: float(row[name]) for name in ("reads", "rounds", "vectors")}

    return [
        Fit("10^7 x 256 dense float32", 1e7, 256, 256, 4.0, **counted(dense)),
        Fit("10^7 x 10^6, 100 a row", 1e7, 1e6, 100, 12.0, **counted(wide)),
        Fit("10^9 x 10^6, 100 a row", 1e9, 1e6, 100, 12.0, **counted(wide)),
    ]


def predict(fit: Fit, machine: Machine, n_workers: int) -> tuple[float, float, float]:
    """Seconds for products, for rounds and for vectors."""
    last = 1.0 + machine.spread * math.sqrt(2.0 * math.log(n_workers))
    products = fit.reads * fit.n_bytes / (n_workers * machine.bandwidth) * last
    rounds = fit.rounds * (machine.latency + n_workers * machine.per_task)
    vectors = fit.vectors * n_workers * 8.0 * fit.n_features / machine.network
    return products, rounds, vectors


def best_workers(fit: Fit, machine: Machine, most: int = 10_000) -> int:
    """The number of workers that ends soonest."""
    return min(range(1, most + 1), key=lambda n: sum(predict(fit, machine, n)))


def break_even(fit: Fit, machine: Machine, alone: Machine, most: int = 10_000) -> int | None:
    """The fewest workers that beat one machine by itself."""
    goal = sum(predict(fit, alone, 1))
    return next((n for n in range(1, most + 1) if sum(predict(fit, machine, n)) < goal), None)


def simulate(fit: Fit, machine: Machine, n_workers: int, seed: int = 0) -> float:
    """Seconds of a fit, round by round."""
    rng = np.random.default_rng(seed)
    work = fit.reads * fit.n_bytes / (fit.rounds * n_workers * machine.bandwidth)
    vectors_per_round = fit.vectors / fit.rounds
    transfer = 8.0 * fit.n_features / machine.network
    clock = owed = 0.0
    for _ in range(int(fit.rounds)):
        owed += vectors_per_round
        carried, owed = int(owed), owed - int(owed)
        outward = carried > 0 and rng.random() < 0.5
        clock = _round(rng, clock, machine, n_workers, work, transfer * carried, outward)
    return clock


def _round(rng, clock, machine, n_workers, work, transfer, outward):
    """The time at which the driver has the sum of all answers."""
    in_turn = np.arange(1, n_workers + 1)
    sent = machine.per_task / 2 + (transfer if outward else 0.0)
    taken = machine.per_task / 2 + (0.0 if outward else transfer)
    begun = clock + machine.latency / 2 + sent * in_turn
    noise = np.exp(machine.spread * rng.standard_normal(n_workers) - machine.spread**2 / 2)
    answered = begun[-1]
    for moment in np.sort(begun + work * noise):  # the scheduler takes one after another
        answered = max(answered, moment) + taken
    return answered + machine.latency / 2


# ---- inputs, measured


def count_rounds():
    """Iterations, rounds, vectors and reads of fits whose matrix is formed, and of wide ones."""
    import warnings

    from benchmarks.data import made
    from toppush import TopPush
    from toppush.designs import LocalDesign

    class Counting(LocalDesign):
        rounds = vectors = 0

        def each(self, function, *arguments):
            answers = super().each(function, *arguments)
            Counting.rounds += 1
            returned = answers[0] if isinstance(answers[0], tuple) else (answers[0],)
            Counting.vectors += sum(
                getattr(one, "shape", None) == (self.n_features,) for one in (*arguments, *returned)
            )
            return answers

    from toppush.designs import here

    here.LocalDesign = Counting
    rng = np.random.default_rng(0)
    y = rng.random(100_000) < 0.1
    X = rng.standard_normal((100_000, 256), dtype=np.float32)
    X[y] += 3.0 / 16.0
    sets = {"dense, 100,000 x 256": (X, y), "made like url": made("made like url", n_rows=50_000)}
    counted = []
    for name, (X, y) in sets.items():
        for lam, top in ((1.0, 1), (1.0, 0.01), (0.01, 0.01)):
            Counting.rounds = Counting.vectors = 0
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = TopPush(lam, top=top, tol=1e-3, n_threads=1).fit(X, y).solution_
            row = [name, lam, top, found.n_iter, Counting.rounds, Counting.vectors]
            counted.append([*row, found.history[-1].passes, found.relative_gap])
    columns = ["data", "lam", "top", "iterations", "rounds", "vectors", "reads", "gap"]
    report("rounds", columns, counted)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", action="store_true", help="count rounds and reads of fits")
    parser.add_argument("--latency", type=float, default=CLUSTER.latency)
    parser.add_argument("--per-task", type=float, default=CLUSTER.per_task)
    parser.add_argument("--network", type=float, default=CLUSTER.network)
    parser.add_argument("--bandwidth", type=float, help="of a worker; by default a core's")
    options = parser.parse_args()
    if options.measure:
        count_rounds()
        return
    core, gpu = slowest("one core"), slowest("H200", holds=1.3e11)
    cluster = replace(
        CLUSTER,
        latency=options.latency,
        per_task=options.per_task,
        network=options.network,
        bandwidth=options.bandwidth or core.bandwidth,
    )
    report("cost-model-fits", ["fit", "GiB", "reads", "seconds", "GB/s"], whole_fits())
    places = [(DISK, 1), (core, 1), (gpu, 1), *((cluster, n) for n in (4, 16, 100, 400))]
    rows = [
        forecast(fit, *place) for fit in fits() for place in places if fit.n_bytes < place[0].holds
    ]
    columns = ["fit", "where", "workers", "GiB", "products s", "rounds s", "vectors s", "model s",
               "simulated s", "simulated / model"]  # fmt: skip
    report("cost-model", columns, rows)
    turning = [
        [fit.name, break_even(fit, cluster, core), best_workers(fit, cluster)] for fit in fits()
    ]
    report("cost-model-turning", ["fit", "beat one core", "end soonest"], turning)


def forecast(fit, machine, n_workers):
    """A row of the table: the model's parts, and what the simulation says."""
    parts, simulated = predict(fit, machine, n_workers), simulate(fit, machine, n_workers)
    total = sum(parts)
    row = [fit.name, machine.name, n_workers, fit.n_bytes / 2**30, *parts, total]
    return [*row, simulated, simulated / total]


if __name__ == "__main__":
    main()
