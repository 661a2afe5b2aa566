"""The rows of a forward, and the flat tensors that a model reads them from.

Shapes: T tokens of all rows, N positions whose logits are wanted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Row:
    """New tokens of one sequence at positions start..; `logits` are wanted for the last of them.

    Positions before `start` have valid KV in `pages`, which also cover the new tokens.
    """

    tokens: Sequence[int]
    start: int
    pages: Sequence[int]
    logits: int

    @property
    def end(self) -> int:
        """The position after its last token."""
        return self.start + len(self.tokens)


@dataclass(frozen=True, slots=True)
class Batch:
    """Ids, positions and slots of all tokens; a slot is a position's place among all pages."""

    ids_T: "Tensor"
    positions_T: "Tensor"
    slots_T: "Tensor"
    wanted_N: "Tensor"


def flatten(rows: Sequence[Row], page_size: int) -> Batch:
    """Lay the rows end to end."""
    import torch  # noqa: PLC0415  # rows are made by code that has no use for torch

    ids: list[int] = []
    positions: list[int] = []
    slots: list[int] = []
    wanted: list[int] = []
    for row in rows:
        ids.extend(row.tokens)
        wanted.extend(range(len(ids) - row.logits, len(ids)))
        for position in range(row.start, row.end):
            page, offset = divmod(position, page_size)
            positions.append(position)
            slots.append(row.pages[page] * page_size + offset)
    return Batch(
        *(torch.tensor(each, dtype=torch.int64) for each in (ids, positions, slots, wanted))
    )
