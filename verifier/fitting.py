"""What a verifier takes of a GPU's memory."""

from typing import Any

import torch

from engine.allotment import Allotment, Sizes
from engine.attention import chosen
from engine.attention_flashinfer import WORKSPACE
from engine.buckets import Buckets
from engine.models.config import ModelConfig
from engine.ragged import scratch_bytes, splits_of
from engine.weights import numbers
from verifier.config import VerifierConfig
from verifier.ranks import shard


def allotment(
    config: VerifierConfig, model: ModelConfig, longest: int, sizes: Buckets | None
) -> Allotment:
    """Weights, pages (with what is kept beside them), graphs and buffers, on the device of the configuration."""
    total = torch.cuda.get_device_properties(config.device).total_memory
    return parts(config, model, longest, sizes, total)


def parts(
    config: VerifierConfig, model: ModelConfig, longest: int, sizes: Buckets | None, total: int
) -> Allotment:
    """The same for a device with so many bytes."""
    source: Any = model.source
    own, ranks = shard(config).own(model), config.tensor_parallel
    itemsize: int = getattr(torch, config.dtype).itemsize
    tokens = max(sizes.largest if sizes else 0, config.scheduler.max_chunk)
    known = Sizes(
        vocab=model.vocab,
        hidden=model.hidden,
        intermediate=(getattr(source, "intermediate_size", None) or 4 * model.hidden) // ranks,
        heads=own.heads,
        kv_heads=own.kv_heads,
        head_dim=model.head_dim,
        tokens=tokens,
        itemsize=itemsize,
    )
    split = scratch_bytes(tokens, splits_of(longest), own.heads, model.head_dim)
    if chosen(config.attention, config.device) == "flashinfer":
        split = WORKSPACE
    return Allotment(
        {
            "weights": _weights(numbers(config.model), model, ranks) * itemsize,
            "pages": config.kv_bytes,
            "graphs" if sizes else "forwards": known.forward,
            "buffers": known.logits + split,
        },
        total,
        config.gpu_share,
    )


def _weights(count: int, model: ModelConfig, ranks: int) -> int:
    """Numbers of one rank: its part, but the embedding whole."""
    embedding = model.vocab * model.hidden if ranks > 1 else 0
    return embedding + -(-(count - embedding) // ranks)
