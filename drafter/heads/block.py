"""DFlash and DSpark heads: all slots of a block in one pass, then (DSpark) a bias from each token to the next.

Shapes: N context rows, T = R * B tokens of R blocks, B slots of a block, J of them guesses, F width of a row that
travelled, H hidden, L layers, K key heads, D head size, U vocabulary of the head, M rank of the bias.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import embedding, linear, rms_norm

from drafter.heads.layer import Layer, Place
from drafter.heads.vocabulary import Shared, Vocabulary
from drafter.heads.weights import HeadWeights, projection
from engine.linear import products
from engine.rotary import rotate_

if TYPE_CHECKING:
    from engine.markov_triton import MarkovBias


class BlockHead:
    """With `projected` rows, the verifier has applied `fc` and its norm already."""

    def __init__(self, weights: HeadWeights, target: Shared | None, *, projected: bool) -> None:
        self.head = weights.head
        self.vocabulary = Vocabulary(weights, target)
        self.device = weights.device
        self.markov = Markov(weights) if weights.head.rank else None
        self.fused = _fused(weights, self.markov, self.vocabulary.ids_U)
        self.confidence = Confidence(weights) if weights.head.confidence else None
        self._layers = [Layer(weights, index) for index in range(self.head.shape.layers)]
        self._norm_H = weights.read("norm.weight")
        self._shape = self.head.shape
        self._project = (
            None if projected else projection(self.head, weights.dtype, weights.device.name)
        )
        biases = [layer.kv_bias for layer in self._layers if layer.kv_bias is not None]
        self._context = products(weights.dtype, weights.device.name).plain(
            torch.cat([layer.kv_weight for layer in self._layers]),
            torch.cat(biases) if biases else None,
        )

    def write(self, rows_NF: Tensor, place: Place, kv: Sequence[Tensor]) -> None:
        """Put the context into every layer's KV. It does not pass the norm that a block's tokens pass."""
        shape = self._shape
        K, D, L = shape.kv_heads, shape.head_dim, len(self._layers)
        c_NH = rows_NF if self._project is None else self._project(rows_NF)
        each_NLXD = self._context(c_NH).view(-1, L, 2 * K, D)
        for index, (layer, kv_PS2KD) in enumerate(zip(self._layers, kv, strict=True)):
            kv_NXD = each_NLXD[:, index].contiguous()
            k_NKD = kv_NXD[:, :K]
            if layer.k_norm_D is not None:
                k_NKD.copy_(rms_norm(k_NKD, (D,), layer.k_norm_D, shape.eps))
            rotate_(k_NKD, place.cos_T1D, place.sin_T1D)
            kv_PS2KD.view(-1, 2 * K, D).index_copy_(0, place.slots_T, kv_NXD)

    def forward(self, ids_T: Tensor, place: Place, kv: Sequence[Tensor]) -> Tensor:
        """Final states [T, H], after the last norm."""
        x_TH = self.vocabulary.embed(ids_T)
        for layer, kv_PS2KD in zip(self._layers, kv, strict=True):
            assert layer.norm_H is not None
            x_TH = layer(self._rms(x_TH, layer.norm_H), x_TH, place, kv_PS2KD)
        return self._rms(x_TH, self._norm_H)

    def _rms(self, x_TH: Tensor, norm_H: Tensor) -> Tensor:
        return rms_norm(x_TH, norm_H.shape, norm_H, self._shape.eps)


class Markov:
    """A bias for the logits of a slot, from the token before it; the `rnn` form remembers those before that."""

    def __init__(self, weights: HeadWeights) -> None:
        at = "markov_head."
        self.kind = weights.head.markov
        self.from_VM = weights.read(f"{at}markov_w1.weight")
        self.to_UM = weights.read(f"{at}markov_w2.weight")
        name = {"gated": f"{at}gate_proj", "rnn": f"{at}joint_proj"}.get(self.kind, "")
        self._weight = weights.get(f"{name}.weight")
        self._bias = weights.get(f"{name}.bias")

    def before(self, ids_R: Tensor) -> Tensor:
        """What stands for the token before a slot, [R, M]."""
        return embedding(ids_R, self.from_VM)

    def start(self, blocks: int) -> Tensor:
        """The memory before the first slot, [R, M]."""
        return self.from_VM.new_zeros(blocks, self.from_VM.shape[1])

    def step(self, before_RM: Tensor, x_RH: Tensor, memory_RM: Tensor) -> tuple[Tensor, Tensor]:
        """The bias [R, U] of one slot with final states `x_RH`, and the memory after it."""
        z_RM, memory_RM = self.narrow(before_RM, x_RH, memory_RM)
        return linear(z_RM, self.to_UM).float(), memory_RM

    def narrow(self, before_RM: Tensor, x_RH: Tensor, memory_RM: Tensor) -> tuple[Tensor, Tensor]:
        """What the bias of one slot is made of, [R, M], and the memory after it."""
        z_RM = before_RM
        if self.kind == "gated":
            assert self._weight is not None
            joined = torch.cat((x_RH, before_RM), dim=-1)
            z_RM = torch.sigmoid(linear(joined, self._weight, self._bias)) * before_RM
        elif self.kind == "rnn":
            assert self._weight is not None
            joined = torch.cat((memory_RM, before_RM, x_RH), dim=-1)
            gate, new, out = linear(joined, self._weight, self._bias).chunk(3, dim=-1)
            gate_RM = torch.sigmoid(gate)
            memory_RM = gate_RM * memory_RM + (1.0 - gate_RM) * torch.tanh(new)
            z_RM = torch.tanh(out)
        return z_RM, memory_RM


def _fused(
    weights: HeadWeights, markov: Markov | None, ids_U: Tensor | None
) -> "MarkovBias | None":
    """The bias by a kernel, where kernels compute and it fits one."""
    if markov is None or not weights.device.kernels:
        return None
    from engine.markov_triton import MarkovBias, fits  # noqa: PLC0415  # triton, which CPUs do without

    made = fits(markov.to_UM)
    return MarkovBias(markov.from_VM, markov.to_UM, ids_U) if made else None


class Confidence:
    """The chance that a slot's guess is accepted if those before it are; it looks at nothing later."""

    def __init__(self, weights: HeadWeights) -> None:
        self._weight = weights.read("confidence_head.proj.weight")
        self._bias = weights.read("confidence_head.proj.bias")
        self._joined = weights.head.confidence_with_markov
        self._temperatures = weights.head.confidence_temperatures

    def __call__(self, x_RH: Tensor, before_RM: Tensor | None, slot: int) -> Tensor:
        """Chances [R] of the guesses of one slot."""
        read = (
            torch.cat((x_RH, before_RM), dim=-1) if self._joined and before_RM is not None else x_RH
        )
        logit_R = linear(read, self._weight, self._bias).float()[:, 0]
        return torch.sigmoid(logit_R / self._temperatures[slot] if self._temperatures else logit_R)
