"""How the new tokens of all rows are dealt to the programs of a kernel: whole numbers in one buffer. Pure.

A *tile* is some neighbouring tokens of one row. Tokens of rows that have few of them have a *part* each: a place for
partial sums, for their keys are dealt to several programs.

Shapes: T tokens, I tiles, R rows, P pages of a row at most, U parts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from engine.batch import Row
from engine.errors import EngineError

SPLIT: Final = 512
"""Keys that one program takes of a row with few tokens."""
FEW: Final = 64
"""Rows with more tokens than this keep enough programs busy without splits."""
LONGEST_TREE: Final = 64
"""A token's sight of its own row is a word of so many bits."""

Ints = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Room:
    """How much there is place for. `tile` is how many tokens one tile takes."""

    tokens: int
    tiles: int
    rows: int
    pages: int
    parts: int
    tile: int

    @property
    def sections(self) -> Mapping[str, tuple[int, ...]]:
        """The arrays of the buffer by name, in order, with their shapes."""
        one = ("tile_row", "tile_token", "tile_count", "tile_keys", "tile_own", "tile_part")
        return {
            "last": (self.tokens,),
            **dict.fromkeys(one, (self.tiles,)),
            "part_token": (self.parts,),
            "part_keys": (self.parts,),
            "table": (self.rows, self.pages),
        }

    @property
    def size(self) -> int:
        """Numbers in the buffer."""
        return sum(int(np.prod(shape)) for shape in self.sections.values())

    def views(self, buffer: Ints) -> dict[str, Ints]:
        """The arrays, in a buffer of `size` numbers; a tensor of int32 will do."""
        found: dict[str, Ints] = {}
        begin = 0
        for name, shape in self.sections.items():
            end = begin + int(np.prod(shape))
            found[name] = buffer[begin:end].reshape(shape)
            begin = end
        return found


@dataclass(frozen=True, slots=True)
class Deal:
    """What a launch is told. `splits` is how many a row has at most; `seen_T` is there where a row is a tree."""

    room: Room
    numbers: Ints
    splits: int
    seen_T: npt.NDArray[np.int64] | None = None


def room_of(rows: Sequence[Row], tile: int, page_size: int) -> Room:
    """Just enough for these rows."""
    counts = [len(row.tokens) for row in rows]
    return Room(
        tokens=sum(counts),
        tiles=sum(-(-count // tile) for count in counts),
        rows=len(rows),
        pages=max(-(-row.end // page_size) for row in rows),
        parts=sum(count for count in counts if count <= FEW),
        tile=tile,
    )


def splits_of(keys: int) -> int:
    """How many programs the keys of a row are dealt to."""
    return max(1, -(-keys // SPLIT))


def scratch_bytes(parts: int, splits: int, queries: int, size: int) -> int:
    """Memory of partial sums: of each part, split and query head, with the largest logit and the sum of weights."""
    return 4 * parts * splits * queries * (size + 2) if splits > 1 else 0


def deal(
    rows: Sequence[Row],
    room: Room,
    page_size: int,
    *,
    causal: bool = True,
    into: Ints | None = None,
) -> Deal:
    """Fill a buffer for these rows, and mark what is left of it as empty."""
    numbers = np.empty(room.size, np.int32) if into is None else into
    arrays = room.views(numbers)
    arrays["tile_count"].fill(0)
    arrays["part_keys"].fill(0)
    arrays["last"].fill(-1)
    trees = any(row.seen is not None for row in rows)
    if trees and not causal:
        raise EngineError("a row that is not causal is no tree")
    seen_T = np.zeros(room.tokens, np.uint64) if trees else None
    tile = part = token = 0
    most = 1
    for index, row in enumerate(rows):
        count, end = len(row.tokens), row.end
        used = -(-end // page_size)
        arrays["table"][index, :used] = row.pages[:used]
        arrays["last"][token : token + count] = _last(row, causal=causal)
        if seen_T is not None and row.seen is not None:
            seen_T[token : token + count] = row.seen
        few = count <= FEW
        for begin in range(0, count, room.tile):
            length = min(room.tile, count - begin)
            whole = row.seen is not None or not causal
            arrays["tile_row"][tile] = index
            arrays["tile_token"][tile] = token + begin
            arrays["tile_count"][tile] = length
            arrays["tile_keys"][tile] = end if whole else row.start + begin + length
            arrays["tile_own"][tile] = end if row.seen is None else row.start
            arrays["tile_part"][tile] = part + begin if few else -1
            if few:
                here = slice(part + begin, part + begin + length)
                arrays["part_token"][here] = np.arange(token + begin, token + begin + length)
                arrays["part_keys"][here] = arrays["tile_keys"][tile]
            tile += 1
        if few:
            part += count
            most = max(most, splits_of(end))
        token += count
    return Deal(room, numbers, most, None if seen_T is None else seen_T.view(np.int64))


def _last(row: Row, *, causal: bool) -> Ints | int:
    """The last position that each token of a row sees."""
    if not causal:
        return row.end - 1
    return np.array(row.positions, np.int32)


@dataclass(frozen=True)
class Shape:
    """Which programs suit rows of at most so many tokens. `queries` is the height of a tile: tokens times heads."""

    longest: int
    fold: int
    head_dim: int

    @cached_property
    def queries(self) -> int:
        """16 at least, which is what a matrix unit takes; and all heads that share a key head."""
        wanted = max(16, self.fold, min(self.longest * self.fold, self.highest))
        return 1 << (wanted - 1).bit_length()

    @property
    def highest(self) -> int:
        """Tiles are not higher: what they sum up must stay in registers."""
        return 128 if self.head_dim <= 128 else 64

    @property
    def tile(self) -> int:
        """Tokens of a tile."""
        return self.queries // self.fold

    @property
    def keys(self) -> int:
        """Keys of one step."""
        return 64 if self.head_dim <= 128 else 32

    @property
    def warps(self) -> int:
        """Of a tile's sums a thread holds at most 64 numbers: with more they would not stay in registers."""
        return 8 if self.queries * self.head_dim > 64 * 128 else 4
