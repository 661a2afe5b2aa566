"""Guesses from logits that are on a device, where the host waits for nothing; see `drafter.proposers.guessing`.

Shapes: N places where a token is guessed, U vocabulary of the head, K tokens of a slice.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from drafter.guesses import Guess, Place
from drafter.heads.drawn import Drawn
from drafter.noise import noise
from drafter.proposers.guessing import slice_of
from engine.device import Device
from engine.params import COLDEST, SamplingParams
from engine.sampling import FLOOR
from protocol.laws import Law

if TYPE_CHECKING:
    from engine.sampling_triton import Summary


@dataclass(frozen=True, slots=True)
class Asked:
    """What is wanted at some places; `sizes` are the tokens that each is drawn from, 0: as the target would draw."""

    places: Sequence[Place]
    params: Sequence[SamplingParams]
    sizes: Sequence[int]

    @classmethod
    def of(cls, places: Sequence[Place], *, samples: bool) -> "Asked":
        params = [SamplingParams.of(place.mirror.sampling) for place in places]
        sizes = [
            slice_of(place.mirror, each, samples=samples)
            for place, each in zip(places, params, strict=True)
        ]
        return cls(places, params, sizes)

    @property
    def greedy(self) -> bool:
        """Whether the likeliest tokens are all that is wanted."""
        return all(each.greedy for each in self.params)

    @property
    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """For the device: how rows are drawn, by which numbers those with laws are, and which those are."""
        if self.greedy:
            return {}
        from engine.sampling_triton import wishes  # noqa: PLC0415  # triton, which CPUs do without

        mirrors = [place.mirror for place in self.places]
        positions = [place.position for place in self.places]
        coins = noise(mirrors, positions) if any(self.sizes) else [0.5] * len(mirrors)
        return wishes(self.params, [each.choice for each in mirrors], positions) | {
            "size": np.array(self.sizes, np.int64),
            "min_p": np.array([each.min_p for each in self.params], np.float32),
            "coin": np.array(coins, np.float64),
        }


def draw(
    device: Device,
    logits_NU: Tensor,
    asked: Asked,
    *,
    ids_U: Tensor | None = None,
    on: Mapping[str, Tensor] | None = None,
    summary: "Summary | None" = None,
) -> Drawn:
    """A guess for each place; `ids_U` are the target's tokens, where the head's are others.

    `on` and `summary` are `asked.arrays` and a summary of the logits, if they are on the device already.
    """
    if asked.greedy:
        top = logits_NU.max(dim=-1)
        chance_N = (top.values - logits_NU.logsumexp(dim=-1)).exp()
        return plain(top.indices, chance_N, ids_U)
    on = device.up(asked.arrays) if on is None else on
    if all(asked.sizes):
        return _sliced(*_slice(logits_NU, on, max(asked.sizes)), asked.sizes, ids_U)
    from engine.sampling_triton import sample  # noqa: PLC0415

    token_N, chance_N = sample(logits_NU, on, summary)
    if not any(asked.sizes):
        return plain(token_N, chance_N, ids_U)
    own_N, ids_NK, values_NK = _slice(logits_NU, on, max(asked.sizes))
    drawn_N = on["size"] > 0
    token_N = torch.where(drawn_N, own_N, token_N)
    values_NK[:, 0] = torch.where(drawn_N, values_NK[:, 0], chance_N)
    return _sliced(token_N, ids_NK, values_NK, asked.sizes, ids_U)


def plain(token_N: Tensor, chance_N: Tensor, ids_U: Tensor | None = None) -> Drawn:
    """Guesses that are functions of text and seed."""
    token_N = token_N if ids_U is None else ids_U[token_N]

    def said(arrays: Sequence[npt.NDArray[Any]]) -> list[Guess]:
        tokens, chances = (each.tolist() for each in arrays)
        return [Guess(*each) for each in zip(tokens, chances, strict=True)]

    return Drawn(token_N, (token_N, chance_N.clamp(max=1.0)), said)


def _sliced(
    token_N: Tensor,
    ids_NK: Tensor,
    values_NK: Tensor,
    sizes: Sequence[int],
    ids_U: Tensor | None,
) -> Drawn:
    """Guesses with their laws where there are sizes; elsewhere the first value is how likely the guess is."""
    if ids_U is not None:
        token_N, ids_NK = ids_U[token_N], ids_U[ids_NK]

    def said(arrays: Sequence[npt.NDArray[Any]]) -> list[Guess]:
        guesses = []
        for token, ids_K, values_K, size in zip(*arrays, sizes, strict=True):
            possible_K = values_K > 0
            law = Law(ids_K[possible_K], values_K[possible_K]) if size else None
            guesses.append(Guess(int(token), float(values_K[0]), law))
        return guesses

    return Drawn(token_N, (token_N, ids_NK.int(), values_NK), said)


def _slice(logits_NU: Tensor, on: Mapping[str, Tensor], most: int) -> tuple[Tensor, Tensor, Tensor]:
    """A token [N] of the `on["size"]` likeliest of each row, drawn by the probabilities [N, K] that are sent of them.

    See `engine.truncated` and `engine.sampling`: temperature and filters act on these tokens alone.
    """
    best = logits_NU.topk(min(most, logits_NU.shape[1]), dim=-1)
    K = best.values.shape[1]
    place_K = torch.arange(K, device=logits_NU.device)
    inside_NK = place_K < on["size"].clamp(min=1)[:, None]
    heat_N1 = on["heat"].clamp(min=COLDEST)[:, None]
    scaled_NK = (best.values - best.values[:, :1]) / heat_N1
    least_N = _boundary(scaled_NK.masked_fill(~inside_NK, -torch.inf), on)
    kept_NK = inside_NK & (scaled_NK >= least_N[:, None])
    weight_NK = scaled_NK.clamp(min=FLOOR).exp() * kept_NK
    value_NK = weight_NK / weight_NK.sum(dim=-1, keepdim=True)
    reached_NK = value_NK.double().cumsum(dim=-1)
    wanted_N1 = on["coin"][:, None] * reached_NK[:, -1:]
    above_NK = (reached_NK > wanted_N1) & (value_NK > 0)
    # What rounding pushed to the very end is the last token with a weight.
    last_N = (place_K * (value_NK > 0)).amax(dim=-1)
    place_N = torch.where(above_NK.any(dim=-1), above_NK.int().argmax(dim=-1), last_N)
    return best.indices.gather(1, place_N[:, None])[:, 0], best.indices, value_NK


def _boundary(scaled_NK: Tensor, on: Mapping[str, Tensor]) -> Tensor:
    """The least scaled logit [N] that filters keep, of logits that descend."""
    N, K = scaled_NK.shape
    least_N = torch.full((N,), FLOOR, device=scaled_NK.device)
    nth_N1 = (on["top_k"].long() - 1).clamp(0, K - 1)[:, None]
    counted_N = (on["top_k"] > 0) & (on["top_k"] < on["size"])
    nth_N = scaled_NK.gather(1, nth_N1)[:, 0]
    least_N = torch.where(counted_N, torch.maximum(least_N, nth_N), least_N)
    kept_NK = scaled_NK >= least_N[:, None]
    mass_NK = (scaled_NK.clamp(min=FLOOR).double().exp() * kept_NK).cumsum(dim=-1)
    enough_NK = mass_NK >= on["top_p"][:, None] * mass_NK[:, -1:]
    first_N1 = enough_NK.int().argmax(dim=-1, keepdim=True)
    shared_N = torch.maximum(least_N, scaled_NK.gather(1, first_N1)[:, 0])
    least_N = torch.where(on["top_p"] < 1.0, shared_N, least_N)
    return torch.maximum(least_N, on["min_p"].log())
