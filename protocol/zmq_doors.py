"""Who gets in at a ZeroMQ socket, and what is known of those who did not."""

import logging
from typing import Any, Final

import zmq
from zmq.auth.thread import ThreadAuthenticator
from zmq.utils.monitor import recv_monitor_message

from protocol.errors import LocalError
from protocol.keys import KeyRing

log = logging.getLogger(__name__)

_FAILURES: Final = int(
    zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
)
_UNFIT: Final = "the handshake failed: keys that do not fit, none on one side, or a node that ended"
_REASONS: Final = {
    int(zmq.EVENT_HANDSHAKE_FAILED_AUTH): "it does not allow our key",
    int(zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL): _UNFIT,
    int(zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL): _UNFIT,
}


class Doorkeeper:
    """Answers the handshakes of a context's binding socket, in a thread of its own: a busy loop delays nobody."""

    def __init__(self, context: "zmq.Context[Any]", ring: KeyRing) -> None:
        self._ring = ring
        self._refused: set[bytes] = set()
        self._thread = ThreadAuthenticator(context, log=logging.getLogger(f"{__name__}.zap"))
        logging.getLogger(f"{__name__}.zap").setLevel(logging.ERROR)
        self._thread.start()
        self._thread.configure_curve_callback("*", credentials_provider=self)

    def callback(self, _domain: str, key: bytes) -> bool:
        """Whether the holder of this key may come in; asked by the library."""
        try:
            allowed = self._ring.allowed()
        except LocalError as error:  # the thread must live: the folder may be mended
            log.error("nobody is let in: %s", error)
            return False
        if key in allowed:
            return True
        if key not in self._refused and len(self._refused) < 1024:
            self._refused.add(key)
            log.warning("refused a node with the key %s, which is not allowed", key.decode())
        return False

    def close(self) -> None:
        self._thread.stop()


class Watcher:
    """Hears why dialled nodes did not let us in; says each reason once for each address.

    Its sockets are in `poller` too: whoever polls gives it what turned up.
    """

    def __init__(self, poller: zmq.Poller) -> None:
        self._poller = poller
        self._monitors: dict[Any, tuple[Any, str]] = {}  # dealer: its monitor, its address
        self._said: set[tuple[str, int]] = set()

    def add(self, dealer: "zmq.Socket[bytes]", address: str) -> None:
        monitor = dealer.get_monitor_socket(_FAILURES)
        self._monitors[dealer] = (monitor, address)
        self._poller.register(monitor, zmq.POLLIN)

    def remove(self, dealer: "zmq.Socket[bytes]") -> None:
        monitor, _ = self._monitors.pop(dealer)
        self._poller.unregister(monitor)
        dealer.disable_monitor()
        monitor.close(0)

    def read(self, socket: Any) -> None:  # noqa: ANN401
        """Take what a monitor has to say; other sockets say nothing here."""
        for monitor, address in self._monitors.values():
            if monitor is not socket:
                continue
            while monitor.getsockopt(zmq.EVENTS) & zmq.POLLIN:
                event = int(recv_monitor_message(monitor)["event"])
                if (address, event) not in self._said and event in _REASONS:
                    self._said.add((address, event))
                    log.warning("%s does not let us in: %s", address, _REASONS[event])

    def close(self) -> None:
        for dealer in list(self._monitors):
            self.remove(dealer)
