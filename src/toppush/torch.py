"""The pairwise loss for networks, for your own training loop in torch; needs the extra [gpu].

`TopPushLoss` takes the scores and labels of a batch, from any sampler and with any optimiser.

With f_i the positives' scores, w_i their weights with sum 1, g_j the negatives' and p_j their parts
in the top, the loss is sum_i w_i sum_j p_j log(1 + exp(g_j - f_i)). The functions on `Scored` rows
take several rankings at once, along leading axes.
"""

import math
from typing import Any, NamedTuple

from toppush.system.extras import needs

try:
    import torch
    from torch import distributed, nn
    from torch.autograd.function import once_differentiable
    from torch.nn.functional import softplus
except ImportError as error:
    raise ImportError(needs("toppush.torch", "torch")) from error

__all__ = ["TopPushLoss"]

Tensor = Any
"""A torch tensor. Torch may be absent where types are checked, so no type says more."""
PAIRS = 1 << 20
"""Pairs held at once, 4 MB in float32 for each of three arrays."""
STEPS = 30
"""Newton steps to the threshold of the top, or halvings of the bracket; eight are usual."""
LINEAR = 30.0
"""Above, log(1 + exp(t)) is t to the last digit."""
HORIZON = 100
"""Batches over which the usual weight of a batch is averaged."""
POSITIVES = 64
"""Scores of positives that are remembered at most: enough for a mean, and each costs a pair with
every negative."""


class Scored(NamedTuple):
    """Rows of a class: their scores and how much each counts."""

    scores: Tensor
    weight: Tensor


def top_level(negatives: Scored, top: float, smoothing: float) -> Tensor:
    """The threshold s with sum_j w_j sigmoid((g_j - s) / smoothing) = top sum_j w_j.

    Newton steps on the logit of the share above s, which is nearly linear in s, between bounds that
    always hold; each is a pass over the scores.
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

    p_j is proportional to w_j sigmoid((g_j - s) / smoothing), s the threshold of the top.
    """
    scores, part = negatives.scores.detach(), negatives.weight
    if top < 1.0:
        level = top_level(Scored(scores, part), top, smoothing)
        part = part * torch.sigmoid((scores - level) / smoothing)
    return part / part.sum(-1, keepdim=True)


class PairLoss(torch.autograd.Function):
    """sum_i w_i sum_j p_j log(1 + exp(g_j - f_i)), with its gradient computed in the same pass.

    O(positives * negatives) time, and memory for `PAIRS` of them.
    """

    @staticmethod
    def forward(
        ctx: Any, positives: Tensor, negatives: Tensor, weight: Tensor, part: Tensor
    ) -> Tensor:
        value = positives.new_zeros(positives.shape[:-1])
        to_positives, to_negatives = torch.empty_like(positives), torch.zeros_like(negatives)
        for some in slices(positives.shape[-1], negatives.numel()):
            differences = negatives.unsqueeze(-2) - positives[..., some].unsqueeze(-1)
            slope, own = torch.sigmoid(differences), weight[..., some]
            to_positives[..., some] = -own * (slope @ part.unsqueeze(-1)).squeeze(-1)
            to_negatives += part * (own.unsqueeze(-2) @ slope).squeeze(-2)
            losses = softplus(differences, threshold=LINEAR) @ part.unsqueeze(-1)
            value += (own * losses.squeeze(-1)).sum(-1)
        ctx.save_for_backward(to_positives, to_negatives)
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor, Tensor, None, None]:
        to_positives, to_negatives = ctx.saved_tensors
        return above.unsqueeze(-1) * to_positives, above.unsqueeze(-1) * to_negatives, None, None


