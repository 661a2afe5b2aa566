"""The verifier process."""

import logging
import sys
from collections.abc import Callable
from pathlib import Path

from engine.config import Dtype, EngineConfig
from engine.errors import EngineError
from engine.pages import PagePool
from protocol.endpoint import Endpoint
from protocol.errors import LocalError
from protocol.fingerprint import tokenizer_fingerprint
from protocol.link import Identity
from protocol.messages import Fingerprint, Limits
from protocol.process import Control, Peers, announce
from protocol.runtime import arguments, clock, draw, fail, run, tracing
from protocol.spans import TakeSpans, no_tracer
from protocol.zmq_mesh import ZmqMesh
from verifier.acceptance import lossy, make
from verifier.admission import Admission
from verifier.compiler import Compiler, DirectCompiler, ThreadCompiler, refuse
from verifier.config import VerifierConfig
from verifier.core import VerifierCore
from verifier.exactness import faults
from verifier.grammar import Grammars, bridge
from verifier.hidden import Hidden
from verifier.lending import Loan
from verifier.node import VerifierNode
from verifier.planner import PLANNERS
from verifier.vetting import Vetting

log = logging.getLogger("verifier")


def main() -> None:
    """Load the target, bind the mesh, serve until drained or stopped."""
    config, supervised = arguments("verifier", VerifierConfig, sys.argv[1:])
    control = Control(supervised=supervised)
    announce("loading", node_id=config.node_id)
    with tracing("verifier", config.node_id, config.otlp_traces_endpoint) as tracer:
        try:
            node = build(config, tracer)
        except (EngineError, LocalError) as error:
            announce("failed", node_id=config.node_id, detail={"error": str(error)})
            fail(str(error))
        serve(config, control, node)


def serve(config: VerifierConfig, control: Control, node: VerifierNode) -> None:
    """Until drained or stopped."""
    control.on_command(node.endpoint.mesh.wake)
    if config.drafters:
        control.put(Peers(config.drafters))
    announce("ready", node_id=config.node_id, address=node.endpoint.mesh.address)
    try:
        run(node, control, config.drain_seconds)
    finally:
        node.close()


def build(config: VerifierConfig, tracer: TakeSpans = no_tracer) -> VerifierNode:
    """A verifier on ZeroMQ with the real engine, ready to take turns."""
    import torch  # noqa: PLC0415  # seconds: the parent hears `loading` first

    from engine.constants import Constants  # noqa: PLC0415
    from engine.features import bytes_per_slot, made_by  # noqa: PLC0415
    from engine.models.config import ModelConfig  # noqa: PLC0415
    from engine.paced import PacedEngine  # noqa: PLC0415
    from engine.runner import Engine, bytes_per_page  # noqa: PLC0415
    from engine.weights import fingerprint  # noqa: PLC0415
    from verifier.reading import capture, projection  # noqa: PLC0415
    from verifier.text import StreamDetokenizer, load_tokenizer  # noqa: PLC0415
    from verifier.worker import EngineWorker  # noqa: PLC0415

    for fault in faults(config):
        raise LocalError(fault)
    if label := lossy(config):
        log.warning("the output does not follow the target's law: %s", label)
    torch.set_num_threads(config.threads)
    model = ModelConfig.read(config.model, trust_remote_code=config.trust_remote_code)
    dtype: Dtype = config.dtype
    kept = projection(config.features)
    width = kept.width if kept else len(config.features.states) * model.hidden
    pages = config.kv_bytes // (
        bytes_per_page(model, config.page_size, dtype)
        + config.page_size * bytes_per_slot(width, config.features.dtype)
    )
    longest = min(config.context or model.positions, pages * config.page_size)
    engine_config = EngineConfig(
        pages=pages,
        max_context=longest,
        dtype=dtype,
        page_size=config.page_size,
        attention=config.attention,
        implementation=config.implementation,
        trust_remote_code=config.trust_remote_code,
    )
    target = Engine.load(config.model, engine_config)
    rows = capture(target, config.features, kept)
    engine = PacedEngine(target, config.threads)
    engine.warm_up()
    tokenizer = load_tokenizer(config.model)
    vocabulary = min(model.vocab, tokenizer.get_vocab_size())
    weights = fingerprint(config.model)
    constants = Constants(config.model, weights) if rows else None
    log.info("target %s weights %s, %d pages, context %d", config.model, weights, pages, longest)
    core = VerifierCore(
        config,
        Admission(longest, vocabulary, frozenset(model.eos_ids), config.rule),
        PagePool(pages, config.page_size),
        PLANNERS[config.planner.name](config.planner),
        lambda: StreamDetokenizer(tokenizer),
        hidden=Hidden(rows, rows.row_bytes, config.features.recent) if rows else None,
        loan=Loan(weights, constants.length, constants.read) if constants else None,
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
    )
    endpoint = Endpoint(ZmqMesh(config.bind, config.mesh), config.link, identity, draw)
    ends = frozenset(model.eos_ids)
    return VerifierNode(
        core,
        endpoint,
        EngineWorker(engine, make(config)),
        clock,
        tracer,
        compiler=_compiler(config.model, model.vocab, ends, endpoint.mesh.wake),
    )


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
