"""From logits to probabilities to tokens, each row by its own parameters.

Temperature, then top-k, top-p and min-p, each on what the ones before it left. Every filter is a
threshold on logits: equally likely tokens are kept or dropped together, so at the boundary of top-k
and top-p all of them are kept.

Shapes: N rows, M of them, V vocabulary, B blocks of C tokens.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from engine.errors import EngineError

ROWS_AT_ONCE: Final = 32  # what a pass over the vocabulary touches should stay in the caches
BLOCK: Final = 256
# How many of the likeliest tokens are sorted in search of the top-p boundary, before all are.
SORTED: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """Temperature 0 is greedy; top_k 0, top_p 1 and min_p 0 filter nothing; seeds are 64 bits."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        legal = {
            "temperature": 0.0 <= self.temperature < float("inf"),
            "top_k": self.top_k >= 0,
            "top_p": 0.0 < self.top_p <= 1.0,
            "min_p": 0.0 <= self.min_p <= 1.0,
            "seed": 0 <= self.seed < 1 << 64,
        }
        for name, fine in legal.items():
            if not fine:
                raise EngineError(f"{name} cannot be {getattr(self, name)}")

    @property
    def greedy(self) -> bool:
        """Whether the likeliest token is taken, the lowest id of equals."""
        return self.temperature == 0.0


def transform(logits_NV: Tensor, params: Sequence[SamplingParams]) -> Tensor:
    """The distribution [N, V] that each row is drawn from, in float32; a greedy row is one-hot."""
    probs_NV = torch.zeros_like(logits_NV)
    greedy, drawn = _split(params)
    if greedy:
        best_M1 = logits_NV[greedy].argmax(dim=-1, keepdim=True)
        probs_NV[greedy] = torch.zeros_like(logits_NV[greedy]).scatter_(1, best_M1, 1.0)
    for rows in _chunks(drawn):
        weights_MV = _weights(logits_NV[rows], [params[row] for row in rows])
        probs_NV[rows] = weights_MV / weights_MV.sum(dim=-1, keepdim=True)
    return probs_NV


def sample(
    logits_NV: Tensor, params: Sequence[SamplingParams], uniforms_N: npt.ArrayLike
) -> Tensor:
    """A token [N] a row: the inverse of its distribution function, ids ascending, at its uniform.

    A uniform lies in (0, 1); a token of probability 0 is never returned. Greedy rows ignore theirs.
    """
    tokens_N = torch.empty(len(params), dtype=torch.int64)
    uniform_N = torch.as_tensor(np.asarray(uniforms_N, dtype=np.float64))
    greedy, drawn = _split(params)
    if greedy:
        tokens_N[greedy] = (logits_NV if not drawn else logits_NV[greedy]).argmax(dim=-1)
    for rows in _chunks(drawn):
        weights_MV = _weights(logits_NV[rows], [params[row] for row in rows])
        tokens_N[rows] = invert(weights_MV, uniform_N[rows])
    return tokens_N