def slices(n_positives: int, n_negatives: int) -> list[slice]:
    """Slices of the positives whose pairs fit into `PAIRS`."""
    step = max(1, PAIRS // max(1, n_negatives))
    return [slice(start, start + step) for start in range(0, n_positives, step)]


def pairwise_loss(positives: Scored, negatives: Scored, top: float, smoothing: float) -> Tensor:
    """The loss of each ranking."""
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


def applied(function: Any, *arguments: Any) -> Tensor:
    """The value of a function with a gradient of its own; torch has no types for it."""
    return function.apply(*arguments)


def scaled(values: Tensor, factor: Any) -> Tensor:
    """The same numbers, with their gradient times a factor."""
    return applied(Scaled, values, factor)


class ScoreMemory(nn.Module):
    """The last scores of a class with their weights, and the mean weight of a batch.

    The buffers are in `state_dict` and move with the module.
    """

    scores: Tensor
    weights: Tensor
    place: Tensor
    """Where the next score goes."""
    batches: Tensor
    usual: Tensor
    """Mean weight of a batch."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.register_buffer("scores", torch.zeros(length))
        self.register_buffer("weights", torch.zeros(length))
        self.register_buffer("place", torch.zeros((), dtype=torch.long))
        self.register_buffer("batches", torch.zeros((), dtype=torch.long))
        self.register_buffer("usual", torch.zeros(()))

    def reset(self) -> None:
        """Set all buffers to zero."""
        for buffer in self.buffers():
            buffer.zero_()

    def weight_with(self, batch: Scored) -> Tensor:
        """Weight of the rows of this class, in the batch and remembered."""
        return batch.weight.sum() + self.weights.sum()

    def joined(self, batch: Scored) -> Scored:
        """The batch, then the remembered scores; the batch's gradient estimates that of all rows.

        The remembered scores carry no gradient, so the batch's is multiplied by the weight of both
        over the mean weight of a batch, this one included. With the weight of this batch instead,
        rows of a class would count more where a batch holds few of them.
        """
        kept = self.weights > 0
        weight = torch.cat([batch.weight, self.weights[kept].to(batch.weight)])
        self.batches += 1
        self.usual += (batch.weight.sum() - self.usual) / self.batches.clamp(max=HORIZON)
        estimate = scaled(batch.scores, weight.sum() / self.usual)
        return Scored(torch.cat([estimate, self.scores[kept].to(batch.scores)]), weight)

    def remember(self, batch: Scored) -> None:
        """Keep the batch's finite scores in place of the oldest."""
        kept, length = torch.isfinite(batch.scores) & (batch.weight > 0), len(self.scores)
        scores, weight = batch.scores.detach()[kept][-length:], batch.weight[kept][-length:]
        where = (self.place + torch.arange(len(scores), device=scores.device)) % length
        self.scores[where], self.weights[where] = scores.to(self.scores), weight.to(self.weights)
        self.place.add_(len(scores)).remainder_(length)


def several_ranks() -> bool:
    """Whether this process is one of several that train together."""
    ready = distributed.is_available() and distributed.is_initialized()
    return bool(ready and distributed.get_world_size() > 1)


def gathered(scores: Tensor, labels: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Scores, labels and weights of all ranks in their order.

    Only this rank's scores carry a gradient here. `DistributedDataParallel` takes the mean over
    the ranks, of which each has the part of its own rows, so that part is multiplied by their
    number. Batches may differ in length.
    """
    n_ranks, own = distributed.get_world_size(), distributed.get_rank()
    sizes = _all(torch.tensor([len(scores)], device=scores.device))
    length = int(max(sizes))
    block = scores.new_zeros(3, length)
    block[:, : len(scores)] = torch.stack([scores.detach(), labels.to(scores), weight])
    blocks = [each[:, :size] for each, size in zip(_all(block), sizes, strict=True)]
    parts = [each[0] for each in blocks]
    parts[own] = scaled(scores, n_ranks)
    rest = torch.cat([each[1:] for each in blocks], dim=1)
    return torch.cat(parts), rest[0].to(labels.dtype), rest[1]


def _all(values: Tensor) -> list[Tensor]:
    gathered_values = [torch.empty_like(values) for _ in range(distributed.get_world_size())]
    distributed.all_gather(gathered_values, values)
    return gathered_values


class TopPushLoss(nn.Module):
    """Every positive against the negatives at the top, as a loss of scores and labels.

    mean_i sum_j p_j log(1 + exp(g_j - f_i)) over positives f_i and negatives g_j, where p_j is
    proportional to sigmoid((g_j - s) / smoothing) and s the level at which these sum to `top`
    times the number of negatives. The p_j are held fixed in the gradient. Time is
    O(positives * negatives) of the batch and the memory together; pairs are held a million at a
    time.

    Parameters
    ----------
    top : float, default=0.1
        Share of the negatives that makes the top; 1.0 is all of them, the loss of the AUC.
    memory : int, default=1024
        How many negatives' scores are remembered from earlier batches, so that the top is a share
        of many rows, and up to 64 positives', so that a batch without any still has a loss.
        They carry no gradient; that of the batch's rows is scaled so that it estimates the
        gradient over all rows. 0 makes the loss that of the batch alone.
    smoothing : float, default=0.5
        Width of the border between the top and the rest, in units of scores.
    gather : bool, default=True
        Where `torch.distributed` is initialised, take the batches of all ranks as one. The
        gradient is right after `DistributedDataParallel` took its mean.

    Notes
    -----
    The memory is used and filled in training, that is unless ``loss.eval()`` was called or
    gradients are off (`torch.no_grad`); otherwise the loss is that of the batch alone, on this
    rank. It is part of `state_dict`. Call `reset` where the scores jump, as after loading other
    weights or a divergence. Scores of half precision are taken to float32. Without rows of one
    class in batch and memory the loss is 0, with a gradient of 0.

    Examples
    --------
    >>> import torch
    >>> from toppush.torch import TopPushLoss
    >>> loss = TopPushLoss(top=0.5, memory=0)
    >>> scores = torch.tensor([2.0, 0.5, -1.0], requires_grad=True)
    >>> value = loss(scores, torch.tensor([1, 0, 0]))
    >>> value.backward()
    >>> round(value.item(), 3), bool(scores.grad[0] < 0)
    (0.174, True)
    """

    def __init__(
        self, top: float = 0.1, *, memory: int = 1024, smoothing: float = 0.5, gather: bool = True
    ) -> None:
        super().__init__()
        if not 0.0 < top <= 1.0:
            raise ValueError(f"top is a share of the negatives, above 0 up to 1.0, found {top!r}.")
        if not smoothing > 0.0:
            raise ValueError(f"smoothing must be above 0, found {smoothing!r}.")
        if memory < 0:
            raise ValueError(f"memory is a number of scores, 0 or more, found {memory!r}.")
        self.top, self.memory, self.smoothing = float(top), memory, smoothing
        self.gather = gather
        self.positives = ScoreMemory(min(memory, POSITIVES))
        self.negatives = ScoreMemory(memory)

    def forward(self, scores: Tensor, labels: Tensor, weight: Tensor | None = None) -> Tensor:
        """The loss of a batch.

        Parameters
        ----------
        scores : tensor of shape (B,) or (B, 1)
            Higher ranks first.
        labels : tensor of the same shape
            1 or True for positives, 0 or False for negatives.
        weight : tensor of the same shape, optional
            How much each row counts, 0 or more.

        Returns
        -------
        tensor of no dimension
        """
        if torch.compiler.is_compiling():  # a compiled step runs the loss as it is
            as_it_is: Any = torch.compiler.disable
            return as_it_is(self._of_batch)(scores, labels, weight)
        return self._of_batch(scores, labels, weight)

    def reset(self) -> None:
        """Forget the scores of earlier batches."""
        self.positives.reset()
        self.negatives.reset()

    def _of_batch(self, scores: Tensor, labels: Tensor, weight: Tensor | None) -> Tensor:
        learns = self.training and torch.is_grad_enabled()
        with torch.autocast(scores.device.type, enabled=False):
            rows = read_batch(scores, labels, weight)
            if learns and self.gather and several_ranks():
                rows = gathered(*rows)
            return self._with_memory(*rows) if learns and self.memory else self._alone(*rows)

    def _alone(self, scores: Tensor, labels: Tensor, weight: Tensor) -> Tensor:
        positives, negatives = by_class(scores, labels, weight)
        if not positives.weight.sum() * negatives.weight.sum() > 0:
            return zero_loss(scores)
        return pairwise_loss(positives, negatives, self.top, self.smoothing)

    def _with_memory(self, scores: Tensor, labels: Tensor, weight: Tensor) -> Tensor:
        self.to(scores.device)
        positives, negatives = by_class(scores, labels, weight)
        loss = zero_loss(scores)
        if self.positives.weight_with(positives) * self.negatives.weight_with(negatives) > 0:
            together = self.positives.joined(positives), self.negatives.joined(negatives)
            loss = pairwise_loss(*together, self.top, self.smoothing)
        self.positives.remember(positives)
        self.negatives.remember(negatives)
        return loss

    def extra_repr(self) -> str:
        """The parameters, for `repr`."""
        return f"top={self.top}, memory={self.memory}, smoothing={self.smoothing}"


def read_batch(
    scores: Tensor, labels: Tensor, weight: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Scores, labels and weights as vectors of one length, in float32 or float64."""
    for name, values in {"scores": scores, "labels": labels, "weight": weight}.items():
        if values is not None and (values.ndim not in (1, 2) or values.shape[1:].numel() != 1):
            raise ValueError(
                f"{name} must have shape (B,) or (B, 1), found {tuple(values.shape)}; "
                "this loss is of two classes, with one score for each row."
            )
        if values is not None and len(values) != len(scores):
            raise ValueError(f"There are {len(scores)} scores and {len(values)} {name}.")
    labels = labels.reshape(-1)
    if not ((labels == 0) | (labels == 1)).all():
        raise ValueError("labels must be 0 or 1; pass (labels == positive).")
    scores = scores.reshape(-1)
    scores = scores if scores.dtype == torch.float64 else scores.float()
    rows = torch.ones_like(scores) if weight is None else weight.reshape(-1).to(scores)
    return scores, labels, rows.detach()


def by_class(scores: Tensor, labels: Tensor, weight: Tensor) -> tuple[Scored, Scored]:
    """The positives and the negatives of a batch."""
    positive = labels == 1
    negative = ~positive
    return Scored(scores[positive], weight[positive]), Scored(scores[negative], weight[negative])


def zero_loss(scores: Tensor) -> Tensor:
    """A loss of 0 with a gradient of 0."""
    return scores.sum() * 0.0
