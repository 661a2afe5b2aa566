"""Waterfalls as lines of text, as SVG and as a page of HTML that needs nothing else. Pure."""

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, Final

from orchestrator.traces.waterfall import Bar, Row, Waterfall

COLOURS: Final[Mapping[str, str]] = {
    "front": "#4c78a8",
    "verifier": "#54a24b",
    "drafter": "#f58518",
}
"""Of roles; others are grey."""
OTHER: Final = "#9d9d9d"
FAULT: Final = "#e45756"
SHADES: Final = ("█", "▒")
"""Bars of one row by turns, so that one ends where the next begins."""
ROW: Final = 20
LABELS: Final = 300
TICKS: Final = 5


def lines(drawn: Waterfall, width: int = 100) -> Iterator[tuple[str, str]]:
    """Each line, and the role whose it is; the bars have what the labels leave of `width`."""
    names = max(len(row.label) for row in drawn.rows)
    nodes = max(len(row.node) for row in drawn.rows)
    room = max(20, width - names - nodes - 14)
    for row in drawn.rows:
        bars = _cells(row, drawn.seconds, room)
        yield f"{row.label:<{names}}  {row.node:<{nodes}}  {_time(row.busy):>9} {bars}", row.role
    yield f"{'':<{names + nodes + 14}}{_scale(drawn.seconds, room)}", ""


def _cells(row: Row, seconds: float, room: int) -> str:
    cells = [" "] * room
    for number, bar in enumerate(row.bars):
        first = min(room - 1, int(bar.start / seconds * room))
        last = max(first + 1, round(bar.end / seconds * room))
        cells[first:last] = SHADES[number % len(SHADES)] * (min(room, last) - first)
    return "".join(cells[:room]).rstrip()


def _scale(seconds: float, room: int) -> str:
    right = _time(seconds)
    return "0" + right.rjust(room - 1)


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.3f} s"


def svg(drawn: Waterfall, width: int = 1200) -> str:
    """A picture; what a bar says of itself is its tooltip."""
    room = width - LABELS - 20
    height = ROW * (len(drawn.rows) + 2)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
        f"<title>trace {escape(drawn.trace)}</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for number in range(TICKS + 1):
        x = LABELS + room * number / TICKS
        text = _time(drawn.seconds * number / TICKS)
        parts.append(f'<path d="M{x:.1f} {ROW}V{height - ROW / 2:.0f}" stroke="#dddddd"/>')
        parts.append(f'<text x="{x:.1f}" y="14" text-anchor="middle" fill="#666666">{text}</text>')
    for number, row in enumerate(drawn.rows, 1):
        parts += _drawn_row(row, drawn.seconds, ROW * number, room)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _drawn_row(row: Row, seconds: float, y: int, room: int) -> Iterator[str]:
    indent = 8 + 12 * row.depth
    yield (
        f'<text x="{indent}" y="{y + 14}">{escape(row.label.strip())}'
        f' <tspan fill="#888888">{escape(row.node)}</tspan></text>'
    )
    for bar in row.bars:
        x = LABELS + bar.start / seconds * room
        wide = max(1.0, (bar.end - bar.start) / seconds * room)
        colour = FAULT if bar.failed else COLOURS.get(row.role, OTHER)
        yield (
            f'<rect x="{x:.1f}" y="{y + 3}" width="{wide:.1f}" height="{ROW - 6}" rx="2" '
            f'fill="{colour}" fill-opacity="0.85"><title>{escape(_told(row, bar))}</title></rect>'
        )


def _told(row: Row, bar: Bar) -> str:
    head = f"{row.name} on {row.node}: {_time(bar.end - bar.start)} from {_time(bar.start)}"
    return "\n".join([head, *(f"{key} = {_said(value)}" for key, value in bar.attributes.items())])


def _said(value: Any) -> str:  # noqa: ANN401
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def html(drawn: Waterfall) -> str:
    """A page with the picture and a table of everything that the spans say."""
    rows = "\n".join(
        f"<tr><td>{escape(row.name)}</td><td>{escape(row.node)}</td>"
        f"<td>{_time(bar.start)}</td><td>{_time(bar.end - bar.start)}</td>"
        f"<td>{escape('; '.join(f'{key}={_said(value)}' for key, value in bar.attributes.items()))}</td></tr>"
        for row in drawn.rows
        for bar in row.bars
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>trace {escape(drawn.trace)}</title>
<style>
body {{ font: 14px sans-serif; margin: 2em }}
td, th {{ text-align: left; padding: 2px 12px 2px 0; border-bottom: 1px solid #eeeeee }}
</style></head><body>
<h1>trace {escape(drawn.trace)}</h1>
{svg(drawn)}
<table><tr><th>span</th><th>node</th><th>from</th><th>took</th><th>says</th></tr>
{rows}
</table></body></html>
"""
