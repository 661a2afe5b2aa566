"""How far the clocks of the nodes are apart, by what they report of their links. Pure.

A link tells how far the clock behind it is ahead, and every node what to add to its own for the time of day. Over
several links doubts add up, so the way with the least of them is taken.
"""

from collections.abc import Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from protocol.messages import Report


class Skew(NamedTuple):
    """How many seconds a node's time of day is ahead; the truth is at most `doubt` away."""

    seconds: float
    doubt: float


def skews(reports: Sequence[Report]) -> Mapping[str, Skew]:
    """By node, against the first who reports; nodes of which nothing is known are left out."""
    days = {each.node_id: day for each in reports for day in _of(each, "clock_day").values()}
    if not reports or (first := reports[0].node_id) not in days:
        return {}
    found: dict[str, tuple[float, float]] = {}  # doubt, how far its clock is ahead
    waiting = [(0.0, first, 0.0)]
    links = list(_links(reports))
    while waiting:
        doubt, name, ahead = heappop(waiting)
        if name in found:
            continue
        found[name] = (doubt, ahead)
        for one, other, seconds, more in links:
            if one == name and other not in found:
                heappush(waiting, (doubt + more, other, ahead + seconds))
    return {
        name: Skew(ahead + days[name] - days[first], doubt)
        for name, (doubt, ahead) in found.items()
        if name in days and name != first
    }


def _links(reports: Sequence[Report]) -> Iterator[tuple[str, str, float, float]]:
    """Both ways: from whom to whom, how far that one's clock is ahead, and the doubt."""
    for report in reports:
        doubts = _of(report, "clock_doubt")
        for peer, ahead in _of(report, "clock_ahead").items():
            doubt = doubts.get(peer)
            if doubt is not None and doubt >= 0:
                yield report.node_id, peer, ahead, doubt
                yield peer, report.node_id, -ahead, doubt


def _of(report: Report, name: str) -> Mapping[str, float]:
    return report.facts.gauges.get(name, {})
