"""The links of one node over its mesh: frames in, events out; messages in, frames out.

This is the only thing a node's loop speaks to. It holds no clock and draws no numbers: both are arguments.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from protocol.codec import Codec, Kind
from protocol.config import LinkConfig
from protocol.errors import PeerError
from protocol.facts import level, named, one, under
from protocol.link import (
    Answerer,
    Dialler,
    Event,
    Identity,
    LinkDown,
    LinkUp,
    Outgoing,
    beat,
    no_link,
)
from protocol.mesh import Frames, Mesh, Peer
from protocol.messages import AnyMessage, Facts, Heartbeat


@dataclass(slots=True)
class _Lane:
    """One peer of the transport and the link with it; `held` is a stamped frame that the transport did not take yet."""

    peer: Peer
    side: Dialler | Answerer
    held: Frames | None = None
    node_id: str = ""


class Endpoint:
    """All links of a node. `draw` returns unpredictable 64-bit numbers (dials and links).

    `day` tells what to add to the node's clock for the time of day; without it nobody learns how that clock goes.
    """

    def __init__(
        self,
        mesh: Mesh,
        config: LinkConfig,
        identity: Identity,
        draw: Callable[[], int],
        day: Callable[[], float] | None = None,
    ) -> None:
        self.mesh = mesh
        self.identity = identity
        self.heartbeat = Heartbeat()
        self.counters: Counter[str] = Counter()
        self._config = config
        self._draw = draw
        self._day = day
        self._codec = Codec(config)
        self._lanes: dict[Peer, _Lane] = {}
        self._links: dict[int, _Lane] = {}

    def dial(self, address: str, now: float) -> Peer:
        """Keep a link with the node at `address` from now on."""
        peer = self.mesh.connect(address)
        if peer not in self._lanes:
            self._lanes[peer] = _Lane(peer, Dialler(self._config, self.identity, self._draw, now))
        return peer

    def hang_up(self, peer: Peer) -> list[Event]:
        """Forget a dialled peer, and tell it that the link is over."""
        lane = self._lanes.pop(peer, None)
        self._part(lane)
        self.mesh.disconnect(peer)
        if lane is None or lane.side.channel is None:
            return []
        return self._note([LinkDown(lane.side.channel.link, "hung up")], lane)

    def _part(self, lane: _Lane | None) -> None:
        """A word that may get lost: who does not hear it notices the silence."""
        if lane is not None and lane.side.channel is not None:
            self._post(lane, [no_link(lane.side.channel.link)])

    def drain(self, now: float) -> list[Event]:
        """Everything that arrived, then what time brings. Silence is judged only after all that is here was read."""
        events: list[Event] = []
        for peer, frames in self.mesh.drain():
            events += self._receive(peer, frames, now)
        for lane in list(self._lanes.values()):
            self._flush(lane)
            news, outgoing = lane.side.tick(now, self.heartbeat)
            if news:
                events += self._note(news, lane)
            if outgoing:
                self._post(lane, outgoing)
            if isinstance(lane.side, Answerer) and lane.side.channel is None:
                del self._lanes[lane.peer]
        return events

    def beat(self, now: float) -> None:
        """Say what heartbeats are due, read nothing and judge nobody: for a node in the middle of long work.

        Peers take a node for dead that says nothing for `silence` seconds, and one step of a target may last that
        long where others want the same processors.
        """
        for lane in self._links.values():
            self._flush(lane)
            if lane.side.channel is not None:
                self._post(lane, beat(lane.side.channel, self._config, self.heartbeat, now))

    def _receive(self, peer: Peer, frames: Frames, now: float) -> list[Event]:
        try:
            frame = self._codec.decode(frames)
        except PeerError:
            self.counters["frames_unreadable"] += 1
            return []
        lane = self._lanes.get(peer)
        if lane is None:
            lane = _Lane(peer, Answerer(self._config, self.identity, self._draw))
            if frame.kind is Kind.HELLO:
                self._lanes[peer] = lane
        events, outgoing = lane.side.receive(frame, now)
        if not events and frame.kind in {Kind.BEAT, Kind.DATA}:
            self.counters["frames_dropped"] += 1
        self._note(events, lane)  # first: what an ended link held must not stand in the way
        self._post(lane, outgoing)
        return events

    def _note(self, events: list[Event], lane: _Lane) -> list[Event]:
        for event in events:
            if isinstance(event, LinkUp):
                self._links[event.link] = lane
                lane.node_id = event.node_id
                self.counters["links_up"] += 1
            elif isinstance(event, LinkDown):
                self._links.pop(event.link, None)
                lane.held = None
                self.counters[f"links_down_{event.reason}"] += 1
        return events

    def writable(self, link: int) -> bool:
        """Whether `send` would take a frame for this link now."""
        lane = self._links.get(link)
        return (
            lane is not None
            and lane.held is None
            and lane.side.channel is not None
            and lane.side.channel.writable
        )

    def send(self, link: int, messages: Sequence[AnyMessage], now: float) -> bool:
        """Say `messages` as one frame. True: they arrive in order, or the link ends. False: nothing happened."""
        if not messages or not self.writable(link):
            return False
        lane = self._links[link]
        channel = lane.side.channel
        assert channel is not None
        outgoing = channel.stamp(Kind.DATA, tuple(messages), now)
        self._post(lane, [outgoing])
        return True

    def _post(self, lane: _Lane, outgoing: Sequence[Outgoing]) -> None:
        for out in outgoing:
            frames = self._codec.encode(out.kind, out.link, out.seq, out.ack, out.messages)
            if out.kind is Kind.DATA and lane.side.channel is not None:
                lane.side.channel.account(out.seq, sum(map(len, frames[1:])))
            if lane.held is not None or not self.mesh.send(lane.peer, frames):
                self._hold(lane, out, frames)

    def _hold(self, lane: _Lane, out: Outgoing, frames: Frames) -> None:
        if out.kind in {Kind.BEAT, Kind.DATA}:
            if lane.held is None:
                lane.held = frames
            else:  # a beat behind a held frame: unsay it, the next one carries the same news
                assert lane.side.channel is not None
                lane.side.channel.sent -= 1
        self.counters["frames_held"] += 1

    def _flush(self, lane: _Lane) -> None:
        if lane.held is not None and self.mesh.send(lane.peer, lane.held):
            lane.held = None

    @property
    def links(self) -> Sequence[int]:
        """The numbers of all live links."""
        return tuple(self._links)

    def deadline(self) -> float:
        """When `drain` must be called next even if nothing arrives."""
        return min((lane.side.deadline() for lane in self._lanes.values()), default=float("inf"))

    @property
    def held(self) -> bool:
        """Whether a frame waits for the transport: try again soon."""
        return any(lane.held is not None for lane in self._lanes.values())

    def facts(self) -> Facts:
        """What happened to frames and links so far, how the links are, and what this node runs."""
        channels = [(lane.node_id, lane.side.channel) for lane in self._links.values()]
        trips = {
            node_id: channel.trip.seconds
            for node_id, channel in channels
            if channel is not None and channel.trip.seconds is not None
        }
        clocks = {
            node_id: ahead
            for node_id, channel in channels
            if channel is not None and (ahead := channel.trip.ahead) is not None
        }
        return Facts(
            counters={
                "frames": under("frames_", self.counters, ("unreadable", "dropped", "held")),
                "links_begun": one(self.counters["links_up"]),
                "links_ended": under("links_down_", self.counters),
            },
            gauges={
                "links": level(len(channels)),
                "round_trip_seconds": trips,
                "clock_ahead": {node_id: ahead.seconds for node_id, ahead in clocks.items()},
                "clock_doubt": {node_id: ahead.doubt for node_id, ahead in clocks.items()},
                "clock_day": {} if self._day is None else level(self._day()),
                "weights": named(self.identity.fingerprint.weights),
                "method": named(self.identity.method),
                "device": named(self.identity.device),
            },
        )

    def close(self) -> None:
        """Tell every peer that its link is over, and free the mesh."""
        for lane in self._lanes.values():
            self._part(lane)
        self.mesh.close()
