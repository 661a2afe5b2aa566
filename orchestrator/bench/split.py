"""`orchestrator bench split`: what answers that stream and short prompts notice of long prompts, with and without
prefill nodes.

Without them a long prompt is cut into chunks, and every chunk makes the tokens of others wait: the smaller it is the
less, and the more of them there are. So the service without prefill nodes is measured at several sizes, and the best of
them counts. Clients are threads here: some keep streaming, one asks long prompts one after the other, one short ones.
"""

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import pairwise
from statistics import median, quantiles
from time import perf_counter
from typing import Any, Final

import httpx
from rich.table import Table

from orchestrator.bench.client import COMPLETIONS, SILENCE, pieces
from orchestrator.bench.results import Label
from orchestrator.bench.streams import begin
from orchestrator.bench.systems import Ours
from orchestrator.bench.table import columns
from orchestrator.config import Config

SHORT: Final = 24
"""Tokens of a short prompt, and of those whose answers stream."""
STREAMED: Final = 256
"""Tokens of an answer that streams; then the next one begins."""
BREATH: Final = 0.2
"""Seconds between two short prompts."""
SILENT: Final = 15.0
"""Seconds: a machine with other work must not look like a fault."""
TOKENS: Final = (1000, 20_000)
"""Prompts are ids from here; what they say makes no difference."""


@dataclass(frozen=True, kw_only=True)
class Load:
    """What is asked: so many answers that stream, and so many long prompts one after the other."""

    streams: int
    longs: int
    tokens: int
    """Of a long prompt."""


@dataclass(frozen=True, kw_only=True)
class Felt:
    """Seconds, as clients saw them while long prompts were computed."""

    gaps: tuple[float, ...]
    """Between two pieces of the same answer."""
    first_short: tuple[float, ...]
    first_long: tuple[float, ...]

    @property
    def p99(self) -> float:
        return quantiles(self.gaps, n=100, method="inclusive")[98]


@dataclass(frozen=True, kw_only=True)
class Row:
    """Milliseconds of one service, medians of its runs. `chunk` is the most tokens of a forward."""

    prefill: int
    chunk: int
    gap_p50: float
    gap_p99: float
    gap_most: float
    first_short: float
    first_short_most: float
    first_long: float


@dataclass(frozen=True, kw_only=True)
class Split:
    """Every service; the ratios are those of the split to the best of the others."""

    rows: tuple[Row, ...]

    @property
    def best(self) -> Row:
        """Without prefill nodes, the chunk size with the smallest 99th percentile."""
        return min((row for row in self.rows if not row.prefill), key=lambda row: row.gap_p99)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def measure(config: Config, chunks: Sequence[int], load: Load, runs: int) -> Split:
    """Services take turns, a new one for every run: so nothing is known of earlier prompts."""
    wanted = [(0, chunk) for chunk in chunks]
    wanted.append((config.prefill or 1, config.verifier.scheduler.max_chunk))
    felt: dict[tuple[int, int], list[Felt]] = {key: [] for key in wanted}
    for number in range(runs):
        for key in wanted:
            with service(config, *key).fresh() as url:
                felt[key].append(feel(url, load, number))
    return Split(rows=tuple(_row(*key, felt[key]) for key in wanted))


def service(config: Config, prefill: int, chunk: int) -> Ours:
    """The same service with so many prefill nodes and tokens a forward."""
    scheduler = config.verifier.scheduler.model_copy(update={"max_chunk": chunk})
    verifier = config.verifier.model_copy(update={"scheduler": scheduler})
    link = config.link.model_copy(update={"silence": max(SILENT, config.link.silence)})
    said = config.model_copy(update={"prefill": prefill, "verifier": verifier, "link": link})
    return Ours(Label(mode="split" if prefill else f"chunks of {chunk}"), said)


@dataclass
class _Notes:
    """What the threads of one run note. Pieces come as (answer, time)."""

    over: threading.Event = field(default_factory=threading.Event)
    pieces: list[list[float]] = field(default_factory=list)
    first_short: list[float] = field(default_factory=list)
    first_long: list[float] = field(default_factory=list)


