"""Attacks with a plan, each by somebody who has a link of its own; the drafter's other verifier feels none of them."""

from itertools import count
from typing import Final

import pytest

from drafter.config import DrafterConfig
from drafter.core import DrafterCore
from protocol.codec import Codec, Kind
from protocol.config import LinkConfig
from protocol.endpoint import Endpoint
from protocol.errors import PeerError
from protocol.link import Identity
from protocol.local_mesh import LocalNetwork
from protocol.loop import say
from protocol.messages import (
    AnyMessage,
    DraftClose,
    DraftContext,
    DraftSync,
    DraftTailStream,
    Refuse,
    VerifyCommit,
)
from protocol.tensor import Tensor
from tests.drafter.test_record import OneByOne

ABSURD: Final = (
    b"\x91\x95\xacDraftContext\x01\x01\x00\x93\x00\xa7float32\x92" + b"\xce\x7f\xff\xff\xff" * 2
)
"""A tensor of 2^62 numbers, in four bytes."""


class Siege:
    """A drafter, an honest verifier with one open mirror, and a foe with a link."""

    def __init__(self, **link: int) -> None:
        self.now = 0.0
        numbers = count(1)
        network = LocalNetwork(lambda: self.now, bound=20_000)
        self.config = LinkConfig(**link)

        def endpoint(address: str, role: str) -> Endpoint:
            identity = Identity(role, address)
            return Endpoint(network.mesh(address), self.config, identity, lambda: next(numbers))

        self.core = DrafterCore(DrafterConfig(method="suffix", max_requests=8), OneByOne())
        self.drafter = endpoint("drafter", "drafter")
        self.honest, self.foe = endpoint("honest", "verifier"), endpoint("foe", "verifier")
        self.honest.dial("drafter", 0.0)
        self.foe.dial("drafter", 0.0)
        self.turn()
        self.says(self.honest, DraftSync(1, 1, (1, 2), (), 2))
        self.known = 0

    def turn(self) -> list[AnyMessage]:
        """What the honest verifier hears."""
        heard: list[AnyMessage] = []
        for _ in range(4):
            for event in self.drafter.drain(self.now):
                self.core.handle(event, self.now)
            if wants := self.core.plan():
                self.core.settle(wants, OneByOne().propose(wants), self.now, self.now)
            say(self.core, self.drafter, self.now)
            self.foe.drain(self.now)
            for event in self.honest.drain(self.now):
                heard += getattr(event, "messages", ())
        return heard

    def says(self, who: Endpoint, *messages: AnyMessage) -> list[AnyMessage]:
        [link] = who.links
        assert who.send(link, messages, self.now)
        return self.turn()

    def unharmed(self) -> bool:
        """The honest verifier commits, and its drafter answers."""
        heard = self.says(self.honest, VerifyCommit(1, 1, self.known, (9,), 2))
        self.known += 1
        rows = [each for each in heard if isinstance(each, DraftTailStream)]
        return bool(rows) and rows[-1].base == self.known and len(self.honest.links) == 1


def test_ten_thousand_frames_for_unknown_requests() -> None:
    """Each is refused; what waits to be said to who does not listen is bounded by its window."""
    siege = Siege()
    for number in range(10_000):
        [link] = siege.foe.links
        assert siege.foe.send(link, [VerifyCommit(7 + number, 1, 0, (1,), 2)], siege.now)
        if number % 16 == 15:
            siege.turn()
    assert siege.core.counters["refused_unknown"] == 10_000
    assert len(siege.core) == 1
    assert siege.unharmed()


@pytest.mark.parametrize(
    "message",
    [
        VerifyCommit(1, 1, 0, (5, 5), 2),
        DraftClose(1, 1),
        DraftSync(1, 2, (3,), (), 2),
        DraftContext(1, 1, 0, Tensor("float32", (1, 1), bytes(4))),
    ],
)
def test_the_number_of_somebody_else_s_request_is_another_request(message: AnyMessage) -> None:
    """Mirrors are known by link and number."""
    siege = Siege()
    siege.says(siege.foe, message)
    assert siege.unharmed()


def test_a_frame_that_is_said_again_is_read_once() -> None:
    siege = Siege()
    [link] = siege.honest.links
    codec = Codec(siege.config)
    channel = siege.honest._links[link].side.channel
    assert channel is not None
    frames = codec.encode(Kind.DATA, link, channel.sent, channel.read, (DraftClose(1, 1),))
    for _ in range(50):
        siege.honest.mesh.send("drafter", frames)
    assert siege.unharmed()
    assert siege.drafter.counters["frames_dropped"] == 50


def test_who_overhears_a_link_number_on_another_connection_is_refused() -> None:
    """The link belongs to whoever dialled it, not to whoever can say its number."""
    siege = Siege()
    [link] = siege.honest.links
    forged = Codec(siege.config).encode(Kind.DATA, link, 2, 0, (DraftClose(1, 1),))
    siege.foe.mesh.send("drafter", forged)
    assert siege.unharmed()


def test_mirrors_without_end_are_refused_and_leave_the_honest_its_place() -> None:
    siege = Siege()
    siege.says(siege.foe, *(DraftSync(number, 1, (1, 2), (), 64) for number in range(100)))
    assert len(siege.core) == 8
    assert siege.core.counters["refused_full"] == 93
    assert siege.unharmed()


@pytest.mark.parametrize(
    "frames",
    [
        [bytes(100 << 20)],
        [b"DMSH" + bytes(28), bytes(100 << 20)],
        [b"DMSH\x01\x05\xff\xff" + bytes(24), b"\x90"],
        [b"DMSH\x01\x05\x00\x01" + bytes(24), ABSURD, b"1234"],
        [b"DMSH\x01\x05\x00\x00" + bytes(24), b"\xdd\xff\xff\xff\xff"],
        [b"DMSH\x01\x05\x00\x00" + bytes(24), b"\x91\x91\xa8Whatever"],
    ],
    ids=["100 MB", "100 MB payload", "65535 tensors", "absurd shape", "4 billion", "unknown type"],
)  # fmt: skip
def test_absurd_frames_are_dropped_before_anything_is_made_of_them(frames: list[bytes]) -> None:
    siege = Siege()
    with pytest.raises(PeerError):
        Codec(siege.config).decode(frames)
    siege.foe.mesh.send("drafter", frames)
    siege.turn()
    assert siege.drafter.counters["frames_unreadable"] == 1
    assert siege.unharmed()


def test_a_row_that_lies_is_the_fault_of_its_request_only() -> None:
    """Towards a drafter rows make no sense at all."""
    siege = Siege()
    siege.says(
        siege.foe, DraftTailStream(1, 1, 0, 0, (1, 2)), Refuse("unknown", request=1, epoch=1)
    )
    assert siege.core.counters["messages_unexpected"] == 2
    assert siege.unharmed()
