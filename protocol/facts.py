"""How a node counts: distributions while it runs, and facts made of them when somebody asks. Pure."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final, TypeVar

from protocol.messages import LONGEST_LABEL, MOST_LABELS, Facts, Histogram

Number = TypeVar("Number", int, float)


SECONDS: Final = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0,
)  # fmt: skip
"""Bounds for what takes from a forward to a long answer."""
SHORT: Final = (
    0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0,
)  # fmt: skip
"""Bounds for what takes from a table look-up to a forward."""
SIZES: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0)
NEWEST: Final = 0.02
"""How much the newest step counts where numbers are smoothed."""


class Distribution:
    """Observations, as how many of them fell between which bounds."""

    __slots__ = ("_bounds", "_counts", "_total")

    def __init__(self, bounds: Sequence[float] = SECONDS) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(bounds) + 1)
        self._total = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._total += value

    def histogram(self) -> Histogram:
        return Histogram(self._bounds, tuple(self._counts), max(0.0, self._total))


class Rate:
    """Something a second, over the last fifty additions or so."""

    __slots__ = ("_count", "_seconds")

    def __init__(self) -> None:
        self._count = self._seconds = 0.0

    def add(self, count: float, seconds: float) -> None:
        self._count += count - NEWEST * self._count
        self._seconds += seconds - NEWEST * self._seconds

    @property
    def rate(self) -> float:
        """0 before anything was added."""
        return self._count / self._seconds if self._seconds > 0 else 0.0


def one(value: int) -> dict[str, int]:
    """A counter that nothing divides."""
    return {"": value}


def level(value: float) -> dict[str, float]:
    """A gauge that nothing divides."""
    return {"": float(value)}


def named(what: str) -> dict[str, float]:
    """A gauge that is always 1: its label says what is so; nothing: nothing is."""
    return {what: 1.0} if what else {}


def under(prefix: str, counts: Mapping[str, int], known: Sequence[str] = ()) -> dict[str, int]:
    """The counts whose names begin with `prefix`, by the rest of their names; those that are `known` even at zero."""
    found = {
        name.removeprefix(prefix): count
        for name, count in counts.items()
        if name.startswith(prefix)
    }
    return dict.fromkeys(known, 0) | found


def together(*facts: Facts) -> Facts:
    """All of them as one that can travel; no name is in two of them. Labels beyond the most that may are left out."""
    return Facts(
        {name: _clipped(value) for each in facts for name, value in each.counters.items()},
        {name: _clipped(value) for each in facts for name, value in each.gauges.items()},
        {name: value for each in facts for name, value in each.histograms.items()},
    )


def _clipped(values: Mapping[str, Number]) -> dict[str, Number]:
    return {label[:LONGEST_LABEL]: value for label, value in islice(values.items(), MOST_LABELS)}
