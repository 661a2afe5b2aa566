"""A commit-to-tail round trip over the mesh, beside a bare ZeroMQ echo: `python -m tests.bench.mesh_round_trip`.

One frame with a `VerifyCommit` for each request goes to a drafter in another process, whose proposer costs nothing; one
frame with as many rows comes back, and every row is taken by its `DraftTail`. In turn with that, a socket of the same
kind carries the same number of bytes there and back without any protocol. Each round: five committed tokens, of which
the drafter guessed four.
"""

import argparse
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from statistics import quantiles
from time import monotonic, perf_counter
from typing import Final

import zmq

from drafter.config import DrafterConfig
from drafter.core import DrafterCore
from drafter.mirror import Kept, Mirror
from drafter.node import DrafterNode
from drafter.proposers import Proposal
from protocol.codec import Codec, Kind
from protocol.config import LinkConfig
from protocol.endpoint import Endpoint
from protocol.link import Event, Identity, LinkUp, Received
from protocol.messages import AnyMessage, DraftSync, DraftTailStream, Limits, VerifyCommit
from protocol.zmq_mesh import ZmqMesh
from verifier.tail import DraftTail

GUESSES: Final = (7, 7, 7, 7)
CONFIDENCES: Final = (0.9, 0.8, 0.7, 0.6)
FINAL: Final = (7, 7, 7, 7, 8)
VOCABULARY: Final = 100
PATIENCE: Final = 20.0


class Constant:
    """A proposer that is free: the same four tokens every time."""

    def __init__(self) -> None:
        self._proposal = Proposal(GUESSES, CONFIDENCES)

    def open(self, mirror: Mirror) -> None: ...

    def adopt(self, mirror: Mirror, kept: Kept) -> None: ...

    def propose(self, wants: Sequence[tuple[Mirror, int]]) -> list[Proposal]:
        return [self._proposal] * len(wants)

    def close(self, mirror: Mirror) -> None: ...


def drafter() -> None:
    """The other process: a drafter as it ships, but for its proposer."""
    config, proposer = DrafterConfig(max_ahead=len(GUESSES)), Constant()
    identity = Identity("drafter", "drafter-0", limits=Limits(0, 0, config.max_ahead))
    mesh = ZmqMesh("tcp://127.0.0.1:*")
    endpoint = Endpoint(mesh, config.link, identity, count(1).__next__)
    node = DrafterNode(DrafterCore(config, proposer), endpoint, proposer, monotonic)
    say(mesh.address)
    while True:
        if not node.turn():
            node.pause()


def echo() -> None:
    """The other process: the first message it gets is its answer to all that follow."""
    router = zmq.Context().socket(zmq.ROUTER)
    router.bind("tcp://127.0.0.1:*")
    say(router.getsockopt_string(zmq.LAST_ENDPOINT))
    answer = router.recv_multipart()[1:]
    while True:
        peer = router.recv_multipart()[0]
        router.send_multipart([peer, *answer])


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


@contextmanager
def process(role: str) -> Iterator[str]:
    """The address of this script in another role."""
    command = [sys.executable, "-m", "tests.bench.mesh_round_trip", "--role", role]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        try:
            yield child.stdout.readline().strip()
        finally:
            child.kill()


class Verifier:
    """Plays the verifier with the real endpoint and the real tails."""

    def __init__(self, address: str, requests: int) -> None:
        self.endpoint = Endpoint(
            ZmqMesh(), LinkConfig(), Identity("verifier", "v"), count(1).__next__
        )
        self.endpoint.dial(address, monotonic())
        self.tails = [DraftTail((), VOCABULARY) for _ in range(requests)]
        up = self._wait()[0]
        assert isinstance(up, LinkUp)
        self.link = up.link
        self._send([DraftSync(index, 1, (1, 2), (), 4) for index in range(requests)])
        for tail in self.tails:
            tail.grant(len(GUESSES))
        self._receive()

    def commit(self) -> None:
        """The verifier's own line, before a round begins."""
        for tail in self.tails:
            tail.commit(FINAL)

    def round(self) -> None:
        """Say what was committed, and take what is drafted on it."""
        start = self.tails[0].committed - len(FINAL)
        self._send([VerifyCommit(i, 1, start, FINAL, 4) for i in range(len(self.tails))])
        self._receive()

    def _send(self, messages: Sequence[AnyMessage]) -> None:
        assert self.endpoint.send(self.link, messages, monotonic())

    def _receive(self) -> None:
        left = len(self.tails)
        while left:
            for event in self._wait():
                assert isinstance(event, Received)
                for message in event.messages:
                    if isinstance(message, DraftTailStream):
                        self.tails[message.request].receive(message)
                        left -= 1

    def _wait(self) -> list[Event]:
        deadline = monotonic() + PATIENCE
        while not (events := self.endpoint.drain(monotonic())):
            assert monotonic() < deadline, "nobody answers"
            self.endpoint.mesh.wait(0.1)
        return events


class Bare:
    """A socket of the same kind, and the bytes of one round."""

    def __init__(self, address: str, requests: int) -> None:
        codec, numbers = Codec(LinkConfig()), range(requests)
        commits = [VerifyCommit(number, 1, 3000, FINAL, 4) for number in numbers]
        rows = [DraftTailStream(number, 1, 3000, 3000, GUESSES, CONFIDENCES) for number in numbers]
        self.there = codec.encode(Kind.DATA, 2**63, 1000, 1000, commits)
        back = codec.encode(Kind.DATA, 2**63, 1000, 1000, rows)
        self.size = sum(map(len, self.there)), sum(map(len, back))
        self._dealer = zmq.Context().socket(zmq.DEALER)
        self._dealer.connect(address)
        self._dealer.send_multipart(back)

    def round(self) -> None:
        self._dealer.send_multipart(self.there)
        self._dealer.recv_multipart()


def timed(call: Callable[[], None]) -> float:
    began = perf_counter()
    call()
    return (perf_counter() - began) * 1e6


def percentiles(times: Sequence[float]) -> tuple[float, float]:
    """p50 and p99."""
    cuts = quantiles(times, n=100)
    return cuts[49], cuts[98]


def measure(requests: int, rounds: int, warm: int) -> None:
    with process("drafter") as drafting, process("echo") as echoing:
        verifier, bare = Verifier(drafting, requests), Bare(echoing, requests)
        mesh_times, bare_times = [], []
        for turn in range(warm + rounds):
            verifier.commit()
            pair = timed(verifier.round), timed(bare.round)
            if turn >= warm:
                mesh_times.append(pair[0])
                bare_times.append(pair[1])
    mesh_50, mesh_99 = percentiles(mesh_times)
    bare_50, bare_99 = percentiles(bare_times)
    there, back = bare.size
    say(f"{requests} requests, {there} bytes there and {back} back, {rounds} rounds")
    say(f"mesh  p50 {mesh_50:8.1f} us  p99 {mesh_99:8.1f} us")
    say(f"bare  p50 {bare_50:8.1f} us  p99 {bare_99:8.1f} us")
    say(f"ratio p50 {mesh_50 / bare_50:8.2f}     p99 {mesh_99 / bare_99:8.2f}")


def main() -> None:
    parser = argparse.ArgumentParser("mesh_round_trip")
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument("--warm", type=int, default=200)
    parser.add_argument("--role", choices=["driver", "drafter", "echo"], default="driver")
    given = parser.parse_args()
    match given.role:
        case "drafter":
            drafter()
        case "echo":
            echo()
        case _:
            measure(given.requests, given.rounds, given.warm)


if __name__ == "__main__":
    main()
