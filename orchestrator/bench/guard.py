"""Stands between us and a program of others: `python -m orchestrator.bench.guard PROGRAM ARGUMENTS...`.

Lines on stdin stop the program and all that it starts in their tracks, and let them go on. At the end of stdin, which
comes however we end, they are ended; and when the program ends, so does this.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

SIGNALS: Final[Mapping[str, signal.Signals]] = {"stop": signal.SIGSTOP, "go": signal.SIGCONT}
PATIENCE: Final = 15.0
"""Seconds that it has for an orderly end."""


def main() -> None:
    """Until one of both sides is over."""
    program = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, start_new_session=True)
    threading.Thread(target=_follow, args=(program,), daemon=True).start()
    for line in sys.stdin:
        _signal(program.pid, SIGNALS[line.strip()])
    _signal(program.pid, signal.SIGCONT)
    _signal(program.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        program.wait(PATIENCE)
    _signal(program.pid, signal.SIGKILL)


def _follow(program: "subprocess.Popen[bytes]") -> None:
    code = program.wait()
    _signal(program.pid, signal.SIGKILL)  # what it started and left behind
    os._exit(code if code >= 0 else 1)


def _signal(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, number)


if __name__ == "__main__":
    main()
