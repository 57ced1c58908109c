"""The push for networks: a loss for your own training loop in torch, the extra [gpu].

`TopPushLoss` takes the scores and labels of a batch, from any sampler and with any optimiser.
"""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError("toppush.torch needs torch: pip install 'toppush[gpu]'.") from error

from toppush.torch.loss import TopPushLoss

__all__ = ["TopPushLoss"]
