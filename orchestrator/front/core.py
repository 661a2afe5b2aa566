"""The front door as a pure state machine: events of links and wishes of clients in, replies and messages out.

`handle`, `submit` and `abort` return what clients must hear; `outbox` says what a verifier must be told now.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from orchestrator.front.config import FrontConfig
from orchestrator.front.messages import Failure, Query, Reply, Status
from orchestrator.front.seats import Seat, choose, prefixes
from protocol.link import Event, LinkDown, LinkUp, Received, Rejected
from protocol.messages import Abort, AnyMessage, Done, Emit, Heartbeat, Refuse, Report
from protocol.outbox import Outbox

STATUS: Final[Mapping[str, int]] = {
    "invalid": 400,
    "context": 400,
    "full": 429,
    "draining": 503,
}
"""HTTP statuses of a verifier's refusals; any other code is 503."""

ELSEWHERE: Final = frozenset({"full", "draining", "unchecked"})
"""Refusals that another verifier need not share."""

PARAMS: Final[Mapping[str, str]] = {"tokens": "prompt", "adapter": "model"}
"""Fields of `Submit` that clients know by another name."""


class Delivery(NamedTuple):
    """A reply for whoever holds the ticket."""

    ticket: int
    reply: Reply


@dataclass(slots=True)
class _Visit:
    """A query on its way: where it is and was, which choices are open, who heard a word of it."""

    query: Query
    prefixes: list[int]
    open: set[int]
    heard: bool = False  # the client, of an answer
    said: bool = False  # the verifier, of the query
    seat: Seat | None = None
    tried: set[int] = field(default_factory=set)