def feel(url: str, load: Load, seed: int = 0) -> Felt:
    """Ask everything of a load; what a client saw."""
    notes = _Notes()
    rng = random.Random(seed)  # noqa: S311  # prompts are no secrets
    with (
        httpx.Client(base_url=url, timeout=SILENCE) as client,
        ThreadPoolExecutor(load.streams + 1) as threads,
    ):
        _ask(client, _prompt(rng, load.tokens), 1)  # the first one of its size costs more
        draws = [random.Random(rng.random()) for _ in range(load.streams)]  # noqa: S311
        try:
            others = begin(threads, [partial(_stream, client, each, notes) for each in draws])
            others.append(threads.submit(_short, client, random.Random(rng.random()), notes))  # noqa: S311
            begun = perf_counter()
            for _ in range(load.longs):
                notes.first_long.append(_ask(client, _prompt(rng, load.tokens), 1))
            ended = perf_counter()
        finally:
            notes.over.set()
        for each in others:
            each.result()
    gaps = [
        after - before
        for times in notes.pieces
        for before, after in pairwise(times)
        if begun <= after and before <= ended
    ]
    return Felt(
        gaps=tuple(gaps),
        first_short=tuple(notes.first_short),
        first_long=tuple(notes.first_long),
    )


def _stream(
    client: httpx.Client, rng: random.Random, notes: _Notes, piece: Callable[[], None]
) -> None:
    """One answer after the other, until it is over."""
    while not notes.over.is_set():
        times: list[float] = []
        notes.pieces.append(times)
        for time in _pieces(client, _prompt(rng, SHORT), STREAMED):
            times.append(time)
            piece()
            if notes.over.is_set():
                break


def _short(client: httpx.Client, rng: random.Random, notes: _Notes) -> None:
    """One short prompt after the other, a breath between two, until it is over."""
    while not notes.over.is_set():
        notes.first_short.append(_ask(client, _prompt(rng, SHORT), 1))
        notes.over.wait(BREATH)


def _prompt(rng: random.Random, tokens: int) -> list[int]:
    return [rng.randrange(*TOKENS) for _ in range(tokens)]


def _ask(client: httpx.Client, prompt: list[int], tokens: int) -> float:
    """Seconds until the first token came."""
    begun = perf_counter()
    first, *_ = _pieces(client, prompt, tokens)
    return first - begun


def _pieces(client: httpx.Client, prompt: list[int], tokens: int) -> Iterator[float]:
    """When each piece of an answer came."""
    body = {"prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True}
    return (time for time, _ in pieces(client, body, COMPLETIONS))


def _row(prefill: int, chunk: int, felt: Sequence[Felt]) -> Row:
    def over(figure: Callable[[Felt], float]) -> float:
        return 1e3 * median(figure(each) for each in felt)

    return Row(
        prefill=prefill,
        chunk=chunk,
        gap_p50=over(lambda each: median(each.gaps)),
        gap_p99=over(lambda each: each.p99),
        gap_most=over(lambda each: max(each.gaps)),
        first_short=over(lambda each: median(each.first_short)),
        first_short_most=over(lambda each: max(each.first_short)),
        first_long=over(lambda each: median(each.first_long)),
    )


def tables(figures: Split) -> Iterator[tuple[str, Table]]:
    """For people."""
    best = figures.best
    lines = [
        (
            str(row.prefill or "none"),
            str(row.chunk),
            f"{row.gap_p50:.0f}",
            f"{row.gap_p99:.0f}",
            f"{row.gap_most:.0f}",
            f"{row.gap_p99 / best.gap_p99:.2f}",
            f"{row.first_short:.0f}",
            f"{row.first_short_most:.0f}",
            f"{row.first_short / best.first_short:.2f}",
            f"{row.first_long:.0f}",
        )
        for row in figures.rows
    ]
    heads = (
        "prefill nodes", "tokens a\nforward", "between pieces\np50 ms", "\np99", "\nmost", "of the\nbest p99",
        "short prompt\nfirst token ms", "\nmost", "of that\nof the best", "long prompt\nfirst token ms",
    )  # fmt: skip
    yield "beside long prompts", columns(heads, lines, left=1)
