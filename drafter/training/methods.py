"""What can be trained: one line a method."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

import torch
from torch import Tensor

from drafter.training.block import Shape
from drafter.training.dflash import DFlash
from drafter.training.dspark import DSpark
from drafter.training.eagle3 import Eagle3
from drafter.training.features import Batch
from drafter.training.target import Dense


class Method(Protocol):
    """A head for one target; it keeps no weights, they are arguments."""

    kind: str
    target: Dense
    guesses: int
    """A round of validation asks for so many."""
    states: tuple[int, ...]
    ids_U: Tensor
    """The target's id of each of the head's tokens, ascending."""

    def fresh(self, generator: torch.Generator) -> dict[str, Tensor]:
        """Float32 weights to begin with, on the CPU."""

    def loss(self, w: Mapping[str, Tensor], batch: Batch, generator: torch.Generator) -> Tensor:
        """One number to be made smaller."""

    def right(self, w: Mapping[str, Tensor], batch: Batch) -> list[list[int]]:
        """For each text, behind each token of its answer but the last: right guesses before a wrong one."""


Make = Callable[[Dense, Sequence[int], Tensor, int], Method]
"""From a target, the states that are read, the head's vocabulary, and the token that stands for a guess."""

METHODS: Final[Mapping[str, Make]] = {
    "dflash": lambda target, read, ids, mask: DFlash(target, read, ids, Shape(mask=mask)),
    "dspark": lambda target, read, ids, mask: DSpark(
        target, read, ids, Shape(size=7, from_anchor=True, inner=640, mask=mask)
    ),
    "eagle3": lambda target, read, ids, _: Eagle3(target, read, ids),
}


def states(layers: int) -> tuple[int, ...]:
    """What all methods read of a target of so many layers: early, in the middle, and before its last layer.

    One choice for all, so that the features of a corpus are kept once; warm starts expect the last of them.
    """
    return (min(2, layers - 1), layers // 2, layers - 1) if layers > 3 else (0, 1, layers)
