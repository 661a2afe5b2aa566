"""`orchestrator top`: what a running service does now, again and again."""

import itertools
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from typing import Final

from prometheus_client.parser import text_string_to_metric_families
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from orchestrator.commands.output import data, out, table
from orchestrator.commands.services import chosen
from orchestrator.commands.status import Numbers, fetched, numbers
from protocol.rundir import ServiceState, running

HEADS: Final = ("node", "role", "state", "runs", "round trip", "acceptance", "drafted/s")
COUNTED: Final = {
    "tokens": "generation_tokens_total",
    "rounds": "draftmesh_rounds_total",
    "plain": "draftmesh_plain_rounds_total",
    "drafted": "num_draft_tokens_total",
    "accepted": "num_accepted_tokens_total",
    "answers": "request_success_total",
    "running": "num_requests_running",
    "waiting": "num_requests_waiting",
    "cache": "kv_cache_usage_perc",
    "verifiers": "draftmesh_verifiers_live",
}
"""Series that are added up over all nodes, by the end of their names: what they begin with is configured."""


@dataclass(frozen=True)
class Reading:
    """What the page of numbers said at one time."""

    at: float
    totals: Mapping[str, float]
    nodes: Mapping[str, Numbers]


@dataclass(frozen=True)
class Pace:
    """What went on between two readings; None where nothing did that it could be told of."""

    seconds: float
    tokens: float
    """Output tokens a second."""
    rounds: float
    """Rounds a second, each of which brings one token without drafts."""
    a_round: float | None
    """Output tokens a round."""
    acceptance: float | None
    plain: float | None
    """Share of rounds without drafts."""
    answers: float
    running: int
    waiting: int
    cache: float

    @property
    def line(self) -> str:
        """All of it in words."""
        several = "-" if self.a_round is None else f"{self.a_round:.2f}"
        kept = "-" if self.acceptance is None else f"{self.acceptance:.0%}"
        bare = "-" if self.plain is None else f"{self.plain:.0%}"
        return (
            f"{self.tokens:.1f} tokens/s, {self.rounds:.1f} rounds/s, {several} tokens a round, "
            f"{kept} of drafts accepted, {bare} of rounds plain, {self.answers:.2f} answers/s, "
            f"{self.running} running, {self.waiting} waiting, {self.cache:.0%} of KV in use"
        )


def reading(page: str, at: float) -> Reading:
    """From a page of metrics."""
    totals = dict.fromkeys(COUNTED, 0.0)
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            for short, end in COUNTED.items():
                if sample.name.endswith(end):
                    totals[short] += sample.value
    return Reading(at, totals, numbers(page))


def pace(before: Reading, now: Reading) -> Pace:
    """A process that began anew in between counts from zero again; what is less than before is taken as all new."""
    seconds = max(1e-9, now.at - before.at)

    def grown(name: str) -> float:
        new, old = now.totals[name], before.totals[name]
        return new - old if new >= old else new

    rounds, drafted = grown("rounds"), grown("drafted")
    return Pace(
        seconds=seconds,
        tokens=grown("tokens") / seconds,
        rounds=rounds / seconds,
        a_round=grown("tokens") / rounds if rounds else None,
        acceptance=grown("accepted") / drafted if drafted else None,
        plain=grown("plain") / rounds if rounds else None,
        answers=grown("answers") / seconds,
        running=int(now.totals["running"]),
        waiting=int(now.totals["waiting"]),
        cache=now.totals["cache"] / max(1.0, now.totals["verifiers"]),
    )


def rows(service: ServiceState, before: Reading, now: Reading) -> list[tuple[str, ...]]:
    """One for each process; acceptance and drafts are of the time between the readings."""
    made: list[tuple[str, ...]] = []
    seconds = max(1e-9, now.at - before.at)
    for node in service.nodes:
        told, old = now.nodes.get(node.name, Numbers()), before.nodes.get(node.name, Numbers())
        fresh = told.drafted < old.drafted
        drafted = told.drafted - (0 if fresh else old.drafted)
        accepted = told.accepted - (0 if fresh else old.accepted)
        trip = "" if told.round_trip is None else f"{told.round_trip * 1000:.2f} ms"
        kept = f"{accepted / drafted:.0%}" if drafted else ""
        pace = f"{drafted / seconds:.1f}" if drafted else ""
        made.append((node.name, node.role, node.state, told.runs, trip, kept, pace))
    return made


def top(name: str | None, *, interval: float, count: int | None, as_json: bool) -> int:
    """Look every `interval` seconds, `count` times, else until Ctrl-C or the end of the service.

    Where no terminal reads it, one look is enough if nothing else is said, and it is plain lines.
    """
    service = chosen(name)
    looks = count if count is not None else (None if out.is_terminal else 1)
    screen = None if as_json or not out.is_terminal else Live(console=out, auto_refresh=False)
    before = _look(service)
    pause = threading.Event()
    with screen or nullcontext():
        for _ in itertools.count() if looks is None else range(looks):
            pause.wait(interval)
            found = next((each for each in running() if each.name == service.name), None)
            if found is None:
                break
            now = _look(found)
            _show(found, before, now, screen, as_json=as_json)
            before = now
    return 0


def _look(service: ServiceState) -> Reading:
    """Where the page is not told, everything is nothing."""
    return reading(fetched(service) or "", time.monotonic())


def _show(
    service: ServiceState, before: Reading, now: Reading, screen: Live | None, *, as_json: bool
) -> None:
    going = pace(before, now)
    nodes = rows(service, before, now)
    if screen is not None:
        screen.update(
            Group(Text(f"{service.name}  {service.model}"), Text(going.line), _table(nodes))
        )
        screen.refresh()
    elif as_json:
        data({**asdict(going), "nodes": [dict(zip(HEADS, row, strict=True)) for row in nodes]})
    else:
        out.print(going.line, markup=False, soft_wrap=True)
        table(HEADS, nodes)


def _table(nodes: Sequence[Sequence[str]]) -> Table:
    shown = Table(*HEADS, box=None, pad_edge=False)
    for row in nodes:
        shown.add_row(*map(Text, row))
    return shown
