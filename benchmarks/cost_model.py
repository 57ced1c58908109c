"""What a fit costs on one machine and on a cluster: a model, its inputs measured, and a simulation.

python -m benchmarks.cost_model             # the table of docs/scaling.md
python -m benchmarks.cost_model --measure   # rounds, vectors and reads of fits, measured here

A fit is a sequence of rounds: the driver asks every worker something and waits for all answers.

    seconds = reads x bytes / (workers x bandwidth)            products with the rows
            + rounds x (latency + workers x per task)          asking and being answered
            + vectors x 8 features x hops / network            vectors with an entry per feature

A vector takes `hops` transfers one after another: it is sent out, or added up, over a tree.
The simulation lets a scheduler hand out the tasks of a round one after another, gives every
worker a random share more work, and adds the answers up over the same tree.
"""

import argparse
import heapq
import math
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.common import report, show

FAN = 8
"""Answers that one worker adds up, and workers that one sends a vector to."""


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


# Inputs. The first two come from `benchmarks.out_of_core` and `benchmarks.gpu`; those of a
# cluster are assumptions, to be set to what yours has.
DISK = Machine("disk, 1 GB/s", 1.0e9)
CORE = Machine("one core, in memory", 4.0e9)
GPU = Machine("H200", 3.8e12)
CLUSTER = Machine("cluster", 4.0e9, latency=2e-3, per_task=3e-4, network=1.25e9, spread=0.1)

# Reads, rounds and vectors as `--measure` counts them.
DENSE = Fit("10^7 x 256 dense float32", 1e7, 256, 256, 4.0, reads=19, rounds=330, vectors=110)
WIDE = Fit("10^7 x 10^6, 100 a row", 1e7, 1e6, 100, 12.0, reads=60, rounds=420, vectors=150)
HUGE = replace(WIDE, name="10^9 x 10^6, 100 a row", n_rows=1e9)


def hops(n_workers: int) -> int:
    """Transfers one after another from one to all by a tree."""
    return math.ceil(math.log(n_workers, FAN)) if n_workers > 1 else 0


def predict(fit: Fit, machine: Machine, n_workers: int) -> tuple[float, float, float]:
    """Seconds for products, for rounds and for vectors."""
    products = fit.reads * fit.n_bytes / (n_workers * machine.bandwidth)
    rounds = fit.rounds * (machine.latency + n_workers * machine.per_task)
    # On the way over a tree a node sends to FAN others, or is sent to by them, in turn.
    transfer = 8.0 * fit.n_features / machine.network * min(FAN, n_workers - 1)
    return products, rounds, fit.vectors * hops(n_workers) * transfer


def best_workers(fit: Fit, machine: Machine, most: int = 10_000) -> int:
    """The number of workers that ends soonest."""
    return min(range(1, most + 1), key=lambda n: sum(predict(fit, machine, n)))


def break_even(fit: Fit, machine: Machine, alone: Machine = CORE, most: int = 10_000) -> int | None:
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
    begun = clock + machine.latency / 2 + machine.per_task / 2 * np.arange(1, n_workers + 1)
    if outward and n_workers > 1:
        begun = np.maximum(begun, clock + machine.latency / 2 + _arrivals(n_workers, transfer))
    noise = np.exp(machine.spread * rng.standard_normal(n_workers) - machine.spread**2 / 2)
    done = begun + work * noise
    if not outward and transfer and n_workers > 1:
        return _reduce(done, transfer) + n_workers * machine.per_task / 2 + machine.latency / 2
    ready, answered = np.sort(done), 0.0
    for moment in ready:  # the scheduler takes the answers one after another
        answered = max(answered, moment) + machine.per_task / 2
    return answered + machine.latency / 2


def _arrivals(n_workers, transfer):
    """When each worker has a vector that the driver sends over a tree."""
    arrivals, senders = np.empty(n_workers), [(0.0, 0)]
    sent = {0: 0}
    for number in range(n_workers):
        free, sender = heapq.heappop(senders)
        arrivals[number] = free + transfer
        sent[sender] += 1
        if sent[sender] < FAN:
            heapq.heappush(senders, (free + transfer, sender))
        sent[number + 1] = 0
        heapq.heappush(senders, (free + transfer, number + 1))
    return arrivals


def _reduce(done, transfer):
    """When answers are added up: `FAN` at a time into one of them, which takes them in turn."""
    while len(done) > 1:
        groups = [np.sort(done[start : start + FAN]) for start in range(0, len(done), FAN)]
        done = np.array([_taken_in_turn(group, transfer) for group in groups])
    return float(done[0])


def _taken_in_turn(ready, transfer):
    clock = ready[0]
    for moment in ready[1:]:
        clock = max(clock, moment) + transfer
    return clock


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

    import toppush.designs as designs

    designs.LocalDesign = Counting
    rng = np.random.default_rng(0)
    y = rng.random(100_000) < 0.1
    X = rng.standard_normal((100_000, 256), dtype=np.float32)
    X[y] += 3.0 / 16.0
    sets = {"dense, 100,000 x 256": (X, y), "made like url": made("made like url", n_rows=50_000)}
    table = []
    for name, (X, y) in sets.items():
        for lam, top in ((1.0, 1), (1.0, 0.01), (0.01, 0.01)):
            Counting.rounds = Counting.vectors = 0
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = TopPush(lam, top=top, tol=1e-3, n_threads=1).fit(X, y).solution_
            row = [name, lam, top, found.n_iter, Counting.rounds, Counting.vectors]
            table.append([*row, found.history[-1].passes, found.relative_gap])
    columns = ["data", "lam", "top", "iterations", "rounds", "vectors", "reads", "gap"]
    report("rounds", columns, table)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", action="store_true", help="count rounds and reads of fits")
    parser.add_argument("--latency", type=float, default=CLUSTER.latency)
    parser.add_argument("--per-task", type=float, default=CLUSTER.per_task)
    parser.add_argument("--network", type=float, default=CLUSTER.network)
    parser.add_argument("--bandwidth", type=float, default=CLUSTER.bandwidth)
    options = parser.parse_args()
    if options.measure:
        count_rounds()
        return
    given = vars(options)
    names = ("latency", "per_task", "network", "bandwidth")
    cluster = replace(CLUSTER, **{name: given[name] for name in names})
    places = [(DISK, 1), (CORE, 1), (GPU, 1), *((cluster, n) for n in (4, 16, 100, 400))]
    table = []
    for fit in (DENSE, WIDE, HUGE):
        for machine, workers in places:
            parts = predict(fit, machine, workers)
            simulated = simulate(fit, machine, workers)
            row = [fit.name, machine.name, workers, fit.n_bytes / 2**30, *parts, sum(parts)]
            table.append([*row, simulated, simulated / sum(parts)])
    columns = ["fit", "where", "workers", "GiB", "products s", "rounds s", "vectors s", "model s",
               "simulated s", "simulated / model"]  # fmt: skip
    report("cost-model", columns, table)
    turning = [
        [fit.name, break_even(fit, cluster), best_workers(fit, cluster)]
        for fit in (DENSE, WIDE, HUGE)
    ]
    show(["fit", "workers that beat one core", "workers that end soonest"], turning)


if __name__ == "__main__":
    main()
