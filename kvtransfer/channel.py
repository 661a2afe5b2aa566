"""How the bytes of chunks get from one node to another, behind one small interface.

A channel carries bytes and nothing else: who may write where, and when, is said over the link of the two nodes
(`kvtransfer/handover.py`), in the same messages in which parcels travel. So every channel has the link's order, its
liveness and its keys, and a late parcel is just a message that nobody waits for any more.

The sender fills a place, seals it, and may not touch it until it is given back. There are few places: that is
the credit.
"""

from typing import Final, Protocol

import xxhash

from protocol.errors import LocalError, PeerError
from protocol.messages import Parcel

PLACES: Final = 8
"""Chunks that may be on their way: some are filled and some are read while words about others travel."""
CHUNK_BYTES: Final = 2 << 20
"""Words about a chunk cost as much as copying a quarter of it; much larger ones leave the cache between two copies."""


class Sender(Protocol):
    """The end that fills chunks. `hint` is what the other end needs to find them."""

    hint: bytes

    def room(self) -> memoryview | None:
        """Where the next chunk goes, CHUNK_BYTES long; None: no place is free. Asking twice is asking once."""

    def seal(self, size: int) -> Parcel:
        """The chunk in that room has so many bytes and leaves."""

    def give_back(self, place: int) -> None:
        """The other end has no use for that chunk any more; PeerError if it never got it."""

    @property
    def away(self) -> int:
        """Chunks that were sealed and not given back."""

    def close(self) -> None:
        """Idempotent. What is still on its way may or may not arrive."""


class Receiver(Protocol):
    """The end that reads chunks."""

    def open(self, parcel: Parcel) -> memoryview:
        """The bytes, good until the place is given back; PeerError where they are not what was sealed."""

    def close(self) -> None:
        """Idempotent."""


class Places:
    """Which places of a sender are free: what came back last, and is still in a cache, goes first."""

    def __init__(self, count: int) -> None:
        self._free = list(reversed(range(count)))
        self._away: set[int] = set()

    @property
    def away(self) -> int:
        """Places that left and did not come back."""
        return len(self._away)

    @property
    def next(self) -> int | None:
        """The place that is filled next."""
        return self._free[-1] if self._free else None

    def seal(self, size: int, most: int) -> int:
        """The next place leaves."""
        if not self._free or not 0 < size <= most:
            raise LocalError(f"a chunk of {size} bytes, {len(self._free)} places of {most}")
        place = self._free.pop()
        self._away.add(place)
        return place

    def give_back(self, place: int) -> None:
        if place not in self._away:
            raise PeerError(f"place {place} is given back, but it is not away")
        self._away.remove(place)
        self._free.append(place)


class Placed:
    """What senders have in common whose chunks lie in places that the receiver reads, or gives back."""

    def __init__(self) -> None:
        self._places = Places(PLACES)

    def seal(self, size: int) -> Parcel:
        return Parcel(self._places.seal(size, CHUNK_BYTES), size)

    def give_back(self, place: int) -> None:
        self._places.give_back(place)

    @property
    def away(self) -> int:
        return self._places.away


def checksum(data: memoryview) -> int:
    """XXH3, 64 bits."""
    digest: int = xxhash.xxh3_64_intdigest(data)
    return digest


def check(parcel: Parcel, data: memoryview) -> memoryview:
    """The same bytes, or PeerError."""
    if parcel.checksum is not None and checksum(data) != parcel.checksum:
        raise PeerError(f"the chunk in place {parcel.place} was damaged on its way")
    return data
