"""A drafter and a verifier in one process, an honest peer on each, and a stranger who has a link and says anything.

What the stranger says is made of the recorded frames of every message: fields become other values, bytes are spoiled,
the number of the frame is right, old or from the future. Nothing of it may raise, grow, or reach the honest peer.
"""

import random
from itertools import count
from typing import Any, Final

import msgspec

from drafter.config import DrafterConfig
from drafter.core import DrafterCore
from engine.pages import PagePool
from protocol.codec import Codec, Kind
from protocol.config import LinkConfig
from protocol.endpoint import Endpoint
from protocol.errors import PeerError
from protocol.link import Identity, LinkUp
from protocol.local_mesh import LocalNetwork
from protocol.loop import say
from protocol.mesh import Frames
from protocol.messages import Limits
from protocol.tensor import Tensor
from tests.drafter.test_record import OneByOne
from tests.protocol.golden import MESSAGES
from tests.verifier.rig import END, VOCABULARY, Letters, judge, submit
from verifier.admission import Admission
from verifier.config import PlannerConfig, SchedulerConfig, VerifierConfig
from verifier.core import VerifierCore
from verifier.planners import PLANNERS

LINK: Final = LinkConfig(frame_bytes=1 << 16, tensor_bytes=1 << 16)
EDGES: Final = (0, 1, 2, 3, 7, 98, 99, 100, 2**31 - 1, 2**31, 2**63, 2**64 - 1, -1)
WORDS: Final = ("", "link", "full", "draining", "ready", "x" * 5000, "a", "\x00")
STEP_EVERY: Final = 16
NEWS_EVERY: Final = 512
"""Inputs between two requests of the honest peer."""
FLAT: Final = 16 << 20
"""Bytes that a process may grow by after the first tenth of many inputs."""


