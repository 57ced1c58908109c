"""Fit problems made to break the solver, and let an independent checker judge every one.

    python tests/hostile.py --problems 2000            # numbers 0 to 1999, a table at the end
    python tests/hostile.py --problems 2000 --seed 7000 --csv found.csv
    python tests/hostile.py --seconds 3600 --jobs 2    # as many as fit
    python tests/hostile.py --replay 1234              # one again, with all its numbers

The problems are those of `hostile_problems`; `checker`, which shares no code with the library,
judges them. A line is printed for each that fails; the exit code is 1 if one did.
"""

import argparse
import csv
import multiprocessing
import re
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import fields
from itertools import count, islice, takewhile
from pathlib import Path

from hostile_problems import hostile_problem
from verdict import Holder, Outcome, judged


def outcomes(numbers):
    """Judge the problems of these numbers, one after the other."""
    with Holder() as holder:
        for number in numbers:
            yield judged(hostile_problem(int(number)), holder)


def _share_of(numbers):
    return list(outcomes(numbers))


def _in_parts(numbers, jobs):
    """Judge on several processors, 50 problems at a time."""
    parts = iter(lambda: list(islice(numbers, 50)), [])
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        waiting = [pool.submit(_share_of, part) for part in islice(parts, 2 * jobs)]
        while waiting:
            yield from waiting.pop(0).result()
            waiting.extend(pool.submit(_share_of, part) for part in islice(parts, 1))


def run(first, problems=None, seconds=None, jobs=1):
    """Outcomes of the problems from number `first` on, until the count or the time is reached."""
    numbers = count(first) if problems is None else iter(range(first, first + problems))
    end = None if seconds is None else time.monotonic() + seconds
    limited = takewhile(lambda _: end is None or time.monotonic() < end, numbers)
    yield from outcomes(limited) if jobs == 1 else _in_parts(limited, jobs)


def table(found, by):
    """Lines of counts: one for every kind, one column for every outcome."""
    columns = ["all", "fails", "CONVERGED", "SETTLED", "MAX_ITER", "STALLED", "refused", "gap>1%"]
    wrong = sorted({kind for one in found for kind in one.kinds})
    lines = [f"{by:24}" + "".join(f"{name:>11}" for name in [*columns, *wrong])]
    for kind in [*sorted({getattr(one, by) for one in found}), "all"]:
        own = [one for one in found if kind in (getattr(one, by), "all")]
        counts = Counter(one.status for one in own)
        counts |= {"all": len(own), "fails": sum(bool(one.complaints) for one in own)}
        counts["gap>1%"] = sum(one.stalled for one in own)
        counts |= Counter(kind for one in own for kind in one.kinds)
        lines.append(f"{kind:24}" + "".join(f"{counts[name]:>11}" for name in [*columns, *wrong]))
    return "\n".join(lines)


BY = ("values", "shape", "weighting", "holding", "loss", "solver", "stiffness")


def summary(found):
    parts = [table(found, by) for by in BY]
    stalled = sum(one.stalled for one in found)
    share = stalled / max(len(found), 1)
    parts.append(f"{len(found)} problems, {sum(bool(one.complaints) for one in found)} fail, ")
    parts[-1] += f"{stalled} stalled with a gap over 1 % ({share:.2%}), "
    parts[-1] += f"{sum(one.status == 'skipped' for one in found)} skipped, "
    parts[-1] += f"{sum(one.seconds for one in found):.0f} s in fits"
    return "\n\n".join(parts)


def line(one):
    """A problem that failed, and how."""
    return (
        f"{one.number:>8} {one.values} | {one.shape} | {one.weighting} | {one.holding} | "
        f"{one.loss} | {one.solver} | {one.status} | gap {one.gap:.2g} | {one.warned} | "
        + "; ".join(one.complaints)
    )


def _write(path, found):
    names = [field.name for field in fields(Outcome)]
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        for one in found:
            writer.writerow(
                [*(getattr(one, name) for name in names[:-1]), "; ".join(one.complaints)]
            )


def replay(number):
    """Judge one problem, and print everything about it."""
    problem = hostile_problem(number)
    print(problem)
    with Holder() as holder:
        one = judged(problem, holder)
    print(line(one))
    return one


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--problems", type=int, default=None, help="how many; 2000 if no --seconds")
    parser.add_argument("--seconds", type=float, default=None, help="stop after so long")
    parser.add_argument("--seed", type=int, default=0, help="number of the first problem")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--csv", type=Path, help="write a row for every problem")
    parser.add_argument("--only", help="show failures whose line matches this expression")
    parser.add_argument("--replay", type=int, metavar="NUMBER", help="only this problem")
    options = parser.parse_args()
    if options.replay is not None:
        raise SystemExit(bool(replay(options.replay).complaints))
    problems = 2000 if options.problems is None and options.seconds is None else options.problems
    found = []
    for one in run(options.seed, problems, options.seconds, options.jobs):
        found.append(one)
        shown = line(one)
        if (one.complaints or one.stalled) and re.search(options.only or "", shown):
            print(shown, flush=True)
    print(summary(found))
    if options.csv:
        _write(options.csv, found)
    raise SystemExit(any(one.complaints for one in found))


if __name__ == "__main__":
    main()
