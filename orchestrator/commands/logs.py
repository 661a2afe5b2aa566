"""`orchestrator logs`: what the processes of a service wrote, in the order of time."""

import heapq
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final, NamedTuple

from orchestrator.commands.output import NONE_RUNS, complain
from orchestrator.commands.services import NoServiceError, chosen, ended
from protocol.rundir import ServiceState, cache_folder, running

STAMP: Final = re.compile(r'(?:\{"time": ")?(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[.,]\d{3})')
"""At the beginning of a line, as text or as JSON."""
OBJECT: Final = '{"time": '
"""How lines begin that say themselves whose they are: programs read them."""
GLANCE: Final = 0.2
"""Seconds between two looks at files that others write."""


class Entry(NamedTuple):
    """A line and those without a time of their own that belong to it."""

    stamp: str
    node: str
    text: str


def logs(name: str | None, which: Sequence[str], *, follow: bool, lines: int | None) -> int:
    """Print the logs of the nodes or roles in `which`, or of all; then go on until the service ends."""
    service, folder = _place(name)
    files = sorted(folder.glob("*.log"))
    known = {path.stem: path for path in files}
    chosen_files = [path for node, path in known.items() if _wanted(node, which)]
    for word in which:
        if not any(_wanted(node, [word]) for node in known):
            complain(f"There is no log of {word!r}; there is {', '.join(known)}.")
            return NONE_RUNS
    tails = [_Tail(path) for path in chosen_files]
    width = max((len(tail.node) for tail in tails), default=0)
    found = list(merged([entries(tail.node, tail.more()) for tail in tails]))
    _print(found if lines is None else found[len(found) - min(lines, len(found)) :], width)
    if follow and service is not None:
        _follow(service, tails, which)
    return 0


def entries(node: str, lines: Iterable[str]) -> Iterator[Entry]:
    """The lines of one log. What stands before the first time is as old as can be."""
    stamp, held = "", list[str]()
    for line in lines:
        if found := STAMP.match(line):
            if held:
                yield Entry(stamp, node, "\n".join(held))
            stamp, held = found[1], []
        held.append(line)
    if held:
        yield Entry(stamp, node, "\n".join(held))


def merged(logs: Sequence[Iterable[Entry]]) -> Iterator[Entry]:
    """Logs of several nodes as one, in the order of time."""
    return heapq.merge(*logs, key=lambda entry: entry.stamp)


def _place(name: str | None) -> tuple[ServiceState | None, Path]:
    """A service that runs and its logs; where none does, the logs of the last that could not."""
    kept = cache_folder() / "logs"
    if name is None and not running():
        folders = sorted(kept.glob("*"), key=lambda path: path.stat().st_mtime)
        if folders:
            return None, folders[-1]
    runs = name is None or any(service.name == name for service in running())
    if name is not None and not runs and Path(name).name == name and (kept / name).is_dir():
        return None, kept / name
    service = chosen(name)
    if not service.logs:
        raise NoServiceError(f"{service.name} keeps no logs here.")
    return service, Path(service.logs)


def _wanted(node: str, which: Sequence[str]) -> bool:
    """By its name or its role."""
    return not which or node in which or node.rpartition("-")[0] in which


@dataclass
class _Tail:
    """A file that grows."""

    path: Path
    _file: IO[str] | None = None
    _rest: str = field(default="")

    @property
    def node(self) -> str:
        return self.path.stem

    def more(self) -> list[str]:
        """The whole lines that came since the last call; none of a file that is gone before it was read."""
        if self._file is None:
            try:
                self._file = self.path.open(encoding="utf-8", errors="replace")
            except FileNotFoundError:
                return []
        *lines, self._rest = (self._rest + self._file.read()).split("\n")
        return lines


def _follow(service: ServiceState, tails: Sequence[_Tail], which: Sequence[str]) -> None:
    """Until the service ends: the files are gone then, but what is open can still be read. Nodes may come."""
    known = {tail.path: tail for tail in tails}
    over = False
    while not over:
        over = ended(service, time.monotonic() + GLANCE)
        for path in sorted(Path(service.logs).glob("*.log")):
            if path not in known and _wanted(path.stem, which):
                known[path] = _Tail(path)
        found = list(merged([entries(tail.node, tail.more()) for tail in known.values()]))
        _print(found, max((len(tail.node) for tail in known.values()), default=0))


def _print(found: Iterable[Entry], width: int) -> None:
    for entry in found:
        for line in entry.text.split("\n"):
            whose = "" if line.startswith(OBJECT) else f"{entry.node:<{width}}  "
            sys.stdout.write(f"{whose}{line}\n")
    sys.stdout.flush()
