"""Guesses of a model that are drawn, with the numbers that they were drawn by.

Shapes: N mirrors that draw a token, V vocabulary, K tokens of a slice.
"""

from collections.abc import Sequence

from torch import Tensor

from drafter.mirror import Mirror
from drafter.noise import noise
from drafter.proposers import Proposal
from engine.sampling import SamplingParams
from engine.truncated import pick, truncated
from protocol.laws import Law


def draw(
    mirrors: Sequence[Mirror], params: Sequence[SamplingParams], logits_NV: Tensor, size: int
) -> list[Proposal]:
    """A token each from the `size` likeliest; the confidence is how likely the likeliest was."""
    ids_NK, values_NK = truncated(logits_NV, params, size)
    coins = noise(mirrors, [len(mirror.prompt) + len(mirror.line) for mirror in mirrors])
    proposals = []
    for ids_K, values_K, coin in zip(ids_NK, values_NK, coins, strict=True):
        possible_K = values_K > 0
        law = Law(ids_K[possible_K], values_K[possible_K])
        token = int(law.ids[pick(law.values.tolist(), coin)])
        proposals.append(Proposal((token,), (float(values_K[0]),), laws=(law,)))
    return proposals
