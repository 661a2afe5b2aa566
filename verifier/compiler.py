"""Compiling beside the loop: it asks, goes on, and takes what is ready at its next turn."""

import logging
import queue
import threading
from collections.abc import Callable
from typing import Final, Protocol

from protocol.messages import Grammar
from verifier.matcher import Compiled, Unchecked
from verifier.vetting import VettingError

log = logging.getLogger(__name__)

STACK: Final = 16 << 20
"""Of the thread that compiles, whatever the system's own threads have."""

LAST_MOMENT: Final = 2.0

Compile = Callable[[Grammar], Compiled | str]
"""Matchers for a grammar, or what is wrong with it; `Unchecked` says that nobody can tell."""
Ready = tuple[Grammar, Compiled | str]


class Compiler(Protocol):
    """Where the verifier's loop has grammars compiled."""

    def ask(self, grammar: Grammar) -> None:
        """This grammar is wanted; returns at once."""

    def ready(self) -> list[Ready]:
        """What came of those that were asked for since the last call."""

    def close(self) -> None:
        """Nobody asks any more."""


class DirectCompiler:
    """Compiles when it is asked: for loops that wait for nobody, such as tests."""

    def __init__(self, compile_: Compile) -> None:
        self._compile = compile_
        self._ready: list[Ready] = []

    def ask(self, grammar: Grammar) -> None:
        self._ready.append((grammar, self._compile(grammar)))

    def ready(self) -> list[Ready]:
        ready, self._ready = self._ready, []
        return ready

    def close(self) -> None:
        """Nothing is left."""


class ThreadCompiler:
    """Compiles in a thread of its own, one after the other; `wake` tells the loop that something is ready.

    `leave` is the last thing that the thread does.
    """

    def __init__(
        self,
        compile_: Compile,
        wake: Callable[[], None],
        leave: Callable[[], None] = lambda: None,
    ) -> None:
        self._compile = compile_
        self._wake = wake
        self._leave = leave
        self._asked: queue.SimpleQueue[Grammar | None] = queue.SimpleQueue()
        self._ready: queue.SimpleQueue[Ready] = queue.SimpleQueue()
        self._closed = False
        before = threading.stack_size(STACK)
        self._thread = threading.Thread(target=self._run, name="grammars", daemon=True)
        self._thread.start()
        threading.stack_size(before)

    def ask(self, grammar: Grammar) -> None:
        self._asked.put(grammar)

    def ready(self) -> list[Ready]:
        return [self._ready.get_nowait() for _ in range(self._ready.qsize())]

    def close(self) -> None:
        """Nobody asks any more; what is being compiled has a moment to come to an end."""
        self._closed = True
        self._asked.put(None)
        self._thread.join(LAST_MOMENT)

    def _run(self) -> None:
        while (grammar := self._asked.get()) is not None:
            self._ready.put((grammar, self._tried(grammar)))
            if not self._closed:
                self._wake()
        self._leave()

    def _tried(self, grammar: Grammar) -> Compiled | str:
        try:
            return self._compile(grammar)
        except VettingError as error:
            log.warning("%s", error)
            return Unchecked(error)


def refuse(_grammar: Grammar) -> str:
    """What a verifier says that compiles none."""
    return "this verifier serves no grammars"
