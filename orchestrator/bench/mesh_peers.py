"""The other processes of `orchestrator bench mesh`: `python -m orchestrator.bench.mesh_peers drafter|echo LENGTH`.

Each says its address on stdout and serves until it is killed.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from time import monotonic
from typing import Final

import zmq

from drafter.config import DrafterConfig
from drafter.core import DrafterCore
from drafter.mirror import Kept, Mirror
from drafter.node import DrafterNode
from drafter.proposers import Proposal
from protocol.endpoint import Endpoint
from protocol.link import Identity
from protocol.messages import Limits
from protocol.zmq_mesh import ZmqMesh

GUESS: Final = 7


class Constant:
    """A proposer that is free: the same tokens every time."""

    def __init__(self, length: int) -> None:
        self._proposal = Proposal((GUESS,) * length, (0.9,) * length)

    def open(self, mirror: Mirror) -> None: ...

    def adopt(self, mirror: Mirror, kept: Kept) -> None: ...

    def propose(self, wants: Sequence[tuple[Mirror, int]]) -> list[Proposal]:
        return [self._proposal] * len(wants)

    def close(self, mirror: Mirror) -> None: ...


def drafter(length: int) -> None:
    """A drafter as it ships, but for its proposer."""
    config, proposer = DrafterConfig(max_ahead=length), Constant(length)
    identity = Identity("drafter", "drafter", limits=Limits(0, 0, config.max_ahead))
    mesh = ZmqMesh("tcp://127.0.0.1:*")
    endpoint = Endpoint(mesh, config.link, identity, count(1).__next__)
    node = DrafterNode(DrafterCore(config, proposer), endpoint, proposer, monotonic)
    _say(mesh.address)
    while True:
        if not node.turn():
            node.pause()


def echo(_length: int) -> None:
    """A bare socket: the first message it gets is its answer to all that follow."""
    router = zmq.Context().socket(zmq.ROUTER)
    router.bind("tcp://127.0.0.1:*")
    _say(router.getsockopt_string(zmq.LAST_ENDPOINT))
    answer = router.recv_multipart()[1:]
    while True:
        peer = router.recv_multipart()[0]
        router.send_multipart([peer, *answer])


ROLES: Final[Mapping[str, Callable[[int], None]]] = {"drafter": drafter, "echo": echo}


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    ROLES[sys.argv[1]](int(sys.argv[2]))
