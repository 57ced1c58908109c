"""How near calibrated probabilities are to the precision of the first rows of a list.

python -m benchmarks.calibration --repeats 6

A ranker is fitted to rows of a set with the stated number of positives; probabilities are learned
from its out-of-fold scores by each method (each fold's in units of the fit to all), and predicted
for up to 20,000 other rows of the set. An error is predicted less found: its mean over the repeats
("over"), and the mean of its size ("error"), among the first k rows; "sum" is the predicted number
of positives of all rows over the number found. The last lines are means over all sets and rankers.

isotonic: isotonic regression. logistic: logistic regression on the score, with Platt's targets; on
the rank: on the logit of the percentile. venn: Venn and Abers, p1 / (1 - p0 + p1). venn, prior:
theirs with p0 and p1 weighed by the share of positives of all rows, which is what toppush takes.
"""

import argparse
import warnings
from collections import defaultdict

import numpy as np
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from benchmarks import common
from benchmarks.data import load
from toppush import TopPush
from toppush.metrics.quantile_sketch import QuantileSketch, top_levels
from toppush.modeltypes.out_of_fold import cross_fitted, stratified
from toppush.thresholds.calibration import ScoreScale, venn_abers

SETS = ("ijcnn1", "mammography", "w8a", "spambase", "a9a")
POSITIVES = (20, 50, 200, 1000)
FIRST = (10, 30, 100, 300)
MOST_TEST, SMALLEST = 20_000, 1e-6
COLUMNS = ["set", "positives", "ranker", "method", "log loss", "sum",
           *(f"{what} {k}" for k in FIRST for what in ("over", "error"))]  # fmt: skip
RANKERS = {
    "TopPush": lambda: TopPush(0.01, top=0.05),
    "logistic regression": lambda: LogisticRegression(max_iter=300),
}


def isotonic(positive, scores):
    return IsotonicRegression(out_of_bounds="clip").fit(scores, positive).predict


def logistic(positive, scores, seen=lambda scores: scores):
    """Platt's: targets a little off 0 and 1, by giving each row both labels."""
    centre, width = seen(scores).mean(), seen(scores).std() or 1.0
    n_pos = positive.sum()
    targets = np.where(positive, (n_pos + 1) / (n_pos + 2), 1 / (len(positive) - n_pos + 2))
    both, rows = np.tile((seen(scores) - centre) / width, 2)[:, None], len(scores)
    fitted = LogisticRegression(C=1e6, max_iter=1000)
    fitted.fit(both, np.arange(2 * rows) < rows, sample_weight=np.r_[targets, 1 - targets])
    return lambda new: fitted.predict_proba(((seen(new) - centre) / width)[:, None])[:, 1]


def logistic_on_rank(positive, scores):
    spread, edge = QuantileSketch.of(scores, levels=top_levels(len(scores))), 0.5 / len(scores)

    def logit(scores):
        share = np.clip(spread.fraction_below(scores), edge, 1 - edge)
        return np.log(share / (1 - share))

    return logistic(positive, scores, logit)


def venn(positive, scores):
    scale = ScoreScale.learn(positive, scores, fewest=0)
    rows = np.diff(scale.sketch.up_to, prepend=0.0)
    low, high = venn_abers(scale.positives, rows, 1 / len(scores))
    share_at = high / (1 - low + high)
    return lambda new: share_at[np.minimum(np.searchsorted(scale.sketch.knots, new), len(low) - 1)]


def venn_with_prior(positive, scores):
    return ScoreScale.learn(positive, scores, fewest=0).probability


METHODS = {
    "isotonic": isotonic,
    "logistic": logistic,
    "logistic on the rank": logistic_on_rank,
    "venn": venn,
    "venn, prior": venn_with_prior,
}


def measured(share, positive, scores):
    """Log loss, predicted over found, and predicted less found among the first rows."""
    predicted = np.asarray(share(scores))
    safe = np.clip(np.where(positive, predicted, 1 - predicted), SMALLEST, None)
    order = np.argsort(-scores, kind="stable")
    apart = [(predicted[order[:k]] - positive[order[:k]]).mean() for k in FIRST]
    return [-np.log(safe).mean(), predicted.sum() / positive.sum(), *apart]


def one_fit(X, y, n_train, make, rng):
    """What each method comes to on other rows than those it is learned from."""
    order = rng.permutation(len(y))
    train, test = order[:n_train], order[n_train:][:MOST_TEST]
    ranker, weights = make().fit(X[train], y[train]), np.ones(n_train)
    folds = stratified(y[train], weights, 0)
    unseen = cross_fitted(ranker, make(), X[train], y[train], weights, folds)
    scores = ranker.decision_function(X[test])
    return {
        name: measured(method(y[train], unseen), y[test], scores)
        for name, method in METHODS.items()
    }


def summed_up(found):
    """Means of log loss and sum; means and mean sizes of the errors."""
    table = np.array(found)
    errors = np.stack([table[:, 2:].mean(axis=0), np.abs(table[:, 2:]).mean(axis=0)], axis=1)
    return [*table[:, :2].mean(axis=0), *errors.ravel()]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=6)
    repeats = parser.parse_args().repeats
    warnings.simplefilter("ignore")
    rng, rows, every = np.random.default_rng(0), [], defaultdict(list)
    for name in SETS:
        X, y = load(name)
        for positives in POSITIVES:
            n_train = round(positives / y.mean())
            if n_train > len(y) / 2:
                continue
            for ranker, make in RANKERS.items():
                fits = [one_fit(X, y, n_train, make, rng) for _ in range(repeats)]
                for method in METHODS:
                    found = [fit[method] for fit in fits]
                    every[positives, method] += found
                    rows.append([name, positives, ranker, method, *summed_up(found)])
    for (positives, method), found in sorted(every.items()):
        rows.append(["all", positives, "both", method, *summed_up(found)])
    common.report("calibration", COLUMNS, rows)


if __name__ == "__main__":
    main()
