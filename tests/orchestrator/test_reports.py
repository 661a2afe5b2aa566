"""What the front door knows of the others' numbers, and when it forgets it."""

from orchestrator.front.messages import Member
from orchestrator.front.reports import Reports, drafters
from protocol.link import Event, LinkDown, LinkUp, Received
from protocol.messages import Facts, Fingerprint, Report


def up(link: int, node_id: str) -> Event:
    return LinkUp(link, "verifier", node_id)


def said(link: int, *reports: Report) -> Event:
    return Received(link, reports)


def verifier(number: int, node_id: str = "verifier-0") -> Report:
    return Report(node_id, "verifier", number, Facts({"rounds": {"": number}}))


def drafter(number: int, node_id: str = "drafter-0") -> Report:
    return Report(node_id, "drafter", number)


def known(*events: Event) -> list[tuple[str, int]]:
    reports = Reports()
    reports.handle(events)
    return [(each.node_id, each.number) for each in reports.newest()]


def test_the_newest_report_of_every_node_is_known() -> None:
    assert known(
        up(1, "verifier-0"),
        said(1, verifier(1), drafter(4)),
        said(1, verifier(2), drafter(5), drafter(1, "drafter-1")),
    ) == [("verifier-0", 2), ("drafter-0", 5), ("drafter-1", 1)]


def test_a_drafter_that_its_verifier_has_lost_is_not_listed_any_more() -> None:
    events = up(1, "verifier-0"), said(1, verifier(1), drafter(4)), said(1, verifier(2))
    assert known(*events) == [("verifier-0", 2)]


def test_a_drafter_of_two_verifiers_is_listed_once_and_never_goes_back() -> None:
    late = said(2, verifier(8, "verifier-1"), drafter(3))
    events = up(1, "verifier-0"), up(2, "verifier-1"), said(1, verifier(1), drafter(4)), late
    assert dict(known(*events))["drafter-0"] == 4


def test_a_link_that_is_over_takes_its_reports_along() -> None:
    assert known(up(1, "v"), said(1, verifier(1, "v"), drafter(1)), LinkDown(1, "silence")) == []


def test_a_verifier_that_began_anew_counts_from_the_beginning() -> None:
    events = up(1, "v"), said(1, verifier(900, "v")), LinkDown(1, "silence"), up(2, "v")
    assert known(*events, said(2, verifier(1, "v"))) == [("v", 1)]


def test_nobody_reports_in_the_name_of_another_verifier() -> None:
    assert known(up(1, "verifier-0"), said(1, verifier(1, "verifier-1"))) == []
    assert known(said(3, verifier(1))) == []


def test_what_drafters_are_is_known_by_their_reports() -> None:
    gauges = {"weights": {"f00d": 1.0}, "method": {"standalone": 1.0}, "mirrors": {"": 3.0}}
    reports = verifier(1), Report("drafter-0", "drafter", 1, Facts(gauges=gauges)), drafter(1, "d")
    assert list(drafters(reports)) == [
        Member(
            "drafter", "drafter-0", fingerprint=Fingerprint("f00d"), method="standalone", choices=3
        ),
        Member("drafter", "d"),
    ]
