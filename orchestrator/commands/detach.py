"""`orchestrator up --detach`: the same command in a session of its own, left alone as soon as it serves."""

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Final

from orchestrator.commands.output import FAILED, complain, out, say
from orchestrator.python import command, environment
from protocol.rundir import cache_folder

FLAG: Final = "--detach"
LOG_TAIL: Final = 20


def up_detached(arguments: Sequence[str]) -> int:
    """Start `arguments` without the flag that asks for this; return when the service answers or has failed.

    The child says that it serves by a byte on a pipe: the pipe's end without one means that it is gone.
    """
    log = _log()
    reading, writing = os.pipe()
    with log.open("wb") as told, os.fdopen(reading, "rb") as served:
        process = _start([word for word in arguments if word != FLAG], writing, told)
        os.close(writing)
        try:
            serves = bool(served.read(1))
        except KeyboardInterrupt:
            process.terminate()
            process.wait()
            raise
    text = log.read_text(encoding="utf-8", errors="replace")
    if serves:
        out.print(text, end="", markup=False, soft_wrap=True)
        return 0
    code = process.wait()
    complain(f"The service did not start; the end of {log}:")
    for line in text.splitlines()[-LOG_TAIL:]:
        say(f"  {line}")
    return code or FAILED


def tell_served(number: int | None) -> None:
    """In the child: it serves, and nobody waits for it any more."""
    if number is not None:
        os.write(number, b"!")
        os.close(number)


def _start(arguments: Sequence[str], writing: int, told: IO[bytes]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        command("orchestrator", *arguments, "--served-to", str(writing)),
        stdin=subprocess.DEVNULL,
        stdout=told,
        stderr=subprocess.STDOUT,
        pass_fds=(writing,),
        env=environment(),
        start_new_session=True,  # neither a Ctrl-C nor the end of the terminal is for it
    )


def _log() -> Path:
    """What the command says from then on."""
    folder = cache_folder() / "detached"
    folder.mkdir(parents=True, exist_ok=True)
    for old in sorted(folder.glob("*.log"))[:-10]:
        old.unlink(missing_ok=True)
    return folder / f"{time.time_ns()}.log"
