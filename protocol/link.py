"""One peer, one link: sequence numbers, acknowledgements, window, liveness. Sans-IO.

`Channel` is the part that both sides share once a link exists. `Dialler` draws dials and says `Hello` until it is
answered; `Answerer` draws links and answers. Any loss ends the link; a new one starts clean, so what lies above never
sees a gap, a duplicate or a frame of another life. Rules: `docs/protocol.md`.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from protocol.codec import Frame, Kind
from protocol.config import LinkConfig
from protocol.messages import (
    PROTOCOL_VERSION,
    AnyMessage,
    Fingerprint,
    Heartbeat,
    Hello,
    Limits,
    Refuse,
    Welcome,
    Window,
)
from protocol.roundtrip import RoundTrip

BEATS_UNASKED: Final = 4
"""A link that is never quiet says a heartbeat once in so many beats: it carries the state, the load and the time."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What a node says of itself when a link begins."""

    role: str
    node_id: str
    fingerprint: Fingerprint = Fingerprint()
    limits: Limits = Limits()
    method: str = ""
    needs: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    adapters: tuple[str, ...] = ()
    device: str = ""
    """What it computes on; empty: nothing is computed there."""


@dataclass(frozen=True, slots=True)
class LinkUp:
    """A link began. `link` is the peer's name from now on; limits, method and needs are those of an answering peer."""

    link: int
    role: str
    node_id: str
    limits: Limits = Limits()
    method: str = ""
    fingerprint: Fingerprint = Fingerprint()
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LinkDown:
    """The link is over; everything that belonged to it is void."""

    link: int
    reason: str


@dataclass(frozen=True, slots=True)
class Received:
    """Messages in the order in which the peer said them."""

    link: int
    messages: tuple[AnyMessage, ...]


@dataclass(frozen=True, slots=True)
class Rejected:
    """The answering side will not have this dialler: both values are in the text."""

    text: str


Event = LinkUp | LinkDown | Received | Rejected


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A frame to be sent: stamped by the link, not yet encoded."""

    kind: Kind
    link: int
    seq: int
    ack: int
    messages: tuple[AnyMessage, ...]


class Reading(Enum):
    """What a frame of the live link turned out to be."""

    NEXT = auto()
    OLD = auto()
    HOLE = auto()


class Channel:
    """The sequenced part of a live link, the same on both sides."""

    __slots__ = (
        "acked",
        "heard_at",
        "link",
        "read",
        "said_at",
        "said_state",
        "sent",
        "sizes",
        "trip",
        "unacked_bytes",
        "unsaid_bytes",
        "unsaid_frames",
        "window",
    )

    def __init__(self, link: int, window: Window, now: float) -> None:
        self.link = link
        self.window = window
        self.sent = 0
        self.read = 0
        self.acked = 0
        self.sizes: deque[tuple[int, int]] = (
            deque()
        )  # (link_seq, bytes) of unacknowledged data frames
        self.unacked_bytes = 0
        self.unsaid_frames = 0  # data frames read, and not acknowledged yet
        self.unsaid_bytes = 0  # their bytes
        self.heard_at = now
        self.said_at = now
        self.said_state = Heartbeat().state  # nothing else was heard of this side yet
        self.trip = RoundTrip(now)

    @property
    def writable(self) -> bool:
        """Whether the peer's window has room for one more data frame."""
        return len(self.sizes) < self.window.frames and self.unacked_bytes < self.window.bytes

    def stamp(self, kind: Kind, messages: tuple[AnyMessage, ...], now: float) -> Outgoing:
        """The next frame of this direction; the caller must send it or end the link."""
        self.sent += 1
        self.unsaid_frames = 0
        self.unsaid_bytes = 0
        self.said_at = now
        return Outgoing(kind, self.link, self.sent, self.read, messages)

    def account(self, seq: int, size: int) -> None:
        """A data frame of `size` bytes counts against the window until it is acknowledged."""
        self.sizes.append((seq, size))
        self.unacked_bytes += size

    def take(self, frame: Frame, now: float) -> Reading:
        """Judge a frame that bears this link's number; only `NEXT` may be read, and only it is a sign of life."""
        if frame.seq <= self.read:
            return Reading.OLD
        if frame.seq != self.read + 1 or frame.ack > self.sent:
            return Reading.HOLE
        self.read = frame.seq
        if frame.kind is Kind.DATA:  # acknowledging beats would answer beats with beats without end
            self.unsaid_frames += 1
            self.unsaid_bytes += frame.size
        self.heard_at = now
        self.acked = max(self.acked, frame.ack)
        while self.sizes and self.sizes[0][0] <= self.acked:
            self.unacked_bytes -= self.sizes.popleft()[1]
        match frame.messages:
            case (Heartbeat() as heartbeat,):
                self.trip.heard(heartbeat, now)
        return Reading.NEXT

    def beat_due(self, config: LinkConfig, now: float) -> bool:
        """Nothing was said for a beat, no heartbeat for several, or the peer waits for acknowledgements."""
        return (
            now >= self.said_at + config.beat
            or now >= self.trip.said_at + BEATS_UNASKED * config.beat
            or 2 * self.unsaid_frames >= config.window_frames
            or 2 * self.unsaid_bytes >= config.window_bytes
        )

    def silent(self, config: LinkConfig, now: float) -> bool:
        return now > self.heard_at + config.silence

    def deadline(self, config: LinkConfig) -> float:
        return min(self.said_at + config.beat, self.heard_at + config.silence)


