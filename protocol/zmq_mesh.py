"""The mesh over ZeroMQ: one ROUTER for those who dial us, one DEALER for each node we dial.

The only sockets of the mesh. One thread owns them all; only `wake` may be called from another.
"""

import logging
import os
import threading
from collections.abc import Sequence
from math import ceil
from typing import Final, NamedTuple

import zmq

from protocol.config import MeshConfig
from protocol.errors import LocalError
from protocol.keys import KeyRing
from protocol.mesh import Frames, Peer
from protocol.zmq_doors import Doorkeeper, Watcher

log = logging.getLogger(__name__)

_LINGER: Final = 100  # milliseconds that a last word has to leave; set when a socket is made
OPEN: Final = MeshConfig()
"""Without keys, and therefore on loopback and ipc only."""
_PATIENCE: Final = 5.0  # seconds that closing may take, lingering included
_FEW: Final = 256  # messages a socket may hold each way before it refuses
_COPIED: Final = 1 << 16  # bytes below which copying a message is cheaper than sharing it
# As plain numbers: arithmetic on the library's enumerations costs more than the call that it is for.
_NOBLOCK: Final = int(zmq.NOBLOCK)
_MORE: Final = int(zmq.NOBLOCK | zmq.SNDMORE)
_EVENTS: Final = int(zmq.EVENTS)
_READABLE: Final = int(zmq.POLLIN)


class _Dialled(NamedTuple):
    address: str


class ZmqMesh:
    """Keeps the contract of `protocol.mesh.Mesh`. `bind` may end in `:*`; `address` then tells the port.

    With keys (`config.keys`), every link is encrypted and only nodes whose key is allowed get in. A node that is
    dialled has this node's own key, unless its address says which: `NAME@tcp://HOST:PORT`.
    """

    def __init__(
        self, bind: str = "", config: MeshConfig = OPEN, max_message: int = 128 << 20
    ) -> None:
        ring = KeyRing(config.keys) if config.keys else None
        if bind and not (ring or config.insecure or is_local(bind)):
            raise LocalError(
                f"{bind} is open to others: bind to loopback or ipc, give keys, or say insecure"
            )
        self._keys = ring
        self._own = ring.own() if ring else None
        self._context = zmq.Context(io_threads=1)
        self._max_message = max_message
        self._poller = zmq.Poller()
        self._watcher = Watcher(self._poller)
        self._doorkeeper: Doorkeeper | None = None
        self._dealers: dict[_Dialled, zmq.Socket[bytes]] = {}
        self._router: zmq.Socket[bytes] | None = None
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self._poller.register(self._wake_read, zmq.POLLIN)
        if bind:
            self._router = self._socket(zmq.ROUTER)
            self._router.setsockopt(zmq.ROUTER_MANDATORY, 1)
            if ring and self._own:
                self._doorkeeper = Doorkeeper(self._context, ring)
                self._router.curve_secretkey = self._own.secret
                self._router.curve_publickey = self._own.public
                self._router.curve_server = True
            self._bind(self._router, bind)
            self._poller.register(self._router, zmq.POLLIN)

    def _bind(self, router: "zmq.Socket[bytes]", bind: str) -> None:
        router.setsockopt(zmq.IPV6, int("[" in bind))
        try:
            router.bind(bind)
        except zmq.ZMQError as error:
            self.close()
            raise LocalError(f"cannot bind {bind}: {error}") from error

    def _socket(self, kind: int) -> "zmq.Socket[bytes]":
        socket = self._context.socket(kind)
        for option, value in {
            zmq.LINGER: _LINGER,
            zmq.SNDHWM: _FEW,
            zmq.RCVHWM: _FEW,
            zmq.MAXMSGSIZE: self._max_message,
            zmq.IMMEDIATE: 1,
            zmq.RECONNECT_IVL: 50,
            zmq.RECONNECT_IVL_MAX: 2000,
            zmq.HEARTBEAT_IVL: 1000,
            zmq.HEARTBEAT_TIMEOUT: 3000,
            zmq.HEARTBEAT_TTL: 3000,
            zmq.HANDSHAKE_IVL: 3000,
        }.items():
            socket.setsockopt(option, value)
        return socket

    @property
    def address(self) -> str:
        if self._router is None:
            return ""
        return self._router.getsockopt_string(zmq.LAST_ENDPOINT)

    def connect(self, address: str) -> Peer:
        peer = _Dialled(address)
        if peer not in self._dealers:
            dealer = self._socket(zmq.DEALER)
            name, bare = parted(address)
            try:
                if self._keys and self._own:
                    dealer.curve_secretkey = self._own.secret
                    dealer.curve_publickey = self._own.public
                    dealer.curve_serverkey = self._keys.named(name)
                dealer.setsockopt(zmq.IPV6, int("[" in bare))
                dealer.connect(bare)
            except (zmq.ZMQError, LocalError) as error:
                dealer.close()
                raise LocalError(f"cannot dial {address}: {error}") from error
            self._dealers[peer] = dealer
            self._poller.register(dealer, zmq.POLLIN)
            self._watcher.add(dealer, bare)
        return peer

    def disconnect(self, peer: Peer) -> None:
        dealer = self._dealers.pop(peer, None) if isinstance(peer, _Dialled) else None
        if dealer is not None:
            self._poller.unregister(dealer)
            self._watcher.remove(dealer)
            dealer.close()

    def send(self, peer: Peer, frames: Frames) -> bool:
        try:
            if isinstance(peer, _Dialled):
                _send(self._dealers[peer], frames)
            elif self._router is not None and isinstance(peer, bytes):
                _send(self._router, [peer, *frames])
        except (zmq.Again, KeyError):
            return False
        except zmq.ZMQError as error:
            if error.errno in {zmq.EHOSTUNREACH, zmq.ENOTSUP}:
                return False
            raise
        return True

    def drain(self) -> list[tuple[Peer, Frames]]:
        drained: list[tuple[Peer, Frames]] = []
        if self._router is not None:
            for identity, *frames in _messages(self._router):
                drained.append((bytes(identity), frames))
        for peer, dealer in self._dealers.items():
            drained.extend((peer, frames) for frames in _messages(dealer))
        return drained

    def wait(self, seconds: float) -> None:
        timeout = None if seconds == float("inf") else ceil(max(0.0, seconds) * 1000)
        for socket, _ in self._poller.poll(timeout):
            if socket == self._wake_read:  # not in `drain`: a wake between two turns must last
                os.read(self._wake_read, 4096)
            else:
                self._watcher.read(socket)

    def wake(self) -> None:
        try:
            os.write(self._wake_write, b"!")
        except OSError:
            return  # the pipe is full of wakes already, or the mesh was closed

    def close(self) -> None:
        if self._context.closed:
            return
        if self._doorkeeper:
            self._doorkeeper.close()
        self._watcher.close()
        _end(self._context)
        write, self._wake_write = self._wake_write, -1
        os.close(write)
        os.close(self._wake_read)


