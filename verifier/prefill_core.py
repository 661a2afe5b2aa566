"""A prefill node as a pure state machine: it computes prompts that verifiers offer, and sends their pages. It draws
nothing and decides nothing: whatever it does not do, the verifier does itself.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Protocol

from engine.pages import PagePool
from kvtransfer.giving import Giving, Job
from protocol.errors import PeerError
from protocol.facts import level, one
from protocol.link import Event, LinkDown, LinkUp, Received, Rejected
from protocol.messages import (
    AnyMessage,
    Facts,
    Heartbeat,
    KvAbort,
    KvAccept,
    KvChunk,
    KvCredit,
    KvOffer,
    KvTaken,
    Report,
)
from verifier.config import SchedulerConfig
from verifier.prefill_queue import PrefillQueue, Prompt
from verifier.prefill_record import PrefillRecord
from verifier.step import Step

GIVEN: Final = ("taken", "aborted", "late", "link", "refused")
"""What became of an offer: the verifier has all of it, or wants it no more; it took too long; the link is over; it was
not taken."""


class Channels(Protocol):
    """Where chunks leave; see `kvtransfer.ends.Deliveries`."""

    sent_bytes: int

    def accept(self, job: Job) -> KvAccept: ...

    def chunks(
        self, giving: Giving, link: int, held: Callable[[Job], Sequence[int]], now: float
    ) -> Iterator[KvChunk]: ...

    def credit(self, link: int, message: KvCredit) -> None: ...

    def link_down(self, link: int) -> None: ...


class PrefillCore:
    """All prompts of one prefill node. Its model takes `context` positions and token ids below `vocabulary`."""

    def __init__(
        self,
        config: SchedulerConfig,
        giving: Giving,
        channels: Channels,
        pool: PagePool,
        *,
        context: int,
        vocabulary: int,
    ) -> None:
        self.draining = False
        self.links: dict[int, str] = {}  # the verifier behind each
        self.record = PrefillRecord()
        self.pool = pool
        self._queue = PrefillQueue(config, giving, pool)
        self._giving = giving
        self._channels = channels
        self._context = context
        self._vocabulary = vocabulary
        self._notes: defaultdict[int, list[AnyMessage]] = defaultdict(list)
        self._given: Counter[str] = Counter()
        self._now = 0.0

    @property
    def counters(self) -> Counter[str]:
        """What happened how often."""
        return self._queue.counters

    @property
    def prompts(self) -> Mapping[tuple[int, int], Prompt]:
        """All that are not over, by (link, its request)."""
        return self._queue.prompts

    # --- events -----------------------------------------------------------------------------------

    def handle(self, event: Event, now: float) -> None:
        """Take one event of a link, while a forward runs too; never raises for what a peer did."""
        match event:
            case LinkUp():
                self.links[event.link] = event.node_id
            case LinkDown():
                self._notes.pop(event.link, None)
                for job in self._giving.link_down(event.link):
                    self._forget(job, "link", now)
                self._channels.link_down(event.link)
                self.links.pop(event.link, None)
            case Received():
                for message in event.messages:
                    self._hear(event.link, message, now)
            case Rejected():
                pass

    def _hear(self, link: int, message: AnyMessage, now: float) -> None:
        match message:
            case KvOffer():
                self._offered(link, message, now)
            case KvCredit():
                try:
                    self._channels.credit(link, message)
                except PeerError:
                    self.counters["messages_unexpected"] += 1
            case KvTaken() | KvAbort():
                if (job := self._giving.over(link, message)) is not None:
                    why = "taken" if isinstance(message, KvTaken) else "aborted"
                    self._forget(job, why, now)
            case Heartbeat() | Report():
                pass
            case _:
                self.counters["messages_unexpected"] += 1

    def _offered(self, link: int, offer: KvOffer, now: float) -> None:
        try:
            self._check(offer)
            job = self._giving.offered(link, offer, now)
        except PeerError as error:
            self._refuse(link, offer, KvAbort(offer.request, offer.epoch, str(error)))
            return
        try:
            accept = self._channels.accept(job)
        except PeerError as error:
            self._refuse(link, offer, self._giving.drop(job, str(error)))
            return
        self._queue.add(job)
        self._notes[link].append(accept)

    def _refuse(self, link: int, offer: KvOffer, words: KvAbort) -> None:
        self._given["refused"] += 1
        self.record.refused(self.links.get(link, ""), offer, words.reason)
        self._notes[link].append(words)

    def _check(self, offer: KvOffer) -> None:
        if self.draining:
            raise PeerError("this prefill node is draining")
        if offer.adapter:
            raise PeerError(f"no adapter {offer.adapter!r}")
        if max(offer.tokens, default=0) >= self._vocabulary:
            raise PeerError(f"token {max(offer.tokens)} is not below {self._vocabulary}")
        most = min(self._context, self.pool.pages * self.pool.page_size)
        if offer.end > most:
            raise PeerError(f"{offer.end} positions exceed {most}")

    def _forget(self, job: Job, why: str, now: float) -> None:
        """`why` is one of `GIVEN`."""
        self._queue.remove(job)
        self._given[why] += 1
        self.record.ended(self.links.get(job.link, ""), job, why, now)

    # --- planning and settling ---------------------------------------------------------------------

    def plan(self, now: float) -> Step | None:
        """What the next forward computes; None when there is nothing."""
        self._now = now
        for job in self._giving.late(now):
            self._notes[job.link].append(self._giving.drop(job, "it took too long"))
            self._forget(job, "late", now)
        return self._queue.plan()

    def reached(self, layers: int, now: float) -> bool:
        """The forward that runs has written so many layers; True: something may be said now."""
        self._now = now
        self._queue.reached(layers)
        return bool(self.links_with_news)

    def settle(self, step: Step, started: float, now: float) -> None:
        """The forward of this step is done."""
        self._now = now
        self.record.computed(self._queue.settle(step, started, now), started, now)

    # --- what verifiers are told ---------------------------------------------------------------------

    @property
    def links_with_news(self) -> list[int]:
        """Links that must be told something, or may be sent a chunk."""
        noted = [link for link, notes in self._notes.items() if notes]
        sending = (link for link in self.links if next(self._giving.sending(link), None))
        return list(dict.fromkeys((*noted, *sending)))

    def outbox(self, link: int) -> list[AnyMessage]:
        """What goes into the next frame: words, or one chunk."""
        if notes := self._notes.pop(link, None):
            return notes
        chunks = self._channels.chunks(self._giving, link, self._queue.held, self._now)
        chunk = next(chunks, None)
        return [chunk] if chunk is not None else []

    def heartbeat(self) -> Heartbeat:
        """Its load is the tokens that wait here."""
        return Heartbeat("draining" if self.draining else "ready", self._queue.tokens)

    @property
    def idle(self) -> bool:
        """No prompt is left, and everybody was told so."""
        return not self.prompts and not any(self._notes.values())

    def deadline(self) -> float:
        """When `plan` must be called next even if nothing arrives."""
        return self._giving.deadline()

    def facts(self) -> Facts:
        """What this node counted since it began, and how it is now."""
        counted = ("steps", "computed_tokens", "prefix_hits", "messages_unexpected")
        return Facts(
            counters={
                "offers": dict.fromkeys(GIVEN, 0) | self._given,
                "sent_bytes": one(self._channels.sent_bytes),
            }
            | {name: one(self.counters[name]) for name in counted},
            gauges={
                "prompts": level(len(self.prompts)),
                "queued_tokens": level(self._queue.tokens),
                "pages": level(self.pool.pages),
                "pages_free": level(self.pool.free),
            },
            histograms={
                "step_seconds": self._queue.step_seconds.histogram(),
                "step_tokens": self._queue.step_tokens.histogram(),
            },
        )
