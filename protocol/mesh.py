"""What carries frames between nodes. Two implementations keep this contract: ZeroMQ and in-process."""

from collections.abc import Hashable, Sequence
from typing import Protocol

Peer = Hashable
"""Where a frame came from or goes to; only the mesh that made it knows what is in it."""

Frames = Sequence[bytes | memoryview]


class Mesh(Protocol):
    """Whole multipart messages, at most once, never blocking, bounded on both sides; what it cannot take it refuses."""

    @property
    def address(self) -> str:
        """Where others dial this node; empty if it only dials."""

    def connect(self, address: str) -> Peer:
        """A peer at `address`; whether it is there shows only when it speaks."""

    def disconnect(self, peer: Peer) -> None:
        """Forget the peer; what was not sent is dropped."""

    def send(self, peer: Peer, frames: Frames) -> bool:
        """Whether the transport took the message; False changes nothing."""

    def drain(self) -> Sequence[tuple[Peer, Frames]]:
        """All messages that are here now, in the order of their arrival a peer; large frames may be views."""

    def wait(self, seconds: float) -> None:
        """Return when a message may be here, when woken, or after `seconds`."""

    def wake(self) -> None:
        """End a `wait`, now or the next; the one method that other threads may call."""

    def close(self) -> None:
        """Free the sockets, within a fraction of a second; what is unsent then is dropped."""
