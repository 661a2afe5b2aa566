"""A dialler and an answerer glued together, with every frame going through bytes."""

from itertools import count

from protocol.codec import Codec, Frame, Kind
from protocol.config import LinkConfig
from protocol.link import Answerer, Channel, Dialler, Event, Identity, LinkDown, Outgoing
from protocol.messages import (
    AnyMessage,
    Emit,
    Fingerprint,
    Heartbeat,
    Limits,
)

CONFIG = LinkConfig(beat=0.5, silence=3.0, window_frames=8, window_bytes=1 << 16)
VERIFIER = Identity("verifier", "verifier-0", Fingerprint("w", "t", 100))
DRAFTER = Identity("drafter", "drafter-0", limits=Limits(64, 8, 16), method="ngram")

Events = tuple[list[Event], list[Event]]
"""What happened on the dialling side, and on the answering side."""


class Pair:
    """Dials are 100, 101, ...; links are 500, 501, ... Time moves only by `tick`."""

    def __init__(
        self,
        config: LinkConfig = CONFIG,
        ours: Identity = VERIFIER,
        theirs: Identity = DRAFTER,
    ) -> None:
        self.now = 0.0
        self.codec = Codec(config)
        self.dialler = Dialler(config, ours, count(100).__next__, 0.0)
        self.answerer = Answerer(config, theirs, count(500).__next__)

    @classmethod
    def linked(cls, config: LinkConfig = CONFIG) -> "Pair":
        pair = cls(config)
        pair.tick()
        return pair

    @property
    def ours(self) -> Channel:
        assert self.dialler.channel is not None
        return self.dialler.channel

    @property
    def theirs(self) -> Channel:
        assert self.answerer.channel is not None
        return self.answerer.channel

    @property
    def links(self) -> tuple[int | None, int | None]:
        """The links that the two sides are on."""
        ours, theirs = self.dialler.channel, self.answerer.channel
        return ours.link if ours else None, theirs.link if theirs else None

    def tick(self, seconds: float = 0.0) -> Events:
        """Let time pass, then carry everything that is said until both are quiet."""
        self.now += seconds
        ours, hellos = self.dialler.tick(self.now, Heartbeat())
        theirs, beats = self.answerer.tick(self.now, Heartbeat())
        for outgoing in hellos:
            self._merge((ours, theirs), self.to_answerer(outgoing))
        for outgoing in beats:
            self._merge((ours, theirs), self.to_dialler(outgoing))
        return ours, theirs

    def to_answerer(self, outgoing: Outgoing) -> Events:
        """Deliver one frame of the dialling side, and what is answered."""
        events, answers = self.answerer.receive(self.frame(outgoing), self.now)
        happened: Events = ([], events)
        for answer in answers:
            self._merge(happened, self.to_dialler(answer))
        return happened

    def to_dialler(self, outgoing: Outgoing) -> Events:
        """Deliver one frame of the answering side, and what is answered."""
        events, answers = self.dialler.receive(self.frame(outgoing), self.now)
        happened: Events = (events, [])
        for answer in answers:
            self._merge(happened, self.to_answerer(answer))
        return happened

    def frame(self, out: Outgoing) -> Frame:
        """The frame as the other side reads it."""
        return self.codec.decode(
            self.codec.encode(out.kind, out.link, out.seq, out.ack, out.messages)
        )

    @staticmethod
    def _merge(into: Events, events: Events) -> None:
        into[0].extend(events[0])
        into[1].extend(events[1])


def word(text: str) -> AnyMessage:
    """Any data message; only its text matters."""
    return Emit(1, 0, (), text)


def data(channel: Channel, text: str, now: float = 0.0) -> Outgoing:
    """The next data frame of one side, said but not delivered."""
    outgoing = channel.stamp(Kind.DATA, (word(text),), now)
    channel.account(outgoing.seq, len(text))
    return outgoing


def down(events: list[Event]) -> list[tuple[int, str]]:
    """Which links ended, and why."""
    return [(each.link, each.reason) for each in events if isinstance(each, LinkDown)]
