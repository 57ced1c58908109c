"""Fits of TopPush and its competitors on every data set: time, certificate, ranking, memory.

    python -m benchmarks.speed                      # all real sets, five repeats
    python -m benchmarks.speed --data w8a --repeats 3
    python -m benchmarks.speed --data "made like real-sim"

Each data set and method runs in a process of its own with one thread: it fits all rows several
times for the median CPU time, quick fits more often, and two thirds of them once for the measures
on the last third. The paper's method also runs to the objective that our solver reached, at
most `--patience` times as long as ours took; a "+" marks those that did not get there.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from statistics import median

from benchmarks.common import report
from benchmarks.data import FILES, load

TOL, LAM = 1e-3, 1.0
MOST_COLUMNS = 100_000  # boosted trees are left out beyond
METHODS = [
    "TopPush",
    "paper",
    "paper to our objective",
    "LogisticRegression (liblinear)",
    "LinearSVC",
    "XGBoost",
    "LightGBM",
]
COLUMNS = [
    "data", "method", "seconds", "ratio to liblinear", "passes", "relative gap", "objective",
    "Pos@Top", "AP", "NDCG", "AUC", "peak MB over data",
]  # fmt: skip


def ranker(method):
    """A fresh estimator, or None where the package is not installed."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    from toppush import TopPush

    if method == "TopPush":
        return TopPush(LAM, tol=TOL, n_jobs=1)
    if method.startswith("paper"):
        return TopPush(LAM, solver="paper", n_jobs=1)
    if method == "LinearSVC":
        return LinearSVC()
    if method.startswith("Logistic"):
        return LogisticRegression(solver="liblinear")
    try:
        if method == "XGBoost":
            from xgboost import XGBClassifier

            return XGBClassifier(n_jobs=1)
        from lightgbm import LGBMClassifier

        return LGBMClassifier(n_jobs=1, verbose=-1)
    except ImportError:
        return None


def measure(name, method, repeats, goal, limit):
    """One row of the table as a dict; runs in its own process."""
    import numpy as np
    from sklearn.model_selection import train_test_split

    from toppush import metrics

    X, y = load(name)
    model = ranker(method)
    if model is None:
        return None
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    row = {"data": name, "method": method}
    if method == "paper to our objective":
        return row | run_to(goal, limit, X, y)
    if X.shape[1] > MOST_COLUMNS and method in ("XGBoost", "LightGBM"):
        return None
    model.fit(X, y)  # not counted
    times = []
    while len(times) < repeats or (sum(times) < 0.3 and len(times) < 50):
        began = time.process_time()
        model.fit(X, y)
        times.append(time.process_time() - began)
        if sum(times) > 60.0:
            break
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    row |= {"seconds": median(times), "peak MB over data": (peak - before) / 1024}
    if hasattr(model, "solution_"):
        found = model.solution_
        row |= {
            "passes": found.history[-1].data_passes,
            "relative gap": found.relative_gap,
            "objective": found.upper,
        }
    train, test = train_test_split(np.arange(len(y)), test_size=1 / 3, stratify=y, random_state=0)
    fitted = model.fit(X[train], y[train])
    decide = getattr(fitted, "decision_function", None)
    scores = decide(X[test]) if decide else fitted.predict_proba(X[test])[:, 1]
    return row | metrics.summary(y[test], scores, by="title")


def run_to(goal, limit, X, y):
    """The paper's iteration until its objective is at most `goal`, or the time is up."""
    from toppush.designs import LocalDesign
    from toppush.problem.losses import LOSSES
    from toppush.problem.objective import TopPushProblem
    from toppush.solvers import solve

    began = time.process_time()

    def arrived(history, weights, threshold):
        return history[-1].upper <= goal or time.process_time() - began > limit

    with LocalDesign(X, y, n_jobs=1) as design:
        problem = TopPushProblem(design, LOSSES["truncated_quadratic"], LAM)
        found = solve(problem, solver="paper", tol=0.0, max_iter=10**9, callback=arrived)
    seconds = time.process_time() - began
    return {
        "seconds": seconds,
        "passes": found.history[-1].data_passes,
        "relative gap": found.relative_gap,
        "objective": found.upper,
        "late": found.upper > goal,
    }


def in_process(name, method, repeats, goal=0.0, limit=0.0):
    """`measure` in a fresh interpreter with one thread everywhere."""
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    command = [sys.executable, "-m", "benchmarks.speed", "--one", name, method]
    command += [str(repeats), str(goal), str(limit)]
    done = subprocess.run(command, env=os.environ | one, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        return {"data": name, "method": f"{method}: failed with exit code {done.returncode}"}
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="*", default=list(FILES))
    parser.add_argument("--methods", nargs="*", default=METHODS)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--patience", type=float, default=100.0)
    parser.add_argument("--one", nargs=5, help=argparse.SUPPRESS)
    parser.add_argument("--name", default="speed")
    options = parser.parse_args()
    if options.one:
        warnings.simplefilter("ignore")
        name, method, repeats, goal, limit = options.one
        print(json.dumps(measure(name, method, int(repeats), float(goal), float(limit))))
        return
    rows = []
    for name in options.data:
        found = {}
        for method in options.methods:
            ours = found.get("TopPush", {})
            extra = ()
            if method == "paper to our objective":
                extra = ours["objective"], options.patience * ours["seconds"]
            row = in_process(name, method, options.repeats, *extra)
            if row is not None:
                found[method] = row
                print(json.dumps(row), file=sys.stderr, flush=True)
        base = found.get("LogisticRegression (liblinear)", {}).get("seconds")
        for row in found.values():
            if base and "seconds" in row:
                row["ratio to liblinear"] = row["seconds"] / base
            row["method"] += "+" if row.pop("late", False) else ""
            rows.append([row.get(column, "") for column in COLUMNS])
    report(options.name, COLUMNS, rows)
    verdict(rows)


def verdict(rows):
    """How often we are not slower than liblinear, and how much faster than the paper."""
    ratios = [row[3] for row in rows if row[1] == "TopPush" and row[3]]
    print(f"\nnot slower than liblinear: {sum(r <= 1 for r in ratios)} of {len(ratios)}; ", end="")
    print(f"slowest {max(ratios):.2f}x" if ratios else "")
    ours = {row[0]: row[2] for row in rows if row[1] == "TopPush"}
    paper = {row[0]: row[2] / ours[row[0]] for row in rows if row[1].startswith("paper to")}
    if paper:
        print("faster than the paper's method to the same objective:", end=" ")
        print(", ".join(f"{name} {factor:.0f}x" for name, factor in paper.items()))


if __name__ == "__main__":
    main()
