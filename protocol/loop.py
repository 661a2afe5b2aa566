"""What the loops of all nodes share: saying what a core wants said, waiting, and keeping a list of peers dialled."""

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, Protocol

from protocol.endpoint import Endpoint
from protocol.facts import together
from protocol.link import Event, LinkDown, LinkUp, Received, Rejected
from protocol.mesh import Peer
from protocol.messages import AnyMessage, Facts, Heartbeat, Report

HELD_RETRY = 0.005
"""Seconds after which a frame that the transport did not take is offered again."""
LOOK_EVERY: Final = 0.1
"""Seconds between two looks at the links in the middle of work."""
REPORT_EVERY: Final = 1.0
"""Seconds between two reports at least; a quiet node says them with its beats, no later than one of them after."""


class Speaker(Protocol):
    """A core as its loop sees it: who must be told something, and what."""

    @property
    def links_with_news(self) -> list[int]: ...

    def outbox(self, link: int) -> list[AnyMessage]: ...

    def heartbeat(self) -> Heartbeat: ...


class Listener(Protocol):
    """A core as its loop sees it: who hears what happens on the links."""

    def handle(self, event: Event, now: float, /) -> None: ...


def hear(core: Listener, endpoint: Endpoint, log: logging.Logger, now: float) -> None:
    """Let a core hear all that arrived, and what time brings."""
    events = endpoint.drain(now)
    log_links(log, events)
    for event in events:
        core.handle(event, now)


def say(core: Speaker, endpoint: Endpoint, now: float) -> None:
    """Tell every link that can be told what it must be told."""
    for link in core.links_with_news:
        while endpoint.writable(link) and (messages := core.outbox(link)):
            endpoint.send(link, messages, now)
    endpoint.heartbeat = core.heartbeat()


def pause(endpoint: Endpoint, clock: Callable[[], float], deadline: float = float("inf")) -> None:
    """Sleep until something arrives, or until `deadline` or a link's own."""
    seconds = min(deadline, endpoint.deadline()) - clock()
    endpoint.mesh.wait(min(seconds, HELD_RETRY) if endpoint.held else seconds)


def log_links(log: logging.Logger, events: Iterable[Event]) -> None:
    """A line for every link that begins, ends or is refused."""
    for event in events:
        match event:
            case LinkUp():
                log.info("link %016x with %s %s", event.link, event.role, event.node_id)
            case LinkDown():
                log.info("link %016x is over: %s", event.link, event.reason)
            case Rejected():
                log.warning("refused by a peer: %s", event.text)
            case Received():
                pass


class Beats:
    """Says the beats that are due in the middle of long work; called often, it looks at the links now and then.

    A forward lasts long where others want the same processors, and a peer that hears nothing takes its node for dead.
    """

    def __init__(self, endpoint: Endpoint, clock: Callable[[], float]) -> None:
        self._endpoint = endpoint
        self._clock = clock
        self._due = 0.0

    def __call__(self, _layers: int = 0) -> None:
        now = self._clock()
        if now >= self._due:
            self._due = now + LOOK_EVERY
            self._endpoint.beat(now)


class Dialled:
    """The peers that somebody else lists for this node to dial."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._peers: dict[str, Peer] = {}

    def update(self, addresses: Iterable[str], now: float) -> list[Event]:
        """Dial what is new in the list, hang up on what is not in it any more."""
        wanted = dict.fromkeys(addresses)
        events: list[Event] = []
        for address in [each for each in self._peers if each not in wanted]:
            events += self._endpoint.hang_up(self._peers.pop(address))
        for address in wanted:
            if address not in self._peers:
                self._peers[address] = self._endpoint.dial(address, now)
        return events


class Reporter:
    """Tells peers what this node counted: whoever is new at once, then about once a second.

    A peer that cannot be told now is not told later what was true now: the next report says more.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._due: dict[int, float] = {}
        self._number = 0

    def turn(
        self,
        links: Collection[int],
        now: float,
        facts: Callable[[], Facts],
        heard: Callable[[], Sequence[Report]] = tuple,
    ) -> None:
        """`facts` are the core's, `heard` what others reported to it; neither is asked when nobody is due."""
        due = [link for link in links if now >= self._due.get(link, now)]
        if not due:
            return
        self._number += 1
        me = self._endpoint.identity
        own = together(facts(), self._endpoint.facts())
        reports = [Report(me.node_id, me.role, self._number, own), *heard()]
        for link in due:
            self._endpoint.send(link, reports, now)
        self._due = {link: self._due.get(link, now) for link in links}
        self._due |= dict.fromkeys(due, now + REPORT_EVERY)
