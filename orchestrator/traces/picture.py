"""Waterfalls as SVG, and as a page of HTML that needs nothing else. Pure."""

from collections.abc import Iterator
from html import escape
from typing import Any, Final

from orchestrator.traces.drawing import shown_time
from orchestrator.traces.waterfall import Bar, Row, Waterfall
from protocol import attributes

ROW: Final = 24
TOP: Final = 30
LABELS: Final = 310
TICKS: Final = 5
ROLES: Final = ("front", "verifier", "drafter", "prefill")
COUNTS: Final = {
    attributes.VERIFY: (attributes.EMITTED, "output tokens of the round"),
    attributes.DRAFT: (attributes.GUESSES, "guesses"),
}
"""What stands in a bar that has room for it."""
DIGIT: Final = 6.5

STYLE: Final = """
.waterfall { --ground: #ffffff; --ink: #1c2024; --soft: #7a818a; --rule: #e8e8e4; --odd: #f8f8f6;
  --front: #4c78a8; --verifier: #3d8f61; --drafter: #dd7a35; --prefill: #8a68b8; --other: #8d949c; --fault: #cf4b4b;
  font: 12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; font-variant-numeric: tabular-nums; }
@media (prefers-color-scheme: dark) { .waterfall { --ground: #1a1d22; --ink: #e9eaec; --soft: #98a0aa; --rule: #2b2f36;
  --odd: #1f2329; --front: #7aa6d6; --verifier: #5fbd8a; --drafter: #f09a5c; --prefill: #b094dd; --other: #79818b;
  --fault: #ef7a7a; } }
.waterfall text { fill: var(--ink); font-size: 12px; } .waterfall .soft { fill: var(--soft); font-size: 11px; }
.waterfall .ground { fill: var(--ground); } .waterfall .odd { fill: var(--odd); }
.waterfall .rule { stroke: var(--rule); }
.waterfall .bar { fill: var(--other); } .waterfall .failed { fill: var(--fault) !important; }
.waterfall .front { fill: var(--front); } .waterfall .verifier { fill: var(--verifier); }
.waterfall .drafter { fill: var(--drafter); } .waterfall .prefill { fill: var(--prefill); }
.waterfall .count { fill: #ffffff; font-size: 10.5px; font-weight: 600; pointer-events: none; }
"""


def svg(drawn: Waterfall, width: int = 1120) -> str:
    """A picture; what a bar says of itself is its tooltip. It is light or dark as whoever looks has it."""
    room = width - LABELS - 70
    height = TOP + ROW * len(drawn.rows) + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="waterfall" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img">',
        f"<title>trace {escape(drawn.trace)}</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="ground" width="{width}" height="{height}"/>',
    ]
    parts += [
        f'<rect class="odd" x="0" y="{TOP + ROW * number}" width="{width}" height="{ROW}"/>'
        for number in range(1, len(drawn.rows), 2)
    ]
    for number in range(TICKS + 1):
        x = LABELS + room * number / TICKS
        text = shown_time(drawn.seconds * number / TICKS)
        parts.append(
            f'<path class="rule" d="M{x:.1f} {TOP - 6}V{TOP + ROW * len(drawn.rows)}" fill="none"/>'
        )
        parts.append(f'<text class="soft" x="{x:.1f}" y="16" text-anchor="middle">{text}</text>')
    for number, row in enumerate(drawn.rows):
        parts += _drawn_row(row, drawn.seconds, TOP + ROW * number, room)
    parts += _legend(drawn, height - 10)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _drawn_row(row: Row, seconds: float, y: int, room: int) -> Iterator[str]:
    indent = 10 + 14 * row.depth
    times = f" x {len(row.bars)}" if len(row.bars) > 1 else ""
    yield (
        f'<text x="{indent}" y="{y + 16}">{escape(row.name)}<tspan class="soft">{times}</tspan></text>'
        f'<text class="soft" x="{LABELS - 14}" y="{y + 16}" text-anchor="end">{escape(row.node)}</text>'
    )
    for bar in row.bars:
        x = LABELS + bar.start / seconds * room
        wide = max(1.5, (bar.end - bar.start) / seconds * room)
        kind = f"bar {row.role if row.role in ROLES else ''}{' failed' if bar.failed else ''}"
        yield (
            f'<rect class="{kind}" x="{x:.1f}" y="{y + 5}" width="{wide:.1f}" height="{ROW - 10}" rx="3">'
            f"<title>{escape(_told(row, bar))}</title></rect>"
        )
        count = str(bar.attributes.get(COUNTS[row.name][0], "")) if row.name in COUNTS else ""
        if count and wide > DIGIT * len(count) + 6:
            yield (
                f'<text class="count" x="{x + wide / 2:.1f}" y="{y + 16}" text-anchor="middle">'
                f"{escape(count)}</text>"
            )
    last = LABELS + max(bar.end for bar in row.bars) / seconds * room
    yield f'<text class="soft" x="{last + 6:.1f}" y="{y + 16}">{shown_time(row.busy)}</text>'


