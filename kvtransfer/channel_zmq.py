"""Chunks inside the frames of the mesh: works wherever a link does, encrypted where the link is."""

import ctypes
from contextlib import suppress
from functools import cache
from typing import Final

import numpy as np

from kvtransfer.channel import CHUNK_BYTES, PLACES, Placed, check, checksum
from protocol.errors import PeerError
from protocol.messages import Parcel
from protocol.tensor import Tensor

_TRIM, _MAP = -1, -3  # of mallopt(3)
_KEPT: Final = PLACES * CHUNK_BYTES
"""Bytes of freed memory that a process keeps, so that the next chunk finds it."""


@cache
def _keep_memory() -> None:
    """A chunk arrives in memory of its own. Given back to the system each time it would come back page by page, each of
    them faulted in and zeroed: a sixth of what taking a chunk costs.
    """
    with suppress(AttributeError):  # another C library than glibc
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MAP, 2 * CHUNK_BYTES)
        mallopt(_TRIM, _KEPT)


class FrameSender(Placed):
    """Buffers are used again once given back: by then the transport is done with them."""

    hint = b""

    def __init__(self) -> None:
        super().__init__()
        # One block that takes memory when it is first written, in huge pages where the system grants them.
        self._memory = np.zeros(PLACES * CHUNK_BYTES, np.uint8).data

    def room(self) -> memoryview | None:
        place = self._places.next
        return None if place is None else self._chunk(place, CHUNK_BYTES)

    def _chunk(self, place: int, size: int) -> memoryview:
        return self._memory[place * CHUNK_BYTES : place * CHUNK_BYTES + size]

    def seal(self, size: int) -> Parcel:
        place = self._places.seal(size, CHUNK_BYTES)
        data = self._chunk(place, size)
        return Parcel(place, size, checksum(data), Tensor("uint8", (size,), data))

    def close(self) -> None:
        """Nothing is held that others see."""


class FrameReceiver:
    """Needs nothing but the parcel."""

    def __init__(self, hint: bytes) -> None:
        if hint:
            raise PeerError(f"chunks in frames need no hint, and got {len(hint)} bytes")
        _keep_memory()

    def open(self, parcel: Parcel) -> memoryview:
        if parcel.data is None or len(parcel.data.data) != parcel.size:
            raise PeerError(
                f"the chunk in place {parcel.place} came without its {parcel.size} bytes"
            )
        return check(parcel, memoryview(parcel.data.data))

    def close(self) -> None:
        """Nothing is held."""
