"""`orchestrator trace`: one request as a waterfall, from spans that a service keeps here or a collector wrote."""

from dataclasses import asdict
from pathlib import Path
from typing import Final

from orchestrator.commands.output import FAILED, complain, data, out, say
from orchestrator.commands.services import chosen
from orchestrator.traces.drawing import lines
from orchestrator.traces.files import picked, read
from orchestrator.traces.picture import html, svg
from orchestrator.traces.reading import SpanFileError, traces
from orchestrator.traces.waterfall import Waterfall, waterfall
from protocol.rundir import cache_folder, running

WIDTH: Final = 120
"""Characters of a line where no terminal says how many it has."""
STYLES: Final = {"front": "blue", "verifier": "green", "drafter": "yellow", "prefill": "cyan"}


def trace(
    source: Path | None,
    service: str | None,
    number: str,
    *,
    pictures: tuple[Path | None, Path | None],
    as_json: bool,
) -> int:
    """Show the trace that `number` begins, else the last whole one; `pictures` are files for SVG and HTML."""
    try:
        place = source or _kept(service)
        found = traces(read(place))
    except (OSError, SpanFileError) as error:
        complain(f"{error}.")
        return FAILED
    spans = picked(found, number)
    if spans is None:
        complain(f"There is no trace{f' {number}' if number else ''} in {place}.")
        return FAILED
    drawn = waterfall(spans)
    for file, draw in zip(pictures, (svg, html), strict=True):
        if file is not None:
            file.write_text(draw(drawn), encoding="utf-8")
            say(f"  wrote {file}")
    if as_json:
        data(asdict(drawn))
    elif not any(pictures):
        _show(drawn)
    return 0


def _kept(service: str | None) -> Path:
    """Where the service that is meant keeps its spans; with none running, where the last one did."""
    kept = cache_folder() / "traces"
    if service is None and not running() and kept.is_dir():
        folders = sorted(kept.iterdir(), key=lambda path: path.stat().st_mtime)
        if folders:
            return folders[-1]
    state = chosen(service)
    if not state.traces:
        raise SpanFileError(
            f"{state.name} keeps no spans here: start it with `up --trace`, or name a file of spans"
        )
    return Path(state.traces)


def _show(drawn: Waterfall) -> None:
    width = out.width if out.is_terminal else WIDTH
    say(f"trace {drawn.trace}")
    for line, role in lines(drawn, width):
        out.print(line, style=STYLES.get(role), markup=False, soft_wrap=True)
