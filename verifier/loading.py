"""From a configuration to a target that computes, warmed up."""

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import torch

from engine.attention import chosen
from engine.buckets import Buckets, buckets
from engine.config import EngineConfig, kv_numbers
from engine.features import bytes_per_slot
from engine.memory import claim, present
from engine.models import lean
from engine.models.config import ModelConfig
from engine.paced import PacedEngine
from engine.ranks import ALONE
from engine.runner import Engine, bytes_per_page
from engine.spanning import SpanningEngine
from engine.weights import fingerprint
from verifier.config import VerifierConfig
from verifier.fitting import allotment
from verifier.ranks import Span, shard, spanned
from verifier.reading import FeatureRows, capture, projection

if TYPE_CHECKING:
    from engine.graphs import GraphedEngine, Recorder

log = logging.getLogger("verifier")

OVERWRITTEN: Final = 512
"""Rows of logits that are kept as memory between steps: a step's are judged before the next one."""


class Loaded(NamedTuple):
    """The target, what is known of it, and what reads its hidden states, if anything does.

    `engine` runs its forwards; `target` has the memory. Forwards are padded to `buckets`, if there are any. Of several
    ranks, `span` is how they speak, and all but rank 0 have nothing that reads hidden states.
    """

    engine: "PacedEngine | GraphedEngine | SpanningEngine | Engine"
    target: Engine
    model: ModelConfig
    pages: int
    longest: int
    rows: FeatureRows | None
    weights: str
    buckets: tuple[int, ...] = ()
    span: Span | None = None


Advance = Callable[[str, int, int], None]
"""Hears what is done while a target is loaded, how much of it, and out of how much."""


def logged(what: str, done: int, total: int) -> None:
    """For those whom nobody watches."""
    log.info("%s: %d of %d", what, done, total)


def load(config: VerifierConfig, advance: Advance = logged) -> Loaded:
    """Read the checkpoint and run the first forwards, or raise EngineError."""
    torch.set_num_threads(config.threads)
    present(config.device)
    model = ModelConfig.read(config.model, trust_remote_code=config.trust_remote_code)
    kept = projection(config.features, config.device)
    width = kept.width if kept else len(config.features.states) * model.hidden
    own = shard(config).own(model)
    held = kv_numbers(config.kv_dtype, config.dtype)
    if held != config.dtype:
        log.info("pages hold %s: keys and values are rounded to it", held)
    page_bytes = bytes_per_page(own, config.page_size, held)
    row_bytes = config.page_size * bytes_per_slot(width, config.features.dtype)
    pages = config.kv_bytes // (page_bytes + row_bytes)
    longest = min(config.context or model.positions, pages * config.page_size)
    sizes = captured(config) if lean(model, config.implementation) else None
    if config.device != "cpu":
        fits = allotment(config, model, longest, sizes)
        log.info("%s", fits.text)
        fits.check()
        claim(config.device, config.gpu_share)
    engine_config = EngineConfig(
        pages=pages,
        max_context=longest,
        dtype=config.dtype,
        kv_dtype=config.kv_dtype,
        device=config.device,
        page_size=config.page_size,
        spare=sizes is not None,
        attention=config.attention,
        implementation=config.implementation,
        trust_remote_code=config.trust_remote_code,
        overwritten=OVERWRITTEN if config.device == "cpu" else 0,
    )
    span = spanned(config)
    target = Engine.load(config.model, engine_config, span.words if span else ALONE)
    weights = fingerprint(config.model)
    if span is not None:
        span.words.agree(
            f"weights {weights} in {config.dtype}, {pages} pages of {config.page_size} in {held}, "
            f"context {longest}"
        )
    if config.rank:
        return Loaded(target, target, model, pages, longest, None, weights, (), span)
    rows = capture(target, config.features, kept)
    if sizes is not None:
        from engine.graphs import CudaRecorder  # noqa: PLC0415  # triton, which CPUs do without

        most = config.scheduler.max_running
        graphed = graphs(target, sizes, most, CudaRecorder(config.device), advance)
        return Loaded(graphed, target, model, pages, longest, rows, weights, sizes.sizes)
    leading = SpanningEngine(target, span.words) if span else target
    if config.device != "cpu":
        return Loaded(leading, target, model, pages, longest, rows, weights, (), span)
    engine = PacedEngine(leading, config.threads)
    engine.warm_up()
    return Loaded(engine, target, model, pages, longest, rows, weights, (), span)


def captured(config: VerifierConfig) -> Buckets | None:
    """The buckets of a configuration: up to the largest step without chunks of prompts. None: nothing is captured.

    Modules of `transformers` are not: what they ask the host in between cannot be recorded. Nor are forwards of several
    ranks: whether what they say to each other can be has not been tried on a device.
    """
    if config.device == "cpu" or not config.graphs or config.tensor_parallel > 1:
        return None
    if chosen(config.attention, config.device) != "triton":  # it reads rows when it runs
        return None
    return buckets(config.scheduler.max_running * (config.planner.draft_length + 1))


def graphs(
    target: Engine, sizes: Buckets, rows: int, recorder: "Recorder", advance: Advance
) -> "GraphedEngine":
    """The target with its forwards of up to so many rows captured."""
    from engine.graphs import GraphedEngine  # noqa: PLC0415

    before = recorder.held
    graphed = GraphedEngine(target, sizes, rows, recorder)
    graphed.capture(partial(advance, "graphs"))
    log.info("graphs took %.2f GiB", (recorder.held - before) / (1 << 30))
    return graphed
