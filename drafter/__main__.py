"""The drafter process, and its tools: `drafter corpus`, `drafter dataset` and `drafter train`."""

import logging
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Final

from drafter.capabilities import TakesHidden, context, fingerprint
from drafter.checkpoints.head import reads_hidden
from drafter.config import DrafterConfig
from drafter.core import DrafterCore
from drafter.node import DrafterNode
from drafter.proposers import PROPOSERS
from protocol.endpoint import Endpoint
from protocol.errors import LocalError
from protocol.link import Identity
from protocol.messages import Limits
from protocol.process import Control, announce
from protocol.quietly import if_asked
from protocol.runtime import arguments, clock, day, draw, give_up, health, serve, tracing
from protocol.spans import TakeSpans, no_tracer
from protocol.zmq_mesh import ZmqMesh

log = logging.getLogger("drafter")

TOOLS: Final[Mapping[str, str]] = {
    "corpus": "drafter.corpus_cli",
    "dataset": "drafter.dataset_cli",
    "train": "drafter.train_cli",
    "export": "drafter.export_cli",
}
"""Words that begin a tool's command line, and the modules whose `main` takes the rest of it."""


def main() -> None:
    """Serve verifiers until drained or stopped; the first word may name a tool instead."""
    if tool := TOOLS.get("".join(sys.argv[1:2])):
        run_tool: Callable[[list[str]], None] = import_module(tool).main
        run_tool(sys.argv[2:])
        return
    config, supervised = arguments("drafter", DrafterConfig, sys.argv[1:])
    control = Control(supervised=supervised)
    announce("loading", node_id=config.node_id)
    with tracing("drafter", config.node_id, config.otlp_traces_endpoint) as tracer:
        try:
            asked = health("drafter", config.health)
            if reads_hidden(config.methods) and config.target is None:
                from drafter.fetching import fetch  # noqa: PLC0415  # most never need it

                found = fetch(config, control)
                if found is None:
                    return
                config = found
            node = if_asked(lambda: build(config, tracer))
        except (LocalError, ValueError, OSError) as error:
            give_up(config.node_id, str(error))
        serve(node, control, config.node_id, config.drain_seconds, asked)


def build(config: DrafterConfig, tracer: TakeSpans = no_tracer) -> DrafterNode:
    """A drafter on ZeroMQ, ready to take turns."""
    if config.method not in PROPOSERS:
        raise LocalError(f"no method {config.method!r}, only {', '.join(PROPOSERS)}")
    proposer = PROPOSERS[config.method](config)
    identity = Identity(
        role="drafter",
        node_id=config.node_id,
        method=config.method,
        fingerprint=fingerprint(proposer),
        limits=Limits(context(config, proposer), config.max_requests, config.max_ahead),
        needs=proposer.needs if isinstance(proposer, TakesHidden) else (),
        device=config.device,
    )
    log.info(
        "method %s, weights %s, %d mirrors at most",
        config.method,
        identity.fingerprint.weights or "none",
        config.max_requests,
    )
    endpoint = Endpoint(ZmqMesh(config.bind, config.mesh), config.link, identity, draw, day)
    return DrafterNode(DrafterCore(config, proposer), endpoint, proposer, clock, tracer)


if __name__ == "__main__":
    main()
