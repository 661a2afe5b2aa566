"""Who is there, how the links are, and who is gone since a little while: what the page draws of the mesh. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from protocol.messages import Report

SILENT: Final = 3.5
"""Seconds without a report after which a node is shown as silent: reports come every second."""
REMEMBERED: Final = 60.0
"""Seconds for which a node that is gone is still shown as such."""
ORDER: Final = ("front", "verifier")
"""Who dials goes before who is dialled."""
LOADS: Final = ("running", "waiting", "mirrors", "in_flight", "prompts")

Json = dict[str, Any]


class Topology:
    """Nodes and links as they are, and those that are gone since a little while."""

    def __init__(self) -> None:  # what each was, and when it was last told of
        self._nodes: dict[str, tuple[Json, float]] = {}
        self._links: dict[tuple[str, str], tuple[Json, float]] = {}

    def look(self, reports: Sequence[Report], now: float) -> Json:
        """What is told now, and what was told within `REMEMBERED` seconds."""
        ages = _ages(reports)
        for report in reports:
            age = ages.get(report.node_id, 0.0)
            self._nodes[report.node_id] = (_node(report, age), now)
        silent = {name for name, (node, _) in self._nodes.items() if node["state"] == "silent"}
        for (one, other), seconds in _trips(reports).items():
            state = "silent" if silent & {one, other} else "up"
            told = {"from": one, "to": other, "seconds": seconds, "state": state}
            self._links[one, other] = (told, now)
        self._nodes = {k: v for k, v in self._nodes.items() if now - v[1] < REMEMBERED}
        self._links = {k: v for k, v in self._links.items() if now - v[1] < REMEMBERED}
        return {
            "nodes": [_as_of(node, told, now) for node, told in self._nodes.values()],
            "links": [_as_of(link, told, now) for link, told in self._links.values()],
        }


def _ages(reports: Sequence[Report]) -> Mapping[str, float]:
    """As the front door tells them."""
    said = (each.facts.gauges.get("report_age") for each in reports if each.role == "front")
    return next(filter(None, said), {})


def _as_of(what: Json, told: float, now: float) -> Json:
    return what if told == now else {**what, "state": "gone", "age": round(now - told, 1)}


def _node(report: Report, age: float) -> Json:
    facts = report.facts
    gauges = {name: sum(each.values()) for name, each in facts.gauges.items()}
    weights = next(iter(facts.gauges.get("weights", {})), "")
    return {
        "name": report.node_id,
        "role": report.role,
        "state": "silent" if age > SILENT else "up",
        "age": round(age, 1),
        "method": next(iter(facts.gauges.get("method", {})), ""),
        "weights": weights[:8],
        "device": next(iter(facts.gauges.get("device", {})), ""),
        **{name: int(gauges[name]) for name in LOADS if name in gauges},
        "kv": round(gauges["pages_used"], 4) if "pages_used" in gauges else None,
    }


def _trips(reports: Sequence[Report]) -> dict[tuple[str, str], float | None]:
    """Links by who dialled and who answered, with the shorter time of those that both ends tell; None before any."""
    roles = {each.node_id: each.role for each in reports}
    found: dict[tuple[str, str], float | None] = {}
    for report in reports:
        peers = dict[str, float | None](report.facts.gauges.get("round_trip_seconds", {}))
        bound = report.facts.gauges.get("bound", {}) if report.role == "verifier" else {}
        for peer in (*peers, *bound):
            ends = _in_order(report.node_id, peer, roles)
            if ends is None:
                continue
            times = [each for each in (found.get(ends), peers.get(peer)) if each is not None]
            found[ends] = min(times, default=None)
    return found


def _in_order(one: str, other: str, roles: Mapping[str, str]) -> tuple[str, str] | None:
    """Who asks goes first; None where the other one is not known: another program, or a node that is just gone."""
    if one not in roles or other not in roles:
        return None
    rank = {role: number for number, role in enumerate(ORDER)}
    first, second = sorted((one, other), key=lambda name: rank.get(roles[name], len(ORDER)))
    return first, second
