"""From a drafter's configuration to a head and its memory."""

from dataclasses import dataclass
from typing import Final

import torch

from drafter.checkpoints import Head, Target, read
from drafter.config import DrafterConfig
from drafter.heads.memory import Memory
from drafter.heads.vocabulary import Shared
from drafter.heads.weights import HeadWeights, projection, shared
from engine.config import EngineConfig
from engine.constants import target_weights
from engine.device import Device
from engine.features import describe, made_by
from engine.memory import claim
from engine.runner import pages_for

PAGE: Final = 16


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a proposer is made of, but for the weights."""

    head: Head
    memory: Memory
    needs: tuple[str, ...]
    projected: bool
    device: Device

    def weights(self) -> HeadWeights:
        """Of the head, to be closed again."""
        return HeadWeights(self.head, self.memory.dtype, self.device)


def describe_head(config: DrafterConfig) -> tuple[Head, Shared]:
    """The head that is configured, and what it shares with its target; a ValueError says what is wrong."""
    if config.model is None or config.target is None:
        raise ValueError(f"method {config.method} needs `model` and `target`: folders")
    target = Target.read(config.target)
    head = read(config.model, target, config.hidden.layer_convention, tuple(config.hidden.states))
    head.check([config.method])
    return head, shared(config.target, tied=target.tied)


def load(config: DrafterConfig, head: Head, device: Device | None = None) -> Loaded:
    """Memory for a head, and what it needs of a verifier; `device` is the configured one, if nobody says."""
    torch.set_num_threads(config.threads)
    claim(config.device, config.gpu_share)
    projected = config.hidden.projected and head.kind != "eagle"
    dtype = config.dtype
    applied = projection(head, getattr(torch, dtype)) if projected else None
    width = applied.width if applied else head.captured
    needs = describe(head.states, applied.digest if applied else "", width, dtype)
    limits = (config.context, *head.shape.windows, head.target.positions or head.model.positions)
    longest = min(each for each in limits if each) + max(1, head.block)
    pages = pages_for(config.kv_bytes, head.model, PAGE, dtype)
    device = device or Device.of(config.device)
    engine = EngineConfig(
        pages=pages,
        max_context=longest,
        dtype=dtype,
        device=device.name,
        page_size=PAGE,
        attention=device.attention,
    )
    memory = Memory(head.model, engine, width, dtype, device=device)
    assert config.target is not None
    target = made_by(target_weights(config.target))
    return Loaded(head, memory, (needs, target), projected, device)
