"""Waterfalls as lines of text. Pure."""

from collections.abc import Iterator
from typing import Final

from orchestrator.traces.waterfall import Row, Waterfall

SHADES: Final = ("█", "▒")
"""Bars of one row by turns, so that one ends where the next begins."""


def lines(drawn: Waterfall, width: int = 100) -> Iterator[tuple[str, str]]:
    """Each line, and the role whose it is; the bars have what the labels leave of `width`."""
    names = max(len(row.label) for row in drawn.rows)
    nodes = max(len(row.node) for row in drawn.rows)
    room = max(20, width - names - nodes - 14)
    for row in drawn.rows:
        bars = _cells(row, drawn.seconds, room)
        yield (
            f"{row.label:<{names}}  {row.node:<{nodes}}  {shown_time(row.busy):>9} {bars}",
            row.role,
        )
    yield f"{'':<{names + nodes + 14}}{_scale(drawn.seconds, room)}", ""


def _cells(row: Row, seconds: float, room: int) -> str:
    cells = [" "] * room
    for number, bar in enumerate(row.bars):
        first = min(room - 1, int(bar.start / seconds * room))
        last = max(first + 1, round(bar.end / seconds * room))
        cells[first:last] = SHADES[number % len(SHADES)] * (min(room, last) - first)
    return "".join(cells[:room]).rstrip()


def _scale(seconds: float, room: int) -> str:
    right = shown_time(seconds)
    return "0" + right.rjust(room - 1)


def shown_time(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.3f} s"
