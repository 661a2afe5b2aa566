"""What the loops of all nodes share: saying what a core wants said, waiting, and keeping a list of peers dialled."""

import logging
from collections.abc import Callable, Iterable
from typing import Protocol

from protocol.endpoint import Endpoint
from protocol.link import Event, LinkDown, LinkUp, Received, Rejected
from protocol.mesh import Peer
from protocol.messages import AnyMessage, Heartbeat

HELD_RETRY = 0.005
"""Seconds after which a frame that the transport did not take is offered again."""


class Speaker(Protocol):
    """A core as its loop sees it: who must be told something, and what."""

    @property
    def links_with_news(self) -> list[int]: ...

    def outbox(self, link: int) -> list[AnyMessage]: ...

    def heartbeat(self) -> Heartbeat: ...


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
