"""How many threads the next forward gets: all of them, unless somebody else needs the cores. Pure.

A team of threads that spins at its barriers is the fastest on cores of its own, and forty times slower than a single
thread where another process takes one of them (`docs/benchmarks.md`). A single thread has no barriers, so what it takes
tells how fast the machine is now; a team that is slower than that rests, longer each time.
"""

from typing import Final

SLOWER: Final = 1.5
"""A team that takes so many times what one thread takes is in somebody's way."""
FIRST_REST: Final = 32
LONGEST_REST: Final = 1024
"""Forwards that one thread does alone before the team is tried again."""
MEMORY: Final = 0.2


class Team:
    """`threads` is what the next forward should use; `ran` is told how it went."""

    def __init__(self, full: int) -> None:
        self.full = full
        self.threads = full
        self._alone: dict[int, float] = {}  # seconds of one thread by the size of the forward
        self._rest = FIRST_REST
        self._left = 0

    def ran(self, tokens: int, seconds: float) -> None:
        """A forward of so many tokens took so long with `threads` threads."""
        size = tokens.bit_length()
        if self.threads == 1:
            before = self._alone.get(size, seconds)
            self._alone[size] = before + MEMORY * (seconds - before)
            self._left -= 1
            if self._left <= 0:
                self.threads = self.full
        elif seconds > SLOWER * self._alone.get(size, float("inf")):
            self.threads, self._left = 1, self._rest
            self._rest = min(2 * self._rest, LONGEST_REST)
        elif self._rest > FIRST_REST:
            self._rest -= 1  # trust comes back slowly

    def alone(self, forwards: int) -> None:
        """Let one thread do the next forwards: to learn what it takes."""
        if self.full > 1:
            self.threads, self._left = 1, forwards
