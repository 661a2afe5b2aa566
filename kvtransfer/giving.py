"""The side of a hand-over that computes: it accepts offers, and sends what it has as soon as it has it. Pure.

accepted --first chunk--> moving --last chunk--> done --KvTaken--> gone
   any of them --time, KvAbort, end of the link--> gone
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from kvtransfer.config import HandoverConfig
from kvtransfer.layout import Difference, Layout, compatible, decode
from kvtransfer.plan import pieces, shared
from protocol.errors import PeerError
from protocol.messages import KvAbort, KvOffer, KvTaken, Piece


@dataclass(slots=True, eq=False)
class Job:
    """Positions [start, end) of `offer.tokens` are owed to the node at `link`; those before `ready` were computed, or
    are by the forward that runs.
    """

    link: int
    offer: KvOffer
    travelling: Layout
    layout: Layout
    channel: str
    begun: float
    until: float
    ready: int
    pieces: deque[Piece] = field(default_factory=deque)  # computed and not sent
    coming: deque[Piece] = field(default_factory=deque)  # of the forward that runs

    @property
    def done(self) -> bool:
        """All of it was sent."""
        return self.ready >= self.offer.end and not self.pieces and not self.coming


class Giving:
    """All jobs of a prefill node, the oldest first."""

    def __init__(
        self, config: HandoverConfig, layout: Layout, channels: tuple[str, ...], chunk_bytes: int
    ) -> None:
        self._config = config
        self._layout = layout
        self._channels = channels
        self._chunk_bytes = chunk_bytes
        self.jobs: dict[tuple[int, int], Job] = {}

    def offered(self, link: int, offer: KvOffer, now: float) -> Job:
        """A new job; PeerError says why there is none, and is what the other side is to be told."""
        if (link, offer.request) in self.jobs:
            raise PeerError(f"request {offer.request} was offered before and is not over")
        if not offer.start < offer.end <= len(offer.tokens):
            raise PeerError(f"positions [{offer.start}, {offer.end}) of {len(offer.tokens)} tokens")
        if len([each for each in self.jobs.values() if each.link == link]) >= self._config.jobs:
            raise PeerError("this prefill node has enough to do")
        theirs, layout = decode(offer.layout), self._layout.of(offer.adapter)
        if isinstance(found := compatible(layout, theirs), Difference):
            raise PeerError(f"pages of the verifier do not fit: {found}")
        channel = next((name for name in offer.channels if name in self._channels), None)
        if channel is None:
            raise PeerError(f"none of the channels {list(offer.channels)} is known here")
        until = now + self._config.whole_seconds
        job = Job(
            link, offer, shared(layout, theirs), layout, channel, now, until, ready=offer.start
        )
        self.jobs[link, offer.request] = job
        return job

    def computing(self, job: Job, ready: int) -> None:
        """A forward begins that computes the positions before `ready`."""
        ready = min(ready, job.offer.end)
        if ready > job.ready:
            job.coming += pieces(job.travelling, job.ready, ready, self._chunk_bytes)
            job.ready = ready

    @staticmethod
    def reached(job: Job, layers: int) -> None:
        """So many of its layers are in the pages: what fills a chunk may go, before the others are computed."""
        while job.coming and job.coming[0].end <= layers:
            job.pieces.append(job.coming.popleft())

    def computed(self, job: Job, ready: int) -> None:
        """All layers of the positions before `ready` are in the pages."""
        self.computing(job, ready)
        self.reached(job, len(job.travelling.layers))

    def sending(self, link: int) -> Iterator[Job]:
        """Jobs of a link with pieces that may go now, the oldest first."""
        return (each for each in self.jobs.values() if each.link == link and each.pieces)

    def sent(self, job: Job, now: float) -> None:
        """The first of its pieces is on its way."""
        job.pieces.popleft()
        if job.done:
            job.until = min(job.until, now + self._config.move_seconds)

    def over(self, link: int, message: KvTaken | KvAbort) -> Job | None:
        """The other side has all of it, or wants no more of it."""
        job = self.jobs.get((link, message.request))
        if job is None or job.offer.epoch != message.epoch:
            return None
        return self.jobs.pop((link, message.request))

    def drop(self, job: Job, reason: str) -> KvAbort:
        """This side gives up; the words for the other one."""
        del self.jobs[job.link, job.offer.request]
        return KvAbort(job.offer.request, job.offer.epoch, reason)

    def link_down(self, link: int) -> list[Job]:
        """The jobs that ended with it."""
        gone = [each for each in self.jobs.values() if each.link == link]
        for job in gone:
            del self.jobs[link, job.offer.request]
        return gone

    def late(self, now: float) -> list[Job]:
        """Jobs whose time is over."""
        return [each for each in self.jobs.values() if now >= each.until]

    def deadline(self) -> float:
        return min((each.until for each in self.jobs.values()), default=float("inf"))
