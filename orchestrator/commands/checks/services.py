"""The services of this user that run: whether all their processes are ready, speak, and are near."""

from collections.abc import Iterator
from typing import Final

from orchestrator.commands.checks.finding import Finding, bad, doubt, good
from orchestrator.commands.status import Numbers, fetched, numbers
from orchestrator.roles import HELPERS
from protocol.rundir import NodeState, ServiceState, running

FAR: Final = 0.02
"""Seconds of a round trip from which on drafts come too late for a step of a small model."""


def findings() -> Iterator[Finding]:
    """Of every service, of every process."""
    for service in running():
        page = fetched(service)
        if page is None:
            text = f"{service.url} does not tell its numbers"
            yield doubt(service.name, text, "see `orchestrator logs front`, or front.metrics_open")
        told = numbers(page) if page is not None else {}
        for node in service.nodes:
            yield judged(service, node, told.get(node.name))


def judged(service: ServiceState, node: NodeState, told: Numbers | None) -> Finding:
    """One process of a service."""
    if node.state != "ready":
        text = f"is {node.state}" + (f": {node.text}" if node.text else "")
        hint = f"orchestrator logs {node.name} --service {service.name}"
        return (doubt if node.role in HELPERS else bad)(node.name, text, hint)
    if told is None or told.round_trip is None:
        return good(node.name, "ready")
    text = f"ready, {told.round_trip * 1000:.2f} ms there and back"
    if told.round_trip < FAR:
        return good(node.name, text)
    return doubt(node.name, text, "drafts come late; --draft-length more, or a nearer drafter")
