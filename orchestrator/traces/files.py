"""Spans in files: a folder that a service keeps, or a file that a collector wrote; and which trace is meant."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from orchestrator.traces.reading import Seen, SpanFileError, spans, whole


def read(place: Path) -> Iterable[Seen]:
    """All spans of a file, or of the files of a folder; a SpanFileError names one that holds none."""
    files = sorted(place.glob("*.jsonl")) if place.is_dir() else [place]
    for file in files:
        try:
            yield from spans(file.read_text(encoding="utf-8").splitlines())
        except (UnicodeDecodeError, SpanFileError, LookupError, TypeError, ValueError) as error:
            raise SpanFileError(f"{file} holds no spans: {error}") from error


def picked(found: Mapping[str, Sequence[Seen]], number: str) -> Sequence[Seen] | None:
    """The newest whole trace whose number begins so, else the newest one; None: there is none."""
    hit = [each for trace, each in found.items() if trace.startswith(number)]
    complete = [each for each in hit if whole(each)]
    return (complete or hit)[-1] if hit else None
