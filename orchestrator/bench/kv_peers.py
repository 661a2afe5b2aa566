"""The other processes of `orchestrator bench kv`: `python -m orchestrator.bench.kv_peers giver|stream SIZE`."""

import sys
from collections.abc import Callable, Mapping
from itertools import count
from time import monotonic
from typing import Final

import zmq

from engine.memory import zeros
from kvtransfer.channel import CHUNK_BYTES
from kvtransfer.channels import CHANNELS
from kvtransfer.config import HandoverConfig
from kvtransfer.ends import Deliveries
from kvtransfer.giving import Giving, Job
from kvtransfer.layout import Layout, decode
from kvtransfer.memory import Bytes, Pages
from protocol.config import LinkConfig
from protocol.endpoint import Endpoint
from protocol.link import Identity, Received
from protocol.messages import AnyMessage, KvAbort, KvCredit, KvOffer, KvTaken
from protocol.zmq_mesh import ZmqMesh

PATIENT: Final = LinkConfig(silence=20.0)
"""A machine with other work must not look like a fault."""


def pages_of(layout: Layout, pages: int) -> tuple[Pages, list[Bytes]]:
    """So many pages, touched once so that the machine has them."""
    sizes = [pages * layout.page_size * layer.slot_bytes for layer in layout.layers]
    memory = [zeros(size) for size in sizes]
    for each in memory:
        each[:] = 1
    return Pages(layout, memory), memory


class Giver:
    """Has everything that is offered to it computed already. Its pages are like those of the first offer."""

    def __init__(self, first: KvOffer) -> None:
        layout = decode(first.layout)
        self._held: dict[int, range] = {}
        self._giving = Giving(HandoverConfig(), layout, tuple(CHANNELS), CHUNK_BYTES)
        pages, _ = pages_of(layout, -(-len(first.tokens) // layout.page_size))
        self._page_size = layout.page_size
        self._deliveries = Deliveries(pages)

    def hear(self, endpoint: Endpoint, link: int, message: AnyMessage) -> None:
        match message:
            case KvOffer():
                self._held[message.request] = range(-(-message.end // self._page_size))
                job = self._giving.offered(link, message, monotonic())
                endpoint.send(link, [self._deliveries.accept(job)], monotonic())
                self._giving.computed(job, message.end)
            case KvCredit():
                self._deliveries.credit(link, message)
            case KvTaken() | KvAbort():
                self._giving.over(link, message)
            case _:
                pass

    def _pages_of(self, job: Job) -> range:
        return self._held[job.offer.request]

    def send(self, endpoint: Endpoint, link: int) -> None:
        """Chunks while there are places and the link takes them."""
        chunks = self._deliveries.chunks(self._giving, link, self._pages_of, monotonic())
        while endpoint.writable(link) and (chunk := next(chunks, None)):
            endpoint.send(link, [chunk], monotonic())


def giver(_size: int) -> None:
    """Serves offers until it is killed."""
    mesh = ZmqMesh("tcp://127.0.0.1:*")
    endpoint = Endpoint(mesh, PATIENT, Identity("prefill", "prefill"), count(1).__next__)
    _say(mesh.address)
    node: Giver | None = None
    while True:
        mesh.wait(0.1)
        for event in endpoint.drain(monotonic()):
            if not isinstance(event, Received):
                continue
            for message in event.messages:
                if node is None and isinstance(message, KvOffer):
                    node = Giver(message)
                if node:
                    node.hear(endpoint, event.link, message)
        if node:
            for link in endpoint.links:
                node.send(endpoint, link)


def stream(size: int) -> None:
    """A bare socket: asked for a number, it sends so many chunks."""
    router = zmq.Context().socket(zmq.ROUTER)
    router.bind("tcp://127.0.0.1:*")
    _say(router.getsockopt_string(zmq.LAST_ENDPOINT))
    chunk = bytes(size)
    while True:
        peer, wanted = router.recv_multipart()
        for _ in range(int(wanted)):
            router.send_multipart([peer, chunk], copy=False)


ROLES: Final[Mapping[str, Callable[[int], None]]] = {"giver": giver, "stream": stream}


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    ROLES[sys.argv[1]](int(sys.argv[2]))
