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

    `seen` makes a tree of the new tokens: bit j of its i-th number says that token i sees token j (itself, its parent,
    that one's parent, ...). The i-th is kept in the place of position start + i, and stands at the position that its
    ancestors leave it.
    """

    tokens: Sequence[int]
    start: int
    pages: Sequence[int]
    logits: int
    seen: Sequence[int] | None = None

    @property
    def end(self) -> int:
        """The position after its last token."""
        return self.start + len(self.tokens)

    @property
    def positions(self) -> Sequence[int]:
        """Where its tokens stand in their text."""
        if self.seen is None:
            return range(self.start, self.end)
        return [self.start + bits.bit_count() - 1 for bits in self.seen]


@dataclass(frozen=True, slots=True)
class Batch:
    """Ids, positions and slots of all tokens; a slot is a position's place among all pages."""

    ids_T: "Tensor"
    positions_T: "Tensor"
    slots_T: "Tensor"
    wanted_N: "Tensor"


def numbers(rows: Sequence[Row], page_size: int) -> tuple[list[int], ...]:
    """Ids, positions, slots and wanted places of rows laid end to end."""
    ids: list[int] = []
    positions: list[int] = []
    slots: list[int] = []
    wanted: list[int] = []
    for row in rows:
        ids.extend(row.tokens)
        wanted.extend(range(len(ids) - row.logits, len(ids)))
        positions.extend(row.positions)
        for place in range(row.start, row.end):
            page, offset = divmod(place, page_size)
            slots.append(row.pages[page] * page_size + offset)
    return ids, positions, slots, wanted


def flatten(rows: Sequence[Row], page_size: int, device: str = "cpu") -> Batch:
    """Lay the rows end to end."""
    import torch  # noqa: PLC0415  # rows are made by code that has no use for torch

    from engine.upload import there  # noqa: PLC0415

    made = [torch.tensor(each, dtype=torch.int64) for each in numbers(rows, page_size)]
    return Batch(*(there(each, device) for each in made))
