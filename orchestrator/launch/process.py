"""One child process: a line of JSON at a time in and out, its log in a file."""

import json
import os
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final

from orchestrator.launch.plan import Child
from orchestrator.python import command, environment

GONE: Final = 2.0
"""Seconds between a child's last word and its end."""


class Process:
    """A child that runs. Whoever holds it reads `stdout` when that is readable, and ends it."""

    def __init__(self, child: Child, log: Path) -> None:
        config = child.config.model_dump_json()
        with log.open("ab") as stderr:
            self._popen = subprocess.Popen(
                command("orchestrator.child", child.module, "--supervised", "--config", config),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=environment(child.environment),
                # A Ctrl-C in the terminal is ours to handle. A session of its own would weigh as much as all of ours:
                # one busy thread of a drafter as much as a verifier that computes on every processor.
                process_group=0,
            )
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        self._stdin: IO[bytes] = self._popen.stdin
        self.stdout: IO[bytes] = self._popen.stdout
        self.pid = self._popen.pid
        self._unsaid = b""
        self._partial = b""
        os.set_blocking(self._stdin.fileno(), False)
        os.set_blocking(self.stdout.fileno(), False)

    def tell(self, line: object) -> None:
        """Write a line; what the pipe does not take now goes with the next one."""
        self._unsaid += json.dumps(line).encode() + b"\n"
        with suppress(BlockingIOError, BrokenPipeError):
            written = os.write(self._stdin.fileno(), self._unsaid)
            self._unsaid = self._unsaid[written:]

    def read(self) -> list[dict[str, Any]] | None:
        """The status lines that came since the last call; None when the child has closed its mouth for good."""
        try:
            data = os.read(self.stdout.fileno(), 1 << 16)
        except BlockingIOError:
            return []
        if not data:
            return None
        *lines, self._partial = (self._partial + data).split(b"\n")
        return [status for line in lines if (status := parse(line)) is not None]

    def kill(self) -> None:
        """End it at once, whatever it does."""
        self._popen.kill()

    def reap(self) -> int:
        """The exit code of a child that has closed its stdout, or was killed."""
        try:
            code = self._popen.wait(GONE)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            code = self._popen.wait()
        with suppress(BrokenPipeError):
            self._stdin.close()
        self.stdout.close()
        return code


def parse(line: bytes) -> dict[str, Any] | None:
    """A status line; what a library prints to stdout is none."""
    with suppress(ValueError):
        status = json.loads(line)
        if isinstance(status, dict) and isinstance(status.get("state"), str):
            return status
    return None
