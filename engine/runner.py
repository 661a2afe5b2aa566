"""The engine: one forward for any mix of prefill chunks, verify windows and single tokens.

Shapes: T tokens of all rows, H hidden, V vocabulary, N positions whose logits are wanted,
P pages, S positions of a page, K key/value heads, D head size; 2 is (key, value).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from engine.attention import Span, backend
from engine.config import Dtype, EngineConfig
from engine.errors import EngineError
from engine.models import architecture
from engine.models.config import ModelConfig
from engine.models.llama import Llama
from engine.weights import Weights

__all__ = ["Engine", "EngineError", "Forward", "Row", "bytes_per_page", "pages_for"]


@dataclass(frozen=True, slots=True)
class Row:
    """New tokens of one sequence at positions start..; `logits` are wanted for the last of them.

    Positions before `start` have valid KV in `pages`, which also cover the new tokens.
    """

    tokens: Sequence[int]
    start: int
    pages: Sequence[int]
    logits: int


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
        self._attention = backend(config.attention)(model, config.page_size, self.kv[0])

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
            torch.inference_mode(),
            Weights(folder, kind.expected(model), dtype, kind.ignored(model)) as weights,
        ):
            decoder = kind(model, weights, config.max_context)
        return cls(config, model, decoder)

    @property
    def bytes_per_page(self) -> int:
        """Memory of one page over all layers."""
        return bytes_per_page(self.model, self.config.page_size, self.config.dtype)

    @torch.inference_mode()
    def forward(self, rows: Sequence[Row], hidden: Sequence[int] = ()) -> Forward:
        """Write the KV of all new tokens; return the wanted logits and hidden states."""
        for index, row in enumerate(rows):
            self._check(index, row)
        size = self.config.page_size
        ids_T = torch.tensor([token for row in rows for token in row.tokens])
        positions_T = torch.from_numpy(
            np.concatenate([np.arange(row.start, row.start + len(row.tokens)) for row in rows])
        )
        slots_T = torch.from_numpy(
            np.concatenate(
                [
                    np.asarray(row.pages)[p // size] * size + p % size
                    for row in rows
                    for p in [np.arange(row.start, row.start + len(row.tokens))]
                ]
            )
        )
        attend = self._attention.prepare(
            [Span(row.start, len(row.tokens), row.pages) for row in rows]
        )
        x_TH, seen = self._decoder.forward(ids_T, positions_T, slots_T, attend, self.kv, hidden)
        return Forward(self._decoder.logits(x_TH.index_select(0, _wanted(rows))), seen)

    def _check(self, index: int, row: Row) -> None:
        end = row.start + len(row.tokens)
        if not row.tokens:
            raise EngineError(f"row {index} has no tokens")
        if row.start < 0 or end > self.config.max_context:
            raise EngineError(
                f"row {index} ends at {end}, max_context is {self.config.max_context}"
            )
        if min(row.tokens) < 0 or max(row.tokens) >= self.model.vocab:
            raise EngineError(f"row {index} has a token outside the vocabulary")
        if len(row.pages) * self.config.page_size < end:
            raise EngineError(f"row {index} ends at {end}, its pages cover less")
        if not 0 <= row.logits <= len(row.tokens):
            raise EngineError(f"row {index} wants {row.logits} logits of {len(row.tokens)} tokens")


def _wanted(rows: Sequence[Row]) -> Tensor:
    wanted: list[int] = []
    end = 0
    for row in rows:
        end += len(row.tokens)
        wanted.extend(range(end - row.logits, end))
    return torch.tensor(wanted, dtype=torch.int64)
