"""The actor that keeps one role process on the node where Ray put it. It runs what the local launcher runs.

Ray never sees a token: roles speak over the mesh. What passes here are the same lines that pass between the local
launcher and its children. If the actor dies, or Ray, or the node, the process dies with it.
"""

import select
from pathlib import Path
from typing import Any, Final, NamedTuple

import ray

from orchestrator.launch.placement import bound_at
from orchestrator.launch.plan import Child
from orchestrator.launch.process import Process
from orchestrator.launch.telling import sweep_logs
from protocol.rundir import cache_folder

LINES: Final = 5
"""Lines of a log that are told when a process has ended."""


class News(NamedTuple):
    """What a process said since the last question; `code` once it has ended, with the end of its log."""

    lines: tuple[dict[str, Any], ...]
    code: int | None = None
    log: str = ""


class Keeper:
    """One process, started when the actor is made."""

    def __init__(self, child: Child, service: str) -> None:
        self._name = child.name
        folder = cache_folder() / "logs" / service
        folder.mkdir(parents=True, exist_ok=True)
        sweep_logs(folder.parent)
        self._log = folder / f"{child.name}.log"
        self._process = Process(bound_at(child, ray.util.get_node_ip_address()), self._log)

    @ray.method(concurrency_group="listen")  # type: ignore[untyped-decorator]
    def news(self, patience: float) -> News:
        """What it says next; after so many seconds nothing, if it said nothing."""
        select.select([self._process.stdout], [], [], patience)
        lines = self._process.read()
        if lines is not None:
            return News(tuple(lines))
        code = self._process.reap()
        text = self._log.read_text(encoding="utf-8", errors="replace")
        self._remove(code)
        return News((), code, "\n".join(text.splitlines()[-LINES:]))

    @ray.method(concurrency_group="tell")  # type: ignore[untyped-decorator]
    def tell(self, line: object) -> None:
        """Write a line to it."""
        self._process.tell(line)

    def ping(self) -> str:
        """Its name: the actor answers while the process works."""
        return self._name

    def _remove(self, code: int) -> None:
        """A log that nobody will want is not kept."""
        if code == 0:
            self._log.unlink(missing_ok=True)
            folder: Path = self._log.parent
            if not any(folder.iterdir()):
                folder.rmdir()
