"""Frames that nobody of this mesh said: bytes, spoiled frames, forgeries that do not know a link number."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from protocol.codec import HEADER, MAGIC, Codec, Kind
from protocol.config import LinkConfig
from protocol.messages import (
    PROTOCOL_VERSION,
    Abort,
    AnyMessage,
    Done,
    DraftClose,
    DraftSync,
    DraftTailStream,
    Ending,
    Hello,
    Refuse,
    Submit,
    VerifyCommit,
    Welcome,
)

if TYPE_CHECKING:
    from tests.sim.world import World

Rubbish = list[bytes | memoryview]


def litter(world: World) -> None:
    """Frames that nobody of this mesh said; nothing may come of them."""
    rng = world.rng
    rubbish = (_bytes, _spoiled, _forged, _forged, _unsequenced)
    for _ in range(rng.randint(2, 10)):
        source = rng.choice(["stranger", *world.scenario.addresses])
        target = rng.choice(world.scenario.addresses)
        if source != target:
            world.network.carry(source, target, rng.choice(rubbish)(rng, source))


def _bytes(rng: random.Random, _source: str) -> Rubbish:
    return [rng.randbytes(rng.randint(0, 40)) for _ in range(rng.randint(0, 3))]


def _forged(rng: random.Random, _source: str) -> Rubbish:
    """A frame that is as it should be, but for its link."""
    request = rng.randint(1, 5)
    words: tuple[AnyMessage, ...] = (
        DraftTailStream(request, 1, 0, 0, (1, 2, 3)),
        VerifyCommit(request, 1, 0, (1, 2, 3), 5),
        DraftSync(90 + request, 1, (1,), (), 5),
        DraftClose(request, 1),
        Submit(90 + request, (1,), Ending(3)),
        Abort(request),
        Done(request, 0, "stop", 1, 1),
    )
    number = rng.getrandbits(64)
    return Codec(LinkConfig()).encode(
        Kind.DATA, number, rng.randint(1, 20), 0, (rng.choice(words),)
    )


def _spoiled(rng: random.Random, source: str) -> Rubbish:
    """A frame that is nearly as it should be."""
    header, payload = _forged(rng, source)
    version = HEADER.pack(MAGIC, PROTOCOL_VERSION + 1, Kind.DATA, 0, 1, 1, 0)
    cut = bytes(payload)[: rng.randrange(len(payload))]
    frames: tuple[Rubbish, ...] = (
        [bytes(header)[:-1], payload],
        [version, payload],
        [header, cut],
        [header, rng.randbytes(20), *([b""] * rng.randint(0, 400))],
    )
    return rng.choice(frames)


def _unsequenced(rng: random.Random, source: str) -> Rubbish:
    """A greeting of a stranger, an answer to a dial that nobody made, the end of a link that nobody has."""
    number = rng.getrandbits(64)
    if source == "stranger" and rng.random() < 0.3:
        hello = Hello(number, "front", source)
        return Codec(LinkConfig()).encode(Kind.HELLO, 0, 0, 0, (hello,))
    kind, message = rng.choice(
        (
            (Kind.REFUSE, Refuse("link")),
            (Kind.WELCOME, Welcome(number, number, "drafter", source)),
        )
    )
    return Codec(LinkConfig()).encode(kind, number, 0, 0, (message,))
