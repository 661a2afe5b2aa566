"""Token text that only grows at its end and is forgotten only from its start, searched for earlier places. Pure.

Positions are absolute and half-open; they stay what they are when the start is forgotten. A position stands for what
comes before it: a *place* of a tail is a position where the tokens before equal the end of the tail.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from itertools import chain, count, repeat
from typing import Final, NamedTuple

import numpy as np

END: Final = -1
"""The border between two texts: no token equals it, so no match crosses it."""

_BASE: Final = 1_000_579
_PRIME: Final = (1 << 31) - 1
_BLOCK: Final = 16
_LOOKS: Final = 4  # places that only share the slot are passed over, so many for each one wanted


class Place(NamedTuple):
    """`length` tokens before `position` equal the end of the tail that was looked for."""

    length: int
    position: int


class History:
    """Places of a tail, most recent first, in time that does not depend on the length of the text.

    Windows of a few fixed lengths are filed under their hash: `_latest` of a slot, and from each position the
    `_earlier` one of the same slot. Slots may be shared by different windows, so every place found is compared.
    """

    def __init__(self, lengths: Iterable[int], slots: int) -> None:
        self._text = array("i")
        self._lost = 0  # tokens gone from the start of the arrays
        self._border = 0  # where the present text begins
        self.begin = 0
        self.slots = 1 << max(0, slots - 1).bit_length()
        self._windows = [_Window(length, self.slots) for length in sorted(lengths, reverse=True)]

    @property
    def end(self) -> int:
        return self._lost + len(self._text)

    def append(self, tokens: Iterable[int]) -> None:
        """Let the present text go on."""
        start = len(self._text)
        self._text.extend(tokens)
        for window in self._windows:
            window.file(self._text, start, self._border - self._lost, self._lost)

    def split(self) -> None:
        """End the present text; what is appended next is another one."""
        self._text.append(END)
        for window in self._windows:
            window.skip()
        self._border = self.end

    def forget(self, before: int) -> None:
        """No place that needs a token before this position is found any more."""
        self.begin = max(self.begin, before)
        dead = self.begin - self._lost
        if 2 * dead > len(self._text):  # moving the rest is then paid for by what was appended
            del self._text[:dead]
            for window in self._windows:
                del window.earlier[:dead]
            self._lost += dead

    def last(self, most: int) -> array[int]:
        """At most so many tokens from the end."""
        return self._text[max(0, len(self._text) - most) :]

    def after(self, position: int, most: int) -> array[int]:
        """At most so many tokens from `position` on; `END` among them is a border."""
        start = position - self._lost
        return self._text[start : start + most]

    def places(self, tail: array[int], most: int) -> list[Place]:
        """Places of the longest filed window that ends the tail, most recent first, with their whole lengths.

        Only places that something follows. At most `most`, however many there are.
        """
        for window in self._windows:
            if window.length <= len(tail) and (found := self._search(window, tail, most)):
                return found
        return []

    def _search(self, window: _Window, tail: array[int], most: int) -> list[Place]:
        text, lost, length, earlier = self._text, self._lost, window.length, window.earlier
        wanted, least, size = tail[-length:], self.begin + length, len(text)
        found: list[Place] = []
        position = window.latest[window.slot(wanted)]
        for _ in range(_LOOKS * most):
            if position < least:
                break
            here = position - lost
            if here < size and text[here] != END and text[here - length : here] == wanted:
                found.append(Place(self._common(here, tail, length), position))
                if len(found) == most:
                    break
            position = earlier[here - 1]
        return found

    def _common(self, here: int, tail: array[int], length: int) -> int:
        """How many tokens before `here` equal the end of the tail; the last `length` are known to."""
        text, size = self._text, len(tail)
        limit = min(size, here - (self.begin - self._lost))
        while length + _BLOCK <= limit:
            start = size - length - _BLOCK
            if text[here - length - _BLOCK : here - length] != tail[start : start + _BLOCK]:
                break
            length += _BLOCK
        while length < limit and text[here - length - 1] == tail[size - length - 1]:
            length += 1
        return length


class _Window:
    """Every place of `length` tokens, filed by a rolling polynomial hash. Slot 0 of `earlier` is position 1."""

    def __init__(self, length: int, slots: int) -> None:
        self.length = length
        self.latest = np.zeros(
            slots, np.int64
        ).data  # of an array: pages nobody wrote to cost nothing
        self.earlier = array("q")
        self._mask = slots - 1
        self._hash = 0
        self._leaves = pow(_BASE, length, _PRIME)

    def file(self, text: array[int], start: int, border: int, lost: int) -> None:
        """File the windows that end after `start`; none reaches back across `border`."""
        length, latest, earlier, mask = self.length, self.latest, self.earlier, self._mask
        leaves, rolled = self._leaves, self._hash
        whole = lost + border + length
        short = min(max(0, border + length - start), len(text) - start)
        leaving = chain(repeat(0, short), text[start + short - length : len(text) - length])
        for end, arriving, left in zip(
            count(lost + start + 1), text[start:], leaving, strict=False
        ):
            rolled = (rolled * _BASE + arriving - left * leaves) % _PRIME
            if end < whole:
                earlier.append(0)
                continue
            slot = rolled & mask
            earlier.append(latest[slot])
            latest[slot] = end
        self._hash = rolled

    def skip(self) -> None:
        self.earlier.append(0)
        self._hash = 0

    def slot(self, tokens: array[int]) -> int:
        rolled = 0
        for token in tokens:
            rolled = (rolled * _BASE + token) % _PRIME
        return rolled & self._mask
