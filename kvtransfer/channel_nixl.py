"""Chunks that the taking side reads out of the giving side's memory through NIXL: InfiniBand, RoCE, or what UCX finds.

An extra (`nixl`). The library is loaded when the first channel is made, and keeps one agent a direction and process: a
new one takes half a second.
"""

import logging
import os
import secrets
from functools import lru_cache
from importlib.util import find_spec
from time import monotonic
from typing import Annotated, Any, Final

import msgspec
import numpy as np
from msgspec import Meta

from kvtransfer.channel import CHUNK_BYTES, PLACES, Placed, check
from protocol.errors import LocalError, PeerError
from protocol.messages import Parcel, Part

LIBRARY: Final = "nixl_cu12"
AVAILABLE: Final = find_spec(LIBRARY) is not None
PATIENCE: Final = 2.0
"""Seconds that reading a chunk may take: the loop stands still meanwhile."""
_SIZE: Final = PLACES * CHUNK_BYTES
_KIND: Final = "DRAM"


class _Hint(Part, frozen=True):
    """Who has the places, as the library describes itself, and where in its memory they begin."""

    agent: bytes
    address: Annotated[int, Meta(ge=1)]


class _Places:
    """Memory for all places that the library may reach; `close` ends that."""

    def __init__(self, agent: Any) -> None:  # noqa: ANN401  # the library is untyped
        self._agent = agent
        self._memory = np.zeros(_SIZE, np.uint8)
        self.address = int(self._memory.ctypes.data)
        self.registered = agent.register_memory([(self.address, _SIZE, 0, "")], _KIND)

    def view(self, place: int, size: int) -> memoryview:
        begin = place * CHUNK_BYTES
        return self._memory.data[begin : begin + size]

    def range(self, place: int, size: int) -> Any:  # noqa: ANN401
        """The bytes of a place, as the library names them."""
        return _range(self._agent, self.address, place, size)

    def close(self) -> None:
        if self.registered is not None:
            self._agent.deregister_memory(self.registered)
            self.registered = None


class ReadSender(Placed):
    """Owns the places; nothing is sent, they are read."""

    def __init__(self) -> None:
        super().__init__()
        agent = _agent("give")
        self._memory = _Places(agent)
        about = agent.get_partial_agent_metadata(self._memory.registered, inc_conn_info=True)
        self.hint = msgspec.msgpack.encode(_Hint(about, self._memory.address))

    def room(self) -> memoryview | None:
        place = self._places.next
        return None if place is None else self._memory.view(place, CHUNK_BYTES)

    def close(self) -> None:
        self._memory.close()


class ReadReceiver:
    """Reads places into places of its own. PeerError: the hint is none, or nobody is there."""

    def __init__(self, hint: bytes) -> None:
        try:
            where = msgspec.msgpack.decode(hint, type=_Hint)
        except msgspec.MsgspecError as error:
            raise PeerError(f"this is no hint of NIXL: {error}") from error
        try:
            self._agent = _agent("take")
        except LocalError as error:
            raise PeerError(str(error)) from error
        self._address = where.address
        try:
            self._peer: str = self._agent.add_remote_agent(where.agent)
        except _faults() as error:
            raise PeerError(f"NIXL does not know the other node: {error}") from error
        self._memory = _Places(self._agent)
        self._open = True

    def open(self, parcel: Parcel) -> memoryview:
        if parcel.place >= PLACES or parcel.size > CHUNK_BYTES:
            raise PeerError(f"no chunk of {parcel.size} bytes lies in place {parcel.place}")
        try:
            self._read(parcel)
        except _faults() as error:
            raise PeerError(f"NIXL cannot read place {parcel.place}: {error}") from error
        return check(parcel, self._memory.view(parcel.place, parcel.size))

    def _read(self, parcel: Parcel) -> None:
        agent = self._agent
        here = self._memory.range(parcel.place, parcel.size)
        there = _range(agent, self._address, parcel.place, parcel.size)
        transfer = agent.initialize_xfer("READ", here, there, self._peer)
        try:
            state = agent.transfer(transfer)
            until = monotonic() + PATIENCE
            while state == "PROC":
                if monotonic() > until:
                    raise PeerError(f"place {parcel.place} was not read within {PATIENCE:g} s")
                os.sched_yield()
                state = agent.check_xfer_state(transfer)
        finally:
            transfer.release()
        if state != "DONE":
            raise PeerError(f"NIXL cannot read place {parcel.place}: {state}")

    def close(self) -> None:
        if self._open:
            self._open = False
            self._memory.close()
            self._agent.remove_remote_agent(self._peer)


def _range(agent: Any, address: int, place: int, size: int) -> Any:  # noqa: ANN401
    return agent.get_xfer_descs([(address + place * CHUNK_BYTES, size, 0)], _KIND)


@lru_cache
def _agent(direction: str) -> Any:  # noqa: ANN401
    raising = logging.raiseExceptions  # the import changes it for everybody
    try:
        from nixl_cu12 import nixl_agent, nixl_agent_config  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise LocalError(f"NIXL cannot be loaded: {error}") from error
    logging.raiseExceptions = raising
    logging.getLogger("nixl").setLevel(logging.WARNING)  # standard output is the parent's
    faults: tuple[type[Exception], ...] = (*_faults(), RuntimeError)
    name = f"draftmesh {direction} {os.getpid()} {secrets.token_hex(8)}"
    try:
        return nixl_agent(name, nixl_agent_config(enable_prog_thread=True))
    except faults as error:
        raise LocalError(f"NIXL does not run here: {error}") from error


def _faults() -> tuple[type[Exception], ...]:
    """What the library raises."""
    from nixl_cu12 import _bindings  # noqa: PLC0415

    found = [each for each in vars(_bindings).values() if isinstance(each, type)]
    return tuple(each for each in found if issubclass(each, Exception))
