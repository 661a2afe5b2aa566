"""Where nodes live: a place keeps its address while node after node comes and goes there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from protocol.endpoint import Endpoint
from protocol.local_mesh import LocalMesh, LocalNetwork
from protocol.mesh import Frames, Peer
from protocol.process import Command

FOREVER = float("inf")

Sent = Callable[[str, str, Frames, bool], None]
"""Told of every message: from, to, frames, and whether the transport took it."""


class Node(Protocol):
    """A loop that takes turns."""

    @property
    def endpoint(self) -> Endpoint: ...

    @property
    def stopped(self) -> bool: ...

    def command(self, command: Command) -> None: ...

    def turn(self) -> bool: ...

    def pause(self) -> None: ...


class SimMesh:
    """An in-process mesh on which waiting is only a wish: `wake_at` tells until when."""

    def __init__(self, inner: LocalMesh, clock: Callable[[], float], sent: Sent) -> None:
        self.inner = inner
        self.wake_at = 0.0
        self.read = 0
        self._clock = clock
        self._sent = sent

    @property
    def address(self) -> str:
        return self.inner.address

    def connect(self, address: str) -> Peer:
        return self.inner.connect(address)

    def disconnect(self, peer: Peer) -> None:
        self.inner.disconnect(peer)

    def send(self, peer: Peer, frames: Frames) -> bool:
        taken = self.inner.send(peer, frames)
        self._sent(self.address, str(peer), frames, taken)
        return taken

    def drain(self) -> list[tuple[Peer, list[bytes]]]:
        messages = self.inner.drain()
        self.read += len(messages)
        return messages

    def wait(self, seconds: float) -> None:
        self.wake_at = self._clock() + max(0.0, seconds)

    def wake(self) -> None:
        self.wake_at = 0.0

    def close(self) -> None:
        self.inner.close()


class Place:
    """One address. `start` and `stop` are births and deaths of processes; `gone` means that none will come again."""

    def __init__(
        self,
        address: str,
        network: LocalNetwork,
        sent: Sent,
    ) -> None:
        self.address = address
        self.node: Node | None = None
        self.frozen_until = 0.0
        self.busy_until = 0.0
        self.gone = False
        self.lives = 0
        self.heard: dict[int, tuple[int, float]] = {}  # link: frames read, time of the last
        self.former: set[int] = set()  # every link of this life
        self._network = network
        self._sent = sent
        self._mesh: SimMesh | None = None
        self._busy = False
        self._idle_turns = 0

    def build(self, mesh: SimMesh) -> Node:
        """A new process."""
        raise NotImplementedError

    def start(self, *, queued: bool = False) -> None:
        """A new process; with `queued` frames of its former life still arrive."""
        network = self._network
        local = network.restart(self.address) if queued else network.mesh(self.address)
        self._mesh = SimMesh(local, network.clock, self._sent)
        self.node = self.build(self._mesh)
        self.lives += 1
        self.busy_until = 0.0
        self.heard.clear()
        self.former.clear()
        self._busy = True

    def stop(self, *, queued: bool = False) -> None:
        """The process is gone without a word; with `queued` its frames wait for the next one."""
        self.node = None
        if not queued:
            self._network.kill(self.address)

    @property
    def alive(self) -> bool:
        return self.node is not None

    @property
    def due_next(self) -> float:
        """When the first message arrives that it has not read yet."""
        return self._mesh.inner.due if self._mesh else FOREVER

    @property
    def queued(self) -> int:
        return self._mesh.inner.queued if self._mesh else 0

    def busy(self) -> None:
        """Something happened to it from outside: it has a reason to take a turn."""
        self._busy = True

    def due(self) -> float:
        """When this node has a reason to take a turn."""
        mesh = self._mesh
        if self.node is None or mesh is None:
            return FOREVER
        due = self.busy_until
        due = max(due, self.frozen_until)
        if self._busy:
            return due
        inbox = mesh.inner._inbox
        reason = mesh.wake_at
        if inbox and inbox[0][0] < reason:
            reason = inbox[0][0]
        return max(due, reason)

    @property
    def free_at(self) -> float:
        """When it can take a turn, reason or not."""
        return max(self.frozen_until, self.busy_until) if self.alive else FOREVER

    def turn(self) -> bool:
        """Let the node take a turn, then its wish to pause; True if it ran something."""
        node, mesh = self.node, self._mesh
        assert node is not None
        assert mesh is not None
        before = mesh.read
        self._busy = node.turn()
        if not self._busy:
            node.pause()
        idle = not self._busy and mesh.read == before and mesh.wake_at <= self._network.clock()
        self._idle_turns = self._idle_turns + 1 if idle else 0
        return self._busy

    @property
    def spinning(self) -> bool:
        """Whether it takes turn after turn for nothing."""
        return self._idle_turns > 3
