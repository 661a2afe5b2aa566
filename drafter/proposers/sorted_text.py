"""A text that does not change any more, searched through a suffix array. Pure; built in numpy, which frees the GIL.

Legend: a *code* is a token + 1, 0 is the border that ends each document; a *span* is a half-open range of the array.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drafter.proposers.walk import Run, confidence

_WIDTH: Final = 4  # bytes of a code
_DEPTH: Final = 256  # codes that suffixes are sorted by: enough for a match and what follows it
_LONGEST: Final = _DEPTH // 2
_SAMPLE: Final = 1024
_PIECE: Final = 1 << 15  # Python numbers that are read at once: meanwhile no other thread runs

Codes = NDArray[np.uint32]


class Match(NamedTuple):
    """Exactly the suffixes in [low, high) begin with the last `length` tokens of what was looked for."""

    length: int
    low: int
    high: int


def join(documents: Sequence[Sequence[int]]) -> Codes:
    """The codes of documents, a border after each."""
    parts = [np.zeros(0, np.uint32)]
    for document in documents:
        for start in range(0, len(document), _PIECE):
            piece = document[start : start + _PIECE]
            parts.append(np.fromiter(piece, np.uint32, len(piece)) + np.uint32(1))
        parts.append(np.zeros(1, np.uint32))
    return np.concatenate(parts)


class SortedText:
    """The longest match of a tail and all its places, in time that grows with the logarithm of the text.

    While it is built it takes up to 75 bytes a token, afterwards 12.
    """

    def __init__(self, codes: Codes) -> None:
        self._codes = codes
        self._order = suffix_array(codes, _DEPTH)
        self._code_at = codes.data
        self._suffix_at = self._order.data
        self._bytes = codes.astype(">u4").tobytes()  # bytes in this order compare as codes do
        leading = codes[self._order]
        starts = np.flatnonzero(_changes(leading))
        self._leads = array("I", leading[starts].tolist())
        self._starts = array("I", [*starts.tolist(), len(codes)])

    def longest(self, tail: array[int], least: int) -> Match | None:
        """The longest end of `tail` that occurs, if that is at least `least` tokens."""
        tail = tail[max(0, len(tail) - _LONGEST) :]
        wanted, found = _encode(tail), None
        low, high, length = least, len(tail), least
        while low <= high:  # if an end occurs, so does every shorter one; most are short
            if match := self._find(wanted[-_WIDTH * length :]):
                found, low = match, length + 1
            else:
                high = length - 1
            length = min(2 * length, (low + high + 1) // 2)
        return found

    def match(self, tail: array[int], length: int) -> Match | None:
        """All places of exactly the last `length` tokens."""
        return self._find(_encode(tail[len(tail) - length :]))

    def follow(self, match: Match, most: int, least: float) -> Run:
        """Walk on from a match as `walk.follow` does; of equally frequent tokens the lowest."""
        code_at, suffix_at = self._code_at, self._suffix_at
        run = Run(match.length)
        low, high = match.low, match.high
        for depth in range(match.length, match.length + min(most, _LONGEST)):
            low = self._after(low, high, depth, 0)
            if low == high:
                break
            code, total, distinct = code_at[suffix_at[low] + depth], high - low, 1
            if code_at[suffix_at[high - 1] + depth] != code:
                code, distinct = self._favourite(low, high, depth)
                low = self._after(low, high, depth, code - 1)
                high = self._after(low, high, depth, code)
            likely = confidence(high - low, total, distinct, run.length)
            if run.reach * likely < least:
                run.doubted = True
                break
            run.grow(code - 1, likely)
        return run

    def _find(self, wanted: bytes) -> Match | None:
        data, width, order = self._bytes, len(wanted), self._suffix_at
        code = int.from_bytes(wanted[:_WIDTH])
        lead = bisect_left(self._leads, code)
        if lead == len(self._leads) or self._leads[lead] != code:
            return None

        def begins(suffix: int) -> bytes:
            return data[_WIDTH * suffix : _WIDTH * suffix + width]

        low, high = self._starts[lead], self._starts[lead + 1]
        low = bisect_left(order, wanted, low, high, key=begins)
        if low == high or begins(order[low]) != wanted:
            return None
        return Match(width // _WIDTH, low, bisect_right(order, wanted, low + 1, high, key=begins))

    def _after(self, low: int, high: int, depth: int, code: int) -> int:
        """Where, in a span that is equal up to `depth`, the codes there get greater than `code`."""
        code_at, suffix_at = self._code_at, self._suffix_at
        if low < high and code_at[suffix_at[low] + depth] > code:
            return low
        return bisect_right(suffix_at, code, low, high, key=lambda suffix: code_at[suffix + depth])

    def _favourite(self, low: int, high: int, depth: int) -> tuple[int, int]:
        """The most frequent code at `depth` and how many different ones, in an even sample of a long span."""
        step = -(-(high - low) // _SAMPLE)
        column = self._codes[self._order[low:high:step] + depth]
        ends = np.append(np.flatnonzero(column[1:] != column[:-1]), len(column) - 1)
        sizes = ends.copy()
        sizes[1:] -= ends[:-1]
        sizes[0] += 1
        return int(column[ends[sizes.argmax()]]), len(ends)


def suffix_array(codes: Codes, depth: int) -> NDArray[np.int32]:
    """Positions in the order of what begins there, as far as at least `depth` codes decide it.

    Prefix doubling (Manber and Myers) that sorts again only what is still undecided (Larsson and Sadakane).
    """
    size = len(codes)
    order = np.argsort(codes, kind="stable").astype(np.int32)
    first = _changes(codes[order])  # whether a slot begins a group of equals
    rank = np.empty(size, np.int32)
    rank[order] = np.maximum.accumulate(np.where(first, np.arange(size, dtype=np.int32), 0))
    width = 1
    while width < depth:
        undecided = np.flatnonzero(~(first & np.append(first[1:], True)))
        if not undecided.size:
            break
        members = order[undecided]
        beyond = members.astype(np.int64) + width
        second = np.where(beyond < size, rank[np.minimum(beyond, size - 1)].astype(np.int64) + 1, 0)
        key = rank[members] * np.int64(size + 1) + second
        turn = np.argsort(key, kind="stable")
        members, key = members[turn], key[turn]
        order[undecided] = members
        first[undecided] = _changes(key)
        rank[members] = np.maximum.accumulate(np.where(_changes(key), undecided, 0))
        width *= 2
    return order


def _changes(column: NDArray[Any]) -> NDArray[np.bool_]:
    """Which entries differ from the one before; the first always does."""
    changes = np.ones(len(column), np.bool_)
    np.not_equal(column[1:], column[:-1], out=changes[1:])
    return changes


def _encode(tail: array[int]) -> bytes:
    return struct.pack(f">{len(tail)}I", *[token + 1 for token in tail])
