"""Chunks in memory that two processes of one machine and one user share. Linux only.

The memory has no name: it is a file that lives in no file system, which the other process opens through the first
one's table of open files. So there is nothing to unlink, and it is gone with the last of the two, however they end.
"""

import fcntl
import mmap
import os
import secrets
import sys
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from kvtransfer.channel import CHUNK_BYTES, PLACES, Placed, check
from protocol.errors import PeerError
from protocol.messages import Parcel, Part

AVAILABLE: Final = sys.platform == "linux"
_NAME: Final = "draftmesh-kv"
_HEAD: Final = mmap.PAGESIZE
_TOKEN: Final = 16
_SIZE: Final = _HEAD + PLACES * CHUNK_BYTES
_SEALS: Final = ("F_SEAL_SHRINK", "F_SEAL_GROW", "F_SEAL_SEAL")


class _Hint(Part, frozen=True):
    """Where it is, and 16 bytes at its begin: processes of two machines may have the same numbers."""

    process: Annotated[int, Meta(ge=1)]
    file: Annotated[int, Meta(ge=0)]
    token: bytes


class MemorySender(Placed):
    """Owns the memory."""

    def __init__(self) -> None:
        super().__init__()
        self._file = os.memfd_create(_NAME, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self._file, _SIZE)
        fcntl.fcntl(self._file, fcntl.F_ADD_SEALS, _seals())
        self._memory = mmap.mmap(self._file, _SIZE)
        token = secrets.token_bytes(_TOKEN)
        self._memory[:_TOKEN] = token
        self.hint = msgspec.msgpack.encode(_Hint(os.getpid(), self._file, token))

    def room(self) -> memoryview | None:
        place = self._places.next
        return None if place is None else _chunk(self._memory, place, CHUNK_BYTES)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1  # the mapping goes with the last view of it


class MemoryReceiver:
    """Maps it for reading. PeerError: it is not there, is somebody else's, or could be cut short under us."""

    def __init__(self, hint: bytes) -> None:
        try:
            where = msgspec.msgpack.decode(hint, type=_Hint)
            self._memory = _mapped(Path(f"/proc/{where.process}/fd/{where.file}"))
        except (msgspec.MsgspecError, OSError, ValueError) as error:
            raise PeerError(f"the other node's memory cannot be reached: {error}") from error
        if len(where.token) != _TOKEN or self._memory[:_TOKEN] != where.token:
            raise PeerError("the memory found is not the other node's: it runs on another machine")

    def open(self, parcel: Parcel) -> memoryview:
        if parcel.place >= PLACES or parcel.size > CHUNK_BYTES:
            raise PeerError(f"no chunk of {parcel.size} bytes lies in place {parcel.place}")
        return check(parcel, _chunk(self._memory, parcel.place, parcel.size))

    def close(self) -> None:
        """The mapping goes with the last view of it."""


def _mapped(path: Path) -> mmap.mmap:
    # Looked at before it is opened: a peer must not make us open whatever it likes.
    if not str(path.readlink()).startswith(f"/memfd:{_NAME}"):
        raise ValueError(f"{path} is something else")
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        # Without these seals its owner could make it shorter, and reading what is gone ends a process.
        if fcntl.fcntl(file, fcntl.F_GET_SEALS) & _seals() != _seals():
            raise ValueError(f"{path} is not sealed")
        return mmap.mmap(file, _SIZE, prot=mmap.PROT_READ)  # refuses a file that is shorter
    finally:
        os.close(file)


def _seals() -> int:
    seals = 0
    for name in _SEALS:
        seals |= int(getattr(fcntl, name))
    return seals


def _chunk(memory: mmap.mmap, place: int, size: int) -> memoryview:
    begin = _HEAD + place * CHUNK_BYTES
    return memoryview(memory)[begin : begin + size]
