"""The front door's mesh loop, in a thread of its own; the HTTP side speaks with it through a queue and a wake."""

import logging
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Final

from orchestrator.front.clocks import skews
from orchestrator.front.core import Delivery, FrontCore
from orchestrator.front.messages import Failure, Query, Reply, Status
from orchestrator.front.reports import Reports, drafters, facts
from protocol.endpoint import Endpoint
from protocol.facts import together
from protocol.link import Event
from protocol.loop import REPORT_EVERY, Dialled, log_links, pause, say
from protocol.messages import Report
from protocol.process import Command, Drain, Peers, Stop

log = logging.getLogger("front")

BEAT: Final = 1.0
"""The loop turns at least this often, so that it can be seen to be alive."""
FROZEN: Final = 5.0
"""Seconds without a turn after which it is not."""

Deliver = Callable[[list[tuple["Listener", Reply]]], None]
"""Hands replies to the thread of the HTTP side; called once a turn."""
Listener = Callable[[Reply], None]


@dataclass(frozen=True, slots=True)
class _Submitted:
    ticket: int
    query: Query
    listener: Listener


@dataclass(frozen=True, slots=True)
class _Aborted:
    ticket: int


class FrontNode:
    """`turn` and `pause` belong to one thread; `submit`, `abort` and `status` may be called from any other."""

    def __init__(
        self, core: FrontCore, endpoint: Endpoint, clock: Callable[[], float], deliver: Deliver
    ) -> None:
        self.endpoint = endpoint
        self.stopped = False
        self._core = core
        self._clock = clock
        self._deliver = deliver
        self._dialled = Dialled(endpoint)
        self._wishes: queue.SimpleQueue[_Submitted | _Aborted] = queue.SimpleQueue()
        self._tickets = count(1)
        self._listeners: dict[int, Listener] = {}
        self._pending: list[Delivery] = []
        self._status = core.status()
        self._reports = Reports()
        self._reported: Sequence[Report] = ()
        self._report_due = clock()
        self._report_number = 0
        self._turned_at = clock()
        self._closed = False
        self._door = threading.Lock()  # between a wake and the closing of what it wakes

    # --- for the HTTP side --------------------------------------------------------------------------

    def submit(self, query: Query, listener: Listener) -> int:
        """Ask; `listener` hears every reply. The ticket is for `abort`."""
        ticket = next(self._tickets)
        self._wishes.put(_Submitted(ticket, query, listener))
        self.wake()
        return ticket

    def abort(self, ticket: int) -> None:
        """Nobody listens any more."""
        self._wishes.put(_Aborted(ticket))
        self.wake()

    def status(self) -> Status:
        """How it was at the end of the last turn; not alive when that is too long ago."""
        alive = not self._closed and self._clock() - self._turned_at < FROZEN
        return replace(
            self._status,
            alive=alive,
            ready=self._status.ready and alive,
            members=(*self._status.members, *drafters(self._reported)),
        )

    @property
    def serving(self) -> bool:
        """Whether a request would find a verifier."""
        return self._status.ready

    def reports(self) -> Sequence[Report]:
        """What every node counted, this one first; no older than a report's rhythm."""
        return self._reported

    def wake(self) -> None:
        """There is something to do; harmless when the loop is over."""
        with self._door:
            if not self._closed:
                self.endpoint.mesh.wake()
                return
        self._refuse_wishes()

    # --- the loop -----------------------------------------------------------------------------------

    def command(self, command: Command) -> None:
        """Obey the parent or a signal."""
        match command:
            case Peers():
                log.info("verifiers: %s", ", ".join(command.addresses) or "none")
                self._handle(self._dialled.update(command.addresses, self._clock()))
            case Drain():
                self._core.draining = True
            case Stop():
                self.stopped = True

    def turn(self) -> bool:
        """Read, obey, say, hand out; there is never work left that would need another turn at once."""
        now = self._clock()
        events = self.endpoint.drain(now)
        log_links(log, events)
        self._handle(events)
        while not self._wishes.empty():
            self._wish(self._wishes.get_nowait())
        say(self._core, self.endpoint, now)
        self._hand_out()
        self._status = self._core.status()
        self._report(now)
        self._turned_at = self._clock()
        self.stopped = self.stopped or (self._core.draining and self._core.idle)
        return False

    def pause(self) -> None:
        """Wait for the next reason to take a turn."""
        pause(self.endpoint, self._clock, self._clock() + BEAT)

    def close(self, failure: Failure) -> None:
        """The loop is over: whoever still waits hears it, and so does whoever still asks."""
        self._pending += self._core.fail_all(failure)
        self._hand_out()
        say(self._core, self.endpoint, self._clock())  # if it is lost, silence says the same, later
        with self._door:
            self._closed = True
            self.endpoint.close()
        self._refuse_wishes()

    def _handle(self, events: Sequence[Event]) -> None:
        self._reports.handle(events, self._clock())
        for event in events:
            self._pending += self._core.handle(event)

    def _report(self, now: float) -> None:
        """For whoever asks from another thread: values that nobody changes any more."""
        if now < self._report_due:
            return
        self._report_due = now + REPORT_EVERY / 2
        self._report_number += 1
        me, links, newest = self.endpoint.identity, self.endpoint.facts(), self._reports.newest()
        apart = skews((Report(me.node_id, me.role, self._report_number, links), *newest))
        own = together(facts(self._core, self._reports.ages(now), apart), links)
        report = Report(me.node_id, me.role, self._report_number, own)
        self._reported = (report, *newest)

    def _wish(self, wish: _Submitted | _Aborted) -> None:
        match wish:
            case _Submitted():
                self._listeners[wish.ticket] = wish.listener
                self._pending += self._core.submit(wish.ticket, wish.query)
            case _Aborted():
                self._listeners.pop(wish.ticket, None)
                self._core.abort(wish.ticket)

    def _hand_out(self) -> None:
        """All replies of a turn in one go: waking the other thread is what costs."""
        replies = [
            (self._listeners[ticket], reply)
            for ticket, reply in self._pending
            if ticket in self._listeners
        ]
        for ticket, _ in self._pending:
            if ticket not in self._core:
                self._listeners.pop(ticket, None)
        self._pending.clear()
        if replies:
            self._deliver(replies)

    def _refuse_wishes(self) -> None:
        failure = Failure(503, "the service is stopping", code="stopping")
        while not self._wishes.empty():
            try:
                wish = self._wishes.get_nowait()
            except queue.Empty:
                return
            if isinstance(wish, _Submitted):
                self._deliver([(wish.listener, failure)])
