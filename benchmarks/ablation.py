"""What each base model adds to `TopRanker`, and its share of the time.

    python -m benchmarks.ablation
    python -m benchmarks.ablation --data hotel_bookings taxi_cancellation_yourcabs --splits 2

Each base model of `TopRanker()` is fitted alone, on the folds that all share, and its out-of-fold
and test scores are kept in a folder (`--cache`), so that a run that was stopped goes on. From these
the combination is computed with all base models, without each, and from each alone. Test metrics
are means over data sets of the means over splits, for a base model alone over those that it can be
fitted to.
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np

from benchmarks.common import report
from benchmarks.data import SHARED
from reproduce import datasets
from reproduce.benchmark.cells import measure
from reproduce.benchmark.splits import Split, load, split
from toppush import TopRanker
from toppush.auto.combination import MemberScores, choose_weights
from toppush.auto.members import EFFORTS
from toppush.folds.scores import location_and_scale

METRICS = {
    "average precision": "ap",
    "recall at 10 false positives": "recall_10",
    "Pos@Top": "pos_at_top",
    "precision in 100": "precision_100",
}
COLUMNS = ["base models", *METRICS, "CPU s", "share of CPU s"]


def scores_of_members(rows: Split, names: list[str], file: Path) -> dict[str, np.ndarray]:
    """Out-of-fold scores, test scores and CPU seconds of each base model that can be fitted."""
    known = dict(np.load(file)) if file.exists() else {}
    for name in names:
        if f"{name} seconds" in known:
            continue
        began = time.process_time()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ranker = TopRanker([name], n_jobs=1).fit(rows.X, rows.y)
                known[f"{name} out of fold"] = ranker.out_of_fold_
                known[f"{name} test"] = ranker.decision_function(rows.X_test)
        except ValueError as error:
            if "none of the members" not in str(error):
                raise
        known[f"{name} seconds"] = np.array(time.process_time() - began)
        np.savez(file, **known)
    return known


def combined(rows: Split, known: dict[str, np.ndarray], names: list[str]) -> dict[str, float]:
    """Test metrics of the combination of some base models, by weights from out-of-fold scores."""
    names = [name for name in names if f"{name} test" in known]
    if not names:
        return {label: float("nan") for label in METRICS}
    y = np.asarray(rows.y)
    units = [location_and_scale(known[f"{name} out of fold"], y) for name in names]
    unseen, test = (
        np.array(
            [
                (known[f"{name} {kind}"] - center) / scale
                for name, (center, scale) in zip(names, units, strict=True)
            ]
        )
        for kind in ("out of fold", "test")
    )
    weights = choose_weights(MemberScores(unseen, y, np.ones(len(y))), None, 0)
    found = measure(np.asarray(rows.y_test), weights @ test)
    return {label: found[key] for label, key in METRICS.items()}


def main() -> None:
    """Print and save a row for all base models, for all but one, and for each alone."""
    tables = datasets.table_names(SHARED / "data")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", default=tables, choices=tables)
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--rows", type=int, default=9_000)
    parser.add_argument("--cache", type=Path, default=Path("build/ablation"))
    given = parser.parse_args()
    given.cache.mkdir(parents=True, exist_ok=True)
    members = list(EFFORTS["normal"].members)
    parts = {"all": members}
    parts |= {f"without {name}": [m for m in members if m != name] for name in members}
    parts |= {f"{name} alone": [name] for name in members}
    found: dict[str, list[list[float]]] = {label: [] for label in parts}
    seconds: list[dict[str, float]] = []
    for data in given.data:
        table, of_splits = load(data, SHARED / "data"), {label: [] for label in parts}
        for number in range(given.splits):
            rows = split(table, number, given.rows)
            file = given.cache / f"{data}-{number}-{given.rows}.npz"
            known = scores_of_members(rows, members, file)
            for label, names in parts.items():
                of_splits[label].append(list(combined(rows, known, names).values()))
            seconds.append({name: float(known[f"{name} seconds"]) for name in members})
        for label, values in of_splits.items():
            found[label].append(np.mean(values, axis=0).tolist())
        print(data, f"{found['all'][-1][0]:.4f}", flush=True)
    cost = {name: float(np.mean([each[name] for each in seconds])) for name in members}
    total = sum(cost.values())
    rows_of_table = []
    for label, names in parts.items():
        own = sum(cost[name] for name in names)
        values = np.nanmean(found[label], axis=0).tolist()
        rows_of_table.append([label, *values, own, own / total])
    report("ablation", COLUMNS, rows_of_table)


if __name__ == "__main__":
    main()
