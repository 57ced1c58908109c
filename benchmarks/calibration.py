"""Probabilities and decisions of TopRanker on raw tables, compared with calibrated LightGBM.

    python -m benchmarks.calibration
    python -m benchmarks.calibration --data bank-marketing hotel_bookings --rows 400 --splits 3

Each table is split into rows to fit, of which at most --rows are used, and rows to predict: by time
or by group where `tables.json` names such a column, at random otherwise. Splits that are in the
file of results are not computed again. The table shows means over all splits.

TopRanker has `effort="quick"`. Its probabilities are also learned from the same out-of-fold scores
by logistic regression on the score with Platt's targets, by isotonic regression, and by the method
of Venn and Abers with the prevalence as the prior. LightGBM has its default settings and takes
strings as categories; "sigmoid" and "isotonic" are CalibratedClassifierCV with five folds.
Calibration errors are means over parts of the ranking of equal size of |predicted - observed
precision|: 15 parts of all rows, 5 of the first 5 %. "over" is predicted less observed precision in
the first 5 %. F1 and balanced accuracy are those of `predict`.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier
from scipy.optimize import isotonic_regression
from sklearn.calibration import CalibratedClassifierCV
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, brier_score_loss, f1_score, log_loss

from benchmarks import common
from benchmarks.data import DATA
from reproduce.benchmark.splits import split
from reproduce.datasets import load_table, table_names
from toppush import TopRanker
from toppush.metrics import average_precision
from toppush.metrics.quantile_sketch import QuantileSketch, top_levels
from toppush.types import Array, Mask

MOST_ROWS, MOST_TEST, SMALLEST = 24_000, 12_000, 1e-6
FOLDS = 5
METRICS = ["log loss", "Brier", "error", "error 5 %", "over 5 %", "AP", "F1", "balanced accuracy"]
COLUMNS = ["data", "rows", "split", "method", "positives", *METRICS, "seconds"]


def logistic(positive: Mask, scores: Array) -> Callable[[Array], Array]:
    """Platt's: targets a little off 0 and 1, by giving each row both labels."""
    centre, width = scores.mean(), scores.std() or 1.0
    n_pos = positive.sum()
    targets = np.where(positive, (n_pos + 1) / (n_pos + 2), 1 / (len(positive) - n_pos + 2))
    both, rows = np.tile((scores - centre) / width, 2)[:, None], len(scores)
    fitted = LogisticRegression(C=1e6, max_iter=1000)
    fitted.fit(both, np.arange(2 * rows) < rows, sample_weight=np.r_[targets, 1 - targets])
    return lambda new: fitted.predict_proba(((new - centre) / width)[:, None])[:, 1]


def isotonic(positive: Mask, scores: Array) -> Callable[[Array], Array]:
    """Isotonic regression."""
    return IsotonicRegression(out_of_bounds="clip").fit(scores, positive).predict


def venn_abers(positive: Mask, scores: Array) -> Callable[[Array], Array]:
    """Isotonic regression with one more row there, negative or positive, at up to 200 scores."""
    knots = QuantileSketch.of(scores, levels=top_levels(len(scores))).knots
    place = np.searchsorted(knots, scores)
    counts, hits = np.bincount(place), np.bincount(place, positive)
    prior, found = (positive.sum() + 1) / (len(positive) + 2), np.empty(len(knots))
    for at in range(len(knots)):
        more = counts + (np.arange(len(knots)) == at)
        low, high = (
            isotonic_regression((hits + label * (more - counts)) / more, weights=more).x[at]
            for label in (0.0, 1.0)
        )
        found[at] = low + prior * (high - low)
    return lambda new: found[np.minimum(np.searchsorted(knots, new), len(knots) - 1)]


def for_lightgbm(frame: pd.DataFrame) -> pd.DataFrame:
    """Strings as categories, and names that LightGBM takes."""
    columns = {}
    for place, name in enumerate(frame):
        is_number = frame[name].dtype.kind in "biuf"
        columns[f"c{place}"] = frame[name] if is_number else frame[name].astype("category")
    return pd.DataFrame(columns)


