"""Draws that can be told in a few numbers: the likeliest tokens of a row, renormalised, rounded, then drawn from.

Shapes: N rows, V vocabulary, K likeliest tokens.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from torch import Tensor

from engine.params import SamplingParams
from engine.sampling import transform

Ids = npt.NDArray[np.int32]
Values = npt.NDArray[np.float32]


def truncated(logits_NV: Tensor, params: Sequence[SamplingParams], size: int) -> tuple[Ids, Values]:
    """Ids and float32 probabilities [N, K] of the `size` likeliest tokens of each row, likeliest first.

    Temperature and filters act on these alone, so what they leave sums to 1 but for rounding; a greedy row is one-hot.
    """
    best = logits_NV.topk(min(size, logits_NV.shape[1]), dim=-1)
    probs_NK = transform(best.values, params)
    return best.indices.numpy().astype(np.int32), probs_NK.numpy()


def pick(weights: Sequence[float], uniform: float) -> int:
    """The first place at which the running sum of the weights exceeds `uniform` times all of it.

    Sums are of float64, from left to right. A place without weight is never returned; `uniform` lies in (0, 1).
    Any numbers that can be added, multiplied and compared will do.
    """
    wanted = uniform * sum(weights)
    reached: float = 0
    last = 0
    for place, weight in enumerate(weights):
        if weight > 0:
            reached += weight
            last = place
            if wanted < reached:
                return place
    return last  # rounding pushed `wanted` to the very end