class Dialler:
    """The side that begins links: the verifier towards drafters, the front door towards verifiers."""

    def __init__(
        self, config: LinkConfig, identity: Identity, draw: Callable[[], int], now: float
    ) -> None:
        self._config = config
        self._identity = identity
        self._draw = draw
        self._hello_at = now
        self.dial = draw()
        self.channel: Channel | None = None

    def receive(self, frame: Frame, now: float) -> tuple[list[Event], list[Outgoing]]:
        """Events of one frame, and what must be said at once."""
        match frame.kind:
            case Kind.WELCOME:
                return self._welcome(frame, now), []
            case Kind.REFUSE:
                return self._refused(frame, now), []
            case Kind.BEAT | Kind.DATA if self.channel and frame.link == self.channel.link:
                reading = self.channel.take(frame, now)
                if reading is Reading.HOLE:
                    return self._redial("gap", now), []
                if reading is Reading.NEXT:
                    return [Received(frame.link, frame.messages)], []
        return [], []

    def _welcome(self, frame: Frame, now: float) -> list[Event]:
        match frame.messages:
            case (Welcome() as welcome,) if welcome.dial == self.dial and self.channel is None:
                self.channel = Channel(welcome.link, welcome.window, now)
                up = LinkUp(
                    link=welcome.link,
                    role=welcome.role,
                    node_id=welcome.node_id,
                    limits=welcome.limits,
                    method=welcome.method,
                    fingerprint=welcome.fingerprint,
                    needs=welcome.needs,
                )
                return [up]
        return []

    def _refused(self, frame: Frame, now: float) -> list[Event]:
        if _ends(frame, self.channel):
            return self._redial("refused", now)
        match frame.messages:
            case (Refuse(code="mismatch", text=text),) if self.channel is None:
                return [Rejected(text)]
        return []

    def _redial(self, reason: str, now: float) -> list[Event]:
        down: list[Event] = [LinkDown(self.channel.link, reason)] if self.channel else []
        self.channel = None
        self.dial = self._draw()
        self._hello_at = now
        return down

    def tick(self, now: float, heartbeat: Heartbeat) -> tuple[list[Event], list[Outgoing]]:
        """What time alone brings: the next hello or heartbeat, or the end of a silent link."""
        events: list[Event] = []
        if self.channel and self.channel.silent(self._config, now):
            events = self._redial("silence", now)
        if self.channel is None:
            return events, self._hello(now)
        return events, beat(self.channel, self._config, heartbeat, now)

    def _hello(self, now: float) -> list[Outgoing]:
        if now < self._hello_at:
            return []
        self._hello_at = now + self._config.beat
        hello = Hello(
            dial=self.dial,
            role=self._identity.role,
            node_id=self._identity.node_id,
            fingerprint=self._identity.fingerprint,
            adapters=self._identity.adapters,
            window=_window(self._config),
            features=self._identity.features,
        )
        return [Outgoing(Kind.HELLO, 0, 0, 0, (hello,))]

    def deadline(self) -> float:
        return self.channel.deadline(self._config) if self.channel else self._hello_at


