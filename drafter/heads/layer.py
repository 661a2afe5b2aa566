"""One decoder layer of a draft head. What its attention reads, and what is added to it, is the head's to say.

Shapes: T tokens, N context rows, I inputs of attention, H hidden, X heads of several kinds, D head size, P pages, S
positions of a page, K key heads; 2 is (key, value).
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import rms_norm

from drafter.heads.weights import HeadWeights
from engine.attention import Attend
from engine.linear import Linear, products


@dataclass(frozen=True, slots=True)
class Place:
    """Where the tokens of a forward stand: their angles, their slots, how they see each other; which draw."""

    cos_T1D: Tensor
    sin_T1D: Tensor
    slots_T: Tensor
    attend: Attend
    wanted_N: Tensor


class Layer:
    """Weights by the names below `at`."""

    def __init__(self, weights: HeadWeights, index: int) -> None:
        self._shape = weights.head.shape
        at = f"layers.{index}."
        make = products(weights.dtype, weights.device.name)
        kinds = [f"{at}self_attn.{each}_proj" for each in "qkv"]
        qkv = [weights.read(f"{kind}.weight") for kind in kinds]
        biases = [weights.read(f"{kind}.bias") for kind in kinds] if self._shape.qkv_bias else []
        self._qkv = make.plain(torch.cat(qkv), torch.cat(biases) if biases else None)
        self.kv_weight = torch.cat(qkv[1:])
        self.kv_bias = torch.cat(biases[1:]) if biases else None
        self._q_norm_D = weights.get(f"{at}self_attn.q_norm.weight")
        self.k_norm_D = weights.get(f"{at}self_attn.k_norm.weight")
        self._output = make.added(
            weights.read(f"{at}self_attn.o_proj.weight"), weights.get(f"{at}self_attn.o_proj.bias")
        )
        self.norm_H = weights.get(f"{at}input_layernorm.weight")
        self._mlp_norm_H = weights.read(f"{at}post_attention_layernorm.weight")
        gate, up, down = (f"{at}mlp.{each}_proj" for each in ("gate", "up", "down"))
        mlp_biases = [weights.get(f"{each}.bias") for each in (gate, up)]
        both = [each for each in mlp_biases if each is not None]
        self._gate_up: Linear = make.gated(
            weights.read(f"{gate}.weight"),
            weights.read(f"{up}.weight"),
            torch.stack(both) if both else None,
        )
        self._down = make.added(weights.read(f"{down}.weight"), weights.get(f"{down}.bias"))

    def __call__(self, read_TI: Tensor, x_TH: Tensor, place: Place, kv_PS2KD: Tensor) -> Tensor:
        """Attention that reads `read_TI` is added to `x_TH`, then the MLP; the KV is written on the way."""
        A, K, D = self._shape.heads, self._shape.kv_heads, self._shape.head_dim
        qkv_TXD = self._qkv(read_TI).view(-1, A + 2 * K, D)
        for part_TXD, norm_D in (
            (qkv_TXD[:, :A], self._q_norm_D),
            (qkv_TXD[:, A : A + K], self.k_norm_D),
        ):
            if norm_D is not None:
                part_TXD.copy_(rms_norm(part_TXD, (D,), norm_D, self._shape.eps))
        q_TAD = place.attend.store(qkv_TXD, place.cos_T1D, place.sin_T1D, place.slots_T, kv_PS2KD)
        x_TH = self._output(place.attend(q_TAD, kv_PS2KD), x_TH)
        y_TH = rms_norm(x_TH, self._mlp_norm_H.shape, self._mlp_norm_H, self._shape.eps)
        return self._down(self._gate_up(y_TH), x_TH)
