"""The batches of all processes of a distributed training as one."""

import torch
from torch import distributed

from toppush.torch.pairs import Tensor, scaled


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
    found = [torch.empty_like(values) for _ in range(distributed.get_world_size())]
    distributed.all_gather(found, values)
    return found
