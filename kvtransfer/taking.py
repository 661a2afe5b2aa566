"""The side of a hand-over that has the pages: it offers them, and takes what comes. Pure.

    offered --KvAccept--> accepted --first chunk--> moving --last chunk--> taken
       any of them --time, KvAbort, end of the link, pages lost--> gone

A *lease* is the right to fill pages of one request. Its epoch is never used again, so a chunk of an older lease finds
none and is dropped; and it fills each layer from its begin on without gaps, so what is complete is one number. A lease
that ends early leaves that number behind: only what is beyond it has to be computed.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from typing import Final

from kvtransfer.config import HandoverConfig
from kvtransfer.layout import Difference, Layout, compatible, decode
from kvtransfer.plan import piece_bytes, shared
from protocol.errors import PeerError
from protocol.messages import (
    AnyMessage,
    KvAbort,
    KvAccept,
    KvChunk,
    KvCredit,
    KvOffer,
    KvTaken,
    Tokens,
)

REMEMBERED: Final = 32
"""Prompts of a prefill node that it may still have in its pages."""


class State(Enum):
    OFFERED = "offered"
    ACCEPTED = "accepted"
    MOVING = "moving"


@dataclass(slots=True, eq=False)
class Lease:
    """Positions [start, end) of a request are filled by the node at `link`. It is over at `until`."""

    link: int
    request: int
    epoch: int
    adapter: str
    start: int
    end: int
    begun: float
    until: float
    state: State = State.OFFERED
    travelling: Layout | None = None
    channel: str = ""
    hint: bytes = b""
    filled: list[int] = field(default_factory=list)  # by layer: positions before it are there

    @property
    def complete(self) -> int:
        """Positions before this one are there in all layers."""
        return min(self.filled, default=self.start)


@dataclass(slots=True)
class _Node:
    """A prefill node as this side knows it."""

    queued: int = 0  # tokens that wait there, as it said
    prompts: deque[Tokens] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    places: list[int] = field(default_factory=list)  # to be given back
    news: list[AnyMessage] = field(default_factory=list)


class Taking:
    """All leases of a verifier. Requests are numbers of its own."""

    def __init__(self, config: HandoverConfig, layout: Layout, channels: Sequence[str]) -> None:
        self._config = config
        self._layout = layout
        self._channels = tuple(channels)
        self._epochs = count(1)
        self._nodes: dict[int, _Node] = {}
        self.leases: dict[int, Lease] = {}

    def __contains__(self, link: int) -> bool:
        return link in self._nodes

    def link_up(self, link: int) -> None:
        self._nodes[link] = _Node()

    def link_down(self, link: int) -> list[Lease]:
        """The leases that ended with it."""
        self._nodes.pop(link, None)
        return [self.leases.pop(each.request) for each in list(self._of(link))]

    def heard(self, link: int, queued: int) -> None:
        """A prefill node said how many tokens wait there."""
        self._nodes[link].queued = queued

    # --- offering ---------------------------------------------------------------------------------

    def offer(
        self, request: int, tokens: Tokens, start: int, now: float, adapter: str = ""
    ) -> bool:
        """Whether some node is asked for positions [start, last) of a request whose pages reach that far.

        The last position stays here: what the target says of it is what the verifier judges by.
        """
        end = len(tokens) - 1
        if end - start < self._config.least or request in self.leases:
            return False
        link = self._node_for(tokens)
        if link is None:
            return False
        lease = Lease(
            link,
            request,
            next(self._epochs),
            adapter,
            start,
            end,
            now,
            now + self._config.accept_seconds,
        )
        self.leases[request] = lease
        node, layout = self._nodes[link], self._layout.of(adapter)
        node.prompts.append(tokens)
        node.news.append(
            KvOffer(
                request, lease.epoch, tokens, start, end, layout.encode(), self._channels, adapter
            )
        )
        return True

    def _node_for(self, tokens: Tokens) -> int | None:
        """The node that has least to do until it has computed these tokens."""

        def work(link: int) -> int:
            node = self._nodes[link]
            own = sum(lease.end - lease.complete for lease in self._of(link))
            known = max((_common(tokens, prompt) for prompt in node.prompts), default=0)
            return max(node.queued, own) + len(tokens) - known

        free = [link for link in self._nodes if len(list(self._of(link))) < self._config.jobs]
        return min(free, key=work, default=None)

    # --- what comes -------------------------------------------------------------------------------

    def accepted(self, link: int, message: KvAccept, now: float) -> Lease | None:
        """The lease that will be filled; None if it is over. PeerError, and the lease goes, if it cannot be."""
        lease = self._live(link, message.request, message.epoch)
        if lease is None or lease.state is not State.OFFERED:
            return None
        try:
            theirs = decode(message.layout)
            if isinstance(found := compatible(self._layout.of(lease.adapter), theirs), Difference):
                raise PeerError(f"pages of the prefill node do not fit: {found}")
            if message.channel not in self._channels:
                raise PeerError(f"channel {message.channel!r} was not offered")
        except PeerError as error:
            self.drop(lease.request, str(error))
            raise
        lease.travelling = shared(theirs, self._layout)
        lease.filled = [lease.start] * len(lease.travelling.layers)
        lease.channel, lease.hint = message.channel, message.hint
        self._go_on(lease, State.ACCEPTED, now)
        return lease

    def chunk(self, link: int, message: KvChunk) -> Lease | None:
        """The lease under which this chunk may be written now; None: it belongs to nobody any more.

        PeerError, and the lease goes, where it is not the next of its layers. Its place goes back in any case, with the
        next words to that node: so it must be read before those are said.
        """
        if link in self._nodes:
            self._nodes[link].places.append(message.parcel.place)
        lease = self._live(link, message.request, message.epoch)
        if lease is None:
            return None
        if not self._next(lease, message):
            self.drop(lease.request, "a chunk came out of turn")
            raise PeerError(f"chunk {message.piece} is not what comes next of {lease}")
        return lease

    def landed(self, lease: Lease, message: KvChunk, now: float) -> bool:
        """It was written. True: that was the last one, and the lease is over."""
        piece = message.piece
        lease.filled[piece.first : piece.end] = [piece.stop] * (piece.end - piece.first)
        self._go_on(lease, State.MOVING, now)
        if lease.complete < lease.end:
            return False
        del self.leases[lease.request]
        self._nodes[lease.link].news.append(KvTaken(lease.request, lease.epoch))
        return True

    def aborted(self, link: int, message: KvAbort) -> Lease | None:
        """The other side gave up; nothing is answered."""
        lease = self._live(link, message.request, message.epoch)
        return self.leases.pop(lease.request) if lease else None

    # --- what ends it -----------------------------------------------------------------------------

    def drop(self, request: int, reason: str) -> Lease | None:
        """This side gives up, or the pages belong to somebody else from now on. Idempotent."""
        lease = self.leases.pop(request, None)
        if lease is not None:
            self._nodes[lease.link].news.append(KvAbort(request, lease.epoch, reason))
        return lease

    def tick(self, now: float) -> list[Lease]:
        """Leases whose time is over; they are gone."""
        late = [lease for lease in self.leases.values() if now >= lease.until]
        for lease in late:
            self.drop(lease.request, f"{lease.state.value} for too long")
        return late

    def deadline(self) -> float:
        """When `tick` has something to do."""
        return min((lease.until for lease in self.leases.values()), default=float("inf"))

    # --- words ------------------------------------------------------------------------------------

    @property
    def links(self) -> list[int]:
        """Nodes that must be told something."""
        return [link for link, node in self._nodes.items() if node.news or node.places]

    def messages(self, link: int) -> list[AnyMessage]:
        """What this node must be told now; said once."""
        node = self._nodes[link]
        said, node.news = node.news, []
        if node.places:
            said.append(KvCredit(tuple(node.places)))
            node.places = []
        return said

    # --- within -----------------------------------------------------------------------------------

    def _of(self, link: int) -> Iterator[Lease]:
        return (lease for lease in self.leases.values() if lease.link == link)

    def _live(self, link: int, request: int, epoch: int) -> Lease | None:
        lease = self.leases.get(request)
        return lease if lease and (lease.link, lease.epoch) == (link, epoch) else None

    def _next(self, lease: Lease, message: KvChunk) -> bool:
        piece, layout = message.piece, lease.travelling
        if layout is None or not piece.first < piece.end <= len(layout.layers):
            return False
        if not piece.start < piece.stop <= lease.end:
            return False
        layers = lease.filled[piece.first : piece.end]
        fits = message.parcel.size == piece_bytes(layout, piece)
        return fits and all(filled == piece.start for filled in layers)

    def _go_on(self, lease: Lease, state: State, now: float) -> None:
        lease.state = state
        whole = lease.begun + self._config.whole_seconds
        lease.until = min(now + self._config.move_seconds, whole)


def _common(one: Tokens, other: Tokens) -> int:
    """Tokens that both begin with."""
    most = min(len(one), len(other))
    if one[:most] == other[:most]:
        return most
    return next(index for index in range(most) if one[index] != other[index])
