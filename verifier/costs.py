"""What a step costs: a table that somebody measured, and one that is learned from the steps themselves. Pure.

Where execution is padded, cost is a step function of the padded size: within a bucket further tokens are free. Beyond
that it is interpolated between what was measured.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

import numpy as np
import numpy.typing as npt

Seconds = npt.NDArray[np.float64]
LEAST: Final = 1e-6
"""No step takes less."""
SIZES: Final = (
    1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 384, 512,
    768, 1024, 2048, 4096,
)  # fmt: skip
"""Steps are told apart by which of these their tokens are next to."""
KEPT: Final = 31
"""Newest steps of a size that its median is taken of."""


@dataclass(frozen=True)
class CostTable:
    """`seconds[i]` of a step with `tokens[i]` tokens, every row of which adds `row`; padded up to `padded` tokens."""

    tokens: tuple[int, ...]
    seconds: tuple[float, ...]
    row: float = 0.0
    padded: int = 0

    def __post_init__(self) -> None:
        if not self.tokens or len(self.tokens) != len(self.seconds):
            raise ValueError("a cost table needs as many times as sizes, and one at least")
        if any(
            later <= earlier for earlier, later in zip(self.tokens, self.tokens[1:], strict=False)
        ):
            raise ValueError("the sizes of a cost table must rise")
        if any(
            later < earlier for earlier, later in zip(self.seconds, self.seconds[1:], strict=False)
        ):
            raise ValueError("a larger step cannot take less time")
        if self.seconds[0] <= 0 or self.row < 0:
            raise ValueError("a step takes time")

    def cost(self, rows: int, tokens: int) -> float:
        """Seconds of one step."""
        return float(self.costs(rows, tokens, 1)[0])

    def costs(self, rows: int, tokens: int, count: int) -> Seconds:
        """Seconds of steps with `tokens`, `tokens` + 1, ... tokens, for `count` sizes."""
        sizes = np.arange(tokens, tokens + count)
        known, times = np.array(self.tokens, float), np.array(self.seconds)
        made = np.interp(sizes, known, times)
        beyond = sizes > self.tokens[-1]
        if beyond.any():
            span = max(known[-1] - known[0], 1.0)
            slope = (times[-1] - times[0]) / span
            made = np.where(beyond, times[-1] + slope * (sizes - known[-1]), made)
        inside = sizes <= min(self.padded, self.tokens[-1])
        if inside.any():
            places = np.searchsorted(known, sizes[inside])
            made[inside] = times[places]
        whole: Seconds = np.maximum(made + self.row * rows, LEAST)
        return whole


def table_of(samples: Sequence[tuple[int, float]], row: float = 0.0, padded: int = 0) -> CostTable:
    """From (tokens, seconds) of single steps: medians by size, made monotone by pooling what falls."""
    sizes = sorted({tokens for tokens, _ in samples})
    medians = [median(seconds for each, seconds in samples if each == size) for size in sizes]
    counts = [sum(each == size for each, _ in samples) for size in sizes]
    return CostTable(tuple(sizes), tuple(rising(medians, counts)), row, padded)


def rising(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The nearest sequence that never falls, by weighted squares: neighbours that fall are pooled."""
    pools: list[list[float]] = []  # mean, weight, members
    for value, weight in zip(values, weights, strict=True):
        pools.append([value, weight, 1])
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            mean, heavy, members = pools.pop()
            last = pools[-1]
            last[0] = (last[0] * last[1] + mean * heavy) / (last[1] + heavy)
            last[1] += heavy
            last[2] += members
    return [mean for mean, _, members in pools for _ in range(int(members))]


class Costs:
    """Learns a table from steps. What no step has shown yet is as in `known`, at the level of what was seen.

    With `buckets`, sizes that steps are padded to, the table has its steps exactly there.
    """

    def __init__(self, known: CostTable | None = None) -> None:
        self.known = known
        self.buckets: tuple[int, ...] = ()
        self._seen: dict[int, deque[tuple[int, float]]] = {}
        self._table = known
        self._asked: tuple[int, int, int] | None = None
        self._asked_of: CostTable | None = None
        self._answer: Seconds = np.ones(1)
        self._fresh = 0
        self.steps = 0

    def forget_table(self) -> None:
        """`known` is another one now."""
        self._table = None

    def learn(self, tokens: int, seconds: float) -> None:
        """A step took so long."""
        place, tokens = self._place(tokens)
        self._seen.setdefault(place, deque(maxlen=KEPT)).append((tokens, max(seconds, LEAST)))
        self.steps += 1
        self._fresh += 1
        if self._fresh >= 16 or self.steps < 32:
            self._table = None

    def _place(self, tokens: int) -> tuple[int, int]:
        """Which steps it is told apart by, and its size as it was computed."""
        if self.buckets and tokens <= self.buckets[-1]:
            place = bisect_left(self.buckets, tokens)
            return place, self.buckets[place]
        place = min(bisect_left(SIZES, tokens), len(SIZES) - 1)
        if place and tokens - SIZES[place - 1] < SIZES[place] - tokens:
            place -= 1
        return len(self.buckets) + place, tokens

    @property
    def table(self) -> CostTable | None:
        """As it is known now; None before the first step where nothing was measured."""
        if self._table is None:
            self._fresh = 0
            self._table = self._made() if self._seen else self.known
        return self._table

    def of(self, rows: int, tokens: int, count: int) -> Seconds:
        """`CostTable.costs` as it is known now; one each before anything is. Kept, for steps are much alike."""
        table = self.table
        asked = (rows, tokens, count)
        if table is not self._asked_of or asked != self._asked:
            self._answer = table.costs(rows, tokens, count) if table else np.ones(count)
            self._asked, self._asked_of = asked, table
        return self._answer

    def _made(self) -> CostTable:
        points: dict[int, tuple[float, int]] = {}
        for place in sorted(self._seen):
            seen = self._seen[place]
            size = round(median(tokens for tokens, _ in seen))
            points[size] = (median(seconds for _, seconds in seen), len(seen))
        if self.known is not None:
            level = median(
                seconds / self.known.cost(0, size) for size, (seconds, _) in points.items()
            )
            near = tuple(points)
            for size, known in zip(self.known.tokens, self.known.seconds, strict=True):
                if all(abs(size - each) > (0 if self.buckets else each // 8) for each in near):
                    points[size] = (known * level, 1)
        sizes = sorted(points)
        made = rising([points[each][0] for each in sizes], [points[each][1] for each in sizes])
        row = self.known.row if self.known else 0.0
        padded = self.known.padded if self.known else 0
        if self.buckets:
            padded = self.buckets[-1]
        return CostTable(tuple(sizes), tuple(made), row, padded)
