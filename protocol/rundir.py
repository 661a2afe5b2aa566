"""Where a user's files lie, and which services of this user run on this machine.

Every service keeps one JSON file while it lives, next to a file that it holds locked: what is not locked belongs to
the dead and is swept away.
"""

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import IO

import msgspec


class NodeState(msgspec.Struct, frozen=True):
    """One process of a service: `address` is where the mesh dials it, `text` what it said when it failed."""

    name: str
    role: str
    pid: int = 0
    address: str = ""
    state: str = ""
    text: str = ""
    threads: int = 1
    health: str = ""
    """Where `grpc.health.v1` tells of it; empty: nowhere."""
    model: str = ""
    """Name of the model that it computes with; empty: none."""


class ServiceState(msgspec.Struct, frozen=True):
    """What others must know of a running service."""

    name: str
    pid: int
    url: str
    model: str
    folder: str
    """Folder of the model: its tokenizer is the service's."""
    nodes: tuple[NodeState, ...] = ()
    keys: str = ""
    """Folder of the keys that its mesh needs; empty: none."""
    metrics: str = ""
    """Where the page of numbers is; empty: nowhere."""
    logs: str = ""
    """Folder of a log for each process, which goes when the service ends in order."""
    grpc: str = ""
    """Where gRPC clients are answered; empty: nowhere."""
    control: str = ""
    """Where its launcher obeys `draftmesh.v1.Control`; empty: nowhere."""
    traces: str = ""
    """Folder of the spans that its processes keep here; empty: they do not."""


def cache_folder() -> Path:
    """`DRAFTMESH_CACHE`, else `draftmesh` in the XDG cache folder. It need not exist."""
    if chosen := os.environ.get("DRAFTMESH_CACHE"):
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "draftmesh"


def runtime_folder() -> Path:
    """A folder for files that live as long as a process; nobody else may look into it."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    folder = Path(base) / "draftmesh" if base else cache_folder() / "run"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


class StateFile:
    """The file of one running service, until `close` or the end of the process."""

    def __init__(self, name: str) -> None:
        self._path = runtime_folder() / f"{name}.json"
        self._lock_path = self._path.with_suffix(".lock")
        self._lock = self._lock_path.open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def write(self, state: ServiceState) -> None:
        """Replace what the file says, at once."""
        aside = self._path.with_suffix(".new")
        aside.write_bytes(msgspec.json.encode(state))
        aside.replace(self._path)

    def close(self) -> None:
        """The service is over."""
        self._path.unlink(missing_ok=True)
        self._lock_path.unlink(missing_ok=True)
        self._lock.close()


def running() -> list[ServiceState]:
    """The services that run now, the youngest first."""
    found: list[tuple[float, ServiceState]] = []
    for path in runtime_folder().glob("*.json"):
        with suppress(OSError, msgspec.DecodeError):
            if _alive(path):
                state = msgspec.json.decode(path.read_bytes(), type=ServiceState)
                found.append((path.stat().st_mtime, state))
    found.sort(key=lambda pair: pair[0], reverse=True)
    return [state for _, state in found]


def _alive(path: Path) -> bool:
    """Whether the owner holds its lock; files of a dead one are removed."""
    lock_path = path.with_suffix(".lock")
    try:
        lock: IO[str] = lock_path.open("r+")
    except FileNotFoundError:
        path.unlink(missing_ok=True)
        return False
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        for each in (path, lock_path, path.with_suffix(".sock")):
            each.unlink(missing_ok=True)
        return False
