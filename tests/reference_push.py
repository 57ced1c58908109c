"""The pairwise push against a smoothed top, pair by pair, in the words of its formula."""

from math import exp, fsum, log1p


def sigmoid(at):
    return 1.0 / (1.0 + exp(-at)) if at >= 0 else exp(at) / (1.0 + exp(at))


def level(scores, weights, depth, smoothing):
    """Where the smoothed count of what lies above is `depth`, by halving."""
    low, high = min(scores) - 800.0 * smoothing, max(scores) + 800.0 * smoothing
    for _ in range(200):
        middle = 0.5 * (low + high)
        parts = [sigmoid((score - middle) / smoothing) for score in scores]
        above = fsum(weight * part for weight, part in zip(weights, parts, strict=True))
        low, high = (middle, high) if above > depth else (low, middle)
    return low


def shares(scores, weights, depth, smoothing):
    """Each negative's part in the top; they sum to 1."""
    if depth >= fsum(weights):
        parts = weights
    else:
        at = level(scores, weights, depth, smoothing)
        parts = [
            weight * sigmoid((score - at) / smoothing)
            for score, weight in zip(scores, weights, strict=True)
        ]
    return [part / fsum(parts) for part in parts]


def value(positives, costs, negatives, parts):
    """Sum over all pairs of log(1 + exp(f_j - f_i))."""
    return fsum(
        cost * part * (max(low - high, 0.0) + log1p(exp(-abs(low - high))))
        for high, cost in zip(positives, costs, strict=True)
        for low, part in zip(negatives, parts, strict=True)
    )


def gradients(positives, costs, negatives, parts):
    """By the score of each positive, and of each negative."""
    on_positives = [
        -cost * fsum(p * sigmoid(low - high) for low, p in zip(negatives, parts, strict=True))
        for high, cost in zip(positives, costs, strict=True)
    ]
    on_negatives = [
        p * fsum(cost * sigmoid(low - high) for high, cost in zip(positives, costs, strict=True))
        for low, p in zip(negatives, parts, strict=True)
    ]
    return on_positives, on_negatives


def curvatures(positives, costs, negatives, parts):
    """Second derivatives by the score of each positive, and of each negative."""

    def bend(low, high):
        return sigmoid(low - high) * sigmoid(high - low)

    on_positives = [
        cost * fsum(p * bend(low, high) for low, p in zip(negatives, parts, strict=True))
        for high, cost in zip(positives, costs, strict=True)
    ]
    on_negatives = [
        p * fsum(cost * bend(low, high) for high, cost in zip(positives, costs, strict=True))
        for low, p in zip(negatives, parts, strict=True)
    ]
    return on_positives, on_negatives
