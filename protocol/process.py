"""How a role process speaks with whoever started it: commands on stdin, status lines on stdout.

The parent writes JSON lines (`{"peers": [...]}`, `{"drain": true}`); the end of stdin means that the parent is gone.
The child says its state in JSON lines. Logs go to stderr. Unsupervised processes use neither.
"""

import ctypes
import json
import logging
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

PR_SET_PDEATHSIG: Final = 1


@dataclass(frozen=True, slots=True)
class Peers:
    """From now on, these are the addresses to dial."""

    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Drain:
    """Take nothing new, finish what runs, then end."""


@dataclass(frozen=True, slots=True)
class Stop:
    """End at once."""


Command = Peers | Drain | Stop


class Control:
    """Signals and the parent's lines as a queue of commands; `wake` is called for each, from any thread.

    The first SIGTERM or SIGINT is a `Drain`, the second a `Stop`. When the parent is gone, the process gets a `Stop`
    and `grace` seconds before it is ended the hard way: nothing is ever left running.
    """

    def __init__(self, *, supervised: bool, grace: float = 5.0) -> None:
        self._commands: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self._wake: Callable[[], None] = lambda: None
        self._signals = 0
        self._grace = grace
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._signalled)
        if supervised:
            threading.Thread(target=self._listen, name="control", daemon=True).start()

    def on_command(self, wake: Callable[[], None]) -> None:
        """Who must be woken when a command comes; a command that came before wakes at once."""
        self._wake = wake
        wake()

    def drain(self) -> list[Command]:
        """The commands that came since the last call."""
        commands: list[Command] = []
        while not self._commands.empty():
            commands.append(self._commands.get_nowait())
        return commands

    def put(self, command: Command) -> None:
        self._commands.put(command)
        self._wake()

    def _signalled(self, _number: int, _frame: object) -> None:
        self._signals += 1
        if self._signals > 2:
            os._exit(0)  # asked three times: even a loop that hangs must end
        self.put(Drain() if self._signals == 1 else Stop())

    def _listen(self) -> None:
        for line in sys.stdin:
            command = parse(line)
            if command is None:
                logging.getLogger(__name__).warning("unknown command %r", line[:200])
            else:
                self.put(command)
        self.put(Stop())
        threading.Event().wait(self._grace)
        os._exit(1)


def parse(line: str) -> Command | None:
    """The command in a line, or None."""
    try:
        match json.loads(line):
            case {"peers": [*addresses]} if all(isinstance(each, str) for each in addresses):
                return Peers(tuple(addresses))
            case {"drain": True}:
                return Drain()
            case {"stop": True}:
                return Stop()
    except json.JSONDecodeError:
        pass
    return None


def die_with_parent() -> None:
    """Where the system offers it, be killed when the parent is gone: so one that is frozen, or busy, goes, too."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def announce(state: str, **fields: Any) -> None:
    """Tell the parent: `loading`, `ready`, `draining` or `failed`, with what it must know."""
    print(json.dumps({"state": state, **fields}), flush=True)  # noqa: T201


def advance(node_id: str, what: str, done: int, total: int) -> None:
    """Tell the parent how far something is that takes long while this node loads."""
    progress = {"what": what, "done": done, "total": total}
    announce("loading", node_id=node_id, progress=progress)
