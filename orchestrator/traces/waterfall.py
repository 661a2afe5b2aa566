"""A trace as rows of bars over one time axis. Pure.

Spans of one name below one parent share a row: so rounds stand side by side, and drafts above the rounds that they
overlap with.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.traces.reading import Seen

EPSILON = 1e-9


@dataclass(frozen=True, slots=True)
class Bar:
    """From `start` to `end`, in seconds since the trace began."""

    start: float
    end: float
    attributes: Mapping[str, Any]
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """Spans of one name, `depth` deep in the tree, on one node."""

    depth: int
    name: str
    role: str
    node: str
    bars: tuple[Bar, ...]

    @property
    def label(self) -> str:
        times = f" x{len(self.bars)}" if len(self.bars) > 1 else ""
        return f"{'  ' * self.depth}{self.name}{times}"

    @property
    def busy(self) -> float:
        """Seconds in which any of them went on."""
        total, reached = 0.0, 0.0
        for bar in sorted(self.bars, key=lambda bar: bar.start):
            total += max(0.0, bar.end - max(bar.start, reached))
            reached = max(reached, bar.end)
        return total


@dataclass(frozen=True, slots=True)
class Waterfall:
    """`begun` is Unix time, `seconds` how long it took from the first span's beginning to the last one's end."""

    trace: str
    begun: float
    seconds: float
    rows: tuple[Row, ...]


def waterfall(spans: Sequence[Seen]) -> Waterfall:
    """Of the spans of one trace, of which there is at least one; those whose parent is missing stand at the top."""
    begun = min(span.start for span in spans)
    seconds = max(EPSILON, max(span.end for span in spans) - begun)
    there = {span.number for span in spans}
    below: dict[str, list[Seen]] = {}
    for span in sorted(spans, key=lambda span: (span.start, span.end)):
        below.setdefault(span.parent if span.parent in there else "", []).append(span)
    rows = tuple(_rows(below, [""], 0, begun))
    return Waterfall(spans[0].trace, begun, seconds, rows)


def _rows(
    below: Mapping[str, Sequence[Seen]], parents: Sequence[str], depth: int, begun: float
) -> Iterator[Row]:
    together: dict[tuple[str, str, str], list[Seen]] = {}
    for parent in parents:
        for span in below.get(parent, ()):
            together.setdefault((span.name, span.role, span.node), []).append(span)
    for (name, role, node), group in together.items():
        bars = tuple(
            Bar(span.start - begun, span.end - begun, span.attributes, span.failed)
            for span in group
        )
        yield Row(depth, name, role, node, bars)
        yield from _rows(below, [span.number for span in group], depth + 1, begun)