def parted(address: str) -> tuple[str, str]:
    """The name of a key, if one is said, and the address itself."""
    name, at, bare = address.partition("@")
    return (name, bare) if at and "://" not in name else ("", address)


def is_local(address: str) -> bool:
    """Whether only this machine can reach `address`."""
    return address.startswith(
        ("ipc://", "inproc://", "tcp://127.", "tcp://localhost:", "tcp://[::1]")
    )


def _end(context: "zmq.Context[zmq.Socket[bytes]]") -> None:
    """Close what is open and let last words leave, within a bound: seen once, libzmq itself never came back."""
    ending = threading.Thread(target=context.destroy, name="mesh end", daemon=True)
    ending.start()
    ending.join(_PATIENCE)
    if ending.is_alive():
        log.warning(
            "sockets of the mesh did not close within %g s; they end with the process", _PATIENCE
        )


def _send(socket: "zmq.Socket[bytes]", frames: Frames) -> None:
    """All parts or, when the first one is not taken, none."""
    copy = sum(map(len, frames)) < _COPIED
    for frame in frames[:-1]:
        socket.send(frame, _MORE, copy=copy)
    socket.send(frames[-1], _NOBLOCK, copy=copy)


def _messages(socket: "zmq.Socket[bytes]") -> Sequence[list[bytes | memoryview]]:
    """What is here now: asking for events first spares an exception a call, a frame's own `more` an option a part."""
    messages: list[list[bytes | memoryview]] = []
    while len(messages) < _FEW and int(socket.getsockopt(_EVENTS)) & _READABLE:
        frame = socket.recv(_NOBLOCK, copy=False)
        parts: list[bytes | memoryview] = [frame.bytes]
        while frame.more:
            frame = socket.recv(_NOBLOCK, copy=False)
            parts.append(frame.bytes if len(frame) < _COPIED else frame.buffer)
        messages.append(parts)
    return messages
