"""The engine: one forward for any mix of prefill chunks, verify windows and single tokens.

Shapes: T tokens of all rows, H hidden, V vocabulary, N positions whose logits are wanted,
P pages, S positions of a page, K key/value heads, D head size; 2 is (key, value).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from engine.attention import Attend, Reached, Telling, backend
from engine.batch import Batch, Row, flatten
from engine.config import EngineConfig
from engine.errors import EngineError
from engine.features import Features
from engine.kv import capability, check
from engine.memory import pool, present
from engine.models import Decoder, architecture
from engine.models.config import ModelConfig
from engine.ranks import ALONE, Ranks
from engine.widening import Widening

__all__ = ["Engine", "EngineError", "Forward", "Row", "bytes_per_page", "pages_for"]


@dataclass(frozen=True, slots=True)
class Forward:
    """Float32 logits, rows in order and positions in order; hidden states [T, H] by layer.

    The next forward may overwrite the logits (`EngineConfig.overwritten`).

    Hidden state 0 is the embedding and k the residual stream after layer k-1, before any norm; the
    one after the last of those is what the last norm makes of it.
    """

    logits_NV: Tensor
    hidden: Mapping[int, Tensor]


def bytes_per_page(model: ModelConfig, page_size: int, numbers: str) -> int:
    """Memory of one page over all layers, of numbers as torch calls them."""
    itemsize: int = getattr(torch, numbers).itemsize
    return model.layers * page_size * 2 * model.kv_heads * model.head_dim * itemsize


def pages_for(memory_bytes: int, model: ModelConfig, page_size: int, numbers: str) -> int:
    """How many pages fit into that much memory."""
    return memory_bytes // bytes_per_page(model, page_size, numbers)


class Engine:
    """A model and its paged KV; it keeps no sequences, their pages say all there is to know.

    `kv` has one tensor [P, S, 2, K, D] a layer: a page of a layer is one contiguous block. `decoder`
    is the model itself, for those who need more of it than logits.
    """

    def __init__(self, config: EngineConfig, model: ModelConfig, decoder: Decoder) -> None:
        self.config = config
        self.model = model
        self.decoder = decoder
        self.features: Features | None = None
        held = config.pages + config.spare
        shape = (held, config.page_size, 2, model.kv_heads, model.head_dim)
        # Zeros, because masked positions are multiplied by zero and garbage might not be finite.
        dtype: torch.dtype = getattr(torch, config.kv_numbers)
        self.kv = tuple(pool(shape, dtype, config.device) for _ in range(model.layers))
        self.attention = backend(config.attention, config.device)(model, config)
        self._wide = Widening(config.overwritten)

    @classmethod
    def load(cls, folder: Path, config: EngineConfig, ranks: Ranks = ALONE) -> "Engine":
        """Read a checkpoint folder (`config.json` and safetensors), or raise EngineError.

        Of several ranks, each has pages and weights of its own heads; see `engine.spanning`.
        """
        present(config.device)
        check(config, capability(config.device))
        model = ModelConfig.read(folder, trust_remote_code=config.trust_remote_code)
        model.check_context(config.max_context)
        own = ranks.shard.own(model)
        kind = architecture(model, config.implementation)
        with torch.no_grad():
            decoder = kind.load(folder, model, config, ranks)
        return cls(config, own, decoder)

    @property
    def bytes_per_page(self) -> int:
        """Memory of one page over all layers."""
        return bytes_per_page(self.model, self.config.page_size, self.config.kv_numbers)

    @torch.no_grad()
    def forward(
        self, rows: Sequence[Row], hidden: Sequence[int] = (), reached: Reached | None = None
    ) -> Forward:
        """Write the KV of all new tokens; return the wanted logits and hidden states."""
        self.check(rows)
        for state in hidden:
            self._check_state(state)
        batch = flatten(rows, self.config.page_size, self.config.device)
        attend = self.attention.prepare(rows)
        if reached is not None:
            attend = Telling(attend, reached)
        return self.compute(batch, attend, hidden)

    def compute(self, batch: Batch, attend: Attend, hidden: Sequence[int] = ()) -> Forward:
        """The same of rows that are on the device already, and known to be right."""
        captured = self.features.states if self.features else ()
        asked = {*hidden, *captured}
        logits_NV, seen = self.decoder.forward(batch, attend, self.kv, asked)
        if self.features:
            self.features.write(batch.slots_T, seen)
        return Forward(self._wide(logits_NV), {state: seen[state] for state in hidden})

    def capture(self, features: Features) -> None:
        """From now on, keep these features of every token beside its KV."""
        for state in features.states:
            self._check_state(state)
        self.features = features

    def check(self, rows: Sequence[Row]) -> None:
        """An EngineError that names what is wrong with one of them."""
        if not rows:
            raise EngineError("there are no rows")
        for index, row in enumerate(rows):
            self._check(index, row)

    def _check_state(self, state: int) -> None:
        if not 0 <= state <= self.model.layers + 1:
            raise EngineError(
                f"hidden state {state} does not exist, the last is {self.model.layers + 1}"
            )

    def _check(self, index: int, row: Row) -> None:
        """Look at a row before anything is written for any."""
        complaint = (
            self._misfit(row)
            or _stray("token", row.tokens, "vocabulary", self.model.vocab)
            or _stray("page", row.pages, "pool", self.config.pages)
        )
        if complaint:
            raise EngineError(f"row {index} {complaint}")

    def _misfit(self, row: Row) -> str:
        covered, limit = len(row.pages) * self.config.page_size, self.config.max_context
        if not row.tokens:
            return "has no tokens"
        if row.start < 0:
            return f"starts at {row.start}"
        if row.end > limit:
            return f"ends at {row.end}, max_context is {limit}"
        if row.end > covered:
            return f"ends at {row.end}, its {len(row.pages)} pages cover {covered}"
        if not 0 <= row.logits <= len(row.tokens):
            return f"wants {row.logits} logits of {len(row.tokens)} tokens"
        return "" if row.seen is None else _no_tree(row.seen, len(row.tokens))


def _no_tree(seen: Sequence[int], tokens: int) -> str:
    if len(seen) != tokens:
        return f"is a tree of {len(seen)} tokens, and has {tokens}"
    for index, bits in enumerate(seen):
        if bits < 0 or bits.bit_length() != index + 1:
            return f"is no tree: its token {index} must see itself, and nothing behind it"
    return ""


def _stray(kind: str, values: Sequence[int], owner: str, count: int) -> str:
    least, most = min(values), max(values)
    if least >= 0 and most < count:
        return ""
    return f"has the {kind} {least if least < 0 else most}, the {owner} has {count}"
