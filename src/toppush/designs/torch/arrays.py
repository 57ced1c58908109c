"""The operations of `toppush.designs.arrays` on torch's tensors.

array-api-compat would not shorten this: what takes the lines, `wrightomega`, `cholesky` that says
whether there is a factor, `cholesky_solve`, sums that may be empty and results put into `out`, is
not in the array API standard. The names that are in it take a line each here, at no cost per call.
"""

import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from toppush.designs.arrays import Arrays, Costs, register

Tensor = Any
"""A torch tensor. Torch may be absent where types are checked, so no type says more."""


class TorchArrays:
    """The operations of `toppush.designs.arrays.Arrays` on the tensors of a device."""

    chunk = sys.maxsize
    costs = Costs(read=5e-12, step=5e-4, vector=5e-11, factor=1e-12, solve=5e-12)  # an H200

    stack = staticmethod(torch.stack)
    concatenate = staticmethod(torch.cat)
    column_stack = staticmethod(torch.column_stack)
    unique = staticmethod(torch.unique)
    clip = staticmethod(torch.clamp)
    negative = staticmethod(torch.negative)
    square = staticmethod(torch.square)
    sqrt = staticmethod(torch.sqrt)
    exp = staticmethod(torch.exp)
    log = staticmethod(torch.log)
    log1p = staticmethod(torch.log1p)
    expit = staticmethod(torch.special.expit)
    xlogy = staticmethod(torch.special.xlogy)
    isfinite = staticmethod(torch.isfinite)
    diagonal = staticmethod(torch.diagonal)

    def __init__(self, device: Any) -> None:
        self.device = device

    def zeros(self, shape: Any) -> Tensor:
        return torch.zeros(shape, dtype=torch.float64, device=self.device)

    def empty(self, shape: Any) -> Tensor:
        return torch.empty(shape, dtype=torch.float64, device=self.device)

    def asarray(self, values: Any) -> Tensor:
        if isinstance(values, torch.Tensor):
            return values.to(self.device)
        # CUDA has copied from ordinary memory before it returns, so nothing need wait.
        return torch.tensor(np.asarray(values)).to(self.device, non_blocking=True)

    def broadcast_to(self, value: float, shape: int) -> Tensor:
        return torch.full((shape,), value, dtype=torch.float64, device=self.device)

    def flatnonzero(self, values: Tensor) -> Tensor:
        return torch.nonzero(values, as_tuple=True)[0]

    def where(self, condition: Tensor, x: Any, y: Any) -> Tensor:
        if not isinstance(x, torch.Tensor) and not isinstance(y, torch.Tensor):
            x = torch.full_like(condition, x, dtype=torch.float64)
        return torch.where(condition, x, y)

    def maximum(self, x: Tensor, y: Any, out: Tensor | None = None) -> Tensor:
        if isinstance(y, torch.Tensor):
            return torch.maximum(x, y, out=out)
        return torch.clamp(x, min=y, out=out)

    def logaddexp(self, x: float, y: Tensor) -> Tensor:
        return torch.logaddexp(torch.full_like(y, x), y)

    def wrightomega(self, values: Tensor) -> Tensor:
        """The w with w + log w = x: SciPy's start, then two steps of Fritsch, Shafer, Crowley."""
        large = torch.log(torch.clamp(values, min=1.0))
        large = values - large + large / torch.clamp(values, min=1.0)
        middle = torch.exp(2.0 * (values - 1.0) / 3.0)
        small = torch.exp(torch.clamp(values, min=-700.0))
        omega = torch.where(values < -2.0, small, torch.where(values < 1.0, middle, large))
        for _ in range(2):
            off, above = values - omega - torch.log(omega), omega + 1.0
            twice = 2.0 * above * (above + 2.0 / 3.0 * off)
            omega = omega * (1.0 + off / above * (twice - off) / (twice - 2.0 * off))
        omega = torch.where(values < -50.0, torch.exp(values), omega)
        return torch.where(values > 1e20, values, omega)

    def max(self, values: Tensor, initial: float) -> Any:
        return torch.clamp(values.amax(), min=initial) if len(values) else initial

    def min(self, values: Tensor, initial: float) -> Any:
        return torch.clamp(values.amin(), max=initial) if len(values) else initial

    def count_nonzero(self, values: Tensor) -> Tensor:
        return torch.count_nonzero(values).double()

    def count_between(self, values: Tensor, edges: Tensor) -> Tensor:
        places = torch.searchsorted(self.asarray(edges), values)
        return torch.bincount(places, minlength=len(edges) + 1).double()

    def cholesky(self, matrix: Tensor) -> tuple[Tensor, int]:
        factor, info = torch.linalg.cholesky_ex(matrix)
        return factor, int(info)

    def cholesky_solve(self, factor: Tensor, right: Tensor) -> Tensor:
        if right.ndim == 1:
            return torch.cholesky_solve(right[:, None], factor)[:, 0]
        return torch.cholesky_solve(right, factor)

    def solver(self, factor: Tensor) -> Callable[[Tensor], Tensor]:
        """By the inverse of the factor, whose rows a GPU computes at once."""
        identity = torch.eye(len(factor), dtype=factor.dtype, device=self.device)
        inverse = torch.linalg.solve_triangular(factor, identity, upper=False)
        return lambda right: inverse.T @ (inverse @ right)

    def to_host(self, values: Tensor) -> NDArray[Any]:
        array: NDArray[Any] = values.cpu().numpy()
        return array

    def floats(self, numbers: Sequence[Tensor]) -> list[float]:
        floats: list[float] = torch.stack([number.double() for number in numbers]).tolist()
        return floats


@cache
def arrays_on(device: Any) -> Arrays:
    """The operations on a device's tensors."""
    return cast(Arrays, TorchArrays(device))


register(torch.Tensor, lambda tensor: arrays_on(tensor.device))
