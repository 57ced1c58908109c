"""The push for networks: a loss for your own training loop in torch, the extra [gpu].

`TopPushLoss` takes the scores and labels of a batch, from any sampler and with any optimiser.
"""

from toppush.system.extras import needs

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError(needs("toppush.torch", "torch")) from error

from toppush.torch.loss import TopPushLoss

__all__ = ["TopPushLoss"]
