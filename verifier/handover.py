"""Prompts that prefill nodes compute for this verifier: offered as choices are admitted, written as they come. Pure.

Whatever goes wrong costs time, never a token: a choice waits while it has a lease, and what did not arrive when that is
over is computed here.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from engine.pages import OutOfPages, PagePool
from kvtransfer.leases import Lease, State
from kvtransfer.taking import Taking
from protocol.errors import PeerError
from protocol.link import LinkUp
from protocol.messages import (
    AnyMessage,
    Heartbeat,
    KvAbort,
    KvAccept,
    KvChunk,
    Refuse,
    Report,
)
from verifier.drafting import Drafting
from verifier.generation import Generation
from verifier.record import Record
from verifier.roster import passed_on


class Memory(Protocol):
    """The pages as chunks see them; see `kvtransfer.ends.Arrivals`."""

    def open(self, lease: Lease) -> None:
        """Find the other end of its channel; PeerError if that leads nowhere."""

    def write(self, lease: Lease, held: Sequence[int], message: KvChunk) -> int:
        """Put a chunk into these pages; how many bytes. PeerError if it is damaged, and nothing is written."""

    def link_down(self, link: int) -> None:
        """No chunk will come from there any more."""


class NoMemory:
    """Of a verifier that has no channels: nothing is ever offered, so nothing comes."""

    def open(self, lease: Lease) -> None:
        raise PeerError(f"nothing was offered, and {lease} is accepted")

    def write(self, lease: Lease, held: Sequence[int], message: KvChunk) -> int:
        raise PeerError(f"nothing was offered to {lease.link}: {len(held)} pages, {message}")

    def link_down(self, link: int) -> None:
        """There is nothing to end."""


class Supply(NamedTuple):
    """What a verifier needs to take prompts from others."""

    taking: Taking
    memory: Memory


class Handover:
    """Leases of choices. `generation.lease` says that a choice must be left out of steps."""

    def __init__(self, supply: Supply, pool: PagePool, drafting: Drafting, record: Record) -> None:
        self._taking, self._memory = supply
        self._pool = pool
        self._drafting = drafting
        self._record = record
        self._asked: dict[int, Generation] = {}
        self._reports: dict[int, Report] = {}  # by link

    def __contains__(self, link: int) -> bool:
        return link in self._taking

    def __len__(self) -> int:
        """Prefill nodes with a link."""
        return len(self._taking.givers)

    def link_up(self, up: LinkUp) -> None:
        self._taking.link_up(up.link, up.node_id)

    def link_down(self, link: int, now: float) -> None:
        for lease in self._taking.link_down(link):
            self._over(lease, "link", now)
        self._memory.link_down(link)
        self._reports.pop(link, None)

    def ask(self, generation: Generation, now: float) -> None:
        """A choice was just admitted: let a prefill node compute what its pages lack, if one would be quick."""
        sequence = generation.sequence
        assert sequence is not None
        if not len(self) or generation.scoring:
            return
        lease = self._taking.offer(
            generation.id,
            tuple(generation.line),
            sequence.computed,
            now,
            generation.submit.adapter,
            trace=generation.submit.trace,
        )
        if lease is None:
            return
        try:
            self._pool.reserve(sequence, lease.end)
        except OutOfPages:  # it makes its way in steps, at the cost of others
            self._taking.drop(generation.id, "no pages")
            return
        generation.lease = lease
        self._asked[generation.id] = generation
        self._drafting.computed(generation)  # rows of a known prefix: no step will tell of them

    def hear(self, link: int, message: AnyMessage, now: float) -> bool:
        """Take a word of a prefill node; False: it has no place here."""
        match message:
            case KvChunk():
                self._chunk(link, message, now)
            case KvAccept():
                self._accepted(link, message, now)
            case KvAbort():
                lease = self._taking.aborted(link, message)
                if lease is not None:
                    offered = lease.state is State.OFFERED
                    self._over(lease, "refused" if offered else "aborted", now)
            case Heartbeat():
                draining = message.state == "draining"
                self._taking.heard(link, message.load, draining=draining)
            case Report():
                node_id = self._taking.givers[link].node_id
                if (report := passed_on(message, node_id, "prefill")) is not None:
                    self._reports[link] = report
            case Refuse():
                pass
            case _:
                return False
        return True

    def _accepted(self, link: int, message: KvAccept, now: float) -> None:
        known = self._taking.leases.get(message.request)
        try:
            lease = self._taking.accepted(link, message)
        except PeerError:
            assert known is not None
            self._over(known, "fault", now)
            return
        if lease is None:
            return
        try:
            self._memory.open(lease)
        except PeerError as error:
            self._taking.unreachable(lease, str(error))
            self._over(lease, "fault", now)

    def _chunk(self, link: int, message: KvChunk, now: float) -> None:
        known = self._taking.leases.get(message.request)
        try:
            lease = self._taking.chunk(link, message)
        except PeerError:
            assert known is not None
            self._over(known, "fault", now)
            return
        if lease is None:
            return
        generation = self._asked[lease.request]
        assert generation.sequence is not None
        try:
            size = self._memory.write(lease, generation.sequence.pages, message)
        except PeerError as error:
            self._taking.failed(lease, str(error))
            self._over(lease, "fault", now)
            return
        self._record.ledger.arrived(size)
        done = self._taking.landed(lease, message, now)
        if lease.complete > generation.sequence.computed:
            generation.sequence.computed = lease.complete
            self._pool.publish(generation.sequence, generation.line)
            self._drafting.computed(generation)
        if done:
            self._over(lease, "taken", now)

    def drop(self, generation: Generation, reason: str, now: float) -> None:
        """It ended, or has no pages any more. Idempotent."""
        if generation.lease is not None:
            self._taking.drop(generation.id, reason)
            self._over(generation.lease, "dropped", now)

    def tick(self, now: float) -> None:
        """Whoever waited too long waits no more."""
        for lease in self._taking.tick(now):
            self._over(lease, "late", now)

    def _over(self, lease: Lease, outcome: str, now: float) -> None:
        """`outcome` is one of `verifier.ledger.HANDED`."""
        generation = self._asked.pop(lease.request)
        generation.lease = None
        self._record.handed(generation, lease, outcome, now)

    @property
    def reports(self) -> list[Report]:
        """The newest of each live prefill node, by the name that it has here."""
        return list(self._reports.values())

    # --- what prefill nodes are told ----------------------------------------------------------------

    @property
    def links(self) -> list[int]:
        """Who must be told something."""
        return self._taking.links

    def messages(self, link: int) -> list[AnyMessage]:
        """What this prefill node must be told now."""
        return self._taking.messages(link)

    def deadline(self) -> float:
        """When `tick` has something to do."""
        return self._taking.deadline()
