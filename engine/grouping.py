"""Which rows share an attention call: padding them to one size must cost less than another call."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from engine.batch import Row

# What a group costs in one layer, in keys read: fixed, and how much each further query adds to a
# key. Measured with SmolLM2-135M's heads on two cores: a call 27 us, a key 0.09 us.
GROUP_COST: Final = 300.0
QUERY_COST: Final = 0.07
# What a group gathers is read again at once: with this many keys at most it is still in the caches.
KEYS_AT_ONCE: Final = 2400
# A long row is taken in pieces, so that its early queries do not read the keys of its late ones.
QUERIES_AT_ONCE: Final = 128


@dataclass(frozen=True, slots=True)
class Piece:
    """Queries `first`.. of all the tokens of a forward, at positions `start`.. of a sequence."""

    first: int
    start: int
    length: int
    pages: Sequence[int]

    @property
    def end(self) -> int:
        """How many keys its last query sees."""
        return self.start + self.length


@dataclass(frozen=True, slots=True)
class Group:
    """Pieces that are padded to the same number of queries and keys."""

    pieces: list[Piece]
    queries: int
    keys: int

    @property
    def padded_keys(self) -> int:
        """How many keys are gathered for it."""
        return len(self.pieces) * self.keys

    @property
    def cost(self) -> float:
        """What attention costs for it, in keys read."""
        return GROUP_COST + self.padded_keys * (1.0 + QUERY_COST * self.queries)


def cut(rows: Sequence[Row]) -> Iterator[Piece]:
    """The rows end to end, in pieces of at most QUERIES_AT_ONCE."""
    first = 0
    for row in rows:
        for offset in range(0, len(row.tokens), QUERIES_AT_ONCE):
            length = min(QUERIES_AT_ONCE, len(row.tokens) - offset)
            yield Piece(first + offset, row.start + offset, length, row.pages)
        first += len(row.tokens)


def group(pieces: Sequence[Piece]) -> list[Group]:
    """Put neighbours in size together as long as it pays."""
    groups: list[Group] = []
    for piece in sorted(pieces, key=lambda piece: (piece.length, piece.end)):
        alone = Group([piece], piece.length, piece.end)
        if groups:
            last = groups[-1]
            both = Group(
                [*last.pieces, piece], max(last.queries, piece.length), max(last.keys, piece.end)
            )
            if both.padded_keys <= KEYS_AT_ONCE and both.cost <= last.cost + alone.cost:
                groups[-1] = both
                continue
        groups.append(alone)
    return groups
