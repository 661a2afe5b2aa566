"""OTLP's JSON, as collectors and our own processes write it, back to spans. Pure."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

FAILED: Final = (2, "STATUS_CODE_ERROR")
NANO: Final = 1e9


class SpanFileError(Exception):
    """There are no spans to be had; the text says why."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A span: `start` and `end` are seconds of Unix time, `parent` is empty where nothing is above it."""

    trace: str
    number: str
    parent: str
    name: str
    role: str
    node: str
    start: float
    end: float
    attributes: Mapping[str, Any]
    failed: bool = False


def spans(lines: Iterable[str]) -> Iterator[Seen]:
    """All spans of a file, in any order; a line without any is passed over, one that is no JSON is an error.

    The last line may be one that is being written.
    """
    kept = [line for line in lines if line.strip()]
    for number, line in enumerate(kept, 1):
        try:
            said = json.loads(line)
        except ValueError as error:
            if number == len(kept) > 1:
                return
            raise SpanFileError(f"line {number} is no JSON: {error}") from error
        yield from _spans(said)


def traces(found: Iterable[Seen]) -> dict[str, list[Seen]]:
    """By the number of the trace, the one whose first span began last at the end."""
    by: dict[str, list[Seen]] = {}
    for span in found:
        by.setdefault(span.trace, []).append(span)
    order = sorted(by, key=lambda trace: min(span.start for span in by[trace]))
    return {trace: by[trace] for trace in order}


def whole(spans: Sequence[Seen]) -> bool:
    """Whether the span that all others belong to is there: it comes last, when the answer has left."""
    there = {span.number for span in spans}
    return any(span.role == "front" and span.parent not in there for span in spans)


def _spans(said: Any) -> Iterator[Seen]:  # noqa: ANN401
    for part in said.get("resourceSpans", ()) if isinstance(said, dict) else ():
        about = _attributes(part.get("resource", {}).get("attributes", ()))
        role = str(about.get("draftmesh.role", about.get("service.name", "")))
        node = str(about.get("service.instance.id", role))
        for scope in part.get("scopeSpans", ()):
            for span in scope.get("spans", ()):
                yield Seen(
                    trace=span["traceId"],
                    number=span["spanId"],
                    parent=span.get("parentSpanId", ""),
                    name=span["name"],
                    role=role,
                    node=node,
                    start=int(span["startTimeUnixNano"]) / NANO,
                    end=int(span["endTimeUnixNano"]) / NANO,
                    attributes=_attributes(span.get("attributes", ())),
                    failed=span.get("status", {}).get("code") in FAILED,
                )


def _attributes(pairs: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    return {pair["key"]: _value(pair.get("value", {})) for pair in pairs}


def _value(value: Mapping[str, Any]) -> Any:  # noqa: ANN401
    for kind, said in value.items():
        if kind == "intValue":
            return int(said)
        if kind == "arrayValue":
            return [_value(each) for each in said.get("values", ())]
        return said
    return None
