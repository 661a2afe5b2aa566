"""The verifier's loop: mesh and clock around the core, the engine behind a worker."""

import logging
from collections.abc import Callable
from typing import Protocol

from protocol.endpoint import Endpoint
from protocol.loop import Dialled, log_links, pause, say
from protocol.process import Command, Drain, Peers, Stop
from verifier.core import VerifierCore
from verifier.step import Step, Verdict

log = logging.getLogger(__name__)


class Worker(Protocol):
    """Runs one step on the target and judges its drafts."""

    def run(self, step: Step) -> list[Verdict]:
        """A verdict for each row, in order."""


class VerifierNode:
    """One turn at a time; `stopped` says that the loop is over."""

    def __init__(
        self, core: VerifierCore, endpoint: Endpoint, worker: Worker, clock: Callable[[], float]
    ) -> None:
        self.core = core
        self.endpoint = endpoint
        self.stopped = False
        self._worker = worker
        self._clock = clock
        self._dialled = Dialled(endpoint)

    def command(self, command: Command) -> None:
        """Obey the parent or a signal."""
        match command:
            case Peers():
                now = self._clock()
                for event in self._dialled.update(command.addresses, now):
                    self.core.handle(event, now)
            case Drain():
                self.core.draining = True
            case Stop():
                self.stopped = True

    def turn(self) -> bool:
        """Read, decide, run one step, say; False when there was nothing to run."""
        now = self._clock()
        events = self.endpoint.drain(now)
        log_links(log, events)
        for event in events:
            self.core.handle(event, now)
        step = self.core.plan(now)
        say(self.core, self.endpoint, now)
        if step is None:
            self.stopped = self.stopped or (self.core.draining and self.core.idle)
            return False
        verdicts = self._worker.run(step)
        done = self._clock()
        self.core.settle(step, verdicts, now, done)
        say(self.core, self.endpoint, done)
        return True

    def pause(self) -> None:
        """Wait for the next reason to take a turn."""
        pause(self.endpoint, self._clock, self.core.deadline(self._clock()))
