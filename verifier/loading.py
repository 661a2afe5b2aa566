"""From a configuration to a target that computes, warmed up."""

from typing import NamedTuple

import torch

from engine.config import Dtype, EngineConfig
from engine.features import bytes_per_slot
from engine.models.config import ModelConfig
from engine.paced import PacedEngine
from engine.runner import Engine, bytes_per_page
from engine.weights import fingerprint
from verifier.config import VerifierConfig
from verifier.reading import FeatureRows, capture, projection


class Loaded(NamedTuple):
    """The target, what is known of it, and what reads its hidden states, if anything does.

    `engine` runs its forwards; `target` has the memory.
    """

    engine: PacedEngine
    target: Engine
    model: ModelConfig
    pages: int
    longest: int
    rows: FeatureRows | None
    weights: str


def load(config: VerifierConfig) -> Loaded:
    """Read the checkpoint and run the first forwards, or raise EngineError."""
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
    return Loaded(engine, target, model, pages, longest, rows, fingerprint(config.model))
