"""What nodes reported of themselves, as far as the front door knows. Pure.

A verifier says in one frame what it counted and what its drafters and prefill nodes told it. A node that several links
tell of is listed once, by its newest report: that only ever grows until the node is a new process.
"""

from collections.abc import Iterable, Iterator, Mapping

from orchestrator.front.clocks import Skew
from orchestrator.front.core import FrontCore
from orchestrator.front.messages import Member
from orchestrator.roles import HELPERS
from protocol.facts import level, one, under
from protocol.link import Event, LinkDown, LinkUp, Received
from protocol.messages import Facts, Fingerprint, Report


class Reports:
    """By the link over which they came; a link that is over takes its reports along."""

    def __init__(self) -> None:
        self._verifiers: dict[int, str] = {}  # link: node id
        self._by_link: dict[int, list[Report]] = {}
        self._news: dict[str, tuple[int, float]] = {}  # node id: number of its newest, when it came

    def handle(self, events: Iterable[Event], now: float = 0.0) -> None:
        for event in events:
            match event:
                case LinkUp(role="verifier"):
                    self._verifiers[event.link] = event.node_id
                case LinkDown():
                    self._verifiers.pop(event.link, None)
                    self._by_link.pop(event.link, None)
                case Received() if event.link in self._verifiers:
                    for message in event.messages:
                        if isinstance(message, Report):
                            self._take(event.link, message, now)

    def _take(self, link: int, report: Report, now: float) -> None:
        """A verifier's own, or that of one that helps it, after it."""
        if report.role in HELPERS:
            self._by_link.setdefault(link, []).append(report)
        elif (report.role, report.node_id) == ("verifier", self._verifiers[link]):
            self._by_link[link] = [report]
        else:
            return
        if self._news.get(report.node_id, (-1, 0.0))[0] != report.number:
            self._news[report.node_id] = (report.number, now)

    def newest(self) -> list[Report]:
        """One report of each node."""
        found: dict[tuple[str, str], Report] = {}
        for reports in self._by_link.values():
            for report in reports:
                name = (report.role, report.node_id)
                if name not in found or found[name].number < report.number:
                    found[name] = report
        return list(found.values())

    def ages(self, now: float) -> Mapping[str, float]:
        """For each node that is known, how long ago its newest report came. One that was passed on again is as old."""
        known = {report.node_id for report in self.newest()}
        self._news = {node: news for node, news in self._news.items() if node in known}
        return {node: max(0.0, now - came) for node, (_, came) in self._news.items()}


def drafters(reports: Iterable[Report]) -> Iterator[Member]:
    """Whoever reported as a drafter, as far as its facts say what it is."""
    for report in reports:
        if report.role == "drafter":
            said = report.facts.gauges
            yield Member(
                report.role,
                report.node_id,
                fingerprint=Fingerprint(weights=_only(said.get("weights", {}))),
                method=_only(said.get("method", {})),
                choices=int(said.get("mirrors", {}).get("", 0)),
            )


def _only(labels: Iterable[str]) -> str:
    return next(iter(labels), "")


def facts(core: FrontCore, ages: Mapping[str, float], apart: Mapping[str, Skew]) -> Facts:
    """What the front door itself counted, how old what it heard of others is, and how their clocks go."""
    status, counters = core.status(), core.counters
    return Facts(
        counters={
            "failed": under("failed_", counters),
            "messages_unexpected": one(counters["messages_unexpected"]),
        },
        gauges={
            "in_flight": level(status.in_flight),
            "verifiers": level(status.verifiers),
            "report_age": dict(ages),
            "clock_skew": {name: skew.seconds for name, skew in apart.items()},
            "clock_skew_doubt": {name: skew.doubt for name, skew in apart.items()},
        },
    )
