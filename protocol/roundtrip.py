"""How long it takes from one node's loop to another's and back, and how far apart their clocks are, told by the times
that heartbeats carry. Pure.

For the round trip each side only ever subtracts times of its own clock; what it hears of the other's is sent back as
it came. The clocks may count from anywhere: each node says in its reports what to add for the time of day.
"""

from collections import deque
from typing import Final, NamedTuple

from msgspec import structs

from protocol.messages import Heartbeat

SMOOTHING: Final = 0.25
RECENT: Final = 8
"""Answers whose shortest is the way itself: what made the others longer was work at its ends."""
LONGEST: Final = 60.0
"""Seconds: whoever claims that a beat was longer under way is not believed."""
MICRO: Final = 1_000_000


class Ahead(NamedTuple):
    """How many seconds a peer's clock is ahead of ours; the truth is at most `doubt` away."""

    seconds: float
    doubt: float


class RoundTrip:
    """One link's; `seconds`, smoothed, is None until an answer came."""

    __slots__ = ("_echo", "_heard_at", "_recent", "said_at", "seconds")

    def __init__(self, now: float) -> None:
        self.seconds: float | None = None
        self.said_at = now
        self._echo = 0
        self._heard_at = now
        self._recent: deque[tuple[float, float]] = deque(maxlen=RECENT)  # seconds, peer's clock

    @property
    def shortest(self) -> float:
        """The shortest of the last few; 0 until an answer came."""
        return min(self._recent, default=(0.0, 0.0))[0]

    @property
    def ahead(self) -> Ahead | None:
        """By the shortest of the last few, which leaves least doubt: either way of it takes some time, and both no more
        than the whole.
        """
        if not self._recent:
            return None
        seconds, ahead = min(self._recent)
        return Ahead(ahead, seconds / 2)

    def stamp(self, heartbeat: Heartbeat, now: float) -> Heartbeat:
        """The heartbeat as it is said now."""
        self.said_at = now
        held = int((now - self._heard_at) * MICRO) if self._echo else 0
        return structs.replace(heartbeat, sent=int(now * MICRO), echo=self._echo, held=max(0, held))

    def heard(self, heartbeat: Heartbeat, now: float) -> None:
        """The peer's heartbeat came."""
        self._echo = heartbeat.sent
        self._heard_at = now
        if not heartbeat.echo:
            return
        seconds = now - (heartbeat.echo + heartbeat.held) / MICRO
        if not -LONGEST <= seconds <= LONGEST:
            return
        seconds = max(0.0, seconds)  # what was rounded may fall below
        self._recent.append((seconds, heartbeat.sent / MICRO + seconds / 2 - now))
        if self.seconds is None:
            self.seconds = seconds
        else:
            self.seconds += SMOOTHING * (seconds - self.seconds)
