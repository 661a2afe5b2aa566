"""The drafters a verifier has links with, and which of them suits a request that has none. Pure.

What counts is what guesses may bring a request there: how many of them were accepted a round lately, shared with all
that the drafter does for this verifier and others, and with the way to it and back, measured in steps of the target.
Who is not known yet is tried by one request at a time: guesses are the only way to know.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from msgspec import msgpack, structs

from protocol.link import LinkUp
from protocol.messages import Heartbeat, Limits, Report
from protocol.roundtrip import RoundTrip

NEVER: Final = float("inf")
FIRST_WAIT: Final = 0.25
LONGEST_WAIT: Final = 30.0
PROBE_EVERY: Final = 32
"""A drafter that does not answer in time is waited for again once in so many rounds, to see whether that changed."""

GAINED: Final = 0.05
"""How much the newest round counts in what a drafter gains, and in what a step takes."""
KNOWN: Final = 16
"""Rounds after which it is known what a drafter gains; a refusal is one that brought nothing."""
FORGOTTEN: Final = 32
"""Requests that go past a drafter without any, after which it is not known any more: it may have changed."""
SHORT_STEP: Final = 0.001
"""Seconds: ways that are short beside it all are equal."""

REPORT_BYTES: Final = 4096
"""A report that is longer than any node of ours makes is not passed on."""


@dataclass(slots=True, eq=False)
class Drafter:
    """One live link. `bound` counts requests bound to it, `others` mirrors that it holds for other verifiers.

    `prompt` is how often it answers within the patience; `gain` how many of its guesses are accepted a round; `passed`
    how many requests went to others since one came here; `doubted`: one left it as too slow, and it said nothing since.
    """

    link: int
    node_id: str
    method: str
    limits: Limits
    draining: bool = False
    doubted: bool = False
    bound: int = 0
    others: int = 0
    gain: float = 0.0
    passed: int = 0
    trip: RoundTrip = field(default_factory=lambda: RoundTrip(0.0))
    prompt: float = 1.0
    needs: tuple[str, ...] = ()
    report: Report | None = None
    _rounds: int = 0  # that tell of its gain
    _skipped: int = 0

    def answered(self, *, in_time: bool) -> None:
        self.prompt += 0.1 * (in_time - self.prompt)

    def gained(self, accepted: int) -> None:
        """A round of a request that is bound to it had so many of its guesses accepted."""
        self._rounds += 1
        self.gain += max(GAINED, 1 / self._rounds) * (accepted - self.gain)

    def passed_over(self) -> None:
        """A request that it might have had went to another."""
        self.passed += 1
        if self.passed >= FORGOTTEN and not self.bound:
            self._rounds = 0

    @property
    def untried(self) -> bool:
        """Nobody knows what its guesses are worth, and nobody finds out."""
        return self._rounds < KNOWN and not self.bound

    @property
    def load(self) -> int:
        """Requests that it drafts for, as far as this verifier knows."""
        return self.bound + self.others

    def way(self, step: float) -> float:
        """How many times longer a round is there than a step of `step` seconds."""
        return 1 + self.trip.shortest / max(step, SHORT_STEP)

    def hope(self, step: float) -> float:
        """What guesses may bring one more request: nothing, as far as that is not known."""
        gain = self.gain if self._rounds >= KNOWN else 0.0
        return gain / ((1 + self.load) * self.way(step))

    @property
    def mostly_prompt(self) -> bool:
        """It answers in time more often than not."""
        return self.prompt >= 0.5

    def worth_waiting(self) -> bool:
        """Mostly prompt, or due for another look."""
        if self.mostly_prompt:
            return True
        self._skipped = (self._skipped + 1) % PROBE_EVERY
        return self._skipped == 0

    def takes_length(self, length: int) -> bool:
        """Whether prompt and output of `length` tokens leave room for a guess."""
        return not self.limits.context or length < self.limits.context

    def takes(self, length: int) -> bool:
        """Whether one more request, of `length` tokens, fits its limits."""
        full = self.limits.requests and self.bound >= self.limits.requests
        return not (self.draining or self.doubted or full) and self.takes_length(length)


@dataclass(slots=True)
class Waits:
    """When one request may bind to which link again."""

    until: dict[int, tuple[float, float]] = field(default_factory=dict)  # link: (time, wait)

    def refused(self, link: int, code: str, now: float) -> None:
        if code == "context":
            self.until[link] = (NEVER, NEVER)
            return
        _, before = self.until.get(link, (0.0, FIRST_WAIT / 2))
        wait = min(2 * before, LONGEST_WAIT)
        self.until[link] = (now + wait, wait)

    def over(self, link: int, now: float) -> bool:
        return now >= self.until.get(link, (0.0, 0.0))[0]

    def deadline(self, now: float) -> float:
        """When the next wait ends."""
        return min((time for time, _ in self.until.values() if time > now), default=NEVER)


def passed_on(report: Report, node_id: str, role: str) -> Report | None:
    """What others are told of it: as that of the node it came from, if it is no longer than it may be."""
    if len(msgpack.encode(report)) > REPORT_BYTES:
        return None
    return structs.replace(report, node_id=node_id, role=role)


class Roster:
    """All live drafters, in the order in which they came."""

    def __init__(self) -> None:
        self._drafters: dict[int, Drafter] = {}
        self._step = 0.0  # seconds of a step, lately

    def __len__(self) -> int:
        return len(self._drafters)

    def __contains__(self, link: int) -> bool:
        return link in self._drafters

    def __iter__(self) -> Iterator[Drafter]:
        return iter(self._drafters.values())

    def get(self, link: int) -> Drafter | None:
        return self._drafters.get(link)

    def add(self, up: LinkUp) -> None:
        self._drafters[up.link] = Drafter(up.link, up.node_id, up.method, up.limits, needs=up.needs)

    def remove(self, link: int) -> None:
        self._drafters.pop(link, None)

    def stepped(self, seconds: float) -> None:
        """A step of the target took so long."""
        self._step += GAINED * (seconds - self._step) if self._step else seconds

    def heard(self, link: int, message: Heartbeat | Report, now: float) -> None:
        """What a drafter says of itself; it cannot say it of others."""
        drafter = self._drafters.get(link)
        if drafter is None:
            return
        if isinstance(message, Heartbeat):
            drafter.draining = message.state == "draining"
            drafter.doubted = False
            drafter.others = max(0, message.load - drafter.bound)
            drafter.trip.heard(message, now)
        elif (report := passed_on(message, drafter.node_id, "drafter")) is not None:
            drafter.report = report

    def choose(self, length: int, waits: Waits, now: float) -> Drafter | None:
        """Who drafts for a request of `length` tokens: one that must be tried, else the one that it may hope most of.

        Of equals the least loaded, then the one whose turn is longest ago, the nearest, the oldest.
        """
        able = list(self.able(length, waits, now))
        untried = [each for each in able if each.untried]
        chosen = max(untried or able, key=self._rank, default=None)
        for each in able:
            if each is not chosen:
                each.passed_over()
        if chosen is not None:
            chosen.passed = 0
        return chosen

    def _rank(self, drafter: Drafter) -> tuple[float, int, int, float]:
        step = self._step
        return drafter.hope(step), -drafter.load, drafter.passed, -drafter.way(step)

    def able(self, length: int, waits: Waits, now: float) -> Iterator[Drafter]:
        """Who may take a request of `length` tokens now."""
        for drafter in self:
            if drafter.takes(length) and waits.over(drafter.link, now):
                yield drafter
