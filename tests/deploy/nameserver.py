"""A small DNS server: A records of one zone, as a cluster's has them for headless Services."""

import socket
import struct
import threading
from collections.abc import Sequence
from typing import Final

A: Final = 1
NO_SUCH_NAME: Final = 3
TTL: Final = 1


class NameServer:
    """Answers at port 53 of an address, from `records`, which may be changed at any time."""

    def __init__(self, address: str) -> None:
        self.records: dict[str, Sequence[str]] = {}
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((address, 53))
        self._thread = threading.Thread(target=self._serve, name="dns", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._socket.sendto(b"", self._socket.getsockname())  # what is empty ends it
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        while True:
            query, client = self._socket.recvfrom(4096)
            if not query:
                return
            self._socket.sendto(answer(query, self.records), client)


def answer(query: bytes, records: dict[str, Sequence[str]]) -> bytes:
    """The answer to one question (RFC 1035)."""
    labels, place = [], 12
    while length := query[place]:
        labels.append(query[place + 1 : place + 1 + length].decode())
        place += 1 + length
    end = place + 5
    (kind,) = struct.unpack_from("!H", query, place + 1)
    known = records.get(".".join(labels).lower())
    found = known if known and kind == A else ()
    code = NO_SUCH_NAME if known is None else 0
    head = query[:2] + struct.pack("!HHHHH", 0x8580 | code, 1, len(found), 0, 0)
    lines = [
        b"\xc0\x0c" + struct.pack("!HHIH", A, 1, TTL, 4) + socket.inet_aton(address)
        for address in found
    ]
    return head + query[12:end] + b"".join(lines)