class Session:
    """`feed` makes and delivers one input. `read` counts those that were frames, `honest` what honest peers got."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.now = 0.0
        self.read = 0
        self.inputs = 0
        self.honest = 0
        numbers = count(1)
        self._codec = Codec(LINK)
        network = LocalNetwork(lambda: self.now)
        self._asked = count(1)

        def endpoint(address: str, role: str) -> Endpoint:
            identity = Identity(role, address, limits=Limits(64, 8, 8))
            return Endpoint(network.mesh(address), LINK, identity, lambda: next(numbers))

        self.drafter = DrafterCore(DrafterConfig(method="suffix", max_requests=8), OneByOne())
        planner = PlannerConfig(draft_length=3, patience=0.0)
        scheduler = SchedulerConfig(max_running=4, max_waiting=8)
        config = VerifierConfig(model="unused", planner=planner, scheduler=scheduler)
        self.verifier = VerifierCore(
            config,
            Admission(40, VOCABULARY, frozenset({END}), "match"),
            PagePool(64, 4),
            PLANNERS["fixed"](planner),
            Letters,
        )
        self._drafter = endpoint("drafter", "drafter")
        self._verifier = endpoint("verifier", "verifier")
        self._client = endpoint("client", "front")  # honest, and so is the verifier to the drafter
        self._strangers = {
            "drafter": endpoint("as verifier", "verifier"),
            "verifier": endpoint("as front", "front"),
            "dialled": endpoint("as drafter", "drafter"),
        }
        self._client.dial("verifier", 0.0)
        self._verifier.dial("drafter", 0.0)
        self._verifier.dial("as drafter", 0.0)
        self._strangers["drafter"].dial("drafter", 0.0)
        self._strangers["verifier"].dial("verifier", 0.0)
        self._wires = [
            bytes(msgspec.msgpack.encode((each,)))
            for each in MESSAGES.values()
            if not _tensors(each)
        ]
        for _ in range(6):
            self.turn()

    # --- nodes ------------------------------------------------------------------------------------

    def turn(self) -> None:
        """Everybody reads, works and says."""
        self.now += 0.01
        for event in self._drafter.drain(self.now):
            self.drafter.handle(event, self.now)
        if wants := self.drafter.plan():
            self.drafter.settle(wants, OneByOne().propose(wants), self.now, self.now)
        say(self.drafter, self._drafter, self.now)
        for event in self._verifier.drain(self.now):
            self.verifier.handle(event, self.now)
        for grammar in self.verifier.fronts.grammars:
            self.verifier.compiled(grammar, "not here", self.now)
        self.verifier.fronts.grammars.clear()
        if (step := self.verifier.plan(self.now)) is not None:
            verdicts = [judge(work) for work in step.rows]
            self.verifier.settle(step, verdicts, self.now, self.now + 0.01)
        say(self.verifier, self._verifier, self.now)
        for stranger in self._strangers.values():
            stranger.drain(self.now)
        for event in self._client.drain(self.now):
            if not isinstance(event, LinkUp):
                self.honest += sum(
                    type(each).__name__ == "Done" and each.reason == "length"
                    for each in getattr(event, "messages", ())
                )

    def ask(self) -> None:
        """The honest client wants something, too."""
        for link in self._client.links:
            self._client.send(link, [submit(next(self._asked), (5, 6, 7), max_tokens=4)], self.now)

    # --- the stranger -----------------------------------------------------------------------------

    def feed(self) -> None:
        """One input to one of the nodes."""
        self.inputs += 1
        victim = self.rng.choice(list(self._strangers))
        stranger = self._strangers[victim]
        frames = self.frames(stranger)
        peer = "verifier" if victim == "dialled" else victim
        stranger.mesh.send(peer, frames)
        if self.inputs % STEP_EVERY == 0:
            self.turn()
        if self.inputs % NEWS_EVERY == 0:
            self.ask()

    def frames(self, stranger: Endpoint) -> Frames:
        """Numbered as the link wants it, mostly, if there is a link and the frame can be read at all."""
        rng = self.rng
        payload = self._payload()
        links = stranger.links
        lane = stranger._links[links[0]] if links else None
        channel = lane.side.channel if lane else None
        link = channel.link if channel else rng.getrandbits(64)
        seq = channel.sent + 1 if channel else rng.choice(EDGES[:-1])
        seq = rng.choice(EDGES[:-1]) if rng.random() < 0.002 else seq
        kind = (
            rng.choice((*Kind, Kind.DATA, Kind.DATA, Kind.DATA))
            if rng.random() < 0.05
            else Kind.DATA
        )
        head = bytes(self._codec.encode(kind, link, seq, channel.read if channel else 0, ())[0])
        whole: list[bytes] = [head, payload]
        if rng.random() < 0.1:
            whole = [self._spoiled(each) if rng.random() < 0.5 else each for each in whole]
        if rng.random() < 0.05:
            whole += [rng.randbytes(rng.choice((0, 3, 64)))] * rng.choice((1, 2))
        try:
            frame = self._codec.decode(whole)
        except PeerError:
            return whole
        self.read += 1
        if (
            channel
            and frame.link == channel.link
            and frame.seq == channel.sent + 1
            and frame.kind in {Kind.BEAT, Kind.DATA}
        ):
            channel.sent += 1
        return whole

    def _payload(self) -> bytes:
        rng = self.rng
        if rng.random() < 0.05:
            return rng.randbytes(rng.randint(0, 60))
        said: Any = msgspec.msgpack.decode(rng.choice(self._wires))
        for _ in range(rng.choice((0, 1, 1, 2, 4))):
            said = self._other(said)
        return msgspec.msgpack.encode(said)

    def _other(self, value: Any, depth: int = 0) -> Any:  # noqa: ANN401, PLR0911
        """The same with one value changed somewhere inside."""
        rng = self.rng
        match value:
            case [*items] if items and rng.random() < 0.9:
                place = rng.randrange(len(items))
                changed = self._other(items[place], depth + 1)
                return [*items[:place], changed, *items[place + 1 :]]
            case bool():
                return rng.choice((not value, None, 2))
            case int():
                return rng.choice((*EDGES, min(value + 1, 2**64 - 1), rng.randrange(12), None, 1.5))
            case float():
                return rng.choice((0.0, -1.0, 1e300, float("nan"), float("inf"), "x"))
            case str() if depth > 1:
                return rng.choice((*WORDS, 3))
            case [*items]:
                return rng.choice(([], items * 2, items[:1], [rng.choice(EDGES)] * 9, None))
        return value

    def _spoiled(self, part: bytes) -> bytes:
        place = self.rng.randrange(len(part) + 1)
        return (
            part[:place]
            + self.rng.randbytes(self.rng.randint(0, 2))
            + part[place + self.rng.randint(0, 2) :]
        )

    # --- what must hold -----------------------------------------------------------------------------

    def wrong(self) -> list[str]:
        """What does not hold; empty."""
        held, share = self.held(), self.read / self.inputs
        found = [
            f"{held[name]} {name}, at most {most}"
            for name, most in {"mirrors": 8, "choices": 12, "lanes": 6, "counters": 39}.items()
            if held[name] > most
        ]
        if held["lanes"] < 6:
            found.append(f"{held['lanes']} lanes of 6")
        if not 0.2 < share < 0.9:
            found.append(f"{share:.2f} of the inputs were frames: noise alone, or manners")
        if self.honest < (due := self.inputs // NEWS_EVERY - 2):
            found.append(f"{self.honest} answers to honest clients, {due} were due")
        return found

    def held(self) -> dict[str, int]:
        """Sizes that must not grow with the number of inputs."""
        return {
            "mirrors": len(self.drafter),
            "choices": len(self.verifier._generations),
            "pages": self.verifier.scheduler.pool.pages - self.verifier.scheduler.pool.free,
            "lanes": len(self._drafter._lanes) + len(self._verifier._lanes),
            "counters": len(self._drafter.counters)
            + len(self.verifier.counters)
            + len(self.drafter.counters),
        }


def _tensors(message: Any) -> bool:  # noqa: ANN401
    """Whether a tensor is in it or in one of its parts: those travel in frames of their own."""
    fields = [getattr(message, name) for name in message.__struct_fields__]
    return any(
        isinstance(each, Tensor) or (isinstance(each, msgspec.Struct) and _tensors(each))
        for each in fields
    )