def _legend(drawn: Waterfall, y: int) -> Iterator[str]:
    """Roles that take part, and what the numbers in bars are."""
    x = 10
    for role in ROLES:
        if any(row.role == role for row in drawn.rows):
            yield f'<rect class="bar {role}" x="{x}" y="{y - 9}" width="10" height="10" rx="3"/>'
            yield f'<text class="soft" x="{x + 16}" y="{y}">{role}</text>'
            x += 90
    words = [
        f"{name}: {what}"
        for name, (_, what) in COUNTS.items()
        if any(row.name == name for row in drawn.rows)
    ]
    if words:
        yield f'<text class="soft" x="{x}" y="{y}">Numbers in bars: {escape(", ".join(words))}</text>'


def _told(row: Row, bar: Bar) -> str:
    begun = shown_time(bar.start)
    head = f"{row.name} on {row.node}: {shown_time(bar.end - bar.start)} from {begun}"
    return "\n".join([head, *(f"{key} = {_said(value)}" for key, value in bar.attributes.items())])


def _said(value: Any) -> str:  # noqa: ANN401
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


PAGE_STYLE: Final = """
:root { color-scheme: light dark; --ground: #f6f6f3; --ink: #1c2024; --soft: #6a717b; --rule: #e4e4df; }
@media (prefers-color-scheme: dark) { :root { --ground: #131519; --ink: #e9eaec; --soft: #98a0aa; --rule: #292d34; } }
body { margin: 32px auto; max-width: 1180px; padding: 0 24px; background: var(--ground); color: var(--ink);
  font: 14px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; font-variant-numeric: tabular-nums; }
h1 { font-size: 18px; margin: 0; } h1 + p { color: var(--soft); margin: 4px 0 20px; }
figure { margin: 0 0 28px; border: 1px solid var(--rule); border-radius: 12px; overflow-x: auto; padding: 12px;
  background: Canvas; }
table { border-collapse: collapse; width: 100%; font-size: 13px; }
th { text-align: left; color: var(--soft); font-weight: 600; }
td, th { padding: 5px 18px 5px 0; border-bottom: 1px solid var(--rule); vertical-align: top; white-space: nowrap; }
td:last-child { white-space: normal; color: var(--soft); }
"""


def html(drawn: Waterfall) -> str:
    """A page with the picture and a table of everything that the spans say."""
    rows = "\n".join(
        f"<tr><td>{escape(row.name)}</td><td>{escape(row.node)}</td>"
        f"<td>{shown_time(bar.start)}</td><td>{shown_time(bar.end - bar.start)}</td>"
        f"<td>{escape(', '.join(f'{key} {_said(value)}' for key, value in bar.attributes.items()))}</td></tr>"
        for row in drawn.rows
        for bar in row.bars
    )
    head = escape(drawn.rows[0].name) if drawn.rows else "trace"
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>trace {escape(drawn.trace)}</title>
<style>{PAGE_STYLE}</style></head><body>
<h1>{head}</h1>
<p>{shown_time(drawn.seconds)}, trace {escape(drawn.trace)}</p>
<figure>
{svg(drawn)}
</figure>
<table><tr><th>span</th><th>node</th><th>from</th><th>took</th><th>says</th></tr>
{rows}
</table></body></html>
"""
