"""The outputs of requests that are over, oldest forgotten first. Pure."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from drafter.proposers.history import History, Place

_MOST_SLOTS: Final = 1 << 20


class Store:
    """At most `capacity` tokens of whole outputs (of one that is longer, its end)."""

    def __init__(self, lengths: Iterable[int], capacity: int) -> None:
        self._capacity = capacity
        self._history = History(lengths, slots=min(max(capacity, 1), _MOST_SLOTS))
        self._outputs: deque[tuple[int, int]] = deque()  # end and tokens of each
        self.tokens = 0

    def add(self, output: Sequence[int]) -> None:
        """Remember one output, and forget as many of the oldest as that takes."""
        kept = output[max(0, len(output) - self._capacity) :]
        if not kept:
            return
        while self.tokens + len(kept) > self._capacity:
            end, tokens = self._outputs.popleft()
            self._history.forget(end)
            self.tokens -= tokens
        self._history.append(kept)
        self._history.split()
        self._outputs.append((self._history.end, len(kept)))
        self.tokens += len(kept)

    def places(self, tail: array[int], most: int) -> list[Place]:
        return self._history.places(tail, most)

    def after(self, position: int, most: int) -> array[int]:
        return self._history.after(position, most)
