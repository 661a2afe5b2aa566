"""Tokens drawn from rows of logits where these are, by Triton's kernels; see `engine.sampling` for what is meant.

Shapes: N rows, V vocabulary, C chunks of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from engine.kernels.sampling import filter_rows, finish_rows, summarise
from engine.params import SamplingParams, depth
from engine.philox import Role

CHUNK: Final = 2048
STEP: Final = 512
PIVOTS: Final = 16
UNFILTERED: Final = 2**31 - 1
REGISTERS: Final = 96
"""Of a thread that filters: left to itself the compiler takes fewer, and spills where chunks are many."""


@dataclass(frozen=True, slots=True)
class Summary:
    """Of each chunk of a row: the largest logit, the lowest token that has it, the weights at the row's temperature."""

    top_NC: Tensor
    best_NC: Tensor
    sum_NC: Tensor
    chunk: int

    @property
    def chunks(self) -> int:
        """Of a row."""
        return self.top_NC.shape[1]

    @property
    def held(self) -> int:
        """The same as kernels count: up to a power of two."""
        return 1 << (self.chunks - 1).bit_length()


def wishes(
    params: Sequence[SamplingParams], choices: Sequence[int], positions: Sequence[int]
) -> dict[str, npt.NDArray[Any]]:
    """How each row is drawn from and what names its draw, as `sample` takes it from the device."""
    filtered = [row for row, each in enumerate(params) if each.filters and not each.greedy]
    return {
        "heat": np.array([each.temperature for each in params], np.float32),
        "top_k": np.array([min(each.top_k, UNFILTERED) for each in params], np.int32),
        "top_p": np.array([each.top_p for each in params], np.float64),
        "floor": np.array([depth(each.min_p) for each in params], np.int32),
        "seeds": np.array([each.seed for each in params], np.uint64).view(np.int64),
        "choices": np.array(choices, np.int64),
        "positions": np.array(positions, np.int64),
        "filtered": np.array(filtered, np.int32),
    }


def sample(
    logits_NV: Tensor, on: Mapping[str, Tensor], summary: Summary | None = None
) -> tuple[Tensor, Tensor]:
    """A token [N] a row as the target would draw it there, and how likely it was.

    Rows are drawn from as `wishes` said. A greedy row's chance is what temperature 1 would give it. `summary` is
    made anew where it is not known.
    """
    new = logits_NV.new_empty
    rows = new(len(logits_NV), dtype=torch.int32), new(len(logits_NV), dtype=torch.int32)
    made = summarised(logits_NV, on) if summary is None else summary
    top_N, _, total_N = finished(logits_NV, on, made, rows, draw=True)
    token_N = rows[0].long()
    below_N = logits_NV.gather(1, token_N[:, None])[:, 0] - top_N
    chance_N = (below_N / on["heat"]).exp() / total_N
    soft_N = (top_N - logits_NV.logsumexp(dim=-1)).exp()
    chance_N = torch.where(on["heat"] > 0, chance_N.float(), soft_N)
    return token_N, chance_N.nan_to_num(0.0).clamp(max=1.0)


def summarised(logits_NV: Tensor, on: Mapping[str, Tensor], chunk: int = CHUNK) -> Summary:
    """What is known of rows a chunk at a time; `on` has their temperatures, and masks where they have some."""
    N, V = logits_NV.shape
    chunks = -(-V // chunk)
    new = logits_NV.new_empty
    made = Summary(new(N, chunks), new(N, chunks, dtype=torch.int32), new(N, chunks), chunk)
    masks = on.get("masks")
    summarise[(N, chunks)](
        logits_NV, made.best_NC if masks is None else masks, on.get("mask_row", made.best_NC),
        made.top_NC, made.best_NC, made.sum_NC, on["heat"],
        V, chunks, 0 if masks is None else masks.shape[1],
        BLOCK=chunk, MASKS=masks is not None, num_warps=4,
    )  # fmt: skip
    return made


def finished(
    logits_NV: Tensor,
    on: Mapping[str, Tensor],
    made: Summary,
    rows: tuple[Tensor, Tensor],
    *,
    draw: bool,
    step: int = STEP,
) -> tuple[Tensor, Tensor, Tensor]:
    """Fill `rows` with a token and a state each, drawn or the likeliest.

    Returned are each row's largest logit, the depth down to which its filters keep, and the weight of what they keep.
    """
    N, V = logits_NV.shape
    top_N, total_N = logits_NV.new_empty(N), logits_NV.new_empty(N, dtype=torch.float64)
    depth_N = torch.full((N,), UNFILTERED, dtype=torch.int32, device=logits_NV.device)
    if filtered := len(on["filtered"]):
        filter_rows[(filtered,)](
            logits_NV, on["filtered"], made.top_NC, made.sum_NC, top_N, depth_N,
            on["heat"], on["top_k"], on["top_p"], on["floor"], made.chunks, V,
            BLOCK=made.chunk, CHUNKS=made.held, STEP=min(step, made.chunk), J=PIVOTS,
            num_warps=4, maxnreg=REGISTERS,
        )  # fmt: skip
    token_N, state_N = rows
    finish_rows[(N,)](
        logits_NV, made.top_NC, made.best_NC, made.sum_NC, top_N, depth_N, total_N, token_N, state_N,
        on["heat"], on["seeds"], on["choices"], on["positions"], made.chunks, V,
        BLOCK=made.chunk, CHUNKS=made.held, DRAW=draw, ROLE=int(Role.TARGET), num_warps=4,
    )  # fmt: skip
    return top_N, depth_N, total_N
