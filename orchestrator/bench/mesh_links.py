"""A verifier's end of the mesh without a model: the real endpoint and the real tails; and the bare socket beside it."""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from time import monotonic, perf_counter
from typing import Final

import zmq

from orchestrator.bench.errors import BenchError
from orchestrator.bench.mesh_peers import GUESS
from orchestrator.python import command, environment
from protocol.codec import Codec, Kind
from protocol.config import LinkConfig
from protocol.endpoint import Endpoint
from protocol.link import Event, Identity, LinkUp, Received
from protocol.messages import AnyMessage, DraftSync, DraftTailStream, VerifyCommit
from protocol.zmq_mesh import ZmqMesh
from verifier.tail import DraftTail

OWN: Final = GUESS + 1
"""The token that the target adds to what it accepts."""
VOCABULARY: Final = 100
PATIENCE: Final = 20.0


@contextmanager
def process(role: str, length: int = 0, peers: str = "mesh_peers") -> Iterator[str]:
    """The address of another process that plays a role of `mesh_peers`, or of `kv_peers`."""
    arguments = command("orchestrator.child", f"orchestrator.bench.{peers}", role, str(length))
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=environment()) as child:
        assert child.stdout is not None
        try:
            if not (address := child.stdout.readline().strip()):
                raise BenchError(f"the {role} of the mesh did not start")
            yield address
        finally:
            child.kill()


class Verifier:
    """Commits to all tails, or some of them, and takes what is drafted on that; every guess is right."""

    def __init__(self, addresses: Sequence[str], requests: int, length: int) -> None:
        self._final = (GUESS,) * length + (OWN,)
        self._length = length
        self._endpoint = Endpoint(
            ZmqMesh(), LinkConfig(), Identity("verifier", "verifier"), count(1).__next__
        )
        for address in addresses:
            self._endpoint.dial(address, monotonic())
        self._links: list[int] = []
        while len(self._links) < len(addresses):
            self._links += [event.link for event in self._wait() if isinstance(event, LinkUp)]
        self._tails = [DraftTail((), VOCABULARY) for _ in range(requests)]
        everybody = range(requests)
        self._send(everybody, [DraftSync(one, 1, (1, 2), (), length) for one in everybody])
        for tail in self._tails:
            tail.grant(length)
        self._receive(requests)

    def commit(self, requests: Sequence[int]) -> None:
        """The verifier's own line, before a round begins."""
        for one in requests:
            self._tails[one].commit(self._final)

    def round(self, requests: Sequence[int]) -> None:
        """Say what was committed, and take what is drafted on it."""
        commits = [
            VerifyCommit(
                one, 1, self._tails[one].committed - len(self._final), self._final, self._length
            )
            for one in requests
        ]
        self._send(requests, commits)
        self._receive(len(requests))

    def close(self) -> None:
        self._endpoint.close()

    def _send(self, requests: Sequence[int], messages: Sequence[AnyMessage]) -> None:
        """Requests are dealt out to drafters in turn."""
        for place, link in enumerate(self._links):
            theirs = [
                message
                for one, message in zip(requests, messages, strict=True)
                if one % len(self._links) == place
            ]
            while theirs and not self._endpoint.send(link, theirs, monotonic()):
                self._take(self._wait())

    def _receive(self, left: int) -> None:
        while left:
            left -= self._take(self._wait())

    def _take(self, events: Sequence[Event]) -> int:
        taken = 0
        for event in events:
            if not isinstance(event, Received):
                raise BenchError(f"a link of the mesh ended: {event}")
            for message in event.messages:
                if isinstance(message, DraftTailStream):
                    self._tails[message.request].receive(message)
                    taken += 1
        return taken

    def _wait(self) -> list[Event]:
        deadline = monotonic() + PATIENCE
        while not (events := self._endpoint.drain(monotonic())):
            if monotonic() > deadline:
                raise BenchError(f"no drafter said anything for {PATIENCE:g} s")
            self._endpoint.mesh.wait(0.1)
        return events


class Bare:
    """A socket of the same kind, and the bytes of one round."""

    def __init__(self, address: str, requests: int, length: int) -> None:
        codec, numbers = Codec(LinkConfig()), range(requests)
        guesses, final = (GUESS,) * length, (GUESS,) * length + (OWN,)
        commits = [VerifyCommit(one, 1, 3000, final, length) for one in numbers]
        rows = [DraftTailStream(one, 1, 3000, 3000, guesses, (0.9,) * length) for one in numbers]
        self._there = codec.encode(Kind.DATA, 2**63, 1000, 1000, commits)
        back = codec.encode(Kind.DATA, 2**63, 1000, 1000, rows)
        self.size = sum(map(len, self._there)), sum(map(len, back))
        self._dealer = zmq.Context().socket(zmq.DEALER)
        self._dealer.connect(address)
        self._dealer.send_multipart(back)

    def round(self) -> None:
        self._dealer.send_multipart(self._there)
        self._dealer.recv_multipart()

    def close(self) -> None:
        self._dealer.close(linger=0)


class Stream:
    """A socket that asks another for chunks, as many as it likes."""

    def __init__(self, address: str) -> None:
        self._dealer = zmq.Context().socket(zmq.DEALER)
        self._dealer.connect(address)

    def round(self, chunks: int) -> float:
        """Seconds until all of them are here."""
        begun = perf_counter()
        self._dealer.send(str(chunks).encode())
        for _ in range(chunks):
            self._dealer.recv(copy=False)
        return perf_counter() - begun

    def close(self) -> None:
        self._dealer.close(linger=0)
