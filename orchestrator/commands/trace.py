"""`orchestrator trace`: one request as a waterfall, from spans that a service keeps here or a collector wrote."""

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Final

from orchestrator.commands.output import FAILED, complain, data, out, say
from orchestrator.commands.services import chosen
from orchestrator.traces.drawing import html, lines, svg
from orchestrator.traces.reading import Seen, SpanFileError, spans, traces, whole
from orchestrator.traces.waterfall import Waterfall, waterfall
from protocol.rundir import cache_folder, running

WIDTH: Final = 120
"""Characters of a line where no terminal says how many it has."""
STYLES: Final = {"front": "blue", "verifier": "green", "drafter": "yellow"}


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
        found = traces(_read(place))
    except (OSError, SpanFileError) as error:
        complain(f"{error}.")
        return FAILED
    picked = _picked(found, number)
    if picked is None:
        complain(f"There is no trace{f' {number}' if number else ''} in {place}.")
        return FAILED
    drawn = waterfall(picked)
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


def _read(place: Path) -> Iterable[Seen]:
    files = sorted(place.glob("*.jsonl")) if place.is_dir() else [place]
    for file in files:
        try:
            yield from spans(file.read_text(encoding="utf-8").splitlines())
        except (UnicodeDecodeError, SpanFileError, LookupError, TypeError, ValueError) as error:
            raise SpanFileError(f"{file} holds no spans: {error}") from error


def _picked(found: dict[str, list[Seen]], number: str) -> list[Seen] | None:
    hit = [each for trace, each in found.items() if trace.startswith(number)]
    complete = [each for each in hit if whole(each)]
    return (complete or hit)[-1] if hit else None


def _show(drawn: Waterfall) -> None:
    width = out.width if out.is_terminal else WIDTH
    say(f"trace {drawn.trace}")
    for line, role in lines(drawn, width):
        out.print(line, style=STYLES.get(role), markup=False, soft_wrap=True)
