"""The pairwise push as a module for training loops."""

from typing import Any

import torch
from torch import nn

from toppush.torch.memory import ScoreMemory
from toppush.torch.pairs import Scored, Tensor, pairwise_loss
from toppush.torch.ranks import gathered, several_ranks

POSITIVES = 64
"""Scores of positives that are remembered at most: enough for a mean, and each costs a pair with
every negative."""


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
        of many rows, and up to 64 positives', so that a batch without any still says something.
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
            return nothing(scores)
        return pairwise_loss(positives, negatives, self.top, self.smoothing)

    def _with_memory(self, scores: Tensor, labels: Tensor, weight: Tensor) -> Tensor:
        self.to(scores.device)
        positives, negatives = by_class(scores, labels, weight)
        loss = nothing(scores)
        if self.positives.weight_with(positives) * self.negatives.weight_with(negatives) > 0:
            together = self.positives.joined(positives), self.negatives.joined(negatives)
            loss = pairwise_loss(*together, self.top, self.smoothing)
        self.positives.remember(positives)
        self.negatives.remember(negatives)
        return loss

    def extra_repr(self) -> str:
        """What was chosen."""
        return f"top={self.top}, memory={self.memory}, smoothing={self.smoothing}"


def read_batch(
    scores: Tensor, labels: Tensor, weight: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Scores, labels and weights as vectors of one length, in float32 or float64."""
    given = {"scores": scores, "labels": labels, "weight": weight}
    for name, values in given.items():
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


def nothing(scores: Tensor) -> Tensor:
    """A loss of 0 with a gradient of 0."""
    return scores.sum() * 0.0
