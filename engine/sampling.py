"""From logits to probabilities to tokens, each row by its own parameters.

Temperature, then top-k, top-p and min-p, each on what the ones before it left. Every filter is a
threshold on logits: equally likely tokens are kept or dropped together, so at the boundary of top-k
and top-p all of them are kept.

Shapes: N rows, M of them, V vocabulary, C candidates; *scaled* logits are divided by the temperature
and have 0 for the likeliest token, *weights* are their exponentials.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from engine.inversion import first_above, invert
from engine.params import COLDEST, SamplingParams

__all__ = ["SamplingParams", "sample", "transform"]

ROWS_AT_ONCE: Final = 8  # what a pass over the vocabulary touches should stay in the caches
# Tokens whose weight is below exp(FLOOR) have none. Exponentials that underflow are very slow, and
# all of these together are less than a step of a uniform number.
FLOOR: Final = -80.0
# How many of the likeliest tokens are sorted in search of the top-p boundary, before all are.
SORTED: Final = 4096

Floats = npt.NDArray[np.float32]


def transform(logits_NV: Tensor, params: Sequence[SamplingParams]) -> Tensor:
    """The distribution [N, V] that each row is drawn from, in float32; a greedy row is one-hot."""
    probs_NV = torch.zeros_like(logits_NV)
    greedy, drawn = _split(params)
    if greedy:
        probs_NV[greedy, _argmax(logits_NV[greedy])] = 1.0
    for rows in _chunks(drawn):
        scaled_MV = _scaled(logits_NV, rows, params)
        weights_MV = scaled_MV.clamp(min=FLOOR).exp_()
        for row, scaled_V, weights_V in zip(
            rows, scaled_MV.numpy(), weights_MV.numpy(), strict=True
        ):
            np.multiply(weights_V, scaled_V >= _boundary(scaled_V, params[row]), out=weights_V)
        probs_NV[rows] = weights_MV.div_(weights_MV.sum(dim=-1, keepdim=True))
    return probs_NV


def sample(
    logits_NV: Tensor, params: Sequence[SamplingParams], uniforms_N: npt.ArrayLike
) -> Tensor:
    """A token [N] a row: the inverse of its distribution function, ids ascending, at its uniform.

    A uniform lies in (0, 1); a token of probability 0 is never returned. Greedy rows ignore theirs.
    """
    uniform_N = np.asarray(uniforms_N, dtype=np.float64)
    greedy, drawn = _split(params)
    if not drawn:
        return _argmax(logits_NV)
    tokens_N = torch.empty(len(params), dtype=torch.int64)
    for row in greedy:  # one after the other: all together they would be copied first
        tokens_N[row] = _argmax(logits_NV[row])
    for rows in _chunks([row for row in drawn if not params[row].filters]):
        scaled_MV = _scaled(logits_NV, rows, params)
        weights_MV = scaled_MV.clamp_(min=FLOOR).exp_()
        tokens_N[rows] = invert(weights_MV, torch.from_numpy(uniform_N[rows]))
    for rows in _chunks([row for row in drawn if params[row].filters]):
        scaled_MV = _scaled(logits_NV, rows, params)
        for row, scaled_V in zip(rows, scaled_MV.numpy(), strict=True):
            tokens_N[row] = _draw(scaled_V, params[row], uniform_N[row])
    return tokens_N


def _draw(scaled_V: Floats, params: SamplingParams, uniform: float) -> int:
    """A token of the few that the filters leave."""
    kept_C = np.flatnonzero(scaled_V >= _boundary(scaled_V, params))
    cumulative_C = np.exp(scaled_V[kept_C], dtype=np.float64).cumsum()
    return int(kept_C[first_above(cumulative_C, uniform * cumulative_C[-1])])


def _boundary(scaled_V: Floats, params: SamplingParams) -> float:
    """The least scaled logit that is kept."""
    least = FLOOR
    kept = scaled_V
    if 0 < params.top_k < scaled_V.size:
        cut = scaled_V.size - params.top_k
        least = max(least, float(np.partition(scaled_V, cut)[cut]))
        kept = scaled_V[scaled_V >= least]
    if params.top_p < 1.0:
        least = max(least, _top_p_boundary(kept, params.top_p))
    if params.min_p > 0.0:
        least = max(least, float(np.log(params.min_p)))
    return least


def _top_p_boundary(scaled_C: Floats, share: float) -> float:
    """The first token, likeliest first, with which the mass reaches its share of the total."""
    wanted = share * np.exp(np.maximum(scaled_C, FLOOR)).sum(dtype=np.float64)
    for count in (SORTED, scaled_C.size):
        cut = max(scaled_C.size - count, 0)
        best_C = np.sort(np.partition(scaled_C, cut)[cut:] if cut else scaled_C)[::-1]
        mass_C = np.exp(np.maximum(best_C, FLOOR), dtype=np.float64).cumsum()
        if mass_C[-1] >= wanted:
            break
    return float(best_C[min(int(mass_C.searchsorted(wanted)), best_C.size - 1)])


def _scaled(logits_NV: Tensor, rows: Sequence[int], params: Sequence[SamplingParams]) -> Tensor:
    first, end = rows[0], rows[-1] + 1
    together = end - first == len(rows)  # a slice spares a copy
    logits_MV = logits_NV[first:end] if together else logits_NV[rows]
    temperature_M1 = torch.tensor([[max(params[row].temperature, COLDEST)] for row in rows])
    return (logits_MV - logits_MV.amax(dim=-1, keepdim=True)).div_(temperature_M1)


def _argmax(logits_NV: Tensor) -> Tensor:
    """The lowest id of the largest; numpy finds it eight times as fast as torch."""
    return torch.as_tensor(logits_NV.numpy().argmax(axis=-1))


def _split(params: Sequence[SamplingParams]) -> tuple[list[int], list[int]]:
    greedy = [row for row, each in enumerate(params) if each.greedy]
    return greedy, [row for row, each in enumerate(params) if not each.greedy]


def _chunks(rows: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(rows), ROWS_AT_ONCE):
        yield rows[start : start + ROWS_AT_ONCE]
