"""The services of this user that run: whether all their processes are ready, speak, are near, and know the time."""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import httpx

from orchestrator.commands.checks.finding import Finding, bad, doubt, good
from orchestrator.commands.service import reachable
from orchestrator.commands.status import Numbers, client, fetched, numbers
from orchestrator.front.clocks import Skew
from orchestrator.roles import HELPERS
from protocol.messages import PROTOCOL_VERSION
from protocol.rundir import NodeState, ServiceState, running

ASKED: Final = 4
"""Times that a front door is asked for the time; the quickest answer leaves least doubt."""
FAR: Final = 0.02
"""Seconds of a round trip from which on drafts come too late for a step of a small model."""
APART: Final = 0.1
"""Seconds between two clocks from which on spans of a trace and lines of logs are read in the wrong order."""


def findings() -> Iterator[Finding]:
    """Of every service, of every process."""
    for service in running():
        page = fetched(service)
        if page is None:
            text = f"{service.url} does not tell its numbers"
            yield doubt(service.name, text, "see `orchestrator logs front`, or front.metrics_open")
        told = numbers(page) if page is not None else {}
        info, door = asked(service)
        yield from protocol(service, info.get("protocol"))
        for node in service.nodes:
            one = told.get(node.name, Numbers())
            yield judged(service, node, one, door and against_here(node, one, door))


def protocol(service: ServiceState, theirs: int | None) -> Iterator[Finding]:
    """Whether nodes of ours would be understood there."""
    if theirs is not None and theirs != PROTOCOL_VERSION:
        text = f"speaks version {theirs} of the protocol, this is version {PROTOCOL_VERSION}"
        yield doubt(service.name, text, "use the installation that started it, or start it anew")


def asked(service: ServiceState) -> tuple[Mapping[str, Any], Skew | None]:
    """What the front door says of the service, and how far its clock is ahead of this one, if it says that."""
    try:
        with client() as asking:
            return measured(lambda: asking.get(reachable(f"{service.url}/server_info")))
    except httpx.HTTPError:
        return {}, None


def measured(
    ask: Callable[[], httpx.Response], now: Callable[[], float] = time.time
) -> tuple[Mapping[str, Any], Skew | None]:
    """The time is said in the middle of a question; the truth is within half of what that took."""
    info: Mapping[str, Any] = {}
    found: list[Skew] = []
    for _ in range(ASKED):
        before = now()
        answer = ask()
        after = now()
        info = answer.json() if answer.is_success else {}
        if isinstance(said := info.get("time"), float):
            found.append(Skew(said - (before + after) / 2, (after - before) / 2))
    return info, min(found, key=lambda each: each.doubt, default=None)


def against_here(node: NodeState, told: Numbers, door: Skew) -> Skew | None:
    """The same of any process, as far as the front door knows."""
    if node.role == "front":
        return door
    if told.skew is None:
        return None
    return Skew(told.skew + door.seconds, told.skew_doubt + door.doubt)


def judged(service: ServiceState, node: NodeState, told: Numbers, skew: Skew | None) -> Finding:
    """One process of a service."""
    if node.state == "registered" and told.round_trip is None:
        hint = f"see whether it runs at {node.address}, with keys that go with this service's"
        return doubt(node.name, "is registered, and nobody has a link with it", hint)
    if node.state not in {"ready", "registered"}:
        text = f"is {node.state}" + (f": {node.text}" if node.text else "")
        hint = f"orchestrator logs {node.name} --service {service.name}"
        return (doubt if node.role in HELPERS else bad)(node.name, text, hint)
    text = ", ".join((node.state, *_far(told), *_apart(skew)))
    if skew is not None and abs(skew.seconds) - skew.doubt > APART:
        hint = "set both clocks by the same time server: traces and logs are read by them"
        return doubt(node.name, text, hint)
    if told.round_trip is None or told.round_trip < FAR:
        return good(node.name, text)
    return doubt(node.name, text, "drafts come late; --draft-length more, or a nearer drafter")


def _far(told: Numbers) -> Iterator[str]:
    if told.round_trip is not None:
        yield f"{told.round_trip * 1000:.2f} ms there and back"


def _apart(skew: Skew | None) -> Iterator[str]:
    if skew is not None:
        milliseconds, doubt = skew.seconds * 1000, skew.doubt * 1000
        yield f"clock {milliseconds:+.1f} ms from this one, give or take {doubt:.1f}"
