"""The verifier's loop: mesh and clock around the core, the engine behind a worker."""

import logging
from collections.abc import Callable
from typing import Final, Protocol

from protocol.endpoint import Endpoint
from protocol.logs import log_event
from protocol.loop import Dialled, Reporter, hear, pause, say
from protocol.process import Command, Drain, Peers, Stop
from protocol.spans import TakeSpans, no_tracer
from verifier.compiler import Compiler, DirectCompiler, refuse
from verifier.core import VerifierCore
from verifier.keeping import Keeper
from verifier.logline import Summaries
from verifier.pending import Pending, Wake
from verifier.step import Step, Verdict

log = logging.getLogger(__name__)

LONGEST_STEP: Final = 60.0
"""Seconds after which a device is taken to be stuck: the verifier ends, and is started again."""


class StuckError(RuntimeError):
    """A device that computes no more."""


class Worker(Protocol):
    """Runs one step on the target and judges its drafts."""

    def begin(self, step: Step, wake: Wake) -> Pending:
        """Have it computed: a verdict for each row, in order. `wake` is called when those that were not ready are."""


class Spans(Protocol):
    """The other ranks of the target, where it has several; see `verifier.ranks`."""

    @property
    def lost(self) -> str: ...

    def on_loss(self, stop: Callable[[], None]) -> None: ...

    def close(self) -> None: ...


class VerifierNode:
    """One turn at a time; `stopped` says that the loop is over. Without drafters it is `serving` too."""

    def __init__(
        self,
        core: VerifierCore,
        endpoint: Endpoint,
        worker: Worker,
        clock: Callable[[], float],
        tracer: TakeSpans = no_tracer,
        *,
        compiler: Compiler | None = None,
        keeper: Keeper | None = None,
        span: Spans | None = None,
    ) -> None:
        self.core = core
        self.endpoint = endpoint
        self.stopped = False
        self.serving = True
        self.span = span
        self._worker = worker
        self._clock = clock
        self._tracer = tracer
        self._compiler = compiler or DirectCompiler(refuse)
        self._keeper = keeper
        self._dialled = Dialled(endpoint)
        self._reporter = Reporter(endpoint)
        self._summaries = Summaries(core.facts(), clock())

    def command(self, command: Command) -> None:
        """Obey the parent or a signal."""
        match command:
            case Peers():
                now = self._clock()
                for event in self._dialled.update(command.addresses, now):
                    self.core.handle(event, now)
            case Drain():
                self.core.draining = True
                self.endpoint.heartbeat = self.core.heartbeat()  # said at once
            case Stop():
                self.stopped = True

    def turn(self) -> bool:
        """Read, decide, run one step, say; False when there was nothing to run."""
        now = self._clock()
        hear(self.core, self.endpoint, log, now)
        for grammar in self.core.fronts.grammars:
            self._compiler.ask(grammar)
        self.core.fronts.grammars.clear()
        for grammar, result in self._compiler.ready():
            self.core.compiled(grammar, result, now)
        step = self.core.plan(now)
        say(self.core, self.endpoint, now)
        if step is None:
            self.stopped = self.stopped or (self.core.draining and self.core.idle)
        else:
            verdicts = self._computed(step)
            done = self._clock()
            self.core.settle(step, verdicts, now, done)
            say(self.core, self.endpoint, done)
            now = done
        self._tell(now)
        return step is not None

    def _computed(self, step: Step) -> list[Verdict]:
        """The verdicts of a step. What arrives while a device computes is heard before they are taken."""
        pending = self._worker.begin(step, self.endpoint.mesh.wake)
        end = self._clock() + LONGEST_STEP
        while not pending.ready():
            pause(self.endpoint, self._clock, end)
            hear(self.core, self.endpoint, log, self._clock())
            if self._clock() >= end:  # to its peers this node would look alive for ever
                raise StuckError(f"the device did not finish a step within {LONGEST_STEP:g} s")
        return pending.take()

    def close(self) -> None:
        """The loop is over."""
        self._compiler.close()
        if self._keeper is not None:
            self._keeper.close()
        if self.span is not None:
            self.span.close()
        self.endpoint.close()

    def pause(self) -> None:
        """Wait for the next reason to take a turn."""
        pause(self.endpoint, self._clock, self.core.deadline(self._clock()))

    def _tell(self, now: float) -> None:
        """For those who watch, after everybody who waits was told."""
        self._reporter.turn(self.core.fronts.links, now, self.core.facts, lambda: self.core.reports)
        if self._keeper is not None:
            self._keeper.turn(now)
        if self.core.record.spans:
            self._tracer(self.core.record.spans.take())
        while self.core.record.endings:
            log_event(log, "choice over", **self.core.record.endings.popleft()._asdict())
        if self._summaries.due(now) and (line := self._summaries.take(self.core.facts(), now)):
            log.info("%s", line)