def invert(weights_NV: Tensor, uniform_N: Tensor) -> Tensor:
    """The first token [N] whose cumulative weight exceeds `uniform` times the total.

    Weights need not be normalised. Sums are in float64: first over blocks, then within one.
    """
    N, V = weights_NV.shape
    blocks = -(-V // BLOCK)
    if V % BLOCK:
        weights_NV = torch.nn.functional.pad(weights_NV, (0, blocks * BLOCK - V))
    weights_NBC = weights_NV.view(N, blocks, BLOCK)
    ends_NB = weights_NBC.sum(dim=-1, dtype=torch.float64).cumsum(dim=-1)
    wanted_N1 = uniform_N[:, None] * ends_NB[:, -1:]
    block_N1 = _first_above(ends_NB, wanted_N1)
    before_N1 = torch.where(block_N1 > 0, ends_NB.gather(1, (block_N1 - 1).clamp(min=0)), 0.0)
    inside_NC = weights_NBC[torch.arange(N), block_N1[:, 0]].cumsum(dim=-1, dtype=torch.float64)
    return (block_N1 * BLOCK + _first_above(inside_NC, wanted_N1 - before_N1))[:, 0]


def _first_above(cumulative_NX: Tensor, wanted_N1: Tensor) -> Tensor:
    """Rounding may leave `wanted` outside of the range by a trace; what has no weight is skipped."""
    total_N1 = cumulative_NX[:, -1:]
    below_total_N1 = torch.minimum(wanted_N1.clamp(min=0.0), total_N1 * (1.0 - 2.0**-53))
    return torch.searchsorted(cumulative_NX, below_total_N1, right=True)


def _weights(logits_MV: Tensor, params: Sequence[SamplingParams]) -> Tensor:
    """Unnormalised probabilities of rows that are drawn, the likeliest token having weight 1."""
    temperature_M1 = _column(params, lambda each: each.temperature)
    top_M1 = logits_MV.amax(dim=-1, keepdim=True)
    scaled_MV = (logits_MV - top_M1).div_(temperature_M1)
    least_M1 = torch.full_like(top_M1, -torch.inf)
    _apply_top_k(scaled_MV, params, least_M1)
    _apply_top_p(scaled_MV, params, least_M1)
    if any(each.min_p for each in params):
        least_M1 = torch.maximum(least_M1, _column(params, lambda each: each.min_p).log())
    if any(_filters(each) for each in params):
        scaled_MV.masked_fill_(scaled_MV < least_M1, -torch.inf)
    return scaled_MV.exp_()


def _apply_top_k(scaled_MV: Tensor, params: Sequence[SamplingParams], least_M1: Tensor) -> None:
    V = scaled_MV.shape[1]
    rows = [row for row, each in enumerate(params) if 0 < each.top_k < V]
    if not rows:
        return
    ranks = [params[row].top_k - 1 for row in rows]
    best_MX = scaled_MV[rows].topk(max(ranks) + 1, dim=-1).values
    least_M1[rows] = best_MX.gather(1, torch.tensor(ranks)[:, None])


def _apply_top_p(scaled_MV: Tensor, params: Sequence[SamplingParams], least_M1: Tensor) -> None:
    """The boundary is the first token, likeliest first, with which the mass reaches top_p."""
    rows = [row for row, each in enumerate(params) if each.top_p < 1.0]
    if not rows:
        return
    sorted_count = min(SORTED, scaled_MV.shape[1])
    while rows:
        chosen_MV = scaled_MV[rows]
        kept_MV = chosen_MV.masked_fill(chosen_MV < least_M1[rows], -torch.inf)
        share_M1 = _column([params[row] for row in rows], lambda each: each.top_p)
        wanted_M1 = kept_MV.exp().sum(dim=-1, keepdim=True, dtype=torch.float64) * share_M1
        best_MX = kept_MV.topk(sorted_count, dim=-1).values
        mass_MX = best_MX.exp().cumsum(dim=-1, dtype=torch.float64)
        whole = sorted_count == scaled_MV.shape[1]
        found = ((mass_MX[:, -1:] >= wanted_M1) | whole)[:, 0].tolist()
        boundary_M1 = torch.searchsorted(mass_MX, wanted_M1).clamp(max=sorted_count - 1)
        value_M1 = best_MX.gather(1, boundary_M1)
        done = [index for index, fine in enumerate(found) if fine]
        least_M1[[rows[index] for index in done]] = value_M1[done]
        rows = [row for row, fine in zip(rows, found, strict=True) if not fine]
        sorted_count = scaled_MV.shape[1]


def _column(params: Sequence[SamplingParams], value: Callable[[SamplingParams], float]) -> Tensor:
    return torch.tensor([[value(each)] for each in params], dtype=torch.float32)


def _filters(params: SamplingParams) -> bool:
    return params.top_k > 0 or params.top_p < 1.0 or params.min_p > 0.0


def _split(params: Sequence[SamplingParams]) -> tuple[list[int], list[int]]:
    greedy = [row for row, each in enumerate(params) if each.greedy]
    return greedy, [row for row, each in enumerate(params) if not each.greedy]


def _chunks(rows: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(rows), ROWS_AT_ONCE):
        yield rows[start : start + ROWS_AT_ONCE]
