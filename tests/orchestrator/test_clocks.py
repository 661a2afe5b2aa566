"""How far the clocks of nodes are apart, from what their links tell, and what the doctor says of it.

Every node here has a clock that began at another time, and a time of day that is wrong by so much.
"""

from collections.abc import Iterator, Mapping

import httpx
import pytest

from orchestrator.commands.checks.finding import Grade
from orchestrator.commands.checks.services import against_here, judged, measured, protocol
from orchestrator.commands.status import Numbers
from orchestrator.front.clocks import Skew, skews
from protocol.messages import PROTOCOL_VERSION, Facts, Report
from protocol.rundir import NodeState, ServiceState

NOON = 1_764_500_000.0
BEGAN = {"front": 1000.0, "verifier": 70_000.0, "drafter": 5.0, "other": 123.0}
"""What the clock of each says at noon."""
WRONG = {"front": 0.0, "verifier": 0.5, "drafter": -2.0, "other": 0.25}
SERVICE = ServiceState("draftmesh", 1, "http://127.0.0.1:8000", "m", "/m")


def told(name: str, links: Mapping[str, tuple[float, float]], *, tells: bool = True) -> Report:
    """A report about links: how wrong each is about the other clock, and how much it doubts that."""
    ahead = {peer: BEGAN[peer] - BEGAN[name] + error for peer, (error, _) in links.items()}
    doubt = {peer: doubts for peer, (_, doubts) in links.items()}
    day = {"": NOON + WRONG[name] - BEGAN[name]} if tells else {}
    gauges = {"clock_ahead": ahead, "clock_doubt": doubt, "clock_day": day}
    return Report(name, "front" if name == "front" else "verifier", 1, Facts(gauges=gauges))


def near(found: Mapping[str, Skew], name: str, seconds: float, doubt: float) -> bool:
    return found[name] == pytest.approx((seconds, doubt), abs=1e-5)


def test_whoever_has_no_link_with_the_front_door_is_compared_through_others() -> None:
    reports = (
        told("front", {"verifier": (0.0, 0.01)}),
        told("verifier", {"drafter": (0.0, 0.02)}),
        told("drafter", {}),
    )
    found = skews(reports)
    assert found.keys() == {"verifier", "drafter"}
    assert near(found, "verifier", 0.5, 0.01)
    assert near(found, "drafter", -2.0, 0.03)


def test_a_link_tells_both_ways_and_the_way_with_least_doubt_counts() -> None:
    reports = (
        told("front", {"verifier": (0.3, 0.4)}),
        told("verifier", {"front": (0.001, 0.002)}),
        told("other", {"verifier": (0.0, 0.001), "front": (0.9, 1.0)}),
    )
    found = skews(reports)
    assert near(found, "verifier", 0.5 - 0.001, 0.002)
    assert near(found, "other", 0.25 - 0.001, 0.003)


def test_of_whom_nothing_is_known_nothing_is_said() -> None:
    silent = told("verifier", {"drafter": (0.0, 0.01)}, tells=False)
    reports = (told("front", {"verifier": (0.0, 0.01)}), silent, told("other", {}))
    assert skews(reports) == {}
    assert (
        skews((told("front", {"verifier": (0.0, 0.01)}, tells=False), told("verifier", {}))) == {}
    )
    assert skews(()) == {}


def answers(*times: tuple[float, float, float | None]) -> Iterator[tuple[float, httpx.Response]]:
    """When each question is asked and answered, and what is said."""
    for before, after, said in times:
        yield before, httpx.Response(200, json={} if said is None else {"time": said})
        yield after, httpx.Response(200)


def test_the_quickest_answer_tells_the_time() -> None:
    script = list(answers((10, 11, 12.5), (20, 20.1, 22.05), (30, 39, 40.5), (40, 41, None)))
    times = iter([at for at, _ in script])
    said = iter([answer for _, answer in script[::2]])
    info, found = measured(lambda: next(said), lambda: next(times))
    assert found == pytest.approx((2.0, 0.05))
    assert info == {}, "what was said last"
    assert measured(lambda: httpx.Response(401)) == ({}, None)


def test_a_service_that_speaks_another_protocol_is_in_doubt() -> None:
    [found] = protocol(SERVICE, PROTOCOL_VERSION + 1)
    assert (found.what, found.grade) == ("draftmesh", Grade.DOUBT)
    assert f"version {PROTOCOL_VERSION + 1} of the protocol" in found.text
    assert [*protocol(SERVICE, PROTOCOL_VERSION), *protocol(SERVICE, None)] == []


@pytest.mark.parametrize(
    ("seconds", "doubt", "grade"),
    [(0.05, 0.01, Grade.GOOD), (-3.0, 0.01, Grade.DOUBT), (0.3, 0.25, Grade.GOOD)],
)
def test_the_doctor_warns_of_clocks_that_are_apart_without_doubt(
    seconds: float, doubt: float, grade: Grade
) -> None:
    node = NodeState("verifier-0", "verifier", state="ready")
    numbers = Numbers(round_trip=0.002, skew=seconds - 1.0, skew_doubt=doubt - 0.001)
    found = judged(SERVICE, node, numbers, against_here(node, numbers, Skew(1.0, 0.001)))
    assert found.grade is grade
    apart = f"clock {seconds * 1000:+.1f} ms from this one, give or take {doubt * 1000:.1f}"
    assert found.text == f"ready, 2.00 ms there and back, {apart}"
    assert ("time server" in found.hint) == (grade is Grade.DOUBT)


def test_a_front_door_is_compared_directly_and_a_silent_node_not_at_all() -> None:
    front, other = NodeState("front-0", "front"), NodeState("drafter-0", "drafter")
    assert against_here(front, Numbers(), Skew(1.0, 0.1)) == Skew(1.0, 0.1)
    assert against_here(other, Numbers(), Skew(1.0, 0.1)) is None


def test_a_guest_without_a_link_is_in_doubt_and_one_with_a_link_is_not() -> None:
    node = NodeState("far", "drafter", address="tcp://10.0.0.7:7411", state="registered")
    assert "tcp://10.0.0.7:7411" in judged(SERVICE, node, Numbers(), None).hint
    linked = judged(SERVICE, node, Numbers(round_trip=0.004), None)
    assert (linked.grade, linked.text) == (Grade.GOOD, "registered, 4.00 ms there and back")
