"""`orchestrator bench kv`: what moving KV pages costs, without models.

One process has the pages of a prompt, computed; another one takes them, with everything that the service does on the
way: offer, plan, pack, channel, checksum, unpack. In turn with it, in the same run: a copy of as many bytes in one
process, and a bare ZeroMQ socket that streams chunks of the same size.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from statistics import median
from time import monotonic, perf_counter
from typing import Any, Final

import numpy as np
from rich.table import Table

from kvtransfer.channel import CHUNK_BYTES
from kvtransfer.channels import CHANNELS
from kvtransfer.config import HandoverConfig
from kvtransfer.ends import Arrivals
from kvtransfer.layout import Layer, Layout
from kvtransfer.taking import Taking
from orchestrator.bench.errors import BenchError
from orchestrator.bench.kv_peers import PATIENT, pages_of
from orchestrator.bench.mesh_links import Stream, process
from orchestrator.bench.table import columns
from protocol.endpoint import Endpoint
from protocol.link import Event, Identity, LinkUp, Received
from protocol.messages import Heartbeat, KvAccept, KvChunk
from protocol.zmq_mesh import ZmqMesh

PATIENCE: Final = 20.0
PAGE: Final = 16
BESIDE: Final = {"none": 0, "DFlash, DSpark": 576, "EAGLE-3": 3 * 576}
"""Numbers of a feature row by method: the context as it is projected, or three states side by side."""


@dataclass(frozen=True, kw_only=True)
class Moved:
    """Medians of bytes a second: through a channel, and of what it is measured by."""

    channel: str
    tokens: int
    bytes: int
    counted: int
    speed: float
    copied: float
    streamed: float


@dataclass(frozen=True, kw_only=True)
class KvFigures:
    """All channels; and bytes a token by what reads the target's states."""

    moved: tuple[Moved, ...]
    token_bytes: dict[str, int]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def layout(features: int = 576, page_size: int = PAGE) -> Layout:
    """SmolLM2-135M in bfloat16, with rows of so many numbers beside it."""
    layers = [Layer("target", "bfloat16", 3, 64, 0, 3)] * 30
    if features:
        layers.append(Layer("features", "bfloat16", 1, features, 0, 1, parts=1))
    return Layout(tuple(layers), page_size)


def measure(tokens: int, runs: int) -> KvFigures:
    """Every channel after the other."""
    return KvFigures(
        moved=tuple(moved(name, tokens, runs) for name in CHANNELS),
        token_bytes={name: layout(width).slot_bytes for name, width in BESIDE.items()},
    )


def moved(channel: str, tokens: int, runs: int) -> Moved:
    """One channel, in turn with a copy and with a bare stream."""
    with ExitStack() as stack:
        stream = Stream(stack.enter_context(process("stream", CHUNK_BYTES, peers="kv_peers")))
        stack.callback(stream.close)
        taker = Taker(stack.enter_context(process("giver", peers="kv_peers")), channel, tokens)
        stack.callback(taker.close)
        size = layout().slot_bytes * (tokens - 1)
        chunks = -(-size // CHUNK_BYTES)
        source, target = (np.ones(size, np.uint8) for _ in range(2))
        times: list[tuple[float, float, float]] = []
        for _ in range(2 + runs):
            copied = perf_counter()
            np.copyto(target, source)
            copied = perf_counter() - copied
            times.append((taker.round(), copied, stream.round(chunks)))
        own, copies, streams = (median(each) for each in zip(*times[-runs:], strict=True))
    return Moved(
        channel=channel,
        tokens=tokens - 1,
        bytes=size,
        counted=taker.bytes,
        speed=size / own,
        copied=size / copies,
        streamed=chunks * CHUNK_BYTES / streams,
    )


class Taker:
    """A verifier's end without its engine: the real core, the real channel."""

    def __init__(self, address: str, channel: str, tokens: int) -> None:
        self._layout = layout()
        held = -(-tokens // PAGE)
        self.pages, self.memory = pages_of(self._layout, held)
        self._held = range(held)
        self._tokens = tuple(range(tokens))
        config = HandoverConfig(accept_seconds=PATIENCE, move_seconds=PATIENCE)
        self._taking = Taking(config, self._layout, (channel,))
        self._arrivals = Arrivals(self.pages)
        self.bytes = 0
        self._request = 0
        self._endpoint = Endpoint(
            ZmqMesh(), PATIENT, Identity("verifier", "verifier"), iter(range(1, 99)).__next__
        )
        self._endpoint.dial(address, monotonic())
        while not self._up():
            pass

    def _up(self) -> bool:
        for event in self._wait():
            if isinstance(event, LinkUp):
                self._link = event.link
                self._taking.link_up(event.link)
                return True
        return False

    def round(self) -> float:
        """Seconds from the offer to the last byte in its page."""
        before, self._request = self._arrivals.taken_bytes, self._request + 1
        begun = perf_counter()
        if not self._taking.offer(self._request, self._tokens, 0, monotonic()):
            raise BenchError("the giver takes no offer")
        self._say()
        while self._taking.leases:
            for event in self._wait():
                if not isinstance(event, Received):
                    raise BenchError(f"a link of the mesh ended: {event}")
                for message in event.messages:
                    self._hear(event.link, message)
            self._say()
        seconds = perf_counter() - begun
        self.bytes = self._arrivals.taken_bytes - before
        return seconds

    def _hear(self, link: int, message: object) -> None:
        match message:
            case KvAccept():
                lease = self._taking.accepted(link, message)
                assert lease is not None
                self._arrivals.open(lease)
            case KvChunk():
                lease = self._taking.chunk(link, message)
                assert lease is not None
                self._arrivals.write(lease, self._held, message)
                self._taking.landed(lease, message, monotonic())
            case Heartbeat():
                pass
            case _:
                raise BenchError(f"the giver says {message}")

    def _say(self) -> None:
        while self._taking.links and self._endpoint.writable(self._link):
            self._endpoint.send(self._link, self._taking.messages(self._link), monotonic())

    def _wait(self) -> list[Event]:
        deadline = monotonic() + PATIENCE
        while not (events := self._endpoint.drain(monotonic())):
            if monotonic() > deadline:
                raise BenchError(f"the giver said nothing for {PATIENCE:g} s")
            self._endpoint.mesh.wait(0.1)
        return events

    def close(self) -> None:
        self._endpoint.close()


def tables(figures: KvFigures) -> Iterator[tuple[str, Table]]:
    """For people: what each is about, and the figures."""
    one = figures.moved[0]
    yield (
        f"{one.tokens} tokens of SmolLM2-135M with feature rows, {one.bytes} bytes; medians",
        columns(
            ("channel", "GB/s", "copy GB/s", "ratio", "bare stream GB/s", "ratio", "bytes counted"),
            [
                (
                    each.channel,
                    f"{each.speed / 1e9:.2f}",
                    f"{each.copied / 1e9:.2f}",
                    f"{each.speed / each.copied:.2f}",
                    f"{each.streamed / 1e9:.2f}",
                    f"{each.speed / each.streamed:.2f}",
                    str(each.counted),
                )
                for each in figures.moved
            ],
            left=1,
        ),
    )
    yield (
        "bytes a token, bfloat16",
        columns(
            ("rows read by", "bytes"),
            [(name, str(size)) for name, size in figures.token_bytes.items()],
            left=1,
        ),
    )
