"""Scores of earlier batches, so that a batch can be seen among many rows."""

import torch
from torch import nn

from toppush.torch.pairs import Scored, Tensor, scaled

HORIZON = 100
"""Batches over which the usual weight of a batch is averaged."""


class ScoreMemory(nn.Module):
    """The last scores of a class with their weights, and what a batch usually holds of it.

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
        """Forget everything."""
        for buffer in self.buffers():
            buffer.zero_()

    def weight_with(self, batch: Scored) -> Tensor:
        """Weight of the rows of this class, in the batch and remembered."""
        return batch.weight.sum() + self.weights.sum()

    def joined(self, batch: Scored) -> Scored:
        """The batch, then what is remembered; the batch's gradient stands for all rows.

        In a mean over both, of which the remembered give no gradient, the batch would get its
        share alone. So that is multiplied by the weight of both over that of a usual batch, this
        one included; by the batch's own instead, a batch that happens to hold few rows of the
        class would give each of them more, and one without any would not be made up for.
        """
        kept = self.weights > 0
        weight = torch.cat([batch.weight, self.weights[kept].to(batch.weight)])
        self.batches += 1
        self.usual += (batch.weight.sum() - self.usual) / self.batches.clamp(max=HORIZON)
        estimate = scaled(batch.scores, weight.sum() / self.usual)
        return Scored(torch.cat([estimate, self.scores[kept].to(batch.scores)]), weight)

    def remember(self, batch: Scored) -> None:
        """Keep the batch's scores in place of the oldest; not those that are no number."""
        kept, length = torch.isfinite(batch.scores) & (batch.weight > 0), len(self.scores)
        scores, weight = batch.scores.detach()[kept][-length:], batch.weight[kept][-length:]
        where = (self.place + torch.arange(len(scores), device=scores.device)) % length
        self.scores[where], self.weights[where] = scores.to(self.scores), weight.to(self.weights)
        self.place.add_(len(scores)).remainder_(length)
