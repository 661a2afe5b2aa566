"""The right of a prefill node to fill pages of one request. Data, with what can be derived from it."""

from dataclasses import dataclass, field
from enum import Enum

from kvtransfer.layout import Layout
from kvtransfer.plan import piece_bytes
from protocol.messages import KvChunk


class State(Enum):
    OFFERED = "offered"
    ACCEPTED = "accepted"
    MOVING = "moving"


@dataclass(slots=True, eq=False)
class Lease:
    """Positions [start, end) of a request are filled by the node `giver` at `link`. It is over at `until`.

    Its epoch is never used again, so a chunk of an older lease finds none; and it fills each layer from its begin on
    without gaps, so what is complete is one number.
    """

    link: int
    giver: str
    request: int
    epoch: int
    adapter: str
    start: int
    end: int
    begun: float
    until: float
    state: State = State.OFFERED
    travelling: Layout | None = None
    channel: str = ""
    hint: bytes = b""
    filled: list[int] = field(default_factory=list)  # by layer: positions before it are there

    @property
    def complete(self) -> int:
        """Positions before this one are there in all layers."""
        return min(self.filled, default=self.start)

    def continues(self, message: KvChunk) -> bool:
        """Whether a chunk is the next one of all its layers, and as large as it must be."""
        piece, layout = message.piece, self.travelling
        if layout is None or not piece.first < piece.end <= len(layout.layers):
            return False
        if not piece.start < piece.stop <= self.end:
            return False
        layers = self.filled[piece.first : piece.end]
        fits = message.parcel.size == piece_bytes(layout, piece)
        return fits and all(filled == piece.start for filled in layers)

    def landed(self, message: KvChunk) -> None:
        """A chunk that continues it was written."""
        piece = message.piece
        self.filled[piece.first : piece.end] = [piece.stop] * (piece.end - piece.first)
