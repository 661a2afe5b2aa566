"""The drafter's loop: mesh and clock around the core, the drafting method behind a proposer."""

import logging
from collections.abc import Callable

from drafter.core import DrafterCore
from drafter.proposers import Proposer
from protocol.endpoint import Endpoint
from protocol.logs import log_event
from protocol.loop import Reporter, hear, pause, say
from protocol.process import Command, Drain, Peers, Stop
from protocol.spans import TakeSpans, no_tracer

log = logging.getLogger(__name__)


class DrafterNode:
    """One turn at a time; `stopped` says that the loop is over."""

    def __init__(
        self,
        core: DrafterCore,
        endpoint: Endpoint,
        proposer: Proposer,
        clock: Callable[[], float],
        tracer: TakeSpans = no_tracer,
    ) -> None:
        self.core = core
        self.endpoint = endpoint
        self.stopped = False
        self.serving = True
        self._proposer = proposer
        self._clock = clock
        self._tracer = tracer
        self._reporter = Reporter(endpoint)

    def command(self, command: Command) -> None:
        """Obey the parent or a signal. A drafter dials nobody."""
        match command:
            case Drain():
                self.core.draining = True
                self.endpoint.heartbeat = self.core.heartbeat()  # said at once
            case Stop():
                self.stopped = True
            case Peers():
                pass

    def turn(self) -> bool:
        """Read, propose once for every mirror that wants guesses, say; False when none did."""
        now = self._clock()
        hear(self.core, self.endpoint, log, now)
        wants = self.core.plan()
        if wants:
            began = self._clock()
            proposals = self._proposer.propose(wants)
            self.core.settle(wants, proposals, began, self._clock())
        now = self._clock()
        say(self.core, self.endpoint, now)
        self._reporter.turn(self.core.verifiers, now, self.core.facts)
        if self.core.record.spans:
            self._tracer(self.core.record.spans.take())
        while self.core.record.closings:
            log_event(log, "mirror closed", **self.core.record.closings.popleft()._asdict())
        self.stopped = self.stopped or (self.core.draining and not len(self.core))
        return bool(wants)

    def pause(self) -> None:
        """Wait for the next reason to take a turn."""
        pause(self.endpoint, self._clock)

    def close(self) -> None:
        """The loop is over."""
        self.endpoint.close()
