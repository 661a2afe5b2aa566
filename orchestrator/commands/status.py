"""`orchestrator status`: every process of a service, by what its launcher knows and what its nodes last reported."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import httpx
from prometheus_client.parser import text_string_to_metric_families

from orchestrator.commands.output import data, out, say, table
from orchestrator.commands.service import reachable
from orchestrator.commands.services import chosen
from orchestrator.front.config import KEY_VARIABLE
from orchestrator.front.metric_table import OWN
from protocol.rundir import NodeState, ServiceState

PATIENCE: Final = 5.0
"""Seconds that the front door may take to tell its numbers."""
HEADS: Final = (
    "node", "role", "process", "device", "threads", "model", "state", "runs", "round trip", "acceptance", "heard of",
    "address",
)  # fmt: skip


@dataclass(frozen=True)
class Numbers:
    """What is told of one node: `runs` is its method or the beginning of its weights' name.

    `heard` is how many seconds ago it last said something; None: it is the one that tells, or was never heard. `skew`
    is how many seconds its clock is ahead of the front door's, by `skew_doubt` more or less; None: not known.
    """

    runs: str = ""
    round_trip: float | None = None
    drafted: int = 0
    accepted: int = 0
    device: str = ""
    heard: float | None = None
    skew: float | None = None
    skew_doubt: float = 0.0

    @property
    def acceptance(self) -> float | None:
        """None before anything was drafted."""
        return self.accepted / self.drafted if self.drafted else None


@dataclass
class _Gathered:
    """Numbers of one node while the page is read."""

    runs: dict[str, str] = field(default_factory=dict)
    trips: list[float] = field(default_factory=list)
    heard: float | None = None
    drafted: int = 0
    accepted: int = 0
    skew: float | None = None
    skew_doubt: float = 0.0


def status(name: str | None, *, as_json: bool) -> int:
    """Say what runs, as a table or as JSON."""
    service = chosen(name)
    page = fetched(service)
    told = numbers(page) if page is not None else {}
    if as_json:
        data(described(service, told))
        return 0
    out.print(
        f"{service.name}  {service.model}  {reachable(service.url)}/v1",
        markup=False,
        soft_wrap=True,
    )
    table(HEADS, [_row(node, told.get(node.name, Numbers())) for node in service.nodes])
    for node in service.nodes:
        if node.text:
            say(f"{node.name}: {node.text}", "red")
    if page is None:
        say(
            "The front door does not tell its numbers: round trips and acceptance are not known."
            f" (Where it wants an API key, {KEY_VARIABLE} may hold it.)"
        )
    return 0


def fetched(service: ServiceState) -> str | None:
    """The page of numbers; None where there is none, nobody answers, or the key of the environment does not fit."""
    if not service.metrics:
        return None
    try:
        with client() as asking:
            answer = asking.get(reachable(service.metrics))
    except httpx.HTTPError:
        return None
    return answer.text if answer.is_success else None


def client() -> httpx.Client:
    """Whoever asks a front door, with the key of the environment."""
    key = os.environ.get(KEY_VARIABLE, "")
    return httpx.Client(timeout=PATIENCE, headers={"Authorization": f"Bearer {key}"} if key else {})


def numbers(page: str) -> Mapping[str, Numbers]:
    """By node, from a page of metrics. A round trip is the shortest that anybody tells of the node."""
    found: dict[str, _Gathered] = {}
    for name, labels, value in _samples(page):
        whose = labels.get("drafter") or labels.get("peer") or labels.get("node", "")
        one = found.setdefault(whose, _Gathered())
        match name:
            case "method" | "weights" | "device":
                one.runs[name] = labels[name]
            case "report_age_seconds":
                one.heard = value if one.heard is None else min(one.heard, value)
            case "clock_skew_seconds":
                one.skew = value
            case "clock_skew_doubt_seconds":
                one.skew_doubt = value
            case "round_trip_seconds":
                one.trips.append(value)
            case "drafted_tokens_total" | "accepted_tokens_total":
                for each in (one, found.setdefault(labels["node"], _Gathered())):
                    if name.startswith("drafted"):
                        each.drafted += int(value)
                    else:
                        each.accepted += int(value)
    return {
        name: Numbers(
            one.runs.get("method") or one.runs.get("weights", "")[:12],
            min(one.trips, default=None),
            one.drafted,
            one.accepted,
            one.runs.get("device", ""),
            one.heard,
            one.skew,
            one.skew_doubt,
        )
        for name, one in found.items()
    }


def _samples(page: str) -> Iterable[tuple[str, Mapping[str, str], float]]:
    """Our own series, without what their names begin with."""
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            if sample.name.startswith(OWN):
                yield sample.name.removeprefix(OWN), sample.labels, sample.value


def described(service: ServiceState, told: Mapping[str, Numbers]) -> Mapping[str, Any]:
    """All of it as plain data."""
    nodes = [
        {
            "name": node.name,
            "role": node.role,
            "pid": node.pid or None,
            "threads": node.threads,
            "model": node.model or None,
            "state": node.state,
            "reason": node.text or None,
            "address": node.address or None,
            "health": node.health or None,
            **asdict(one := told.get(node.name, Numbers())),
            "acceptance": one.acceptance,
        }
        for node in service.nodes
    ]
    return {
        "name": service.name,
        "pid": service.pid,
        "url": reachable(service.url),
        "grpc": service.grpc or None,
        "model": service.model,
        "logs": service.logs,
        "nodes": nodes,
    }


def _row(node: NodeState, told: Numbers) -> tuple[str, ...]:
    trip = "" if told.round_trip is None else f"{told.round_trip * 1000:.2f} ms"
    rate = "" if told.acceptance is None else f"{told.acceptance:.0%} of {told.drafted}"
    heard = "" if told.heard is None else f"{told.heard:.1f} s ago"
    process = str(node.pid or "")
    threads = str(node.threads)
    return (
        node.name, node.role, process, told.device, threads, node.model, node.state, told.runs, trip, rate, heard,
        node.address,
    )  # fmt: skip
