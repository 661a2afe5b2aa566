"""The process of a prefill node, `python -m verifier.prefill`: the verifier's engine and configuration, no requests."""

import logging
import sys
from collections.abc import Callable
from typing import Protocol

from engine.errors import EngineError
from engine.pages import PagePool
from kvtransfer.channel import CHUNK_BYTES
from kvtransfer.channels import usable
from kvtransfer.ends import Deliveries
from kvtransfer.giving import Giving
from protocol.endpoint import Endpoint
from protocol.errors import LocalError
from protocol.fingerprint import tokenizer_fingerprint
from protocol.link import Identity
from protocol.logs import log_event
from protocol.loop import Beats, Reporter, hear, pause, say
from protocol.messages import Fingerprint, Limits
from protocol.process import Command, Control, Drain, Peers, Stop, announce
from protocol.runtime import arguments, clock, day, draw, give_up, health, serve, tracing
from protocol.spans import TakeSpans, no_tracer
from protocol.zmq_mesh import ZmqMesh
from verifier.config import VerifierConfig
from verifier.prefill_core import PrefillCore
from verifier.step import Step

log = logging.getLogger("verifier.prefill")


class Worker(Protocol):
    """Computes prompts with the target."""

    def run(self, step: Step, reached: Callable[[int], None]) -> object:
        """Compute all rows; `reached` is told while it runs how many layers of them are in the pages."""


class PrefillNode:
    """One turn at a time; `stopped` says that the loop is over."""

    def __init__(
        self,
        core: PrefillCore,
        endpoint: Endpoint,
        worker: Worker,
        clock: Callable[[], float],
        tracer: TakeSpans = no_tracer,
    ) -> None:
        self.core = core
        self.endpoint = endpoint
        self.stopped = False
        self.serving = True
        self._worker = worker
        self._clock = clock
        self._tracer = tracer
        self._reporter = Reporter(endpoint)
        self._beats = Beats(endpoint, clock)

    def command(self, command: Command) -> None:
        """Obey the parent or a signal."""
        match command:
            case Peers():
                pass  # it is dialled
            case Drain():
                self.core.draining = True
                self.endpoint.heartbeat = self.core.heartbeat()  # said at once
            case Stop():
                self.stopped = True

    def turn(self) -> bool:
        """Read, decide, compute one step, say; False when there was nothing to compute."""
        now = self._clock()
        hear(self.core, self.endpoint, log, now)
        step = self.core.plan(now)
        say(self.core, self.endpoint, now)
        if step is None:
            self.stopped = self.stopped or (self.core.draining and self.core.idle)
        else:
            self._worker.run(step, self._reached)
            done = self._clock()
            self.core.settle(step, now, done)
            say(self.core, self.endpoint, done)
            now = done
        self._tell(now)
        return step is not None

    def _tell(self, now: float) -> None:
        """For those who watch, after everybody who waits was told."""
        self._reporter.turn(self.core.links, now, self.core.facts)
        if self.core.record.spans:
            self._tracer(self.core.record.spans.take())
        while self.core.record.endings:
            log_event(log, "prompt given", **self.core.record.endings.popleft()._asdict())

    def _reached(self, layers: int) -> None:
        """In the middle of a forward: send what is computed, and hear what may make room for more of it."""
        now = self._clock()
        if self.core.reached(layers, now):
            hear(self.core, self.endpoint, log, now)
            say(self.core, self.endpoint, now)
        else:
            self._beats()

    def pause(self) -> None:
        """Wait for the next reason to take a turn."""
        pause(self.endpoint, self._clock, self.core.deadline())

    def close(self) -> None:
        """The loop is over."""
        self.endpoint.close()


def main() -> None:
    """Load the target, bind the mesh, compute prompts until drained or stopped."""
    config, supervised = arguments("verifier.prefill", VerifierConfig, sys.argv[1:])
    control = Control(supervised=supervised)
    announce("loading", node_id=config.node_id)
    with tracing("prefill", config.node_id, config.otlp_traces_endpoint) as tracer:
        try:
            asked = health("prefill", config.health)
            node = build(config, tracer)
        except (EngineError, LocalError, OSError) as error:
            give_up(config.node_id, str(error))
        serve(node, control, config.node_id, config.drain_seconds, asked)


def build(config: VerifierConfig, tracer: TakeSpans = no_tracer) -> PrefillNode:
    """A prefill node on ZeroMQ with the real engine, ready to take turns."""
    from verifier.handing import layout_of, pages_of  # noqa: PLC0415  # seconds: the parent hears `loading` first
    from verifier.loading import load  # noqa: PLC0415
    from verifier.prefill_worker import PrefillWorker  # noqa: PLC0415

    if config.device != "cpu":
        raise LocalError(
            f"a prefill node on {config.device} is not served: its pages must be the CPU's"
        )
    if config.tensor_parallel > 1:
        raise LocalError(
            f"a prefill node over {config.tensor_parallel} ranks is not served: pages that are "
            "handed over hold all heads"
        )
    loaded = load(config)
    log.info(
        "target %s weights %s, %d pages, context %d",
        config.model, loaded.weights, loaded.pages, loaded.longest,
    )  # fmt: skip
    layout = layout_of(loaded.target, loaded.weights)
    core = PrefillCore(
        config.scheduler,
        Giving(config.handover, layout, usable(), CHUNK_BYTES),
        Deliveries(pages_of(loaded.target, layout)),
        PagePool(loaded.pages, config.page_size),
        context=loaded.longest,
        vocabulary=loaded.model.vocab,
    )
    identity = Identity(
        role="prefill",
        node_id=config.node_id,
        fingerprint=Fingerprint(
            loaded.weights, tokenizer_fingerprint(config.model), loaded.model.vocab
        ),
        limits=Limits(context=loaded.longest),
        device=loaded.target.config.device,
    )
    endpoint = Endpoint(ZmqMesh(config.bind, config.mesh), config.link, identity, draw, day)
    return PrefillNode(core, endpoint, PrefillWorker(loaded.engine), clock, tracer)


if __name__ == "__main__":
    main()
