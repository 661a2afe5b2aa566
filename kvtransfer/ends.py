"""Where plans meet memory: the shells around `Giving` and `Taking`. They own channels, one for each link."""

from collections.abc import Callable, Iterator, Sequence

from kvtransfer.channel import Receiver, Sender
from kvtransfer.channels import CHANNELS
from kvtransfer.giving import Giving, Job
from kvtransfer.leases import Lease
from kvtransfer.memory import Pages, pack, unpack
from kvtransfer.plan import piece_bytes
from protocol.errors import PeerError
from protocol.messages import KvAccept, KvChunk, KvCredit


class Deliveries:
    """Sends pieces of jobs out of these pages. `sent_bytes` counts what left."""

    def __init__(self, pages: Pages) -> None:
        self.sent_bytes = 0
        self._pages = pages
        self._senders: dict[int, tuple[str, Sender]] = {}

    def accept(self, job: Job) -> KvAccept:
        """The answer to its offer; PeerError says why there can be none now.

        A link keeps its channel while chunks are away: places of two would be mixed up.
        """
        name, sender = self._sender(job)
        layout = job.layout.encode()
        return KvAccept(job.offer.request, job.offer.epoch, name, sender.hint, layout)

    def _sender(self, job: Job) -> tuple[str, Sender]:
        known = self._senders.get(job.link)
        if known is not None and known[0] not in job.offer.channels:
            if known[1].away:
                raise PeerError(f"chunks are away on channel {known[0]}, which is not offered")
            self.link_down(job.link)
            known = None
        if known is None:
            known = self._senders[job.link] = job.channel, CHANNELS[job.channel].sender()
        return known

    def chunks(
        self, giving: Giving, link: int, held: Callable[[Job], Sequence[int]], now: float
    ) -> Iterator[KvChunk]:
        """What may leave now; ask for the next one only while the link takes it. `held` knows a job's pages."""
        for job in list(giving.sending(link)):
            sender = self._senders[link][1]
            while job.pieces and (room := sender.room()) is not None:
                piece = job.pieces[0]
                size = piece_bytes(job.travelling, piece)
                pack(self._pages, held(job), job.travelling, piece, room[:size])
                giving.sent(job, now)
                self.sent_bytes += size
                yield KvChunk(job.offer.request, job.offer.epoch, piece, sender.seal(size))

    def credit(self, link: int, message: KvCredit) -> None:
        """Places of this link are free; PeerError if they were not away."""
        if link not in self._senders:
            raise PeerError("places are given back where none were lent")
        for place in message.places:
            self._senders[link][1].give_back(place)

    def link_down(self, link: int) -> None:
        if link in self._senders:
            self._senders.pop(link)[1].close()


class Arrivals:
    """Writes chunks into these pages. `taken_bytes` counts what was written."""

    def __init__(self, pages: Pages) -> None:
        self.taken_bytes = 0
        self._pages = pages
        self._receivers: dict[int, tuple[str, bytes, Receiver]] = {}

    def open(self, lease: Lease) -> None:
        """Find the other end of an accepted lease's channel; PeerError if it leads nowhere."""
        known = self._receivers.get(lease.link)
        if known is None or known[:2] != (lease.channel, lease.hint):
            self.link_down(lease.link)
            receiver = CHANNELS[lease.channel].receiver(lease.hint)
            self._receivers[lease.link] = lease.channel, lease.hint, receiver

    def write(self, lease: Lease, held: Sequence[int], message: KvChunk) -> int:
        """Put a chunk of a live lease into the pages `held`; how many bytes.

        PeerError if it is damaged, and nothing is written.
        """
        assert lease.travelling is not None
        data = self._receivers[lease.link][2].open(message.parcel)
        unpack(self._pages, held, lease.travelling, message.piece, data)
        self.taken_bytes += len(data)
        return len(data)

    def link_down(self, link: int) -> None:
        if link in self._receivers:
            self._receivers.pop(link)[2].close()
