"""The Llama family: Llama, Mistral, Qwen2 and Qwen3 differ only in biases and in query/key norms.

Shapes: T tokens, H hidden, A query heads, K key/value heads, X heads of several kinds, D head size,
V vocabulary, N positions whose logits are wanted, P pages, S positions of a page; 2 is (key, value).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import embedding

from engine.attention import Attend, Kind
from engine.batch import Batch
from engine.config import EngineConfig
from engine.linear import AddedLinear, Linear, products
from engine.models.config import ModelConfig
from engine.models.llama_shape import LlamaShape
from engine.norms import rms_norm
from engine.ranks import ALONE, Ranks
from engine.rotary import tables
from engine.weights import Weights


@dataclass(frozen=True, slots=True)
class _Layer:
    norm_H: Tensor
    qkv: Linear
    q_norm_D: Tensor | None
    k_norm_D: Tensor | None
    output: AddedLinear
    mlp_norm_H: Tensor
    gate_up: Linear
    down: AddedLinear


class Llama:
    """A decoder whose weights are those of an open checkpoint with the names of its shape.

    A rank of several has the rows of its heads and of its part of the MLP, and the columns that take what these give;
    what they add to the residual stream is summed over the ranks. Its head has a part of the vocabulary.
    """

    def __init__(
        self,
        shape: LlamaShape,
        weights: Weights,
        rotary: tuple[Tensor, Tensor],
        ranks: Ranks = ALONE,
    ) -> None:
        self.config = shape
        self._ranks = ranks
        self.embedding_VH = weights.read("model.embed_tokens.weight")
        self._products = products(self.embedding_VH.dtype, self.embedding_VH.device)
        self.layers = [self._layer(weights, f"model.layers.{i}.") for i in range(shape.layers)]
        self.norm_H = weights.read("model.norm.weight")
        self._kinds = tuple(Kind(window) for window in shape.windows)
        words = ranks.shard.of(shape.vocab)
        head_VH = self.embedding_VH[words] if shape.tied else weights.read("lm_head.weight", words)
        self.head = self._products.plain(head_VH, None)
        self.cos_S1D, self.sin_S1D = rotary

    @staticmethod
    def fits(model: ModelConfig) -> bool:
        """See `engine.models.Architecture`."""
        return LlamaShape.fits(model)

    @classmethod
    def load(
        cls, folder: Path, model: ModelConfig, config: EngineConfig, ranks: Ranks = ALONE
    ) -> "Llama":
        """See `engine.models.Architecture`."""
        shape = LlamaShape.of(model)
        dtype: torch.dtype = getattr(torch, config.dtype)
        cos_S1D, sin_S1D = tables(model, config.max_context, dtype)
        rotary = cos_S1D.to(config.device), sin_S1D.to(config.device)
        with Weights(folder, shape.expected(), dtype, shape.ignored, config.device) as weights:
            return cls(shape, weights, rotary, ranks)

    def forward(
        self, batch: Batch, attend: Attend, kv: Sequence[Tensor], hidden: Collection[int]
    ) -> tuple[Tensor, Mapping[int, Tensor]]:
        """See `engine.models.Decoder`."""
        x_TH = embedding(batch.ids_T, self.embedding_VH)
        cos_T1D = self.cos_S1D.index_select(0, batch.positions_T)
        sin_T1D = self.sin_S1D.index_select(0, batch.positions_T)
        seen = {0: x_TH}
        each = zip(self.layers, self._kinds, kv, strict=True)
        for index, (layer, kind, kv_PS2KD) in enumerate(each):
            qkv_TXD = self._project(layer, x_TH)
            q_TAD = attend.store(qkv_TXD, cos_T1D, sin_T1D, batch.slots_T, kv_PS2KD)
            before_TH = self._once(x_TH)
            x_TH = self._ranks.sum(layer.output(attend(q_TAD, kv_PS2KD, kind), before_TH))
            y_TH = rms_norm(x_TH, layer.mlp_norm_H, self.config.eps)
            x_TH = self._ranks.sum(layer.down(layer.gate_up(y_TH), self._once(x_TH)))
            if index + 1 in hidden:
                seen[index + 1] = x_TH
        if self.config.layers + 1 in hidden:
            seen[self.config.layers + 1] = self._final(x_TH)
        wanted_NH = x_TH.index_select(0, batch.wanted_N)
        return self.logits(wanted_NH), {k: seen[k] for k in hidden}

    def logits(self, x_NH: Tensor) -> Tensor:
        """Logits of final residuals."""
        return self._ranks.gather(self.head(self._final(x_NH)), self.config.vocab)

    def _once(self, x_TH: Tensor) -> Tensor:
        """The residual stream where it is added to what is summed: on one rank."""
        return torch.zeros_like(x_TH) if self._ranks.shard.rank else x_TH

    def _final(self, x_NH: Tensor) -> Tensor:
        return rms_norm(x_NH, self.norm_H, self.config.eps)

    def _project(self, layer: _Layer, x_TH: Tensor) -> Tensor:
        """Queries, keys and values [T, X, D] side by side, before rotation."""
        own, D = self._ranks.shard.ranks, self.config.head_dim
        A, K = self.config.heads // own, self.config.kv_heads // own
        y_TH = rms_norm(x_TH, layer.norm_H, self.config.eps)
        qkv_TXD = layer.qkv(y_TH).view(-1, A + 2 * K, D)
        if layer.q_norm_D is not None and layer.k_norm_D is not None:
            for part_TXD, norm_D in (
                (qkv_TXD[:, :A], layer.q_norm_D),
                (qkv_TXD[:, A : A + K], layer.k_norm_D),
            ):
                part_TXD.copy_(rms_norm(part_TXD, norm_D, self.config.eps))
        return qkv_TXD

    def _layer(self, weights: Weights, at: str) -> _Layer:
        config, shard = self.config, self._ranks.shard
        qkv = [f"{at}self_attn.{each}_proj" for each in "qkv"]
        A, K, D = config.heads, config.kv_heads, config.head_dim
        own = [shard.of(heads * D) for heads in (A, K, K)]
        gate, up, down = (f"{at}mlp.{each}_proj" for each in ("gate", "up", "down"))
        output = f"{at}self_attn.o_proj"
        middle = shard.of(config.intermediate)

        def norm(name: str) -> Tensor:
            return weights.read(f"{at}{name}.weight")

        def parts(names: Sequence[str], kind: str, rows: Sequence[slice]) -> list[Tensor]:
            each = zip(names, rows, strict=True)
            return [weights.read(f"{name}.{kind}", part) for name, part in each]

        def added(name: str, columns: slice, biased: bool) -> AddedLinear:
            bias_H = weights.read(f"{name}.bias") if biased and not shard.rank else None
            return self._products.added(weights.read(f"{name}.weight", columns=columns), bias_H)

        gate_IH, up_IH = parts((gate, up), "weight", (middle, middle))
        biases_2I = parts((gate, up), "bias", (middle, middle)) if config.mlp_bias else None
        return _Layer(
            norm_H=norm("input_layernorm"),
            qkv=self._products.plain(
                torch.cat(parts(qkv, "weight", own)),
                torch.cat(parts(qkv, "bias", own)) if config.qkv_bias else None,
            ),
            q_norm_D=norm("self_attn.q_norm") if config.qk_norm else None,
            k_norm_D=norm("self_attn.k_norm") if config.qk_norm else None,
            output=added(output, own[0], config.output_bias),
            mlp_norm_H=norm("post_attention_layernorm"),
            gate_up=self._products.gated(
                gate_IH, up_IH, torch.stack(biases_2I) if biases_2I else None
            ),
            down=added(down, middle, config.mlp_bias),
        )