class Answerer:
    """The side that is dialled: it draws a link for every dial it is not on."""

    def __init__(self, config: LinkConfig, identity: Identity, draw: Callable[[], int]) -> None:
        self._config = config
        self._identity = identity
        self._draw = draw
        self._dial: int | None = None
        self.channel: Channel | None = None

    def receive(self, frame: Frame, now: float) -> tuple[list[Event], list[Outgoing]]:
        """Events of one frame, and what must be said at once."""
        match frame.kind:
            case Kind.HELLO:
                return self._hello(frame, now)
            case Kind.BEAT | Kind.DATA:
                if self.channel is None or frame.link != self.channel.link:
                    return [], [no_link(frame.link)]
                reading = self.channel.take(frame, now)
                if reading is Reading.HOLE:
                    return self._drop("gap"), [no_link(frame.link)]
                if reading is Reading.NEXT:
                    return [Received(frame.link, frame.messages)], []
            case Kind.REFUSE if _ends(frame, self.channel):
                return self._drop("refused"), []
        return [], []

    def _hello(self, frame: Frame, now: float) -> tuple[list[Event], list[Outgoing]]:
        match frame.messages:
            case (Hello() as hello,):
                pass
            case _:
                return [], []
        if text := mismatch(hello, self._identity):
            return self._drop("mismatch"), [
                Outgoing(Kind.REFUSE, 0, 0, 0, (Refuse(code="mismatch", text=text),))
            ]
        events: list[Event] = []
        if self.channel is None or hello.dial != self._dial:
            events = self._drop("redialled")
            self._dial = hello.dial
            self.channel = Channel(self._draw(), hello.window, now)
            up = LinkUp(
                link=self.channel.link,
                role=hello.role,
                node_id=hello.node_id,
                fingerprint=hello.fingerprint,
            )
            events.append(up)
        return events, [self._welcome(hello.dial, self.channel.link)]

    def _welcome(self, dial: int, link: int) -> Outgoing:
        me = self._identity
        welcome = Welcome(
            dial=dial,
            link=link,
            role=me.role,
            node_id=me.node_id,
            window=_window(self._config),
            limits=me.limits,
            method=me.method,
            needs=me.needs,
            features=me.features,
            fingerprint=me.fingerprint,
        )
        return Outgoing(Kind.WELCOME, link, 0, 0, (welcome,))

    def _drop(self, reason: str) -> list[Event]:
        down: list[Event] = [LinkDown(self.channel.link, reason)] if self.channel else []
        self.channel = None
        self._dial = None
        return down

    def tick(self, now: float, heartbeat: Heartbeat) -> tuple[list[Event], list[Outgoing]]:
        """What time alone brings: a heartbeat, or the end of a silent link."""
        if self.channel and self.channel.silent(self._config, now):
            return self._drop("silence"), []
        return [], beat(self.channel, self._config, heartbeat, now) if self.channel else []

    def deadline(self) -> float:
        return self.channel.deadline(self._config) if self.channel else float("inf")


def mismatch(hello: Hello, me: Identity) -> str:
    """Why these two cannot speak, with both values; empty when they can."""
    if not hello.protocol_min <= PROTOCOL_VERSION <= hello.protocol_max:
        return (
            f"protocol {hello.protocol_min} to {hello.protocol_max} dialled, "
            f"this side speaks {PROTOCOL_VERSION}"
        )
    theirs, ours = hello.fingerprint, me.fingerprint
    if ours.tokenizer and theirs.tokenizer and ours.tokenizer != theirs.tokenizer:
        return f"tokenizer {theirs.tokenizer} dialled, this side has {ours.tokenizer}"
    if hello.role != "verifier":
        return ""  # a tool that wants no guesses gives nothing for them
    for need in me.needs:
        if need not in hello.features:
            given = "; ".join(hello.features) or "no features"
            return f"{me.node_id} needs {need}; {hello.node_id} gives {given}"
    return ""


def _window(config: LinkConfig) -> Window:
    return Window(config.window_frames, config.window_bytes)


def _ends(frame: Frame, channel: Channel | None) -> bool:
    """Whether the other side says that this link is over."""
    match frame.messages:
        case (Refuse(code="link"),):
            return channel is not None and frame.link == channel.link
    return False


def no_link(link: int) -> Outgoing:
    """There is no such link, or none any more: the answer to a stray frame, and the last word of a node that leaves."""
    return Outgoing(Kind.REFUSE, link, 0, 0, (Refuse(code="link"),))


def beat(channel: Channel, config: LinkConfig, heartbeat: Heartbeat, now: float) -> list[Outgoing]:
    """The heartbeat of this link, if it is due or says something new."""
    if not channel.beat_due(config, now) and heartbeat.state == channel.said_state:
        return []
    channel.said_state = heartbeat.state
    return [channel.stamp(Kind.BEAT, (channel.trip.stamp(heartbeat, now),), now)]
