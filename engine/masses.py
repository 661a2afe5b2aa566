"""What the target's distribution gives to a few tokens of each row, and draws from what is left of it.

A row is never made into probabilities as a whole: a few rows at a time are exponentiated, looked at and forgotten.
Distributions are those of `engine.sampling`: temperature, top-k, top-p, min-p; a greedy row is one-hot.

Shapes: N rows, M of them, V vocabulary, K ids (of a row; rows may differ).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from engine.inversion import first_above
from engine.params import SamplingParams
from engine.sampling import FLOOR, _boundary, _chunks, _scaled, _split

Ids = npt.NDArray[np.int32]
Numbers = npt.NDArray[np.float64]


class Mass(NamedTuple):
    """Probabilities [K] of the ids that were asked for, and of all other tokens together."""

    inside: Numbers
    rest: float


def masses(
    logits_NV: Tensor, params: Sequence[SamplingParams], ids: Sequence[Ids | None]
) -> list[Mass | None]:
    """For each row the mass of its (distinct) ids [K]; None where the row holds a NaN, an infinity, or nothing at all.

    Rows without ids are not looked at, and yield None as well. A token that a filter or a mask excludes has a
    probability of exactly 0. Weights are of float32.
    """
    found: list[Mass | None] = [None] * len(params)
    greedy, drawn = _split(params)
    for row in greedy:
        if (ids_K := ids[row]) is not None:
            found[row] = _one_hot(logits_NV[row], ids_K)
    asked = [row for row in drawn if ids[row] is not None]
    for rows in _chunks([row for row in asked if params[row].filters]):
        for row, scaled_V in zip(rows, _scaled(logits_NV, rows, params).numpy(), strict=True):
            ids_K = ids[row]
            if ids_K is not None and scaled_V.max() == 0.0:  # a NaN is not
                found[row] = _filtered(scaled_V, _boundary(scaled_V, params[row]), ids_K)
    for rows in _chunks([row for row in asked if not params[row].filters]):
        wanted = [ids_K for row in rows if (ids_K := ids[row]) is not None]
        scaled_MV = _scaled(logits_NV, rows, params)
        possible = [
            scaled_V[ids_K] >= FLOOR
            for ids_K, scaled_V in zip(wanted, scaled_MV.numpy(), strict=True)
        ]
        weights_MV = scaled_MV.clamp_(min=FLOOR).exp_()
        inside = []
        for ids_K, weights_V, possible_K in zip(wanted, weights_MV.numpy(), possible, strict=True):
            inside.append(weights_V[ids_K] * possible_K.astype(np.float64))
            weights_V[ids_K] = 0.0
        rest_M = weights_MV.sum(dim=-1).tolist()
        for row, weights_K, rest in zip(rows, inside, rest_M, strict=True):
            total = float(weights_K.sum()) + rest
            if 0.0 < total < np.inf:
                found[row] = Mass(weights_K / total, rest / total)
    return found


def _filtered(scaled_V: npt.NDArray[np.float32], least: float, ids_K: Ids) -> Mass:
    """Of the few tokens that filters leave; the row is used up."""
    scaled_K = scaled_V[ids_K]
    inside_K = np.exp(scaled_K, dtype=np.float64) * (scaled_K >= least)
    scaled_V[ids_K] = -np.inf
    rest = float(np.exp(scaled_V[scaled_V >= least], dtype=np.float64).sum())
    total = float(inside_K.sum()) + rest
    return Mass(inside_K / total, rest / total)


def _one_hot(logits_V: Tensor, ids_K: Ids) -> Mass | None:
    row_V = logits_V.numpy()
    best = row_V.argmax()  # the first NaN, if there is one
    if not np.isfinite(row_V[best]):
        return None
    inside_K = (ids_K == best).astype(np.float64)
    return Mass(inside_K, 1.0 - float(inside_K.sum()))


def usable(logits_NV: Tensor) -> list[bool]:
    """Whether something can be drawn from each row: a largest logit that is a number."""
    result: list[bool] = torch.isfinite(logits_NV.amax(dim=-1)).tolist()
    return result


def draw_rest(
    logits_V: Tensor, params: SamplingParams, ids: Ids, taken: Numbers, uniform: float
) -> int:
    """A token of what is left of a row's distribution when `taken` [K] is taken off the probabilities of `ids` [K].

    No probability falls below 0. Where nothing is left, which only rounding can bring about, the whole distribution is
    drawn from. The row must be usable. A greedy row yields its likeliest token, whatever is taken.
    """
    if params.greedy:
        return int(logits_V.numpy().argmax())
    scaled_V = _scaled(logits_V[None], [0], [params])[0].numpy()
    least = _boundary(scaled_V, params)
    if params.filters:
        weights_V = np.zeros_like(scaled_V)
        kept_C = np.flatnonzero(scaled_V >= least)
        weights_V[kept_C] = np.exp(scaled_V[kept_C])
    else:
        weights_V = np.exp(np.maximum(scaled_V, FLOOR))
        np.multiply(weights_V, scaled_V >= least, out=weights_V)
    take(weights_V, ids, taken)
    cumulative_V = weights_V.cumsum(dtype=np.float64)
    return first_above(cumulative_V, uniform * cumulative_V[-1])


def take(weights_V: npt.NDArray[np.float32], ids: Ids, taken: Numbers) -> None:
    """Take `taken` [K], in units of the whole, off the weights of `ids` [K]; where nothing would be left, nothing is.

    Numbers of any exact kind do as well, as an array of objects.
    """
    if not len(ids):
        return
    before_K = weights_V[ids]
    weights_V[ids] = np.maximum(before_K - taken * weights_V.sum(), 0)
    if not weights_V.sum() > 0:
        weights_V[ids] = before_K
