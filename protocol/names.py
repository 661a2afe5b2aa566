"""Host names in the list of peers: looked up by us, again and again: one name may stand for several nodes, and move.

ZeroMQ connects to the first answer only and keeps it. Here every address that a name has is a peer of its own, and a
name that moves is hung up on where it was and dialled where it is. A name that cannot be looked up now keeps the
addresses that it had.
"""

import ipaddress
import logging
import socket
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from protocol.process import Peers

log = logging.getLogger(__name__)

AGAIN: Final = 5.0
"""Seconds between two lookups of a name."""

Lookup = Callable[[str], Sequence[str]]
"""The numeric addresses of a host name now; OSError when nobody knows, UnicodeError for what is no name."""


def lookup(host: str) -> Sequence[str]:
    """By the system's resolver. Of a host with both kinds of address only the older kind counts: it is one node."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    kind = min((each[0] for each in found), key=lambda family: family != socket.AF_INET)
    return sorted({str(each[4][0]) for each in found if each[0] == kind})


def host_of(address: str) -> str:
    """The host name in an address that must be looked up; empty when there is none."""
    _, tcp, rest = address.partition("tcp://")
    host = rest.rpartition(":")[0].strip("[]")
    if not tcp or not host:
        return ""
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    return ""


def expanded(addresses: Iterable[str], known: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Every address once, with numbers for names; names that nobody knows yet are left out."""
    numeric: dict[str, None] = {}
    for address in addresses:
        host = host_of(address)
        if not host:
            numeric[address] = None
            continue
        before, _, port = address.rpartition(":")
        head = before.removesuffix(host)
        for number in known.get(host, ()):
            shown = f"[{number}]" if ":" in number else number
            numeric[f"{head}{shown}:{port}"] = None
    return tuple(numeric)


class Names:
    """Turns `Peers` into ones that can be dialled; `put` is given the list again when a name has moved.

    The lookups run in a thread of their own, which begins with the first name and ends with the process.
    """

    def __init__(
        self, put: Callable[[Peers], None], find: Lookup = lookup, again: float = AGAIN
    ) -> None:
        self._put = put
        self._find = find
        self._again = again
        self._wanted = Peers(())
        self._known: dict[str, Sequence[str]] = {}
        self._news = threading.Event()
        self._thread: threading.Thread | None = None

    def numeric(self, peers: Peers) -> Peers:
        """The same list as far as its names are known; it comes again through `put` when more is."""
        self._wanted = peers
        known = Peers(expanded(peers.addresses, self._known))
        if any(map(host_of, peers.addresses)):
            self._news.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="names", daemon=True)
                self._thread.start()
        return known

    def _run(self) -> None:
        while True:
            self._news.wait(self._again)
            self._news.clear()
            wanted = self._wanted
            if self.look(wanted.addresses):
                self._put(wanted)

    def look(self, addresses: Iterable[str]) -> bool:
        """Look all names up once; whether any of them has moved."""
        moved = False
        for host in dict.fromkeys(filter(None, map(host_of, addresses))):
            try:
                numbers = list(self._find(host))
            except (OSError, UnicodeError) as error:  # the latter: a name that cannot be one
                if host not in self._known:
                    self._known[host] = ()
                    log.warning("nobody knows the host %s: %s", host, error)
                continue
            if numbers != self._known.get(host):
                log.info("host %s is at %s", host, ", ".join(numbers))
                self._known[host] = numbers
                moved = True
        return moved
