"""An in-process mesh that can fail on demand. It ships: tests, experiments and the colocated baseline use it."""

import heapq
import threading
from collections.abc import Callable, Sequence
from itertools import count

from protocol.mesh import Frames, Peer

Fate = Callable[[str, str], Sequence[float]]
"""(from, to) -> the delays after which copies of a message arrive; none: it is lost, two: it is duplicated."""


def faithful(_source: str, _target: str) -> Sequence[float]:
    """Every message arrives once, at once."""
    return (0.0,)


class LocalNetwork:
    """Addresses and the wires between them. `clock` gives the time that delays are measured in."""

    def __init__(
        self, clock: Callable[[], float], fate: Fate = faithful, bound: int = 4096
    ) -> None:
        self.clock = clock
        self.fate = fate
        self.bound = bound
        self._nodes: dict[str, LocalMesh] = {}
        self._cuts: set[tuple[str, str]] = set()
        self._serial = count()

    def mesh(self, address: str) -> "LocalMesh":
        """Bind a node at `address`; a former node there is gone, and what was on its way to it with it."""
        self.kill(address)
        node = LocalMesh(self, address)
        self._nodes[address] = node
        return node

    def restart(self, address: str) -> "LocalMesh":
        """Bind a new node that inherits what was queued for the former one."""
        former = self._nodes.get(address)
        node = self.mesh(address)
        if former is not None:
            node._inbox = former._inbox  # noqa: SLF001
        return node

    def kill(self, address: str) -> None:
        """The node at `address` is gone without a word."""
        node = self._nodes.pop(address, None)
        if node is not None:
            node._dead = True  # noqa: SLF001

    def leave(self, node: "LocalMesh") -> None:
        """This node is gone; a newer one at its address stays."""
        if self._nodes.get(node.address) is node:
            self.kill(node.address)

    def cut(self, source: str, target: str) -> None:
        """Nothing sent from `source` arrives at `target` until `heal`."""
        self._cuts.add((source, target))

    def heal(self) -> None:
        """All cuts are mended."""
        self._cuts.clear()

    def carry(self, source: str, target: str, frames: Frames) -> bool:
        """Hand a message over; False when the target's inbox is full."""
        node = self._nodes.get(target)
        if node is None or (source, target) in self._cuts:
            return True  # like a datagram: nobody says that it went nowhere
        if node.queued >= self.bound:
            return False
        now = self.clock()
        copied = [bytes(frame) for frame in frames]
        for delay in self.fate(source, target):
            node.put(now + delay, next(self._serial), source, copied)
        return True


class LocalMesh:
    """One node's end; keeps the contract of `protocol.mesh.Mesh`."""

    def __init__(self, network: LocalNetwork, address: str) -> None:
        self._network = network
        self._address = address
        self._inbox: list[tuple[float, int, str, list[bytes]]] = []
        self._arrived = threading.Condition()
        self._woken = False
        self._dead = False

    @property
    def address(self) -> str:
        return self._address

    @property
    def queued(self) -> int:
        """Messages that were sent to this node and not read yet."""
        return len(self._inbox)

    @property
    def due(self) -> float:
        """When the first message that was not read yet arrives, or did; infinity: none is on its way."""
        return self._inbox[0][0] if self._inbox else float("inf")

    def connect(self, address: str) -> Peer:
        return address

    def disconnect(self, peer: Peer) -> None:
        """Nothing to forget: there is no connection."""

    def send(self, peer: Peer, frames: Frames) -> bool:
        return not self._dead and self._network.carry(self._address, str(peer), frames)

    def put(self, due: float, serial: int, source: str, frames: list[bytes]) -> None:
        """Deliver at `due`; called by the network."""
        with self._arrived:
            heapq.heappush(self._inbox, (due, serial, source, frames))
            self._arrived.notify()

    def drain(self) -> list[tuple[Peer, list[bytes]]]:
        now = self._network.clock()
        drained: list[tuple[Peer, list[bytes]]] = []
        with self._arrived:
            while self._inbox and self._inbox[0][0] <= now:
                _, _, source, frames = heapq.heappop(self._inbox)
                drained.append((source, frames))
        return drained

    def wait(self, seconds: float) -> None:
        until = self._network.clock() + seconds
        with self._arrived:
            while not self._woken and (left := self._due(until) - self._network.clock()) > 0:
                self._arrived.wait(None if left == float("inf") else left)
            self._woken = False

    def _due(self, until: float) -> float:
        """When the first message arrives, or `until`."""
        return min(until, self._inbox[0][0]) if self._inbox else until

    def wake(self) -> None:
        with self._arrived:
            self._woken = True
            self._arrived.notify()

    def close(self) -> None:
        self._network.leave(self)
