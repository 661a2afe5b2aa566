"""The drafters a verifier has links with, and which of them suits a request that has none. Pure.

What counts is what a request may hope for there: tokens a round as they were accepted lately, shared with all that the
drafter does for this verifier and others, and with the way to it and back, measured in steps of the target.
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
"""How much the newest round counts in what a drafter gains."""
FORGOTTEN: Final = 0.02
"""How much nearer to the best a gain is believed to be each time that another is chosen: it may have changed."""
SHORT_STEP: Final = 0.001
"""Seconds: ways that are short beside it all are equal."""

REPORT_BYTES: Final = 4096
"""A report that is longer than any drafter of ours makes is not passed on."""


@dataclass(slots=True, eq=False)
class Drafter:
    """One live link. `bound` counts requests bound to it, `others` mirrors that it holds for other verifiers.

    `prompt` is how often it answers within the patience; `gain` how many of its guesses are accepted a round, if known.
    """

    link: int
    node_id: str
    method: str
    limits: Limits
    draining: bool = False
    bound: int = 0
    others: int = 0
    gain: float | None = None
    trip: RoundTrip = field(default_factory=lambda: RoundTrip(0.0))
    prompt: float = 1.0
    needs: tuple[str, ...] = ()
    report: Report | None = None
    _skipped: int = 0

    def answered(self, *, in_time: bool) -> None:
        self.prompt += 0.1 * (in_time - self.prompt)

    def gained(self, accepted: int) -> None:
        """A round of a request that is bound to it had so many of its guesses accepted."""
        if self.gain is None:
            self.gain = float(accepted)
        self.gain += GAINED * (accepted - self.gain)

    def hope(self, best: float, step: float) -> float:
        """Tokens a round that one more request may hope for; a drafter that is not known yet is believed the `best`."""
        gain = best if self.gain is None else self.gain
        way = 1 + self.trip.shortest / max(step, SHORT_STEP)
        return (1 + gain) / ((1 + self.bound + self.others) * way)

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
        return not self.draining and not full and self.takes_length(length)


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
            drafter.others = max(0, message.load - drafter.bound)
            drafter.trip.heard(message, now)
        elif len(msgpack.encode(message)) <= REPORT_BYTES:
            drafter.report = structs.replace(message, node_id=drafter.node_id, role="drafter")

    def choose(self, length: int, waits: Waits, now: float) -> Drafter | None:
        """The drafter from which a request of `length` tokens may hope for most now; of equals, the oldest."""
        known = (each.gain for each in self if each.gain is not None)
        best = max(known, default=0.0)
        able = self.able(length, waits, now)
        chosen = max(able, key=lambda each: each.hope(best, self._step), default=None)
        if chosen is not None:
            for each in self:
                if each is not chosen and each.gain is not None:
                    each.gain += FORGOTTEN * (best - each.gain)
        return chosen

    def able(self, length: int, waits: Waits, now: float) -> Iterator[Drafter]:
        """Who may take a request of `length` tokens now."""
        for drafter in self:
            if drafter.takes(length) and waits.over(drafter.link, now):
                yield drafter
