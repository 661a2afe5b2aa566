"""The engine: one forward for any mix of prefill chunks, verify windows and single tokens.

Shapes: T tokens of all rows, H hidden, V vocabulary, N positions whose logits are wanted,
P pages, S positions of a page, K key/value heads, D head size; 2 is (key, value).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from engine.attention import backend
from engine.batch import Row, flatten
from engine.config import Dtype, EngineConfig
from engine.errors import EngineError
from engine.models import architecture
from engine.models.config import ModelConfig
from engine.models.llama import Llama
from engine.weights import Weights

__all__ = ["Engine", "EngineError", "Forward", "Row", "bytes_per_page", "pages_for"]


@dataclass(frozen=True, slots=True)
class Forward:
    """Float32 logits, rows in order and positions in order; hidden states [T, H] by layer.

    Hidden state 0 is the embedding and k the residual stream after layer k-1, before any norm.
    """

    logits_NV: Tensor
    hidden: Mapping[int, Tensor]


def bytes_per_page(model: ModelConfig, page_size: int, dtype: Dtype) -> int:
    """Memory of one page over all layers."""
    itemsize: int = getattr(torch, dtype).itemsize
    return model.layers * page_size * 2 * model.kv_heads * model.head_dim * itemsize


def pages_for(memory_bytes: int, model: ModelConfig, page_size: int, dtype: Dtype) -> int:
    """How many pages fit into that much memory."""
    return memory_bytes // bytes_per_page(model, page_size, dtype)


class Engine:
    """A model and its paged KV; it keeps no sequences, their pages say all there is to know.

    `kv` has one tensor [P, S, 2, K, D] a layer: a page of a layer is one contiguous block.
    """

    def __init__(self, config: EngineConfig, model: ModelConfig, decoder: Llama) -> None:
        self.config = config
        self.model = model
        self._decoder = decoder
        shape = (config.pages, config.page_size, 2, model.kv_heads, model.head_dim)
        # Zeros, because masked positions are multiplied by zero and garbage might not be finite.
        self.kv = tuple(
            torch.zeros(shape, dtype=getattr(torch, config.dtype)) for _ in range(model.layers)
        )
        self._attention = backend(config.attention)(model, config)

    @classmethod
    def load(cls, folder: Path, config: EngineConfig) -> "Engine":
        """Read a checkpoint folder (`config.json` and safetensors), or raise EngineError."""
        if config.device != "cpu":
            raise EngineError(f"device {config.device} is not served, only cpu")
        model = ModelConfig.read(folder)
        model.check_context(config.max_context)
        kind = architecture(model.architecture)
        dtype = getattr(torch, config.dtype)
        with (
            torch.no_grad(),
            Weights(folder, kind.expected(model), dtype, kind.ignored(model)) as weights,
        ):
            decoder = kind(model, weights, config.max_context)
        return cls(config, model, decoder)

    @property
    def bytes_per_page(self) -> int:
        """Memory of one page over all layers."""
        return bytes_per_page(self.model, self.config.page_size, self.config.dtype)

    @torch.no_grad()
    def forward(self, rows: Sequence[Row], hidden: Sequence[int] = ()) -> Forward:
        """Write the KV of all new tokens; return the wanted logits and hidden states."""
        if not rows:
            raise EngineError("there are no rows")
        for index, row in enumerate(rows):
            self._check(index, row)
        for state in hidden:
            if not 0 <= state <= self.model.layers:
                raise EngineError(
                    f"hidden state {state} does not exist, the last is {self.model.layers}"
                )
        batch = flatten(rows, self.config.page_size)
        attend = self._attention.prepare(rows)
        x_TH, seen = self._decoder.forward(batch, attend, self.kv, hidden)
        return Forward(self._decoder.logits(x_TH.index_select(0, batch.wanted_N)), seen)

    def _check(self, index: int, row: Row) -> None:
        """Look at a row before anything is written for any."""
        config, covered = self.config, len(row.pages) * self.config.page_size
        for fault, complaint in (
            (not row.tokens, "has no tokens"),
            (row.start < 0, f"starts at {row.start}"),
            (
                row.end > config.max_context,
                f"ends at {row.end}, max_context is {config.max_context}",
            ),
            (row.end > covered, f"ends at {row.end}, its {len(row.pages)} pages cover {covered}"),
            (
                not 0 <= row.logits <= len(row.tokens),
                f"wants {row.logits} logits of {len(row.tokens)} tokens",
            ),
        ):
            if fault:
                raise EngineError(f"row {index} {complaint}")
        _check_range(index, "token", row.tokens, "vocabulary", self.model.vocab)
        _check_range(index, "page", row.pages, "pool", config.pages)


def _check_range(index: int, kind: str, values: Sequence[int], owner: str, count: int) -> None:
    least, most = min(values), max(values)
    if least < 0 or most >= count:
        wrong = least if least < 0 else most
        raise EngineError(f"row {index} has the {kind} {wrong}, the {owner} has {count}")
