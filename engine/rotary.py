"""Rotary position embedding.

Shapes: T tokens, S positions, A heads, D head size.
"""

from typing import Any

import torch
from torch import Tensor

from engine.models.config import ModelConfig


class _RopeSource:
    """The attributes of a `transformers` configuration that its rope functions read."""

    def __init__(self, model: ModelConfig) -> None:
        self.rope_parameters: dict[str, Any] = dict(model.rope)
        self.hidden_size = model.hidden
        self.num_attention_heads = model.heads
        self.head_dim = model.head_dim
        self.max_position_embeddings = model.positions

    def standardize_rope_params(self) -> None:
        """Already done by whoever wrote the parameters."""


def frequencies(model: ModelConfig) -> tuple[Tensor, float]:
    """Radians per position for each pair of dimensions, and the factor on both tables."""
    half = torch.arange(0, model.head_dim, 2, dtype=torch.float32)
    if model.rope["rope_type"] in {"default", "dynamic"}:
        return 1.0 / (model.rope["rope_theta"] ** (half / model.head_dim)), 1.0
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS  # noqa: PLC0415

    inverse, factor = ROPE_INIT_FUNCTIONS[model.rope["rope_type"]](_RopeSource(model), "cpu")
    return inverse, float(factor)


def tables(model: ModelConfig, length: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Cosines and sines [S, 1, D]; the sines of the first half are negated, see `rotate_`."""
    inverse, factor = frequencies(model)
    angles = torch.outer(torch.arange(length, dtype=torch.float32), inverse)
    cos, sin = angles.cos() * factor, angles.sin() * factor
    cos_S1D = torch.cat((cos, cos), dim=-1)[:, None].to(dtype)
    sin_S1D = torch.cat((-sin, sin), dim=-1)[:, None].to(dtype)
    return cos_S1D, sin_S1D


def rotate_(x_TAD: Tensor, cos_T1D: Tensor, sin_T1D: Tensor) -> None:
    """Turn each head in place by the angles of its position."""
    swapped_TAD = x_TAD.roll(x_TAD.shape[-1] // 2, dims=-1)
    x_TAD.mul_(cos_T1D).addcmul_(swapped_TAD, sin_T1D)


def store(
    qkv_TXD: Tensor, cos_T1D: Tensor, sin_T1D: Tensor, slots_T: Tensor, kv_PS2KD: Tensor
) -> Tensor:
    """See `engine.attention.Attend.store`."""
    kv_heads = kv_PS2KD.shape[3]
    heads = qkv_TXD.shape[1] - 2 * kv_heads
    rotate_(qkv_TXD[:, :-kv_heads], cos_T1D, sin_T1D)
    q_TAD, kv_TXD = qkv_TXD.tensor_split((heads,), dim=1)
    kv_PS2KD.view(-1, *kv_TXD.shape[1:]).index_copy_(0, slots_T, kv_TXD)
    return q_TAD
