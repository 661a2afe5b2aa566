"""Texts that the target goes on with, many at once.

Shapes: B texts, T tokens of the longest prompt, V vocabulary.
"""

from collections.abc import Collection, Sequence
from typing import Final

import torch
from torch import Tensor

from drafter.training.target import Cache, Dense

KEPT: Final = 0.75
"""Texts that are finished leave the batch when no more than this part of it goes on."""


def go_on(
    target: Dense,
    prompts: Sequence[Sequence[int]],
    temperatures: Sequence[float],
    *,
    most: int,
    ends: Collection[int],
    generator: torch.Generator,
) -> list[list[int]]:
    """At most so many tokens for each prompt, an end token included; a temperature of 0 takes the likeliest."""
    longest = max(map(len, prompts))
    pads_B = torch.tensor([longest - len(each) for each in prompts], device=target.device)
    ids_BT = torch.tensor([[0] * (longest - len(each)) + list(each) for each in prompts])
    cache = Cache(target, longest + most, pads_B)
    heat_B = torch.tensor(temperatures)
    said: list[list[int]] = [[] for _ in prompts]
    alive = list(range(len(prompts)))
    for step in range(most):
        positions, attend = cache.advance(ids_BT.shape[1])
        x_BTH, _ = target.forward(ids_BT.to(target.device), positions, attend)
        tokens_B = draw(target.logits(x_BTH[:, -1]), heat_B, generator)
        going: list[int] = []
        for row, (text, token) in enumerate(zip(alive, tokens_B.tolist(), strict=True)):
            if said[text] and said[text][-1] in ends:
                continue
            said[text].append(token)
            if token not in ends:
                going.append(row)
        if not going or step + 1 == most:
            break
        ids_BT = tokens_B[:, None]
        if len(going) <= KEPT * len(alive):
            rows = torch.tensor(going)
            cache.keep(rows.to(target.device))
            ids_BT, heat_B = ids_BT[rows], heat_B[rows]
            alive = [alive[row] for row in going]
    return said


def draw(logits_BV: Tensor, heat_B: Tensor, generator: torch.Generator) -> Tensor:
    """One token a row, on the CPU."""
    tokens_B = logits_BV.argmax(-1).cpu()
    warm = heat_B.nonzero()[:, 0]
    if len(warm):
        scaled = logits_BV[warm.to(logits_BV.device)].float().cpu() / heat_B[warm, None]
        mass_BV = scaled.softmax(-1).cumsum(-1)
        at_B1 = torch.rand(len(warm), 1, generator=generator) * mass_BV[:, -1:]
        drawn_B1 = torch.searchsorted(mass_BV, at_B1, right=True)
        tokens_B[warm] = drawn_B1[:, 0].clamp_(max=logits_BV.shape[1] - 1)
    return tokens_B
