"""Rules that draw the target's own token at every position and keep drafts while they are what was drawn.

Shapes: N rows of logits, V vocabulary.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from engine.masses import usable
from engine.philox import Role, uniforms
from engine.sampling import _argmax, sample
from verifier.rules.windows import NOT_NUMBERS, params_of
from verifier.step import Verdict, Work


def greedy(windows: Sequence[Work], logits_NV: Tensor) -> list[Verdict]:
    """Keep drafts while they are the likeliest token; the lowest id wins a tie (methods 1.3)."""
    tokens_N = _argmax(logits_NV)
    best_N = logits_NV.gather(1, tokens_N[:, None])[:, 0]  # a NaN, if there is one in the row
    return compare(windows, tokens_N.tolist(), np.isfinite(best_N.numpy()).tolist())


def match(windows: Sequence[Work], logits_NV: Tensor) -> list[Verdict]:
    """Draw from the target at every position and keep drafts while they are what was drawn (methods 1.3, 1.6).

    Same law and same path as plain sampling: the token at a position is the one that plain decoding would draw there.
    At temperature 0 this is the greedy chain.
    """
    if all(work.sampling.temperature == 0.0 for work in windows):
        return greedy(windows, logits_NV)
    params = [params for work in windows for params in [params_of(work)] * work.draws]
    counts = [work.draws for work in windows]
    seeds_N = np.repeat(np.array([work.sampling.seed for work in windows], np.uint64), counts)
    choices_N = np.repeat(np.array([work.choice for work in windows], np.uint64), counts)
    positions_N = np.concatenate(
        [np.arange(work.position, work.position + work.draws) for work in windows]
    )
    uniforms_N = uniforms(seeds_N, choices_N, positions_N, Role.TARGET)
    usable_N = usable(logits_NV)
    if not all(usable_N):
        logits_NV = torch.where(torch.tensor(usable_N)[:, None], logits_NV, 0.0)
    return compare(windows, sample(logits_NV, params, uniforms_N).tolist(), usable_N)


def compare(
    windows: Sequence[Work], drawn: Sequence[int], usable_N: Sequence[bool]
) -> list[Verdict]:
    """The drawn tokens of each window up to and including the first that differs from its draft."""
    verdicts = []
    begin = 0
    for work in windows:
        drafts = work.guesses
        own = drawn[begin : begin + work.draws]
        fine = usable_N[begin : begin + work.draws]
        begin += work.draws
        accepted = 0
        while accepted < work.drafts and fine[accepted] and drafts[accepted] == own[accepted]:
            accepted += 1
        if fine[accepted]:
            verdicts.append(Verdict(tuple(own[: accepted + 1]), accepted))
        else:
            verdicts.append(Verdict(drafts[:accepted], accepted, fault=NOT_NUMBERS))
    return verdicts