class FrontCore:
    """All queries in flight. Tickets are numbers that the caller never uses twice."""

    def __init__(self, config: FrontConfig) -> None:
        self._config = config
        self._seats: dict[int, Seat] = {}
        self._visits: dict[int, _Visit] = {}
        self._outbox: Outbox[tuple[int, _Visit]] = Outbox()
        self.counters: Counter[str] = Counter()
        self.draining = False

    @property
    def idle(self) -> bool:
        """No query is in flight and every verifier was told so."""
        return not self._visits and not self.links_with_news

    def __contains__(self, ticket: int) -> bool:
        """Whether this query is still in flight."""
        return ticket in self._visits

    def status(self) -> Status:
        seats = list(self._seats.values())
        contexts = [seat.limits.context for seat in seats if seat.limits.context]
        return Status(
            alive=True,
            ready=any(not seat.draining for seat in seats) and not self.draining,
            draining=self.draining,
            verifiers=len(seats),
            in_flight=len(self._visits),
            context=min(contexts, default=0),
            vocabulary=min((seat.fingerprint.vocabulary for seat in seats), default=0),
            draft_length=max((seat.limits.max_ahead for seat in seats), default=0),
            members=tuple(seat.member for seat in seats),
        )

    # --- clients ------------------------------------------------------------------------------------

    def submit(self, ticket: int, query: Query) -> list[Delivery]:
        """Send a query to a verifier, or say at once why not."""
        if self.draining:
            return [Delivery(ticket, Failure(503, "the service is draining", code="draining"))]
        if len(self._visits) >= self._config.max_requests:
            text = f"{len(self._visits)} prompts are in flight, which is the limit"
            return [Delivery(ticket, Failure(429, text, code="overloaded"))]
        visit = _Visit(
            query, prefixes(query.tokens, self._config.prefix_page), set(range(query.choices))
        )
        self._visits[ticket] = visit
        if self._seat(ticket, visit):
            return []
        return self._fail(ticket, Failure(503, "no verifier is there", code="no_verifier"))

    def abort(self, ticket: int, reason: str = "client gone") -> None:
        """Nobody waits for this query any more. Idempotent."""
        visit = self._forget(ticket)
        if visit is None or visit.seat is None:
            return
        if visit.said:
            self._outbox.note(visit.seat.link, Abort(ticket, reason))
        else:
            self._outbox.forget(visit.seat.link, ticket)

    def fail_all(self, failure: Failure) -> list[Delivery]:
        """The end of everything in flight."""
        return [
            delivery for ticket in list(self._visits) for delivery in self._fail(ticket, failure)
        ]

    def _seat(self, ticket: int, visit: _Visit) -> bool:
        untried = [seat for link, seat in self._seats.items() if link not in visit.tried]
        seat = choose(untried, visit.prefixes, self._config.prefix_slack)
        if seat is None:
            return False
        visit.seat = seat
        visit.tried.add(seat.link)
        seat.choices += visit.query.choices
        seat.taken += 1
        seat.remember(visit.prefixes, self._config.prefix_memory)
        visit.said = False
        self._outbox.news(seat.link, ticket, (ticket, visit))
        return True

    def _leave(self, visit: _Visit, choices: int) -> None:
        if visit.seat is not None:
            visit.seat.choices -= choices

    def _forget(self, ticket: int) -> _Visit | None:
        visit = self._visits.pop(ticket, None)
        if visit is not None:
            self._leave(visit, len(visit.open))
        return visit

    def _fail(self, ticket: int, failure: Failure) -> list[Delivery]:
        self._forget(ticket)
        self.counters[f"failed_{failure.status}"] += 1
        return [Delivery(ticket, failure)]

    # --- verifiers ----------------------------------------------------------------------------------

    def handle(self, event: Event) -> list[Delivery]:
        """Take one event of a link; never raises for what a peer did."""
        match event:
            case LinkUp(role="verifier"):
                self._seats[event.link] = Seat(
                    event.link, event.node_id, event.limits, event.fingerprint
                )
            case LinkDown():
                return self._link_down(event.link)
            case Received() if event.link in self._seats:
                seat = self._seats[event.link]
                return [each for said in event.messages for each in self._message(seat, said)]
            case Rejected():
                self.counters["links_rejected"] += 1
            case _:
                self.counters["events_unexpected"] += 1
        return []

    def _link_down(self, link: int) -> list[Delivery]:
        self._seats.pop(link, None)
        self._outbox.drop(link)
        lost = [
            (ticket, visit)
            for ticket, visit in self._visits.items()
            if visit.seat and visit.seat.link == link
        ]
        failure = Failure(503, "the verifier of this request was lost", code="verifier_lost")
        return [
            delivery
            for ticket, visit in lost
            if visit.heard or not self._seat(ticket, visit)
            for delivery in self._fail(ticket, failure)
        ]

    def _message(self, seat: Seat, message: AnyMessage) -> list[Delivery]:
        match message:
            case Refuse(request=int(ticket)) | Emit(request=ticket) | Done(request=ticket):
                visit = self._visits.get(ticket)
                if visit is None or visit.seat is not seat:
                    self.counters["replies_unknown"] += 1  # it was aborted, or refused before
                    return []
                return self._reply(ticket, visit, message)
            case Heartbeat():
                seat.draining = message.state == "draining"
            case Report():
                pass  # `Reports` listens too
            case _:
                self.counters["messages_unexpected"] += 1
        return []

    def _reply(self, ticket: int, visit: _Visit, message: Emit | Done | Refuse) -> list[Delivery]:
        if isinstance(message, Refuse):
            return self._refused(ticket, visit, message)
        if message.choice not in visit.open:
            self.counters["replies_unknown"] += 1
            return []
        visit.heard = True
        if isinstance(message, Done):
            visit.open.remove(message.choice)
            self._leave(visit, 1)
            if not visit.open:
                self._forget(ticket)
        return [Delivery(ticket, message)]

    def _refused(self, ticket: int, visit: _Visit, refuse: Refuse) -> list[Delivery]:
        self.counters[f"refused_{refuse.code[:32]}"] += 1
        if refuse.code == "draining" and visit.seat is not None:
            visit.seat.draining = True
        self._leave(visit, len(visit.open))
        visit.seat = None
        if refuse.code in ELSEWHERE and self._seat(ticket, visit):
            return []
        param = PARAMS.get(refuse.field, refuse.field) or None
        status = STATUS.get(refuse.code, 503)
        return self._fail(ticket, Failure(status, refuse.text, param, refuse.code))

    # --- what verifiers are told --------------------------------------------------------------------

    @property
    def links_with_news(self) -> list[int]:
        """Links that must be told something."""
        return self._outbox.links

    def outbox(self, link: int) -> list[AnyMessage]:
        """What this verifier must be told now, as much of it as fits a frame; the caller says it, or the link ends."""
        return self._outbox.take(link, _words)

    def heartbeat(self) -> Heartbeat:
        return Heartbeat("draining" if self.draining else "ready", len(self._visits))


def _words(waiting: tuple[int, _Visit]) -> Iterable[AnyMessage]:
    ticket, visit = waiting
    visit.said = True
    yield visit.query.submit(ticket)
