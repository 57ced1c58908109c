"""The loss over pairs of a positive and a negative, on tensors.

With f_i the positives' scores, w_i their weights with sum 1, g_j the negatives' and p_j their parts
in the top, the loss is sum_i w_i sum_j p_j log(1 + exp(g_j - f_i)). All functions take several
lists at once, along leading axes.
"""

import math
from typing import Any, NamedTuple

import torch
from torch.autograd.function import once_differentiable
from torch.nn.functional import softplus

Tensor = Any
"""A torch tensor. Torch may be absent where types are checked, so no type says more."""
PAIRS = 1 << 20
"""Pairs held at once, 4 MB in float32 for each of three arrays."""
STEPS = 30
"""Newton's steps to the level, halvings where one leaves the bracket; eight are usual."""
LINEAR = 30.0
"""Above, log(1 + exp(t)) is t to the last digit."""


class Scored(NamedTuple):
    """Rows of a class: their scores and how much each counts."""

    scores: Tensor
    weight: Tensor


def top_level(negatives: Scored, top: float, smoothing: float) -> Tensor:
    """The level s with sum_j w_j sigmoid((g_j - s) / smoothing) = top sum_j w_j.

    Newton's steps on the logit of the share above s, which is nearly linear in s, between bounds
    that hold in any case; each is a pass over the scores.
    """
    scores, weight = negatives
    odds, total = math.log(top) - math.log1p(-top), weight.sum(-1, keepdim=True)
    shift, used = smoothing * odds, weight > 0
    low = torch.where(used, scores, math.inf).amin(-1, keepdim=True) - shift
    high = torch.where(used, scores, -math.inf).amax(-1, keepdim=True) - shift
    # From here the next step, which squares the error, is the last.
    level, near = (low + high) / 2, math.sqrt(torch.finfo(scores.dtype).eps)
    for _ in range(STEPS):
        above = torch.sigmoid((scores - level) / smoothing)
        share = (weight * above).sum(-1, keepdim=True) / total
        slope = (weight * above * (1 - above)).sum(-1, keepdim=True) / (total * smoothing)
        excess = torch.logit(share) - odds
        low, high = torch.where(excess > 0, level, low), torch.where(excess > 0, high, level)
        newton = level + excess * share * (1 - share) / slope
        level = torch.where((newton >= low) & (newton <= high), newton, (low + high) / 2)
        if not (excess.abs() > near).any():
            break
    return level


def top_parts(negatives: Scored, top: float, smoothing: float) -> Tensor:
    """Each negative's part p_j in the smoothed top, with sum 1; it carries no gradient.

    p_j is proportional to w_j sigmoid((g_j - s) / smoothing), s the level of the top.
    """
    scores, part = negatives.scores.detach(), negatives.weight
    if top < 1.0:
        level = top_level(Scored(scores, part), top, smoothing)
        part = part * torch.sigmoid((scores - level) / smoothing)
    return part / part.sum(-1, keepdim=True)


class PairLoss(torch.autograd.Function):
    """sum_i w_i sum_j p_j log(1 + exp(g_j - f_i)); the slopes are made on the way.

    O(positives * negatives) time, and memory for `PAIRS` of them.
    """

    @staticmethod
    def forward(
        ctx: Any, positives: Tensor, negatives: Tensor, weight: Tensor, part: Tensor
    ) -> Tensor:
        value = positives.new_zeros(positives.shape[:-1])
        to_positives, to_negatives = torch.empty_like(positives), torch.zeros_like(negatives)
        for some in slices(positives.shape[-1], negatives.numel()):
            gaps = negatives.unsqueeze(-2) - positives[..., some].unsqueeze(-1)
            chance, own = torch.sigmoid(gaps), weight[..., some]
            to_positives[..., some] = -own * (chance @ part.unsqueeze(-1)).squeeze(-1)
            to_negatives += part * (own.unsqueeze(-2) @ chance).squeeze(-2)
            losses = softplus(gaps, threshold=LINEAR) @ part.unsqueeze(-1)
            value += (own * losses.squeeze(-1)).sum(-1)
        ctx.save_for_backward(to_positives, to_negatives)
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor, Tensor, None, None]:
        to_positives, to_negatives = ctx.saved_tensors
        return above.unsqueeze(-1) * to_positives, above.unsqueeze(-1) * to_negatives, None, None


def slices(n_positives: int, n_negatives: int) -> list[slice]:
    """Positives whose pairs are held at once."""
    step = max(1, PAIRS // max(1, n_negatives))
    return [slice(start, start + step) for start in range(0, n_positives, step)]


def pairwise_loss(positives: Scored, negatives: Scored, top: float, smoothing: float) -> Tensor:
    """The loss, for each list."""
    part = top_parts(negatives, top, smoothing)
    weight = positives.weight / positives.weight.sum(-1, keepdim=True)
    return applied(PairLoss, positives.scores, negatives.scores, weight, part)


class Scaled(torch.autograd.Function):
    """The same numbers, with their gradient times a factor."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, factor: Any) -> Tensor:
        ctx.factor = factor
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor, None]:
        return above * ctx.factor, None


def applied(function: Any, *given: Any) -> Tensor:
    """What a function with a gradient of its own makes; torch has no types for it."""
    return function.apply(*given)


def scaled(values: Tensor, factor: Any) -> Tensor:
    """The same numbers, with their gradient times a factor."""
    return applied(Scaled, values, factor)
