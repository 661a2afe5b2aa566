"""The verifier process."""

import logging
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from engine.errors import EngineError
from engine.pages import PagePool
from kvtransfer.channels import CHANNELS
from kvtransfer.ends import Arrivals
from kvtransfer.taking import Taking
from protocol.endpoint import Endpoint
from protocol.errors import LocalError
from protocol.fingerprint import tokenizer_fingerprint
from protocol.link import Identity
from protocol.loop import Beats
from protocol.messages import Fingerprint, Limits
from protocol.process import Control, Peers, Stop, advance, announce
from protocol.runtime import (
    Tells,
    arguments,
    clock,
    day,
    draw,
    fail,
    give_up,
    health,
    serve,
    tracing,
)
from protocol.spans import TakeSpans, no_tracer
from protocol.zmq_mesh import ZmqMesh
from verifier.acceptance import lossy
from verifier.admission import Admission
from verifier.compiler import Compiler, DirectCompiler, ThreadCompiler, refuse
from verifier.config import VerifierConfig
from verifier.core import VerifierCore
from verifier.exactness import faults, planner
from verifier.grammar import Grammars, bridge
from verifier.handover import Supply
from verifier.hidden import Hidden
from verifier.judges import judge
from verifier.keeping import Keeper
from verifier.lending import Loan
from verifier.node import VerifierNode
from verifier.profiling import hardware, place
from verifier.traces import Traces
from verifier.vetting import Vetting

log = logging.getLogger("verifier")


def main() -> None:
    """Load the target, bind the mesh, serve until drained or stopped; or `profile`: measure what steps cost."""
    if sys.argv[1:2] == ["profile"]:
        config, _ = arguments("verifier profile", VerifierConfig, sys.argv[2:])
        _profile(config)
        return
    config, supervised = arguments("verifier", VerifierConfig, sys.argv[1:])
    control = Control(supervised=supervised)
    announce("loading", node_id=config.node_id)
    with tracing("verifier", config.node_id, config.otlp_traces_endpoint) as tracer:
        try:
            asked = health("verifier", config.health)
            node = build(config, tracer)
        except (EngineError, LocalError, OSError) as error:
            give_up(config.node_id, str(error))
        if peers := (*config.drafters, *config.prefill):
            control.put(Peers(peers))
        _serve(node, control, config, asked)


def _serve(node: VerifierNode, control: Control, config: VerifierConfig, asked: Tells) -> None:
    """Until it is drained or stopped, or another rank of its target is lost: that ends it with an error."""
    span = node.span
    if span is None:
        serve(node, control, config.node_id, config.drain_seconds, asked)
        return
    span.on_loss(lambda: control.put(Stop()))
    failed = ""
    try:
        serve(node, control, config.node_id, config.drain_seconds, asked)
    except RuntimeError as error:  # what gloo and NCCL raise when the other end is gone
        log.debug("in the middle of a forward", exc_info=True)
        failed = (
            f"a forward over {config.tensor_parallel} ranks failed: {str(error).splitlines()[0]}"
        )
    if text := span.lost or failed:
        give_up(config.node_id, text)


def _profile(config: VerifierConfig) -> None:
    from verifier.measuring import profile  # noqa: PLC0415  # seconds: `--help` must answer at once

    try:
        profile(config)
    except (EngineError, OSError) as error:
        fail(str(error))


def vet(config: VerifierConfig) -> None:
    """Refuse settings that do not go together, and warn of those that change the law of the output."""
    for fault in faults(config):
        raise LocalError(fault)
    if label := lossy(config):
        log.warning("the output does not follow the target's law: %s", label)


def build(config: VerifierConfig, tracer: TakeSpans = no_tracer) -> VerifierNode:
    """A verifier on ZeroMQ with the real engine, ready to take turns."""
    from engine.constants import Constants  # noqa: PLC0415  # seconds: the parent hears `loading` first
    from engine.features import made_by  # noqa: PLC0415
    from verifier.handing import layout_of, pages_of  # noqa: PLC0415
    from verifier.loading import load  # noqa: PLC0415
    from verifier.text import StreamDetokenizer, TimedDetokenizer, load_tokenizer  # noqa: PLC0415
    from verifier.worker import EngineWorker  # noqa: PLC0415

    vet(config)
    if config.rank:
        raise LocalError(f"rank {config.rank} of a target is `python -m verifier.follower`")
    loaded = load(config, partial(advance, config.node_id))
    model, pages, longest, rows = loaded.model, loaded.pages, loaded.longest, loaded.rows
    weights = loaded.weights
    tokenizer = load_tokenizer(config.model)
    vocabulary = min(model.vocab, tokenizer.get_vocab_size())
    constants = Constants(config.model, weights) if rows else None
    log.info("target %s weights %s, %d pages, context %d", config.model, weights, pages, longest)
    plan, machine = planner(config), hardware()
    traces = Traces() if config.planner.trace else None
    table = config.planner.budget.table or place(config, weights, machine)
    layout = layout_of(loaded.target, weights)
    whole = config.device == "cpu" and loaded.span is None
    core = VerifierCore(
        config,
        Admission(longest, vocabulary, frozenset(model.eos_ids), config.rule),
        PagePool(pages, config.page_size),
        plan,
        lambda: StreamDetokenizer(tokenizer),
        timed=None if tracer is no_tracer else lambda one: TimedDetokenizer(one, clock),
        hidden=Hidden(rows, rows.row_bytes, config.features.recent) if rows else None,
        traces=traces,
        loan=Loan(weights, constants.length, constants.read) if constants else None,
        supply=Supply(
            Taking(config.handover, layout, tuple(CHANNELS)),
            Arrivals(pages_of(loaded.target, layout)),
        )
        if whole  # pages of a GPU, or of some heads, are not handed over yet
        else None,
    )
    identity = Identity(
        role="verifier",
        node_id=config.node_id,
        fingerprint=Fingerprint(weights, tokenizer_fingerprint(config.model), vocabulary),
        limits=Limits(
            context=longest,
            requests=config.scheduler.max_running,
            max_ahead=config.planner.draft_length,
        ),
        features=(rows.text, made_by(weights)) if rows else (),
        device=_devices(config),
    )
    endpoint = Endpoint(ZmqMesh(config.bind, config.mesh), config.link, identity, draw, day)
    ends = frozenset(model.eos_ids)
    return VerifierNode(
        core,
        endpoint,
        # a device is not waited for within a forward, and what is told of layers cannot be captured
        EngineWorker(
            loaded.engine, judge(config), Beats(endpoint, clock) if config.device == "cpu" else None
        ),
        clock,
        tracer,
        compiler=_compiler(config.model, model.vocab, ends, endpoint.mesh.wake),
        keeper=Keeper(plan, table, machine, traces, config.planner.trace, buckets=loaded.buckets),
        span=loaded.span,
    )


def _devices(config: VerifierConfig) -> str:
    """Where the target computes, as people are told."""
    ranks = config.tensor_parallel
    return config.device if ranks == 1 else f"{ranks} x {config.device}"


def _compiler(folder: Path, width: int, ends: frozenset[int], wake: Callable[[], None]) -> Compiler:
    """Compiles grammars for this checkpoint, or says that it cannot."""
    try:
        tokenizer = bridge(folder, width, ends)
    except ValueError as error:
        log.warning("requests with a grammar are refused: %s", error)
        return DirectCompiler(refuse)
    vetting = Vetting(folder, width, ends)
    return ThreadCompiler(Grammars(tokenizer, vetting.check).compile, wake, vetting.close)


if __name__ == "__main__":
    main()
