"""Grammars are tried in a process that may die of them.

A pattern of sixty characters can take minutes to compile, a schema of a hundred kilobytes more stack than a thread has;
neither can be interrupted where it happens. So a child compiles first, bounded in processor time, memory and stack.
What it survives is compiled again where it is used.
"""

import os
import resource
import select
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

import msgspec

from protocol.messages import Grammar
from verifier.grammar import bridge, check

PROCESSOR_SECONDS: Final = 0.5
"""What one grammar may take; a schema of a thousand optional properties takes 0.15."""
WALL_SECONDS: Final = 60.0
"""What an answer may take on a machine that is too busy to give the child its turn; it says nothing of the grammar."""
START_SECONDS: Final = 60.0
STACK: Final = 4 << 20
"""Of the child. Half of what threads have elsewhere, so that what fits here fits there."""
MEMORY: Final = 2 << 30
NICE: Final = 5
"""The child takes its turn behind whoever answers."""


class VettingError(RuntimeError):
    """The child does not do its work; this says nothing about any grammar."""


class Vetting:
    """Asks a child, which starts with the first question and again after each that killed it.

    For one checkpoint folder; `width` and `end_tokens` as in `bridge`, and of no matter to what is right or wrong.
    May be asked from any thread, one at a time; `patience` is how long an answer may take.
    """

    def __init__(
        self,
        folder: Path,
        width: int = 0,
        end_tokens: frozenset[int] = frozenset(),
        patience: float = WALL_SECONDS,
    ) -> None:
        self.patience = patience
        self._arguments = (str(folder), str(width), *map(str, sorted(end_tokens)))
        self._turn = threading.Lock()
        self._child: _Child | None = None

    def check(self, grammar: Grammar) -> str:
        """What is wrong with a grammar, or nothing; a VettingError if nobody can tell."""
        with self._turn:
            if self._child is not None and self._child.dead:
                self._end()
            if self._child is None:
                self._child = _Child(self._arguments)
            try:
                answer = self._child.ask(grammar, self.patience)
            except TimeoutError as error:
                self._end()
                text = f"the grammar could not be checked within {self.patience:g} s"
                raise VettingError(text) from error
            return _epitaph(self._end()) if answer is None else answer

    def close(self) -> None:
        """The child is not needed any more; a later question starts another."""
        with self._turn:
            if self._child is not None:
                self._end()

    def _end(self) -> int:
        assert self._child is not None
        code = self._child.end()
        self._child = None
        return code


class _Child:
    def __init__(self, arguments: tuple[str, ...]) -> None:
        self._popen = subprocess.Popen(
            [sys.executable, "-P", "-m", "verifier.vetting", *arguments],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(_places())},
            process_group=0,  # in our session, where its niceness counts
        )
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        self._stdin: IO[bytes] = self._popen.stdin
        self._stdout: IO[bytes] = self._popen.stdout
        os.set_blocking(self._stdin.fileno(), False)
        try:
            ready = self._line(time.monotonic() + START_SECONDS)
        except TimeoutError:
            ready = None
        if ready is None:
            raise VettingError(f"grammars cannot be checked: the child ended with {self.end()}")

    def ask(self, grammar: Grammar, seconds: float) -> str | None:
        """The child's answer; None if it died of the question, a TimeoutError if it does neither."""
        deadline = time.monotonic() + seconds
        try:
            self._write(msgspec.json.encode(grammar) + b"\n", deadline)
        except BrokenPipeError:
            return None
        line = self._line(deadline)
        return None if line is None else msgspec.json.decode(line, type=str)

    @property
    def dead(self) -> bool:
        """Somebody else killed it."""
        return self._popen.poll() is not None

    def end(self) -> int:
        """Its exit code; it is dead then."""
        self._popen.kill()
        self._stdin.close()
        self._stdout.close()
        return self._popen.wait()

    def _write(self, content: bytes, deadline: float) -> None:
        while content:
            if not select.select([], [self._stdin], [], _left(deadline))[1]:
                raise TimeoutError
            content = content[os.write(self._stdin.fileno(), content) :]

    def _line(self, deadline: float) -> bytes | None:
        line = b""
        while not line.endswith(b"\n"):
            if not select.select([self._stdout], [], [], _left(deadline))[0]:
                raise TimeoutError
            piece = os.read(self._stdout.fileno(), 1 << 16)
            if not piece:
                with suppress(subprocess.TimeoutExpired):  # its own reason, not that of `end`
                    self._popen.wait(_left(deadline))
                return None
            line += piece
        return line


def _left(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())


def _places() -> list[str]:
    """Where the child finds this module: where it was found here."""
    return [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]


def _epitaph(code: int) -> str:
    if code in {-signal.SIGPROF, -signal.SIGKILL}:
        return f"the grammar takes more than {PROCESSOR_SECONDS} s to compile"
    return "the grammar is nested too deeply, or too large to compile"


# --- the child ----------------------------------------------------------------------------------------------------


def main() -> None:
    """Answer questions, a line each, until nobody asks any more."""
    folder, width, *end_tokens = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    threading.stack_size(STACK)
    serving = threading.Thread(
        target=_serve, args=(Path(folder), int(width), frozenset(map(int, end_tokens)))
    )
    serving.start()
    serving.join()


def _serve(folder: Path, width: int, end_tokens: frozenset[int]) -> None:
    tokenizer = bridge(folder, width, end_tokens)
    _say("ready")
    for line in sys.stdin.buffer:
        grammar = msgspec.json.decode(line, type=Grammar)
        signal.setitimer(signal.ITIMER_PROF, PROCESSOR_SECONDS)  # nobody handles it: it ends us
        answer = check(grammar, tokenizer)
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        _say(answer)


def _say(text: str) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(text) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
