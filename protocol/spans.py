"""What a core records of requests that are traced: plain values, made into spans elsewhere (`protocol/tracing.py`).

A request is traced when its front door says so: `Submit.trace` and `DraftSync.trace` then hold a W3C `traceparent` and,
behind a space, the `tracestate` that came with it. Any other request costs one comparison.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

Value = str | bool | int | float

LONGEST_STATE: Final = 512
"""Characters of a `tracestate` that is carried on; the recommendation asks for no more."""
KEPT: Final = "file://"
"""What an endpoint of traces begins with that is a folder of this machine."""
_PARTS: Final = 4
_DIGITS: Final = frozenset("0123456789abcdef")


class Context(NamedTuple):
    """A span of another process, below which ours belong."""

    trace: int
    span: int
    state: str = ""
    """What other tracers have to say of the trace, in their words."""


class Happening(NamedTuple):
    """Something that happened at `at`, within a span: an event of it."""

    at: float
    name: str
    attributes: Mapping[str, Value]


class Place(NamedTuple):
    """A span of this process that others name as parent or link: `key` within `scope`."""

    scope: Hashable
    key: str


class Span(NamedTuple):
    """Something that went on from `start` to `end` of the node's clock.

    `scope` is what it is about, a choice or a mirror. `parent` names a span of the same scope, empty the one of the
    other process. Whoever is named as a parent or in a link bears a `key`; it may be recorded later than those that
    name it. With `last`, nothing more comes of this scope.
    """

    context: Context
    scope: Hashable
    name: str
    start: float
    end: float
    attributes: Mapping[str, Value]
    parent: str = ""
    key: str = ""
    links: tuple[tuple[Context, Place], ...] = ()
    last: bool = False
    events: Sequence[Happening] = ()


def folder_of(endpoint: str) -> Path | None:
    """The folder that an endpoint of traces names, if it names one."""
    return Path(endpoint.removeprefix(KEPT)) if endpoint.startswith(KEPT) else None


def traced(text: str) -> Context | None:
    """The context that `traceparent` made a text of; None where there is none, or when it is not sampled."""
    parent, _, state = text.partition(" ")
    parts = parent.split("-")
    if len(parts) < _PARTS or [len(part) for part in parts[:_PARTS]] != [2, 32, 16, 2]:
        return None
    version, trace, span, flags = parts[:_PARTS]
    if version == "ff" or (version == "00" and len(parts) > _PARTS):
        return None
    if not _DIGITS.issuperset(version + trace + span + flags) or not int(flags, 16) & 1:
        return None
    context = Context(int(trace, 16), int(span, 16), state)
    return context if context.trace and context.span else None


def traceparent(context: Context) -> str:
    """The text by which another process finds a sampled span."""
    parent = f"00-{context.trace:032x}-{context.span:016x}-01"
    return f"{parent} {context.state}" if 0 < len(context.state) <= LONGEST_STATE else parent


def trace_number(context: Context | None) -> str:
    """As other programs write it; empty where nothing is traced."""
    return f"{context.trace:032x}" if context is not None else ""


class Recorder:
    """Spans that nobody has taken yet."""

    __slots__ = ("_spans",)

    def __init__(self) -> None:
        self._spans: list[Span] = []

    def __bool__(self) -> bool:
        return bool(self._spans)

    def add(self, span: Span) -> None:
        self._spans.append(span)

    def take(self) -> list[Span]:
        spans, self._spans = self._spans, []
        return spans


TakeSpans = Callable[[Sequence[Span]], None]
"""Makes spans of records, when the work that they tell of is done and said."""


def no_tracer(_spans: Sequence[Span]) -> None:
    """Nobody collects traces."""
