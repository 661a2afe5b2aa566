"""What became of the newest prompts, as the front door saw it: when each piece of an answer came, what it held. Pure.

This needs no tracing: a waterfall over all processes does (`orchestrator.traces`).
"""

from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from orchestrator.front.messages import Failure, Query, Reply
from protocol.messages import Done, Emit
from protocol.spans import trace_number, traced

KEPT: Final = 16
"""Prompts that are over and still shown."""
MOST_TOLD: Final = 24
"""Prompts that one event tells of, the newest ones."""
MOST_PIECES: Final = 256
"""Pieces of an answer that are told apart; those that follow are one with the last."""


@dataclass(slots=True)
class Visit:
    """One prompt and its answer. Times are seconds after `begun`; pieces are those of the first choice.

    A piece is (when it came, its tokens, how many of them were accepted drafts).
    """

    name: str
    begun: float
    prompt: int
    choices: int
    trace: str
    number: int = 0
    """Counts visits."""
    ticket: int = 0
    """What its verifier calls it."""
    version: int = 0
    pieces: list[tuple[float, int, int]] = field(default_factory=list)
    tokens: int = 0
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    cached: int = 0
    reason: str = ""
    seconds: float | None = None
    left: int = 0

    @property
    def over(self) -> bool:
        return self.seconds is not None

    def told(self, now: float) -> dict[str, Any]:
        """As the page reads it."""
        last = now - self.begun if self.seconds is None else self.seconds
        return {
            "number": self.number,
            "name": self.name,
            "age": round(now - self.begun, 3),
            "prompt": self.prompt,
            "cached": self.cached,
            "choices": self.choices,
            "tokens": self.tokens,
            "rounds": self.rounds,
            "drafted": self.drafted,
            "accepted": self.accepted,
            "reason": self.reason,
            "over": self.over,
            "seconds": round(last, 4),
            "pieces": [[round(came, 4), tokens, drafts] for came, tokens, drafts in self.pieces],
            "trace": self.trace,
        }


class Visits:
    """Those that run and the newest that are over. `version` grows with everything that happens."""

    def __init__(self, kept: int = KEPT) -> None:
        self.version = 0
        self._kept = kept
        self._visits: OrderedDict[int, Visit] = OrderedDict()  # in the order in which they began
        self._begun = 0

    def begin(self, query: Query, now: float) -> Visit:
        """A prompt leaves for the mesh."""
        trace = trace_number(traced(query.trace)) if query.trace else ""
        self._begun += 1
        visit = Visit(query.name, now, len(query.tokens), query.choices, trace, self._begun)
        visit.left = query.choices
        self._visits[visit.number] = visit
        self._changed(visit)
        return visit

    def hear(self, visit: Visit, reply: Reply, now: float) -> bool:
        """A reply came; whether that was the end."""
        if visit.over:
            return False
        seconds = now - visit.begun
        match reply:
            case Emit():
                visit.tokens += len(reply.tokens)
                if reply.choice == 0 and reply.tokens:
                    _add(visit.pieces, (seconds, len(reply.tokens), sum(reply.drafted)))
            case Done():
                said = reply.statistics
                visit.rounds += said.rounds
                visit.drafted += said.drafted
                visit.accepted += said.accepted
                visit.cached = said.cached_tokens
                visit.reason = reply.reason
                visit.left -= 1
            case Failure():
                visit.reason = reply.code or str(reply.status)
                visit.left = 0
        self._changed(visit)
        if visit.left <= 0:
            self._end(visit, seconds)
        return visit.over

    def leave(self, visit: Visit, now: float) -> bool:
        """Nobody waits for it any more; whether that is its end."""
        if visit.over:
            return False
        visit.reason = "client gone"
        self._changed(visit)
        self._end(visit, now - visit.begun)
        return True

    def since(self, version: int, now: float) -> list[dict[str, Any]]:
        """What is new after that version, and everything that runs: the oldest first."""
        newest = deque(self._news(version), maxlen=MOST_TOLD)
        return [visit.told(now) for visit in newest]

    def _news(self, version: int) -> Iterator[Visit]:
        for visit in self._visits.values():
            if visit.version > version or not visit.over:
                yield visit

    def _changed(self, visit: Visit) -> None:
        self.version += 1
        visit.version = self.version

    def _end(self, visit: Visit, seconds: float) -> None:
        visit.seconds = seconds
        over = [number for number, each in self._visits.items() if each.over]
        for number in over[: max(0, len(over) - self._kept)]:
            del self._visits[number]


def _add(pieces: list[tuple[float, int, int]], piece: tuple[float, int, int]) -> None:
    if len(pieces) < MOST_PIECES:
        pieces.append(piece)
        return
    _, tokens, drafts = pieces[-1]
    pieces[-1] = (piece[0], tokens + piece[1], drafts + piece[2])
