"""The target as training needs it: whole batches of texts at once, over dense KV.

The serving engine keeps a token's bits the same in any batch and its KV in pages; this one only has to be fast.

Shapes: B texts, T tokens of each in one forward, L positions of the cache, N = B * T, H hidden, A query heads,
K key heads, G query heads to a key head, X heads of several kinds, D head size, V vocabulary; 2 is (key, value).
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch
from torch import Tensor
from torch.nn.functional import embedding, linear, rms_norm, scaled_dot_product_attention, silu

from engine.errors import EngineError
from engine.linear import AddedLinear, Linear, Packed, Products
from engine.models.config import ModelConfig
from engine.models.llama_shape import LlamaShape
from engine.rotary import rotate_, tables
from engine.weights import Weights

Attend = Callable[[int, Tensor, Tensor], Tensor]
"""Layer, queries [B, T, A, D] and new keys and values [B, T, 2K, D] to outputs [B, T, A, D]."""
PACKED_FOR: Final = 128
LONGEST: Final = 1024


class Plain:
    """Products as torch has them, on any device."""

    def plain(self, weight_OI: Tensor, bias_O: Tensor | None) -> Linear:
        return lambda x: linear(x, weight_OI, bias_O)

    def added(self, weight_OI: Tensor, bias_O: Tensor | None) -> AddedLinear:
        return lambda x, y: y + linear(x, weight_OI, bias_O)

    def gated(self, gate_OI: Tensor, up_OI: Tensor, biases_2O: Tensor | None) -> Linear:
        gate_O, up_O = (None, None) if biases_2O is None else biases_2O.unbind()
        return lambda x: silu(linear(x, gate_OI, gate_O)) * linear(x, up_OI, up_O)


def products(device: str, dtype: torch.dtype) -> Products:
    """What is fastest for many tokens."""
    packed = device == "cpu" and dtype is torch.bfloat16 and Packed.supported()
    return Packed(PACKED_FOR, steady=False) if packed else Plain()


@dataclass(frozen=True, slots=True)
class _Layer:
    norm_H: Tensor
    qkv: Linear
    output: AddedLinear
    mlp_norm_H: Tensor
    gate_up: Linear
    down: AddedLinear


class Dense:
    """A Llama with the weights of a checkpoint folder. Its raw tensors stay in `weights` for warm starts."""

    def __init__(
        self, folder: Path, *, device: str = "cpu", dtype: torch.dtype = torch.bfloat16
    ) -> None:
        model = ModelConfig.read(folder)
        if not LlamaShape.fits(model):
            raise EngineError(f"{folder}: heads are trained for Llama-like targets only")
        self.shape = shape = LlamaShape.of(model)
        if shape.qkv_bias or shape.output_bias or shape.mlp_bias or shape.qk_norm:
            raise EngineError(f"{folder}: heads are trained for targets without biases only")
        self.folder, self.device, self.dtype, self.model = folder, device, dtype, model
        expected = shape.expected()
        with Weights(folder, expected, dtype, shape.ignored) as opened:
            self.weights = {name: opened.read(name).to(device) for name in expected}
        self.embedding_VH = self.weights["model.embed_tokens.weight"]
        self.head_VH = self.embedding_VH if shape.tied else self.weights["lm_head.weight"]
        self.norm_H = self.weights["model.norm.weight"]
        self._make = products(device, dtype)
        self.head = self._make.plain(self.head_VH, None)
        self._layers = [self._layer(f"model.layers.{index}.") for index in range(shape.layers)]
        cos, sin = tables(model, min(LONGEST, model.positions), dtype)
        self.cos_S1D, self.sin_S1D = cos.to(device), sin.to(device)

    def _layer(self, at: str) -> _Layer:
        w = {
            name.removeprefix(at).removesuffix(".weight"): tensor
            for name, tensor in self.weights.items()
            if name.startswith(at)
        }
        return _Layer(
            norm_H=w["input_layernorm"],
            qkv=self._make.plain(torch.cat([w[f"self_attn.{each}_proj"] for each in "qkv"]), None),
            output=self._make.added(w["self_attn.o_proj"], None),
            mlp_norm_H=w["post_attention_layernorm"],
            gate_up=self._make.gated(w["mlp.gate_proj"], w["mlp.up_proj"], None),
            down=self._make.added(w["mlp.down_proj"], None),
        )

    @torch.no_grad()
    def forward(
        self, ids_BT: Tensor, positions_BT: Tensor, attend: Attend, states: Collection[int] = ()
    ) -> tuple[Tensor, Mapping[int, Tensor]]:
        """The last residual [B, T, H] and the wanted states, numbered as in `engine.runner.Forward`."""
        B, T = ids_BT.shape
        A, K, D = self.shape.heads, self.shape.kv_heads, self.shape.head_dim
        cos, sin = (each[positions_BT.flatten()] for each in (self.cos_S1D, self.sin_S1D))
        x_NH = embedding(ids_BT.flatten(), self.embedding_VH)
        seen = {0: x_NH}
        for index, layer in enumerate(self._layers):
            qkv_NXD = layer.qkv(self._rms(x_NH, layer.norm_H)).view(-1, A + 2 * K, D)
            rotate_(qkv_NXD[:, : A + K], cos, sin)
            q, kv = qkv_NXD.view(B, T, -1, D).tensor_split((A,), dim=2)
            x_NH = layer.output(attend(index, q, kv).reshape(B * T, A * D), x_NH)
            x_NH = layer.down(layer.gate_up(self._rms(x_NH, layer.mlp_norm_H)), x_NH)
            if index + 1 in states:
                seen[index + 1] = x_NH
        if self.shape.layers + 1 in states:
            seen[self.shape.layers + 1] = self.normed(x_NH)
        return x_NH.view(B, T, -1), {state: seen[state].view(B, T, -1) for state in states}

    def normed(self, x: Tensor) -> Tensor:
        """What the last norm makes of it."""
        return self._rms(x, self.norm_H)

    @torch.no_grad()
    def logits(self, x_NH: Tensor) -> Tensor:
        """Logits [N, V] of last residuals."""
        return self.head(self.normed(x_NH))

    def _rms(self, x: Tensor, norm_H: Tensor) -> Tensor:
        return rms_norm(x, norm_H.shape, norm_H, self.shape.eps)


def causal(_layer: int, q_BTAD: Tensor, kv_BTXD: Tensor) -> Tensor:
    """Every token sees those before it. Texts are padded at their ends, where nobody looks."""
    q_BATD = q_BTAD.transpose(1, 2)
    k_BKTD, v_BKTD = kv_BTXD.transpose(1, 2).chunk(2, dim=1)
    fold = q_BATD.shape[1] // k_BKTD.shape[1]
    k_BATD, v_BATD = (each.repeat_interleave(fold, 1) for each in (k_BKTD, v_BKTD))
    return scaled_dot_product_attention(q_BATD, k_BATD, v_BATD, is_causal=True).transpose(1, 2)


class Cache:
    """KV of B texts that end at the same place: they are padded at their beginnings."""

    def __init__(self, target: Dense, length: int, pads_B: Tensor) -> None:
        shape = target.shape
        sizes = (2, len(pads_B), shape.kv_heads, length, shape.head_dim)
        self.kv = [
            torch.zeros(sizes, dtype=target.dtype, device=target.device)
            for _ in range(shape.layers)
        ]
        self.pads_B = pads_B
        self.end = 0

    def advance(self, tokens: int) -> tuple[Tensor, Attend]:
        """Positions [B, T] of the next tokens, and their attention."""
        start, self.end = self.end, self.end + tokens
        at_T = torch.arange(start, self.end, device=self.pads_B.device)
        keys_L = torch.arange(self.end, device=self.pads_B.device)
        seen = (keys_L >= self.pads_B[:, None, None]) & (keys_L <= at_T[None, :, None])
        # A padding token sees itself, so that nothing becomes infinite.
        seen |= keys_L == at_T[None, :, None]
        mask = torch.zeros(seen.shape, dtype=self.kv[0].dtype, device=seen.device)
        mask_B1TL = mask.masked_fill_(~seen, -torch.inf)[:, None]

        def attend(layer: int, q_BTAD: Tensor, kv_BTXD: Tensor) -> Tensor:
            B, T, A, D = q_BTAD.shape
            keys, values = self.kv[layer]
            K = keys.shape[1]
            new_BXTD = kv_BTXD.transpose(1, 2)
            keys[:, :, start : self.end] = new_BXTD[:, :K]
            values[:, :, start : self.end] = new_BXTD[:, K:]
            q_BKXD = q_BTAD.view(B, T, K, A // K, D).permute(0, 2, 3, 1, 4).flatten(2, 3)
            mask_B1XL = mask_B1TL.repeat(1, 1, A // K, 1) if T > 1 else mask_B1TL
            out = scaled_dot_product_attention(
                q_BKXD, keys[:, :, : self.end], values[:, :, : self.end], mask_B1XL
            )
            return out.view(B, K, A // K, T, D).permute(0, 3, 1, 2, 4).flatten(2, 3)

        return (at_T - self.pads_B[:, None]).clamp_(min=0), attend

    def keep(self, rows: Tensor) -> None:
        """Only these texts go on."""
        self.kv = [each.index_select(1, rows) for each in self.kv]
        self.pads_B = self.pads_B[rows]
