"""Guesses that the host need not know yet: they stay where they were drawn until all of a round are read at once.

Shapes: N places where a token is guessed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
from torch import Tensor

from drafter.guesses import Guess
from engine.device import Device

Said = Callable[[Sequence[npt.NDArray[Any]]], list[Guess]]
"""Guesses, from the arrays that were read."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """`token_N` are of the target's vocabulary; `parts` are what the guesses are `said` from."""

    token_N: Tensor
    parts: tuple[Tensor, ...]
    said: Said

    def sure(self, chance_N: Tensor) -> "Drawn":
        """The same guesses, of which something else says how sure it is."""

        def said(arrays: Sequence[npt.NDArray[Any]]) -> list[Guess]:
            *own, chances = arrays
            return [
                guess._replace(confidence=chance)
                for guess, chance in zip(self.said(own), chances.tolist(), strict=True)
            ]

        return Drawn(self.token_N, (*self.parts, chance_N.clamp(max=1.0)), said)


def read(device: Device, drawn: Sequence[Drawn]) -> list[list[Guess]]:
    """The guesses of each, by one copy."""
    arrays = iter(device.down([part for each in drawn for part in each.parts]))
    return [each.said([next(arrays) for _ in each.parts]) for each in drawn]
