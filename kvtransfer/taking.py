"""The side of a hand-over that has the pages: it offers them, and takes what comes. Pure.

    offered --KvAccept--> accepted --first chunk--> moving --last chunk--> taken
       any of them --time, KvAbort, end of the link, pages lost--> gone

A lease that ends early leaves behind what is complete: only what is beyond it has to be computed.
"""

from collections.abc import Iterator, Sequence
from itertools import count

from kvtransfer.config import HandoverConfig
from kvtransfer.givers import Giver, Givers
from kvtransfer.layout import Difference, Layout, compatible, decode
from kvtransfer.leases import Lease, State
from kvtransfer.plan import shared
from protocol.errors import PeerError
from protocol.messages import AnyMessage, KvAbort, KvAccept, KvChunk, KvOffer, KvTaken, Tokens


class Taking:
    """All leases of a verifier. Requests are numbers of its own."""

    def __init__(self, config: HandoverConfig, layout: Layout, channels: Sequence[str]) -> None:
        self._config = config
        self._layout = layout
        self._channels = tuple(channels)
        self._epochs = count(1)
        self.givers = Givers(config)
        self.leases: dict[int, Lease] = {}

    def __contains__(self, link: int) -> bool:
        return link in self.givers

    def link_up(self, link: int, node_id: str = "") -> None:
        self.givers.add(link, Giver(node_id, self._channels))

    def link_down(self, link: int) -> list[Lease]:
        """The leases that ended with it."""
        self.givers.remove(link)
        return [self.leases.pop(each.request) for each in list(self._of(link))]

    def heard(self, link: int, queued: int, *, draining: bool = False) -> None:
        """A prefill node said how many tokens wait there, and whether it takes more."""
        self.givers[link].queued = queued
        self.givers[link].draining = draining

    # --- offering ---------------------------------------------------------------------------------

    def offer(
        self,
        request: int,
        tokens: Tokens,
        start: int,
        now: float,
        adapter: str = "",
        *,
        trace: str = "",
    ) -> Lease | None:
        """Ask some node for positions [start, last) of a request whose pages reach that far; None: no node is asked.

        The last position stays here: what the target says of it is what the verifier judges by.
        """
        end = len(tokens) - 1
        if end - start < self._config.least or request in self.leases:
            return None
        link = self.givers.choose(tokens, self.leases)
        if link is None:
            return None
        until = now + min(self._config.accept_seconds, self._config.whole_seconds)
        giver, layout = self.givers[link], self._layout.of(adapter).encode()
        lease = Lease(
            link, giver.node_id, request, next(self._epochs), adapter, start, end, now, until
        )
        self.leases[request] = lease
        giver.prompts.append(tokens)
        channels = giver.channels
        giver.news.append(
            KvOffer(request, lease.epoch, tokens, start, end, layout, channels, adapter, trace)
        )
        return lease

    # --- what comes -------------------------------------------------------------------------------

    def accepted(self, link: int, message: KvAccept) -> Lease | None:
        """The lease that will be filled; None if it is over. PeerError, and the lease goes, if it cannot be."""
        lease = self._live(link, message.request, message.epoch)
        if lease is None or lease.state is not State.OFFERED:
            return None
        try:
            theirs = decode(message.layout)
            if isinstance(found := compatible(self._layout.of(lease.adapter), theirs), Difference):
                raise PeerError(f"pages of the prefill node do not fit: {found}")
            if message.channel not in self.givers[link].channels:
                raise PeerError(f"channel {message.channel!r} was not offered")
        except PeerError as error:
            self.failed(lease, str(error))
            raise
        lease.travelling = shared(theirs, self._layout)
        lease.filled = [lease.start] * len(lease.travelling.layers)
        lease.channel, lease.hint = message.channel, message.hint
        lease.state, lease.until = State.ACCEPTED, lease.begun + self._config.whole_seconds
        return lease

    def unreachable(self, lease: Lease, reason: str) -> None:
        """The channel that was agreed on leads nowhere: the next offers to this node do without it."""
        giver = self.givers[lease.link]
        giver.channels = tuple(name for name in giver.channels if name != lease.channel)
        self.drop(lease.request, reason)

    def chunk(self, link: int, message: KvChunk) -> Lease | None:
        """The lease under which this chunk may be written now; None: it belongs to nobody any more.

        PeerError, and the lease goes, where it is not the next of its layers. Its place goes back in any case, with the
        next words to that node: so it must be read before those are said.
        """
        if link in self.givers:
            self.givers[link].places.append(message.parcel.place)
        lease = self._live(link, message.request, message.epoch)
        if lease is None:
            return None
        if not lease.continues(message):
            self.failed(lease, "a chunk came out of turn")
            raise PeerError(f"chunk {message.piece} is not what comes next of {lease}")
        return lease

    def landed(self, lease: Lease, message: KvChunk, now: float) -> bool:
        """It was written. True: that was the last one, and the lease is over."""
        lease.landed(message)
        lease.state = State.MOVING
        whole = lease.begun + self._config.whole_seconds
        lease.until = min(now + self._config.move_seconds, whole)
        if lease.complete < lease.end:
            return False
        del self.leases[lease.request]
        giver = self.givers[lease.link]
        giver.news.append(KvTaken(lease.request, lease.epoch))
        giver.succeeded()
        return True

    def aborted(self, link: int, message: KvAbort) -> Lease | None:
        """The other side gave up; nothing is answered."""
        lease = self._live(link, message.request, message.epoch)
        if lease is None:
            return None
        self.givers[link].failed()
        return self.leases.pop(lease.request)

    # --- what ends it -----------------------------------------------------------------------------

    def drop(self, request: int, reason: str) -> Lease | None:
        """This side gives up, or the pages belong to somebody else from now on. Idempotent."""
        lease = self.leases.pop(request, None)
        if lease is not None:
            self.givers[lease.link].news.append(KvAbort(request, lease.epoch, reason))
        return lease

    def failed(self, lease: Lease, reason: str) -> None:
        """As `drop`, where it is the other side's fault."""
        self.givers[lease.link].failed()
        self.drop(lease.request, reason)

    def tick(self, now: float) -> list[Lease]:
        """Leases whose time is over; they are gone."""
        late = [lease for lease in self.leases.values() if now >= lease.until]
        for lease in late:
            self.failed(lease, f"{lease.state.value} for too long")
        return late

    def deadline(self) -> float:
        """When `tick` has something to do."""
        return min((lease.until for lease in self.leases.values()), default=float("inf"))

    # --- words ------------------------------------------------------------------------------------

    @property
    def links(self) -> list[int]:
        """Nodes that must be told something."""
        return [link for link in self.givers if self.givers[link].news or self.givers[link].places]

    def messages(self, link: int) -> list[AnyMessage]:
        """What this node must be told now; said once."""
        return self.givers[link].messages()

    # --- within -----------------------------------------------------------------------------------

    def _of(self, link: int) -> Iterator[Lease]:
        return (lease for lease in self.leases.values() if lease.link == link)

    def _live(self, link: int, request: int, epoch: int) -> Lease | None:
        lease = self.leases.get(request)
        return lease if lease and (lease.link, lease.epoch) == (link, epoch) else None
