"""Several verifiers at one drafter: a full one is shared evenly, and what must give way is told so."""

from drafter.config import DrafterConfig
from drafter.core import DrafterCore
from protocol.link import LinkUp, Received
from protocol.messages import DraftClose, DraftSync, Refuse
from tests.drafter.test_record import OneByOne

FIRST, SECOND, THIRD = 1, 2, 3


def drafter(places: int) -> DrafterCore:
    core = DrafterCore(DrafterConfig(method="suffix", max_requests=places), OneByOne())
    for link in (FIRST, SECOND, THIRD):
        core.handle(LinkUp(link, "verifier", f"verifier-{link}"), 0.0)
    return core


def asks(core: DrafterCore, link: int, *requests: int) -> None:
    for request in requests:
        core.handle(Received(link, (DraftSync(request, 1, (1, 2), (), 2),)), 0.0)


def held(core: DrafterCore) -> list[list[int]]:
    """The requests of each verifier."""
    return [list(core._mirrors[link]) for link in (FIRST, SECOND, THIRD)]


def refused(core: DrafterCore, link: int) -> list[tuple[int | None, str]]:
    return [(each.request, each.code) for each in core.outbox(link) if isinstance(each, Refuse)]


def test_a_verifier_that_comes_late_gets_its_share_of_a_full_drafter() -> None:
    core = drafter(4)
    asks(core, FIRST, 1, 2, 3, 4)
    asks(core, SECOND, 1, 2, 3)
    assert held(core) == [[1, 2], [1, 2], []]
    assert refused(core, FIRST) == [(4, "full"), (3, "full")]
    assert refused(core, SECOND) == [(3, "full")]


def test_shares_that_differ_by_one_are_even_and_nobody_is_pushed_around() -> None:
    core = drafter(4)
    asks(core, FIRST, 1, 2, 3, 4)
    asks(core, SECOND, 1, 2)
    asks(core, THIRD, 1, 2)
    assert held(core) == [[1], [1, 2], [1]]
    for link in (FIRST, SECOND, THIRD):
        refused(core, link)
    for link in (FIRST, SECOND, THIRD):
        asks(core, link, 9)
    assert held(core) == [[1], [1, 2], [1]]


def test_one_verifier_alone_takes_nothing_from_itself() -> None:
    core = drafter(2)
    asks(core, FIRST, 1, 2, 3)
    assert (held(core)[0], refused(core, FIRST)) == ([1, 2], [(3, "full")])


def test_where_there_is_one_place_it_stays_where_it_is() -> None:
    core = drafter(1)
    asks(core, FIRST, 1)
    asks(core, SECOND, 1)
    assert held(core) == [[1], [], []]


def test_a_mirror_that_is_closed_says_nothing_more() -> None:
    """Its guesses were made, and wait to be said, when the verifier closes it."""
    core = drafter(4)
    asks(core, FIRST, 1)
    wants = core.plan()
    core.settle(wants, OneByOne().propose(wants), 0.0, 0.0)
    assert core.links_with_news == [FIRST]
    core.handle(Received(FIRST, (DraftClose(1, 1),)), 0.0)
    assert (core.links_with_news, core.outbox(FIRST)) == ([], [])
