"""`orchestrator bench burst`: two answers that stream, a crowd of short ones for a while, and the two alone again.

A planner that learns from load must come back: what the two get after the crowd is what they got before it, and it does
not waver between drafting and not. Each of the two answers the prompts of a set one after the other; a piece of a
stream is a round, so its tokens are what the round emitted. Clients are threads here.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import cycle, islice
from time import perf_counter
from typing import Any, Final, NamedTuple

import httpx
from prometheus_client.parser import text_string_to_metric_families
from rich.table import Table

from orchestrator.bench.client import SILENCE, Asking, drive, pieces
from orchestrator.bench.errors import BenchError
from orchestrator.bench.prompts import WARM_UP, Prompt
from orchestrator.bench.streams import begin
from orchestrator.bench.systems import System
from orchestrator.bench.table import columns

PARTS: Final = ("before", "burst", "after")
OLD: Final = 2
"""Answers that stream from the begin to the end."""
REPORTED: Final = 1.5
"""Seconds after which a verifier's counters are in the metrics."""
CHANGES: Final = "draftmesh_drafting_changes_total"


@dataclass(frozen=True, kw_only=True)
class Story:
    """How many come for how long, and what everybody asks."""

    prompts: Sequence[Prompt]
    crowd: int
    seconds: float
    """Of the burst."""
    calm: float
    """Seconds before it and after it, of which the first quarter is not looked at."""
    long: Asking
    short: Asking


@dataclass(frozen=True, kw_only=True)
class Part:
    """Of one service. Tokens a second are those of both old answers together."""

    system: str
    part: str
    tokens_per_s: float
    emitted: float
    """Tokens a round of the old answers."""
    changes: float
    """A minute: of planners, from drafting to rest and back; all verifiers."""
    answers: int
    """Short ones that were begun and ended."""


@dataclass(frozen=True, kw_only=True)
class Figures:
    """All parts of all services, in order."""

    parts: tuple[Part, ...]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class _Notes:
    """What the threads of one run note: (time, tokens) of pieces."""

    over: threading.Event = field(default_factory=threading.Event)
    pieces: list[tuple[float, int]] = field(default_factory=list)


def measure(systems: Sequence[System], story: Story) -> Figures:
    """Each service in turn, a new one for each."""
    parts: list[Part] = []
    with ExitStack() as stack:
        for system in systems:
            stack.callback(system.close)
        for system in systems:
            with system.fresh() as url:
                drive(url, WARM_UP, OLD, Asking())
                parts += tell(url, str(system.label), story)
    return Figures(parts=tuple(parts))


def tell(
    url: str, name: str, story: Story, pause: Callable[[float], None] | None = None
) -> list[Part]:
    """One story; its three parts. `pause` lets so many seconds go by."""
    half = len(story.prompts) // 2
    notes = _Notes()
    with (
        httpx.Client(base_url=url, timeout=SILENCE) as client,
        ThreadPoolExecutor(OLD) as threads,
    ):
        parts = [story.prompts[number:half:OLD] for number in range(OLD)]
        try:
            others = begin(threads, [partial(_old, client, story, each, notes) for each in parts])
            let = pause or partial(_listen, others)
            before = _calm(client, story, let)
            changes, began = _changes(client), perf_counter()
            answers = _crowd(client, story, story.prompts[half:])
            burst = _span(client, began, changes, let)
            after = _calm(client, story, let)
        finally:
            notes.over.set()
        for each in others:
            each.result()
    told = zip(PARTS, (before, burst, after), (0, answers, 0), strict=True)
    return [_part(name, part, span, asked, notes) for part, span, asked in told]


class _Span(NamedTuple):
    began: float
    ended: float
    changes: float


def _listen(others: Sequence[Future[None]], seconds: float) -> None:
    """Let time go by, unless one of these fails."""
    for each in wait(others, seconds, FIRST_COMPLETED).done:
        each.result()


def _calm(client: httpx.Client, story: Story, pause: Callable[[float], None]) -> _Span:
    """The two alone."""
    pause(story.calm / 4)
    changes, began = _changes(client), perf_counter()
    pause(story.calm * 3 / 4)
    return _span(client, began, changes, pause)


def _span(
    client: httpx.Client, began: float, changes: float, pause: Callable[[float], None]
) -> _Span:
    """From then to now; `changes` were counted when it began."""
    ended = perf_counter()
    pause(REPORTED)
    return _Span(began, ended, _changes(client) - changes)


def _part(name: str, part: str, span: _Span, answers: int, notes: _Notes) -> Part:
    seconds = span.ended - span.began
    tokens = [count for time, count in notes.pieces if span.began <= time < span.ended]
    if not tokens:
        raise BenchError(f"{name}: nothing came {part}")
    return Part(
        system=name,
        part=part,
        tokens_per_s=sum(tokens) / seconds,
        emitted=sum(tokens) / len(tokens),
        changes=60 * span.changes / seconds,
        answers=answers,
    )


def _old(
    client: httpx.Client,
    story: Story,
    prompts: Sequence[Prompt],
    notes: _Notes,
    came: Callable[[], None],
) -> None:
    """One answer after the other, until it is over."""
    for prompt in cycle(prompts):
        for piece in pieces(client, story.long.body(prompt, 0)):
            notes.pieces.append(piece)
            came()
            if notes.over.is_set():
                return


def _crowd(client: httpx.Client, story: Story, prompts: Sequence[Prompt]) -> int:
    """So many at once ask one thing after the other while the burst lasts; how many were answered."""
    until = perf_counter() + story.seconds

    def one(number: int) -> int:
        done = 0
        for prompt in islice(cycle(prompts), number, None, story.crowd):
            if perf_counter() >= until:
                break
            done += bool(list(pieces(client, story.short.body(prompt, 0))))
        return done

    with ThreadPoolExecutor(story.crowd) as threads:
        return sum(threads.map(one, range(story.crowd)))


def _changes(client: httpx.Client) -> float:
    text = client.get("/metrics").raise_for_status().text
    return sum(
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == CHANGES
    )


def tables(figures: Figures) -> Iterator[tuple[str, Table]]:
    """For people; each part beside the same service before the burst."""
    first: dict[str, Part] = {}
    lines = []
    for each in figures.parts:
        before = first.setdefault(each.system, each)
        lines.append(
            (
                each.system,
                each.part,
                f"{each.tokens_per_s:.1f}",
                f"{each.tokens_per_s / before.tokens_per_s:.2f}",
                f"{each.emitted:.2f}",
                f"{each.emitted / before.emitted:.2f}",
                f"{each.changes:.1f}",
                str(each.answers or ""),
            )
        )
    heads = (
        "system", "part", "old answers\ntokens/s", "\nof before", "emitted\na round", "\nof before",
        "changes\na minute", "short\nanswers",
    )  # fmt: skip
    yield "two long answers and a crowd", columns(heads, lines, left=2)
