"""Root-mean-square norms. Shapes: T rows, H numbers of each."""

from math import prod
from typing import Final

import torch
from torch import Tensor

TILE: Final = 1 << 17
"""Numbers at a time: half a MiB in float32 stays in the cache between the passes."""


def rms_norm(x_TH: Tensor, weight_H: Tensor, eps: float) -> Tensor:
    """Rows divided by the root of their mean square and scaled, computed in float32 and rounded once.

    For short numbers on a CPU, torch takes this apart into passes over the whole tensor, each with a tensor of its own;
    that is up to three times as slow for a chunk of a prompt. A row has the same bits alone and among others.
    """
    if x_TH.dtype is torch.float32 or x_TH.device.type != "cpu":
        return torch.nn.functional.rms_norm(x_TH, weight_H.shape, weight_H, eps)
    y_TH = torch.empty_like(x_TH)
    rows = max(1, TILE // max(1, prod(x_TH.shape[1:])))
    for x, y in zip(torch.split(x_TH, rows), torch.split(y_TH, rows), strict=True):
        wide = x.float()
        norm = torch.linalg.vector_norm(wide, dim=-1, keepdim=True)
        scale = norm.square_().div_(x.shape[-1]).add_(eps).rsqrt_()
        y.copy_(wide.mul_(scale).mul_(weight_H))
    return y_TH
