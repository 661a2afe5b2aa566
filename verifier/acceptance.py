"""Acceptance rules: how drafts are judged against the target's logits. One table, pure functions.

Randomness is explicit: every number is keyed by (seed, choice, absolute position, role), so a draw never depends on
batch mates, draft lengths or restarts.

Shapes: N rows of logits, V vocabulary.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
from torch import Tensor

from engine.philox import Role, uniforms
from engine.sampling import SamplingParams, sample
from verifier.step import Verdict, Work

Rule = Callable[[Sequence[Work], Tensor], list[Verdict]]
"""(windows, logits_NV) -> a verdict for each window; logits hold `draws` rows for each, in order."""


def match(windows: Sequence[Work], logits_NV: Tensor) -> list[Verdict]:
    """Draw from the target at every position and keep drafts while they are what was drawn (methods 1.3, 1.6).

    Same law and same path as plain sampling: the token at a position is the one that plain decoding would draw there.
    At temperature 0 this is the greedy chain.
    """
    params = [params for work in windows for params in [_params(work)] * work.draws]
    seeds = np.repeat(_column([work.sampling.seed for work in windows]), _draws(windows))
    choices = np.repeat(_column([work.choice for work in windows]), _draws(windows))
    positions = np.concatenate(
        [np.arange(work.position, work.position + work.draws) for work in windows]
    )
    drawn = sample(logits_NV, params, uniforms(seeds, choices, positions, Role.TARGET)).tolist()
    return _compare(windows, drawn)


def greedy(windows: Sequence[Work], logits_NV: Tensor) -> list[Verdict]:
    """Keep drafts while they are the likeliest token; the lowest id wins a tie (methods 1.3)."""
    return _compare(windows, logits_NV.argmax(dim=-1).tolist())


RULES: Final[Mapping[str, Rule]] = {"greedy": greedy, "match": match}


def _compare(windows: Sequence[Work], drawn: Sequence[int]) -> list[Verdict]:
    """The drawn tokens of each window up to and including the first that differs from its draft."""
    verdicts = []
    begin = 0
    for work in windows:
        drafts = work.guesses
        own = drawn[begin : begin + work.draws]
        begin += work.draws
        accepted = 0
        while accepted < work.drafts and drafts[accepted] == own[accepted]:
            accepted += 1
        verdicts.append(Verdict(tuple(own[: accepted + 1]), accepted))
    return verdicts


def _params(work: Work) -> SamplingParams:
    asked = work.sampling
    return SamplingParams(
        temperature=asked.temperature,
        top_k=asked.top_k,
        top_p=asked.top_p,
        min_p=asked.min_p,
        seed=asked.seed,
    )


def _column(numbers: Sequence[int]) -> "np.ndarray[tuple[int], np.dtype[np.uint64]]":
    return np.array(numbers, dtype=np.uint64)


def _draws(windows: Sequence[Work]) -> list[int]:
    return [work.draws for work in windows]
