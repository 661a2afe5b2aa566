"""From a draft model's logits to guesses: drawn with their laws where verifiers take laws, else as the target draws.

Shapes: N places where a token is guessed, V tokens of the model, K tokens of a slice.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from torch import Tensor

from drafter.guesses import Guess, Place
from drafter.mirror import Mirror
from drafter.noise import noise
from engine.params import SamplingParams
from engine.philox import Role, uniforms
from engine.sampling import sample, transform
from engine.truncated import pick, truncated
from protocol.laws import Law

_SOFT: Final = SamplingParams(temperature=1.0)


def slice_of(mirror: Mirror, params: SamplingParams, *, samples: bool) -> int:
    """Tokens that a guess is drawn from; 0: it is not drawn."""
    return mirror.slice if samples and not params.greedy else 0


def guess(
    logits_NV: Tensor,
    places: Sequence[Place],
    params: Sequence[SamplingParams],
    *,
    samples: bool,
) -> list[Guess]:
    """A token for each place; with `samples` it is drawn where its verifier takes laws and its request samples."""
    sizes = [
        slice_of(place.mirror, each, samples=samples)
        for place, each in zip(places, params, strict=True)
    ]
    guesses: list[Guess | None] = [None] * len(sizes)
    for size in sorted(set(sizes)):
        rows = [row for row, each in enumerate(sizes) if each == size]
        own_NV = logits_NV if len(rows) == len(sizes) else logits_NV[rows]
        mine, asked = [places[row] for row in rows], [params[row] for row in rows]
        made = _draw(own_NV, mine, asked, size) if size else _predict(own_NV, mine, asked)
        for row, each in zip(rows, made, strict=True):
            guesses[row] = each
    return [each for each in guesses if each is not None]


def _draw(
    logits_NV: Tensor, places: Sequence[Place], params: Sequence[SamplingParams], size: int
) -> list[Guess]:
    """From the `size` likeliest tokens, by the numbers that are sent."""
    ids_NK, values_NK = truncated(logits_NV, params, size)
    coins = noise([place.mirror for place in places], [place.position for place in places])
    guesses = []
    for ids_K, values_K, coin in zip(ids_NK, values_NK, coins, strict=True):
        possible_K = values_K > 0
        law = Law(ids_K[possible_K], values_K[possible_K])
        token = int(law.ids[pick(law.values.tolist(), coin)])
        guesses.append(Guess(token, float(values_K[0]), law))
    return guesses


def _predict(
    logits_NV: Tensor, places: Sequence[Place], params: Sequence[SamplingParams]
) -> list[Guess]:
    """The token that the target would draw from these logits at these places, so that it is often the same."""
    if all(each.greedy for each in params):
        token_N = logits_NV.argmax(dim=-1)
        chance_N = logits_NV.softmax(dim=-1).gather(1, token_N[:, None])[:, 0]
    else:
        uniforms_N = uniforms(
            np.array([each.seed for each in params], np.uint64),
            [place.mirror.choice for place in places],
            [place.position for place in places],
            Role.TARGET,
        )
        token_N = sample(logits_NV, params, uniforms_N)
        # A greedy row's own distribution is one-hot and would tell nothing: how sure the model is does.
        soft = [_SOFT if each.greedy else each for each in params]
        chance_N = transform(logits_NV, soft).gather(1, token_N[:, None])[:, 0]
    return [
        Guess(*each)
        for each in zip(token_N.tolist(), chance_N.clamp(max=1.0).tolist(), strict=True)
    ]
