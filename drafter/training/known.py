"""The tokens that a head knows.

Shapes: U vocabulary of the head, V of the target, H hidden.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from drafter.training.target import Dense


@dataclass(frozen=True, slots=True)
class Known:
    """Rows [U, H] of the target's output matrix, and which of the target's tokens [V] they are of."""

    rows_UH: Tensor
    marks_V: Tensor

    @classmethod
    def of(cls, target: Dense, ids_U: Tensor) -> "Known":
        """The tokens `ids_U` of a target."""
        marks_V = torch.zeros(target.shape.vocab, dtype=torch.bool, device=target.device)
        marks_V[ids_U] = True
        return cls(target.head_VH[ids_U], marks_V)
