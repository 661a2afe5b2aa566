"""What happens to messages on their way: every pair of addresses has its latency, and whatever disturbs it."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

GRID: Final = 2.0**-20
"""Times are multiples of this, so that sums of times are exact and order never hangs on rounding."""


def on_grid(seconds: float) -> float:
    """The next time on the grid."""
    return max(1, round(seconds / GRID)) * GRID


@dataclass(slots=True)
class Disturbance:
    """Until `until`, messages from `source` to `target` (None: any) suffer. Probabilities, and delays in seconds."""

    source: str | None
    target: str | None
    until: float
    loss: float = 0.0
    twice: float = 0.0
    late: float = 0.0  # a second copy up to `late_by` later
    late_by: float = 0.0
    jitter: float = 0.0  # messages overtake each other
    slow: float = 0.0
    held: bool = False  # all arrive when it ends

    def covers(self, source: str, target: str) -> bool:
        return self.source in {None, source} and self.target in {None, target}


class Weather:
    """The fate of every message; without a disturbance each arrives once, in order."""

    def __init__(self, rng: random.Random, clock: Callable[[], float]) -> None:
        self._rng = rng
        self._clock = clock
        self._latency: dict[tuple[str, str], float] = {}
        self._last: dict[tuple[str, str], float] = {}
        self._active: list[Disturbance] = []

    def disturb(self, disturbance: Disturbance) -> None:
        self._active.append(disturbance)

    def clear(self) -> None:
        """Nothing is disturbed any more; late copies are still on their way."""
        self._active.clear()

    def fate(self, source: str, target: str) -> Sequence[float]:
        """Delays of the copies of a message."""
        rng, now, pair = self._rng, self._clock(), (source, target)
        if pair not in self._latency:
            self._latency[pair] = rng.choice((0.0002, 0.001, 0.004, 0.012))
        self._active = [each for each in self._active if each.until > now]
        due = now + on_grid(self._latency[pair] * (1.0 + rng.random()))
        ordered = True
        copies: list[float] = []
        for each in self._active:
            if not each.covers(source, target):
                continue
            if rng.random() < each.loss:
                return ()
            due += on_grid(each.slow * rng.random())
            if each.held:
                due = max(due, on_grid(each.until))
            if each.jitter:
                ordered = False
                due += on_grid(each.jitter * rng.random())
            if rng.random() < each.twice:
                copies.append(0.0)
            if rng.random() < each.late:
                copies.append(on_grid(each.late_by * rng.random()))
        if ordered:
            due = self._last[pair] = max(due, self._last.get(pair, 0.0))
        return [due - now, *(due - now + copy for copy in copies)]
