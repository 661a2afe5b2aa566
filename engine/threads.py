"""How many threads the next forward gets: all of them, unless somebody else needs the cores. Pure.

A team of threads that spins at its barriers is the fastest on cores of its own, and forty times slower than a single
thread where another process takes one of them (`docs/benchmarks.md`). A single thread has no barriers, so what it takes
tells how fast the machine is now. What the team loses against it is added up: one forward that was held up is no reason
to rest, one that took forty times as long is, and so are many that were a little slower.
"""

from typing import Final

LOSS: Final = 8.0
"""Forwards of one thread that a team may lose against it before it rests."""
FIRST_REST: Final = 32
LONGEST_REST: Final = 1024
"""Forwards that one thread does alone before the team is tried again."""
MEMORY: Final = 0.2


class Team:
    """`threads` is what the next forward should use; `ran` is told how it went."""

    def __init__(self, full: int) -> None:
        self.full = full
        self.threads = full
        self._alone: dict[int, tuple[float, float]] = {}  # (tokens, seconds) of one thread by size
        self._lost = 0.0  # by the team against one thread, in forwards of that
        self._rest = FIRST_REST
        self._left = 0

    def ran(self, tokens: int, seconds: float) -> None:
        """A forward of so many tokens took so long with `threads` threads."""
        if self.threads == 1:
            self._learn(tokens, seconds)
            self._left -= 1
            if self._left <= 0:
                self.threads, self._lost = self.full, 0.0
            return
        alone = self._expected(tokens)
        self._lost = max(0.0, self._lost + seconds / alone - 1.0) if alone else self._lost
        if self._lost > LOSS:
            self.threads, self._left = 1, self._rest
            self._rest = min(2 * self._rest, LONGEST_REST)
        elif not self._lost:  # trust comes back slowly
            self._rest = max(FIRST_REST, self._rest - self._rest // FIRST_REST)

    def alone(self, forwards: int) -> None:
        """Let one thread do the next forwards: to learn what it takes."""
        if self.full > 1:
            self.threads, self._left = 1, forwards

    def _learn(self, tokens: int, seconds: float) -> None:
        size = tokens.bit_length()
        count, before = self._alone.get(size, (float(tokens), seconds))
        self._alone[size] = (
            count + MEMORY * (tokens - count),
            before + MEMORY * (seconds - before),
        )

    def _expected(self, tokens: int) -> float | None:
        """What one thread takes for so many at most: time grows no faster than their number."""
        size = tokens.bit_length()
        known = min(self._alone, key=lambda each: (abs(each - size), each), default=None)
        if known is None:
            return None
        count, seconds = self._alone[known]
        return seconds * max(1.0, tokens / count)
