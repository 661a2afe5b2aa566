"""Network namespaces on one bridge: each has its own address, as a pod has."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

NETWORK: Final = "198.18.77"
"""Of the range that is set aside for tests (RFC 2544)."""
HERE: Final = f"{NETWORK}.1"


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def permitted() -> bool:
    """Whether this user may make network namespaces, and a mount of its own."""
    try:
        done = subprocess.run(
            ["unshare", "-mn", "-p", "--fork", "true"], check=False, capture_output=True
        )
        ip("-V")
    except OSError:
        return False
    return done.returncode == 0


class Network:
    """A bridge that this process stands on too. What a test that was killed left behind has other names."""

    def __init__(self) -> None:
        self._name = f"dm{os.getpid()}"
        self._bridge = f"{self._name}-br"
        self._used = 1
        ip("link", "add", self._bridge, "type", "bridge")
        ip("addr", "add", f"{HERE}/24", "dev", self._bridge)
        ip("link", "set", self._bridge, "up")

    def close(self) -> None:
        ip("link", "del", self._bridge)

    @contextmanager
    def host(self) -> Iterator[tuple[str, str]]:
        """A namespace with an address that nobody had before: its name and the address."""
        self._used += 1
        name, address = f"{self._name}-{self._used}", f"{NETWORK}.{self._used}"
        outer, inner = f"{name}o", f"{name}i"
        with ExitStack() as stack:
            ip("netns", "add", name)
            stack.callback(ip, "netns", "del", name)
            ip("link", "add", outer, "type", "veth", "peer", "name", inner)
            # At once, and the pair with it: with its namespace alone it would go some time later.
            stack.callback(ip, "link", "del", outer)
            ip("link", "set", outer, "master", self._bridge, "up")
            ip("link", "set", inner, "netns", name)
            ip("-n", name, "addr", "add", f"{address}/24", "dev", inner)
            ip("-n", name, "link", "set", inner, "up")
            ip("-n", name, "link", "set", "lo", "up")
            yield name, address


def command(namespace: str, resolver: Path, arguments: list[str]) -> list[str]:
    """A command that runs in the namespace, asks these name servers, and sees no process of other pods.

    The program is the only child of the process that is started, ends with it, and gives it its exit code.
    """
    inside = 'mount --bind "$0" /etc/resolv.conf && exec "$@"'
    apart = ["unshare", "-m", "-p", "--fork", "--kill-child", "--mount-proc"]
    return [
        *("nsenter", f"--net=/run/netns/{namespace}"),
        *apart,
        *("--", "sh", "-c", inside, str(resolver), *arguments),
    ]
