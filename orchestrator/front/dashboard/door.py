"""The door of the mesh with somebody beside it who notes what becomes of prompts: for the page, and for the log."""

import logging
import time
from collections.abc import Callable

from orchestrator.front.dashboard.visits import Visit, Visits
from orchestrator.front.generation import Door
from orchestrator.front.messages import Query, Reply, Status
from protocol.logs import log_event

log = logging.getLogger("front.requests")


class WatchedDoor:
    """Keeps the contract of `orchestrator.front.generation.Door`."""

    def __init__(
        self, door: Door, visits: Visits, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._door = door
        self._visits = visits
        self._clock = clock
        self._open: dict[int, Visit] = {}  # by ticket

    def submit(self, query: Query, listener: Callable[[Reply], None]) -> int:
        visit = self._visits.begin(query, self._clock())

        def heard(reply: Reply) -> None:
            if self._visits.hear(visit, reply, self._clock()):
                self._ended(visit)
            listener(reply)

        visit.ticket = self._door.submit(query, heard)
        if not visit.over:
            self._open[visit.ticket] = visit
        return visit.ticket

    def abort(self, ticket: int) -> None:
        visit = self._open.get(ticket)
        if visit is not None and self._visits.leave(visit, self._clock()):
            self._ended(visit)
        self._door.abort(ticket)

    def status(self) -> Status:
        return self._door.status()

    def _ended(self, visit: Visit) -> None:
        self._open.pop(visit.ticket, None)
        log_event(
            log,
            "prompt over",
            request=visit.name,
            ticket=visit.ticket,
            reason=visit.reason,
            prompt=visit.prompt,
            tokens=visit.tokens,
            rounds=visit.rounds,
            drafted=visit.drafted,
            accepted=visit.accepted,
            seconds=round(visit.seconds or 0.0, 6),
            trace=visit.trace,
        )
