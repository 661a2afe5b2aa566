"""Who makes the processes of a service run: on this machine, or wherever another `Starter` puts them."""

from pathlib import Path
from typing import IO, Any, Protocol

from orchestrator.launch.plan import Child
from orchestrator.launch.process import Process


class Running(Protocol):
    """A child that runs, as `Process` is: `stdout` is readable when `read` has something to tell."""

    stdout: IO[bytes]
    pid: int

    def tell(self, line: object) -> None: ...

    def read(self) -> list[dict[str, Any]] | None: ...

    def kill(self) -> None: ...

    def reap(self) -> int: ...


class Starter(Protocol):
    """Starts children, and gives back what it holds when all have ended."""

    def start(self, child: Child, log: Path) -> Running: ...

    def close(self) -> None: ...


class Here:
    """Starts them on this machine."""

    def start(self, child: Child, log: Path) -> Running:
        return Process(child, log)

    def close(self) -> None:
        pass
