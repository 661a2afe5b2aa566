"""Who is there, and how the links are."""

from typing import Any

from orchestrator.front.dashboard.topology import REMEMBERED, SILENT, Topology
from protocol.facts import level, named
from protocol.messages import Facts, Report


def report(node_id: str, **gauges: dict[str, float]) -> Report:
    return Report(node_id, node_id.partition("-")[0], 1, Facts(gauges=gauges))


FRONT = report("front-0", round_trip_seconds={"verifier-0": 0.002}, in_flight=level(1))
VERIFIER = report(
    "verifier-0",
    round_trip_seconds={"front-0": 0.003, "drafter-0": 0.004},
    bound={"drafter-0": 1.0, "drafter-1": 0.0},
    running=level(2),
    waiting=level(0),
    pages_used=level(0.25),
    weights=named("0123456789abcdef"),
    device=named("cpu"),
)
DRAFTER = report("drafter-0", round_trip_seconds={"verifier-0": 0.0035}, method=named("suffix"))
OTHER = report("drafter-1")


def states(what: list[dict[str, Any]]) -> dict[str, str]:
    return {each.get("name") or f"{each['from']} {each['to']}": each["state"] for each in what}


def test_every_node_says_what_it_is_and_does() -> None:
    nodes = Topology().look([FRONT, VERIFIER, DRAFTER], 5.0)["nodes"]
    front, verifier, drafter = nodes
    assert (front["role"], front["in_flight"], front["kv"]) == ("front", 1, None)
    assert (verifier["weights"], verifier["device"]) == ("01234567", "cpu")
    assert (verifier["running"], verifier["waiting"], verifier["kv"]) == (2, 0, 0.25)
    assert (drafter["method"], drafter["state"]) == ("suffix", "up")


def test_a_link_is_told_once_from_who_dials_with_the_shorter_time() -> None:
    links = Topology().look([FRONT, VERIFIER, DRAFTER, OTHER], 5.0)["links"]
    assert [(each["from"], each["to"], each["seconds"]) for each in links] == [
        ("front-0", "verifier-0", 0.002),
        ("verifier-0", "drafter-0", 0.0035),
        ("verifier-0", "drafter-1", None),
    ]


def test_a_node_whose_reports_stay_away_is_silent_and_so_are_its_links() -> None:
    front = report("front-0", report_age={"verifier-0": 0.4, "drafter-0": SILENT + 1})
    found = Topology().look([front, VERIFIER, DRAFTER], 5.0)
    assert states(found["nodes"])["drafter-0"] == "silent"
    assert states(found["links"])["verifier-0 drafter-0"] == "silent"
    assert states(found["nodes"])["verifier-0"] == "up"


def test_a_node_that_is_gone_is_shown_as_such_for_a_while() -> None:
    topology = Topology()
    topology.look([FRONT, VERIFIER, DRAFTER], 5.0)
    alone = report("verifier-0")
    found = topology.look([FRONT, alone], 15.0)
    assert states(found["nodes"])["drafter-0"] == "gone"
    assert found["nodes"][2]["age"] == 10.0
    assert states(found["links"])["verifier-0 drafter-0"] == "gone"
    later = topology.look([FRONT, alone], 5.0 + REMEMBERED)
    assert set(states(later["nodes"])) == {"front-0", "verifier-0"}


def test_a_peer_that_nobody_knows_is_no_link() -> None:
    stranger = report("verifier-0", round_trip_seconds={"tool-17": 0.001})
    assert Topology().look([FRONT, stranger], 5.0)["links"] == [
        {"from": "front-0", "to": "verifier-0", "seconds": 0.002, "state": "up"}
    ]
