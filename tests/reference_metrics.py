"""Slow measures of a ranked list that nobody can doubt: loops over pairs, orders, thresholds.

`pos` and `neg` are plain lists of scores. No weights: a row of weight 2 is written twice.
"""

from itertools import pairwise, permutations
from math import inf, log2


def positives_at_top(pos, neg):
    return sum(all(p > n for n in neg) for p in pos) / len(pos)


def top_loss(pos, neg):
    return sum(any(p <= n for n in neg) for p in pos) / len(pos)


def ranking_loss(pos, neg):
    return sum(p <= n for p in pos for n in neg) / (len(pos) * len(neg))


def auc(pos, neg):
    won = sum(1.0 if p > n else 0.5 if p == n else 0.0 for p in pos for n in neg)
    return won / (len(pos) * len(neg))


def average_precision(pos, neg):
    def precision(threshold):
        hits = sum(p >= threshold for p in pos)
        return hits / (hits + sum(n >= threshold for n in neg))

    return sum(precision(p) for p in pos) / len(pos)


def orders(pos, neg):
    """Every way to sort the rows by score, ties broken in every way; 1 marks a positive."""
    rows = [(p, 1) for p in pos] + [(n, 0) for n in neg]
    for order in permutations(rows):
        if all(above[0] >= below[0] for above, below in pairwise(order)):
            yield [label for _, label in order]


def mean_over_orders(measure, pos, neg):
    values = [measure(order) for order in orders(pos, neg)]
    return sum(values) / len(values)


def precision_at_k(pos, neg, *, k):
    return mean_over_orders(lambda order: sum(order[:k]) / k, pos, neg)


def recall_at_k(pos, neg, *, k):
    return mean_over_orders(lambda order: sum(order[:k]) / len(pos), pos, neg)


def lift_at(pos, neg, *, fraction):
    """For a fraction that ends between two rows."""
    k = round(fraction * (len(pos) + len(neg)))
    return precision_at_k(pos, neg, k=k) / (len(pos) / (len(pos) + len(neg)))


def ndcg(pos, neg):
    def gain(order):
        return sum(label / log2(1 + rank) for rank, label in enumerate(order, start=1))

    return mean_over_orders(gain, pos, neg) / gain([1] * len(pos))


def roc_points(pos, neg):
    """(false positive rate, recall) of every threshold, from one above all finite scores down."""
    for threshold in [inf, *sorted({*pos, *neg}, reverse=True)]:
        rate = sum(n >= threshold for n in neg) / len(neg)
        yield rate, sum(p >= threshold for p in pos) / len(pos)


def recall_at_fpr(pos, neg, *, max_fpr):
    return max(recall for rate, recall in roc_points(pos, neg) if rate <= max_fpr)


def top_recall(pos, neg, *, n_false):
    highest = sorted(neg, reverse=True)[:n_false]
    return sum(sum(p > n for p in pos) / len(pos) for n in highest) / len(highest)


def recall_at_10_false_positives(pos, neg):
    return sum(sum(n >= p for n in neg) < 10 for p in pos) / len(pos)


def partial_auc(pos, neg, *, max_fpr):
    points, area = list(roc_points(pos, neg)), 0.0
    for (x0, y0), (x1, y1) in pairwise(points):
        if x0 < min(x1, max_fpr):
            end = min(x1, max_fpr)
            y_end = y0 + (y1 - y0) * (end - x0) / (x1 - x0)
            area += (end - x0) * (y0 + y_end) / 2
    return area / max_fpr
