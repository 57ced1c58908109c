"""Slow, obvious code: loops, sorting and exact fractions, to check the library against."""

from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise
from math import exp, inf, log, log1p

# One violation t, or one dual a, at a time.


def loss(name, t):
    if name == "truncated_quadratic":
        return max(1.0 + t, 0.0) ** 2
    if name == "logistic":
        return max(t, 0.0) + log1p(exp(-abs(t)))
    return exp(t)


def conjugate(name, a):
    if a < 0.0 or (name == "logistic" and a > 1.0):
        return inf
    if name == "truncated_quadratic":
        return a * a / 4.0 - a
    if name == "logistic":
        return _times_log(a) + _times_log(1.0 - a)
    return _times_log(a) - a


def _times_log(a):
    return a * log(a) if a > 0.0 else 0.0


def conjugate_by_search(name, a, low=-60.0, high=60.0):
    """The greatest a t - l(t) between `low` and `high`: thirds of the range are dropped."""
    for _ in range(200):
        left, right = low + (high - low) / 3.0, high - (high - low) / 3.0
        if a * left - loss(name, left) < a * right - loss(name, right):
            low = left
        else:
            high = right
    return a * low - loss(name, low)


def dual_prox(name, point, stiffness, digits=60):
    """Minimiser of l*(a) + stiffness/2 (a - point)^2, as an exact decimal.

    It is a = l'(t) with t + stiffness l'(t) = stiffness point, whose left side grows with t;
    the root is bracketed and halved.
    """
    with localcontext() as context:
        context.prec = digits
        point, stiffness = Decimal(point), Decimal(stiffness)
        goal = stiffness * point
        low, high = -abs(goal) - 2 * stiffness - 2, abs(goal) + 2
        for _ in range(4 * digits):
            middle = (low + high) / 2
            if middle + stiffness * _exact_slope(name, middle) < goal:
                low = middle
            else:
                high = middle
        return _exact_slope(name, low)


def dual_prox_derivative(name, point, stiffness):
    """By the difference over a step of 1e-40, with 120 digits."""
    with localcontext() as context:
        context.prec = 120
        h = Decimal("1e-40")
        before, after = (
            dual_prox(name, Decimal(point) + side * h, stiffness, digits=120) for side in (-1, 1)
        )
        return (after - before) / (2 * h)


def _exact_slope(name, t):
    if name == "truncated_quadratic":
        return max(2 * (1 + t), Decimal(0))
    if name == "exponential":
        return t.exp() if t < 2000 else Decimal("1e999")
    return 1 / (1 + (-t).exp()) if t > -2000 else t.exp()


# Rows are lists of numbers; positive says which are positives.


def top_mean(numbers, k):
    return sum(sorted(numbers, reverse=True)[:k]) / k


def dot(one, other):
    return sum(float(x) * float(y) for x, y in zip(one, other, strict=True))


def primal(rows, positive, weights, *, lam, k=1, name="truncated_quadratic", cost=None):
    """lam/2 |w|^2 plus the positives' mean loss against the mean of the k best negatives."""
    scores = [dot(row, weights) for row in rows]
    cost = [1.0] * len(scores) if cost is None else cost
    threshold = top_mean(
        [s for s, p, c in zip(scores, positive, cost, strict=True) if not p and c > 0.0], k
    )
    total, size = 0.0, 0.0
    for score, is_positive, share in zip(scores, positive, cost, strict=True):
        if is_positive and share > 0.0:
            total += share * loss(name, threshold - score)
            size += share
    return 0.5 * lam * dot(weights, weights) + total / size


def pairwise_primal(rows, positive, weights, *, lam, k, name="truncated_quadratic", cost=None):
    """lam/2 |w|^2 plus the mean over the k worst negatives of the positives' mean loss."""
    scores = [dot(row, weights) for row in rows]
    cost = [1.0] * len(scores) if cost is None else cost
    each = list(zip(scores, positive, cost, strict=True))
    goods = [(score, share) for score, is_positive, share in each if is_positive and share > 0.0]
    bads = [score for score, is_positive, share in each if not is_positive and share > 0.0]
    size = sum(share for _, share in goods)
    losses = [sum(share * loss(name, bad - score) for score, share in goods) / size for bad in bads]
    return 0.5 * lam * dot(weights, weights) + top_mean(losses, k)


def lower_bound(rows, positive, dual, *, lam, name="truncated_quadratic", cost=None):
    """Minus the dual objective over m."""
    cost = [1.0] * len(dual) if cost is None else cost
    push = [0.0] * len(rows[0])
    total, size = 0.0, 0.0
    for row, is_positive, value, share in zip(rows, positive, dual, cost, strict=True):
        sign = 1.0 if is_positive else -1.0
        push = [p + sign * float(value) * float(x) for p, x in zip(push, row, strict=True)]
        if is_positive and share > 0.0:
            total += share * conjugate(name, value / share)
            size += share
    return -(dot(push, push) / (2.0 * lam * size) + total) / size


# Nearest point of a >= 0, b >= 0, sum a = sum b, b_j <= (sum a)/k.


def project_by_sorting(positives, negatives):
    """For k = 1, exactly: the balance of the two sums is a straight line between breakpoints."""
    positives, negatives = [Fraction(x) for x in positives], [Fraction(x) for x in negatives]
    breakpoints = sorted({*positives, *(-x for x in negatives)})

    def balance(shift):
        left = sum(max(x - shift, Fraction(0)) for x in positives)
        return left - sum(max(x + shift, Fraction(0)) for x in negatives)

    shift = breakpoints[0]  # the balance is not below 0 here, nor above 0 at the last
    for low, high in pairwise(breakpoints):
        at_low, at_high = balance(low), balance(high)
        if at_low >= 0 >= at_high:
            fall = at_low - at_high
            shift = low + (high - low) * at_low / fall if fall else low
            break
    zero = Fraction(0)
    return [max(x - shift, zero) for x in positives], [max(x + shift, zero) for x in negatives]


def failures_to_be_nearest(positives, negatives, a, b, k=1):
    """How far (a, b) is from being the nearest point, by exact arithmetic; all 0 if it is.

    The domain is a cone. (a, b) is nearest if and only if it lies in the cone, what is left
    over is square to it, and no ray of the cone leans towards what is left over; the steepest
    ray takes one positive and spreads over k negatives. Relative to the greatest entry.
    """
    size = max(abs(Fraction(x)) for x in (*positives, *negatives)) or Fraction(1)
    a, b = [Fraction(x) / size for x in a], [Fraction(x) / size for x in b]
    left = [Fraction(x) / size - y for x, y in zip(positives, a, strict=True)]
    right = [Fraction(x) / size - y for x, y in zip(negatives, b, strict=True)]
    outside = max(abs(sum(a) - sum(b)), max(-x for x in (*a, *b)), max(b) - sum(a) / k, 0)
    inner = sum(x * y for x, y in zip((*a, *b), (*left, *right), strict=True))
    steepest = max(left) + top_mean(right, k)
    return float(outside), float(abs(inner)), float(max(steepest, 0))
