"""One decoder layer of a head, differentiable; weights are under the names that checkpoints have.

Shapes: B texts, T tokens, L keys, A query heads, K key heads, X heads of a kind, D head size, H hidden.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import linear, rms_norm, silu

Weights = Mapping[str, Tensor]


@dataclass(frozen=True, slots=True)
class Rotary:
    """Cosines and signed sines [positions, D]."""

    cos: Tensor
    sin: Tensor

    def turn(self, x_BTXD: Tensor, positions: Tensor) -> Tensor:
        """Heads of tokens at `positions` [T] or [B, T]."""
        cos, sin = self.cos[positions].unsqueeze(-2), self.sin[positions].unsqueeze(-2)
        return x_BTXD * cos + x_BTXD.roll(x_BTXD.shape[-1] // 2, -1) * sin


def rms(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return rms_norm(x, weight.shape, weight, eps)


def heads(w: Weights, name: str, x: Tensor, size: int) -> Tensor:
    """A projection [..., X, D]; with its own norm where the layer has one."""
    return torch.unflatten(linear(x, w[f"{name}_proj.weight"]), -1, (-1, size))


def mlp(w: Weights, at: str, x: Tensor, eps: float) -> Tensor:
    """`x` and what the MLP makes of it."""
    y = rms(x, w[f"{at}post_attention_layernorm.weight"], eps)
    inner = silu(linear(y, w[f"{at}mlp.gate_proj.weight"])) * linear(
        y, w[f"{at}mlp.up_proj.weight"]
    )
    return x + linear(inner, w[f"{at}mlp.down_proj.weight"])


def half(w: Weights, dtype: torch.dtype) -> dict[str, Tensor]:
    """The weights in the dtype of the arithmetic; gradients flow back to the originals."""
    return {
        name: tensor.to(dtype) if tensor.is_floating_point() else tensor
        for name, tensor in w.items()
    }