def predictions(
    frame: pd.DataFrame, y: Mask, new: pd.DataFrame
) -> Iterator[tuple[str, Array, Array, Mask | None, float]]:
    """Each method with scores, probabilities and labels of new rows, and seconds of the fit."""
    began = time.perf_counter()
    ranker = TopRanker(effort="quick", n_jobs=1).fit(frame, y)
    seconds = time.perf_counter() - began
    scores, marked = ranker.decision_function(new), ranker.predict(new)
    yield "TopRanker", scores, ranker.predict_proba(new)[:, 1], marked, seconds
    known = ~np.isnan(ranker.expected_scores_)
    for method in (logistic, isotonic, venn_abers):
        found = method(y[known], ranker.expected_scores_[known])(scores)
        yield f"TopRanker, {method.__name__.replace('_', ' ')}", scores, found, None, seconds
    both = for_lightgbm(pd.concat([frame, new]))
    train, test = both.iloc[: len(y)], both.iloc[len(y) :]
    boosted = LGBMClassifier(n_jobs=1, verbose=-1)
    for name, estimator in {
        "LightGBM": boosted,
        **{
            f"LightGBM, {way}": CalibratedClassifierCV(boosted, method=way, cv=FOLDS)
            for way in ("sigmoid", "isotonic")
        },
    }.items():
        began = time.perf_counter()
        estimator.fit(train, y)
        seconds = time.perf_counter() - began
        found = estimator.predict_proba(test)[:, 1]
        yield name, found, found, estimator.predict(test), seconds


def error(positive: Mask, predicted: Array, n_parts: int) -> float:
    """Mean over parts of equal size, in this order, of |predicted - observed precision|."""
    parts = np.array_split(predicted - positive, n_parts)
    return float(sum(abs(each.sum()) for each in parts) / len(positive))


def measured(positive: Mask, scores: Array, predicted: Array, marked: Mask | None) -> list[object]:
    """The metrics."""
    safe, order = np.clip(predicted, SMALLEST, 1 - SMALLEST), np.argsort(-scores, kind="stable")
    first = order[: max(len(order) // 20, 1)]
    decisions = [None, None]
    if marked is not None:
        decisions = [f1_score(positive, marked, zero_division=0.0),
                     balanced_accuracy_score(positive, marked)]  # fmt: skip
    return [
        log_loss(positive, safe),
        brier_score_loss(positive, predicted),
        error(positive[order], predicted[order], 15),
        error(positive[first], predicted[first], 5),
        float(predicted[first].mean() - positive[first].mean()),
        average_precision(positive, scores),
        *decisions,
    ]


def one_split(name: str, n_rows: int, number: int) -> list[list[object]]:
    """A row for each method; none if there are too few positives for five folds."""
    rng = np.random.default_rng(number)
    whole = split(load_table(name, DATA), number, MOST_ROWS)
    train, test = (
        np.sort(rng.permutation(len(y))[:most])
        for y, most in ((whole.y, n_rows), (whole.y_test, MOST_TEST))
    )
    frame, y = whole.X.iloc[train], whole.y[train]
    new, positive = whole.X_test.iloc[test], whole.y_test[test]
    if min(y.sum(), positive.sum()) < FOLDS:
        print(f"{name}: {y.sum()} positives are too few")
        return []
    return [
        [name, n_rows, number, method, int(y.sum()), *measured(positive, *found), seconds]
        for method, *found, seconds in predictions(frame, y, new)
    ]


def means(rows: list[list[object]]) -> pd.DataFrame:
    """The mean over tables and splits for each number of rows and method."""
    table = pd.DataFrame(rows, columns=COLUMNS)
    table["rows"] = table["rows"].astype(int)
    table[COLUMNS[4:]] = table[COLUMNS[4:]].apply(pd.to_numeric)
    return table.groupby(["rows", "method"], sort=False)[COLUMNS[4:]].mean()


def main() -> None:
    """Compute what is missing, and show the means."""
    tables = table_names(DATA)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", default=tables, choices=tables)
    parser.add_argument("--rows", nargs="+", type=int, default=[3500, 400])
    parser.add_argument("--splits", type=int, default=2)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = [list(row.values()) for row in common.saved("calibration")]
    done = {tuple(map(str, row[:3])) for row in rows}
    for number in range(given.splits):
        for n_rows in given.rows:
            for name in given.data:
                if (name, str(n_rows), str(number)) not in done:
                    rows += one_split(name, n_rows, number)
                    common.save("calibration", COLUMNS, rows)
    print(means(rows).round(4).to_string())


if __name__ == "__main__":
    main()
