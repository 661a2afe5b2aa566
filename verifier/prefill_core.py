"""A prefill node as a pure state machine: it computes prompts that verifiers offer, and sends their pages. It draws
nothing and decides nothing: whatever it does not do, the verifier does itself.

Prompts are computed in the order in which they came; one that finds no pages waits, and those behind it too. What is
computed leaves at once, while the rest is computed.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from engine.pages import OutOfPages, PagedSequence, PagePool
from kvtransfer.giving import Giving, Job
from protocol.errors import PeerError
from protocol.facts import SIZES, Distribution, level, one
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
    Sampling,
)
from verifier.config import SchedulerConfig
from verifier.scheduler import Chunking
from verifier.step import Step, Work

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


@dataclass(slots=True, eq=False)
class Prompt:
    """A job with its place in steps. `sequence` is None until it has pages."""

    number: int
    job: Job
    sequence: PagedSequence | None = None

    @property
    def todo(self) -> int:
        """Tokens that are not computed."""
        return self.job.offer.end - (self.sequence.computed if self.sequence else 0)


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
        self.counters: Counter[str] = Counter()
        self.draining = False
        self.links: set[int] = set()
        self.pool = pool
        self.prompts: dict[tuple[int, int], Prompt] = {}  # by (link, its request)
        self._giving = giving
        self._channels = channels
        self._context = context
        self._vocabulary = vocabulary
        self._chunking = Chunking(config)
        self._notes: defaultdict[int, list[AnyMessage]] = defaultdict(list)
        self._given: Counter[str] = Counter()
        self._step_seconds = Distribution()
        self._step_tokens = Distribution(SIZES)
        self._last = 0
        self._now = 0.0

    # --- events -----------------------------------------------------------------------------------

    def handle(self, event: Event, now: float) -> None:
        """Take one event of a link; never raises for what a peer did."""
        match event:
            case LinkUp():
                self.links.add(event.link)
            case LinkDown():
                self.links.discard(event.link)
                self._notes.pop(event.link, None)
                for job in self._giving.link_down(event.link):
                    self._forget(job, "link")
                self._channels.link_down(event.link)
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
                    self._forget(job, "taken" if isinstance(message, KvTaken) else "aborted")
            case Heartbeat() | Report():
                pass
            case _:
                self.counters["messages_unexpected"] += 1

    def _offered(self, link: int, offer: KvOffer, now: float) -> None:
        try:
            self._check(offer)
            job = self._giving.offered(link, offer, now)
        except PeerError as error:
            self._refuse(link, KvAbort(offer.request, offer.epoch, str(error)))
            return
        try:
            accept = self._channels.accept(job)
        except PeerError as error:
            self._refuse(link, self._giving.drop(job, str(error)))
            return
        self._last += 1
        self.prompts[link, offer.request] = Prompt(self._last, job)
        self._notes[link].append(accept)

    def _refuse(self, link: int, words: KvAbort) -> None:
        self._given["refused"] += 1
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

    def _forget(self, job: Job, why: str) -> None:
        """Its pages are free; those that are shareable stay as long as nobody needs them."""
        prompt = self.prompts.pop((job.link, job.offer.request))
        if prompt.sequence is not None:
            self.pool.release(prompt.sequence)
        self._given[why] += 1

    # --- planning and settling ---------------------------------------------------------------------

    def plan(self, now: float) -> Step | None:
        """What the next forward computes; None when there is nothing."""
        self._now = now
        for job in self._giving.late(now):
            self._notes[job.link].append(self._giving.drop(job, "it took too long"))
            self._forget(job, "late")
        budget = self._chunking.tokens
        rows = []
        for prompt in self.prompts.values():
            if budget <= 0 or not self._opened(prompt):
                break
            if count := min(prompt.todo, budget):
                rows.append(_work(prompt, count))
                budget -= count
        return Step(tuple(rows)) if rows else None

    def _opened(self, prompt: Prompt) -> bool:
        """Whether it has its pages: all of them at once, so that no two prompts wait for each other's."""
        if prompt.sequence is not None:
            return True
        offer = prompt.job.offer
        sequence = self.pool.open(offer.tokens[: offer.end + 1], offer.adapter)
        try:
            self.pool.reserve(sequence, offer.end)
        except OutOfPages:
            self.pool.release(sequence)
            return False
        prompt.sequence = sequence
        self.counters["prefix_hits"] += sequence.computed
        self._giving.computed(prompt.job, sequence.computed)
        return True

    def settle(self, step: Step, started: float, now: float) -> None:
        """The forward of this step is done."""
        self._now = now
        self._chunking.measured(step.tokens, now - started)
        self._step_seconds.observe(now - started)
        self._step_tokens.observe(step.tokens)
        self.counters["steps"] += 1
        self.counters["computed_tokens"] += step.tokens
        rows = {work.request: work for work in step.rows}
        for prompt in self.prompts.values():
            work = rows.get(prompt.number)
            if work is None or prompt.sequence is None:
                continue
            prompt.sequence.computed = work.start + len(work.tokens)
            self.pool.publish(prompt.sequence, prompt.job.offer.tokens)
            self._giving.computed(prompt.job, prompt.sequence.computed)

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
        chunk = next(self._channels.chunks(self._giving, link, self._held, self._now), None)
        return [chunk] if chunk is not None else []

    def _held(self, job: Job) -> Sequence[int]:
        sequence = self.prompts[job.link, job.offer.request].sequence
        assert sequence is not None
        return sequence.pages

    def heartbeat(self) -> Heartbeat:
        """Its load is the tokens that wait here."""
        return Heartbeat("draining" if self.draining else "ready", self._queued)

    @property
    def _queued(self) -> int:
        return sum(prompt.todo for prompt in self.prompts.values())

    @property
    def idle(self) -> bool:
        """No prompt is left, and everybody was told so."""
        return not self.prompts and not any(self._notes.values())

    def deadline(self) -> float:
        """When `plan` must be called next even if nothing arrives."""
        return self._giving.deadline()

    def facts(self) -> Facts:
        """What this node counted since it began, and how it is now."""
        return Facts(
            counters={
                "offers": dict.fromkeys(GIVEN, 0) | self._given,
                "steps": one(self.counters["steps"]),
                "computed_tokens": one(self.counters["computed_tokens"]),
                "prefix_hits": one(self.counters["prefix_hits"]),
                "sent_bytes": one(self._channels.sent_bytes),
                "messages_unexpected": one(self.counters["messages_unexpected"]),
            },
            gauges={
                "prompts": level(len(self.prompts)),
                "queued_tokens": level(self._queued),
                "pages": level(self.pool.pages),
                "pages_free": level(self.pool.free),
            },
            histograms={
                "step_seconds": self._step_seconds.histogram(),
                "step_tokens": self._step_tokens.histogram(),
            },
        )


def _work(prompt: Prompt, count: int) -> Work:
    """A chunk of a prompt that goes on: nothing is drawn from it."""
    sequence = prompt.sequence
    assert sequence is not None
    start = sequence.computed
    tokens = prompt.job.offer.tokens
    return Work(
        request=prompt.number,
        tokens=tuple(tokens[start : start + count]),
        start=start,
        pages=tuple(sequence.pages),
        drafts=0,
        draws=0,
        sampling=Sampling(),
        choice=0,
        prompt=tokens,
    )
