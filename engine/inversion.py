"""Drawing by inversion: the token at which a distribution function exceeds a uniform number.

Shapes: N rows, V vocabulary, B blocks of C tokens.
"""

from typing import Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

BLOCK: Final = 256


def invert(weights_NV: Tensor, uniform_N: Tensor) -> Tensor:
    """The first token [N] whose cumulative weight exceeds `uniform` times the total.

    Weights need not be normalised. Blocks are summed in float32 and everything else in float64.
    """
    N, V = weights_NV.shape
    blocks = -(-V // BLOCK)
    if V % BLOCK:
        weights_NV = torch.nn.functional.pad(weights_NV, (0, blocks * BLOCK - V))
    weights_NBC = weights_NV.view(N, blocks, BLOCK)
    ends_NB = weights_NBC.sum(dim=-1).cumsum(dim=-1, dtype=torch.float64)
    tokens_N = np.empty(N, dtype=np.int64)
    for row, (ends_B, uniform) in enumerate(zip(ends_NB.numpy(), uniform_N.numpy(), strict=True)):
        wanted = uniform * ends_B[-1]
        block = first_above(ends_B, wanted)
        before = ends_B[block - 1] if block else 0.0
        inside_C = weights_NBC[row, block].numpy().cumsum(dtype=np.float64)
        tokens_N[row] = block * BLOCK + first_above(inside_C, wanted - before)
    return torch.from_numpy(tokens_N)


def first_above(cumulative_C: npt.NDArray[np.float64], wanted: float) -> int:
    """The first place whose cumulative weight exceeds `wanted`; it has a weight itself.

    Rounding may have pushed `wanted` out of the range by a trace, to which the ends are closed.
    """
    inside = min(max(wanted, 0.0), np.nextafter(cumulative_C[-1], 0.0))
    return int(cumulative_C.searchsorted(inside, side="right"))
