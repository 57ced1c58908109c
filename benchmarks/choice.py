"""TopPushCV, lam and top chosen, beside rivals that choose: time, and how the choice ranks.

    python -m benchmarks.choice speed                    # beside LogisticRegressionCV, all rows
    python -m benchmarks.choice ranking ../before/src    # beside an older TopPushCV, on splits
    python -m benchmarks.choice protocol                 # beside the paper's choice by its solver

CPU seconds of one thread. `speed` runs the two in turn, each once on two thirds of the rows for
the measures on the last third. `protocol` is the choice of `reproduce.protocol`, the
paper's seven lams by Pos@Top on five folds, by its solver and by `TopPushCV` with the same grid and
rule; the paper's is given up after `--patience` times our time, which a "+" marks. Every data set
runs in a process of its own, and its rows replace those of an earlier run.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import average_precision_score
from sklearn.model_selection import train_test_split

from benchmarks.common import recall_before, report, saved
from benchmarks.data import FILES, ROOT, load
from benchmarks.path import DATA as PROTOCOL_DATA

LONG = 20.0
"""CPU seconds of one method after which it is not repeated."""
TRAINING_ROWS = {"spambase": 2300, "mammography": 7400}
"""Of a split of `ranking`; two thirds of the others."""
RANKING_DATA = ["diabetes", "spambase", "mammography"]
COLUMNS = {
    "speed": [
        "data", "rows", "columns", "ours s", "logistic s", "ratio",
        "AP ours", "AP logistic", "Pos@Top ours", "Pos@Top logistic", "lam", "top",
    ],
    "ranking": ["data", "splits", "measure", "before", "after", "difference", "its error"],
    "protocol": ["data", "ours s", "paper s", "times", "AP ours", "AP paper"],
}  # fmt: skip
MEASURES = {
    "AP": average_precision_score,
    "recall before 10": lambda y, scores: recall_before(y, scores, 10),
    "Pos@Top": lambda y, scores: recall_before(y, scores, 1),
}


def ours():
    from toppush import TopPushCV

    return TopPushCV(n_threads=1)


def logistic():
    return LogisticRegressionCV(Cs=10, cv=5, solver="liblinear")


def seconds_of(fit):
    began = time.process_time()
    fit()
    return time.process_time() - began


def thirds(y, seed=0):
    return train_test_split(np.arange(len(y)), test_size=1 / 3, stratify=y, random_state=seed)


def speed(name, repeats):
    """Both in turn on all rows, and how they rank a third."""
    X, y = load(name)
    models, spent = [ours(), logistic()], [[], []]
    while len(spent[0]) < repeats:
        for model, times in zip(models, spent, strict=True):
            if not times or times[0] < LONG:
                times.append(seconds_of(lambda model=model: model.fit(X, y)))
        if min(times[0] for times in spent) > LONG:
            break
    lam, top = models[0].lam_, models[0].top_
    train, test = thirds(y)
    held = [model.fit(X[train], y[train]).decision_function(X[test]) for model in models]
    ratio = median(spent[0]) / median(spent[1])
    measures = [MEASURES[one](y[test], scores) for one in ("AP", "Pos@Top") for scores in held]
    return [[name, *X.shape, *map(median, spent), ratio, *measures, lam, top]]


def split(name, n_splits):
    """The measures of what this process's toppush chooses, on seeded splits."""
    X, y = load(name)
    found = []
    for seed in range(n_splits):
        size = TRAINING_ROWS.get(name, 2 * len(y) // 3)
        train, test = train_test_split(
            np.arange(len(y)), train_size=size, stratify=y, random_state=seed
        )
        scores = ours().fit(X[train], y[train]).decision_function(X[test])
        found.append([float(one(y[test], scores)) for one in MEASURES.values()])
    return found


def compared(name, before, after):
    """A row for each measure: means of both trees, and their paired difference."""
    before, after = np.array(before), np.array(after)
    gain = after - before
    error = gain.std(axis=0, ddof=1) / np.sqrt(len(gain))
    means = before.mean(axis=0), after.mean(axis=0), gain.mean(axis=0), error
    return [
        [name, len(gain), measure, *map(float, one)]
        for measure, one in zip(MEASURES, zip(*means, strict=True), strict=True)
    ]


def protocol(name, patience):
    """The paper's grid and rule on two thirds of the rows, by its solver and by ours."""
    from reproduce.methods import METHODS, POWERS, RULE
    from reproduce.protocol import choose
    from toppush import TopPushCV

    X, y = load(name)
    train, test = thirds(y)
    X_train, y_train = X[train], y[train]
    model = TopPushCV(POWERS.values, tops=(1,), scoring=RULE, n_threads=1)
    spent = median(seconds_of(lambda: model.fit(X_train, y_train)) for _ in range(3))
    paper = replace(METHODS["toppush"], grids={"lam": replace(POWERS, step=1.0)})  # as it stands
    began, ranked, late = time.process_time(), "", ""
    try:
        with limited(patience * spent):
            setting, _ = choose(paper, (X_train, y_train), seed=0)
            scores = paper.fit(X_train, y_train, **setting)(X[test])
        ranked = average_precision_score(y[test], scores)
    except TimeoutError:
        late = "+"
    rival = time.process_time() - began
    own = average_precision_score(y[test], model.decision_function(X[test]))
    return [[name, spent, rival, f"{rival / spent:.1f}{late}", own, ranked]]


class limited:
    """Raises TimeoutError within, after so many CPU seconds of this process."""

    def __init__(self, seconds):
        self.seconds = seconds

    def __enter__(self):
        def late(*_):
            raise TimeoutError

        signal.signal(signal.SIGPROF, late)
        signal.setitimer(signal.ITIMER_PROF, self.seconds)

    def __exit__(self, *_):
        signal.setitimer(signal.ITIMER_PROF, 0.0)


def in_process(part, name, number, source=ROOT / "src"):
    """What a part finds, in an interpreter with one thread that imports toppush from `source`."""
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    paths = os.pathsep.join([str(Path(source).resolve()), str(ROOT)])
    command = [sys.executable, "-m", "benchmarks.choice", "--one", part, name, str(number)]
    env = os.environ | one | {"PYTHONPATH": paths}
    done = subprocess.run(command, env=env, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def rows_of(part, name, given):
    if part == "speed":
        return in_process(part, name, given.repeats)
    if part == "protocol":
        return in_process(part, name, given.patience)
    trees = given.before, ROOT / "src"
    return compared(name, *(in_process("split", name, given.splits, tree) for tree in trees))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", nargs="?", choices=COLUMNS, default="speed")
    parser.add_argument("before", nargs="?", help="the other tree's src, for `ranking`")
    parser.add_argument("--data", nargs="+", choices=list(FILES))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--splits", type=int, default=30)
    parser.add_argument("--patience", type=float, default=30.0)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        warnings.simplefilter("ignore")
        part, name, number = given.one
        run = {"speed": speed, "split": split, "protocol": protocol}[part]
        print(json.dumps(run(name, float(number) if part == "protocol" else int(number))))
        return
    part = given.part
    every = {"speed": list(FILES), "ranking": RANKING_DATA, "protocol": PROTOCOL_DATA}[part]
    kept = [list(row.values()) for row in saved(f"choice-{part}")]
    for name in given.data or every:
        rows = rows_of(part, name, given)
        print(*rows, sep="\n", flush=True)
        kept = [row for row in kept if row[0] != name] + rows
        kept.sort(key=lambda row: every.index(row[0]))
        report(f"choice-{part}", COLUMNS[part], kept)


if __name__ == "__main__":
    main()
