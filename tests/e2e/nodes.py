"""A verifier as its process builds it, in a thread of the test, and a front door that listens to it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from protocol.config import LinkConfig
from protocol.endpoint import Endpoint
from protocol.link import Identity, LinkUp, Received
from protocol.loop import pause
from protocol.messages import AnyMessage, Submit
from protocol.process import Stop
from protocol.runtime import clock, draw
from protocol.zmq_mesh import ZmqMesh
from verifier.node import VerifierNode

DEADLINE: Final = 60.0


@contextmanager
def turning(node: VerifierNode) -> Iterator[str]:
    """Its loop runs in a thread; the value is its address. The caller closes it."""

    def serve() -> None:
        while not node.stopped:
            if not node.turn() and not node.stopped:
                node.pause()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield node.endpoint.mesh.address
    finally:
        node.command(Stop())
        node.endpoint.mesh.wake()
        thread.join(DEADLINE)


@contextmanager
def door(verifier: str) -> Iterator[Endpoint]:
    """A front door that dials this address."""
    front = Endpoint(ZmqMesh("tcp://127.0.0.1:*"), LinkConfig(), Identity("front", "f"), draw)
    front.dial(verifier, clock())
    yield front
    front.close()


def hear(front: Endpoint, *submits: Submit) -> Iterator[AnyMessage]:
    """What the front door hears after it has said this."""
    end = clock() + DEADLINE
    while clock() < end:
        for event in front.drain(clock()):
            if isinstance(event, LinkUp):
                assert front.send(event.link, submits, clock())
            if isinstance(event, Received):
                yield from event.messages
        pause(front, clock, end)
    raise AssertionError("too long")
