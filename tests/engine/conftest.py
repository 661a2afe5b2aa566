"""Tiny random checkpoints of every served architecture, written once a session by transformers."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
import torch
import transformers

from engine.config import Dtype, EngineConfig
from engine.pages import PagedSequence, PagePool
from engine.runner import Engine, Row

ATTENTION: Final = os.environ.get("DRAFTMESH_ATTENTION", "auto")
"""What models compute with: `tests/kernels` runs their tests for another backend too."""
SHAPE: Final = {
    "vocab_size": 101,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 256,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
    "initializer_range": 0.3,
}
MODELS: Final[dict[str, tuple[str, dict[str, object]]]] = {
    "llama": ("Llama", {}),
    "llama-tied": ("Llama", {"tie_word_embeddings": True}),
    "llama-biased": ("Llama", {"attention_bias": True, "mlp_bias": True}),
    "llama-llama3": ("Llama", {"rope_parameters": {
        "rope_type": "llama3", "rope_theta": 1e4, "factor": 8.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 32,
    }}),
    "llama-yarn": ("Llama", {"rope_parameters": {
        "rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0,
        "original_max_position_embeddings": 64,
    }}),
    "llama-yarn-by-hand": ("Llama", {"rope_parameters": {
        "rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "beta_fast": 16.0, "beta_slow": 2.0,
        "attention_factor": 1.3, "original_max_position_embeddings": 64,
    }}),
    "llama-linear": ("Llama", {"rope_parameters": {
        "rope_type": "linear", "rope_theta": 1e4, "factor": 2.0,
    }}),
    "llama-dynamic": ("Llama", {"rope_parameters": {
        "rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0,
    }}),
    "mistral": ("Mistral", {"sliding_window": None}),
    "mistral-sliding": ("Mistral", {"sliding_window": 6}),
    "qwen2": ("Qwen2", {}),
    "qwen2-mixed": ("Qwen2", {
        "use_sliding_window": True, "sliding_window": 6,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
    }),
    "qwen3": ("Qwen3", {"tie_word_embeddings": True}),
}  # fmt: skip


@dataclass(frozen=True)
class Tiny:
    """The same weights twice: in a folder, and as the model that wrote it."""

    folder: Path
    reference: Any

    def engine(
        self,
        pages: int = 32,
        page_size: int = 4,
        max_context: int = 128,
        dtype: Dtype = "float32",
        overwritten: int = 0,
    ) -> Engine:
        config = EngineConfig(
            pages=pages,
            page_size=page_size,
            max_context=max_context,
            dtype=dtype,
            attention=ATTENTION,
            overwritten=overwritten,
        )
        return Engine.load(self.folder, config)

    def logits(self, tokens: list[int]) -> torch.Tensor:
        """What transformers computes for the whole text at once, [T, V]."""
        with torch.no_grad():
            logits: torch.Tensor = self.reference(torch.tensor([tokens])).logits[0]
        return logits


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Tiny]:
    @cache
    def make(name: str) -> Tiny:
        family, changes = MODELS[name]
        config = getattr(transformers, f"{family}Config")(**(SHAPE | changes))
        torch.manual_seed(sorted(MODELS).index(name))
        reference = getattr(transformers, f"{family}ForCausalLM")(config).eval()
        with torch.no_grad():  # biases and norms start as zeros and ones, which would hide mistakes
            for parameter in reference.parameters():
                if parameter.dim() == 1:
                    parameter.add_(0.3 * torch.randn_like(parameter))
        folder = tmp_path_factory.mktemp(name)
        reference.save_pretrained(folder)
        return Tiny(folder, reference)

    return make


class Story:
    """One sequence on an engine: feed it, take it back, and look at the logits."""

    def __init__(self, engine: Engine, pool: PagePool, sequence: PagedSequence) -> None:
        self.engine = engine
        self.pool = pool
        self.sequence = sequence

    def row(self, tokens: list[int], logits: int | None = None) -> Row:
        start = self.sequence.computed
        self.pool.reserve(self.sequence, start + len(tokens))
        wanted = len(tokens) if logits is None else logits
        self.sequence.computed = start + len(tokens)
        return Row(tokens, start, self.sequence.pages, wanted)

    def feed(self, tokens: list[int]) -> torch.Tensor:
        return self.engine.forward([self.row(tokens)]).logits_NV

    def back_to(self, kept: int) -> None:
        self.pool.truncate(self.sequence, kept)
