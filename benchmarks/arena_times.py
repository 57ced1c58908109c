"""CPU seconds to fit rankers of the arena, all in one run: the default beside what people use.

    python -m benchmarks.arena_times [--data spambase,...]

Medians of the first three splits, of fewer where those take longer than ten seconds; one thread.
The arena's own seconds are of all splits, but of machines that differ in speed. What did not
finish a set there is left out here.
"""

import argparse
from statistics import median

from threadpoolctl import threadpool_limits

from benchmarks.common import report
from benchmarks.data import SHARED
from benchmarks.summary import EVIDENCE, read
from benchmarks.tables import BESIDE_LIGHTGBM
from reproduce.arena import SETS, load, run_trial
from reproduce.contestants import CONTESTANTS

RANKERS = ["LightGBM", *BESIDE_LIGHTGBM]
KEYS = {one.title: key for key, one in CONTESTANTS.items()}
SPLITS, ENOUGH = 3, 10.0


def seconds_to_fit(ranker, X, y):
    """Median CPU seconds over splits."""
    seconds = []
    while len(seconds) < SPLITS and sum(seconds) <= ENOUGH:
        found = run_trial(CONTESTANTS[KEYS[ranker]], X, y, seed=len(seconds))
        seconds.append(found["seconds_fitting"])
    return median(seconds)


def main(sets):
    arena, rows = read("arena", EVIDENCE), []
    known = {(row["set"].partition(" (")[0], row["ranker"]) for row in arena if row["splits"]}
    with threadpool_limits(1):
        for name in sets:
            X, y = load(name, str(SHARED / "data"))
            for ranker in RANKERS:
                if (name, ranker) in known:
                    rows.append([name, ranker, round(seconds_to_fit(ranker, X, y), 3)])
                    print(*rows[-1], flush=True)
    report("arena-times", ["set", "ranker", "CPU s"], rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=lambda text: text.split(","), default=list(SETS))
    main(parser.parse_args().data)
