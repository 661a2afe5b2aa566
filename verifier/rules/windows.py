"""What the rules share of windows: parameters of their draws, and coins that are a function of their names."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Final

import numpy as np

from engine.params import SamplingParams
from engine.philox import Role, uniforms
from verifier.step import Work

NOT_NUMBERS: Final = "the target's logits are not numbers"
"""Why a choice ends where nothing can be drawn: a NaN or an infinity, which only a broken target yields."""


def params_of(work: Work) -> SamplingParams:
    """How its tokens are drawn."""
    return SamplingParams.of(work.sampling)


def begins(windows: Sequence[Work]) -> list[int]:
    """The first row of logits of each window."""
    return [0, *accumulate(work.draws for work in windows)][: len(windows)]


def coins(windows: Sequence[Work], role: Role, *, fresh: bool = False) -> list[list[float]]:
    """For each window a coin for each of its positions, keyed by (seed, choice, position, role).

    With `fresh`, the committed length of the round is in the key too: a later round that reaches the same position
    throws another coin.
    """
    counts = [work.draws for work in windows]
    names = np.array(
        [(work.sampling.seed, work.choice, work.position if fresh else 0) for work in windows],
        np.uint64,
    )
    seeds_N, choices_N, bases_N = np.repeat(names, counts, axis=0).T
    positions_N = np.concatenate(
        [np.arange(work.position, work.position + work.draws) for work in windows]
    )
    thrown_N = uniforms(seeds_N, choices_N, positions_N, role, bases_N).tolist()
    return [
        thrown_N[begin : begin + count]
        for begin, count in zip(begins(windows), counts, strict=True)
    ]
