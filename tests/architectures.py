"""Tiny random models of many architectures that run through the modules of `transformers`.

`docs/models.md` shows this table; a test compares the two.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import torch
import transformers

from tests.models import END, VOCABULARY, write_tokenizer

SHAPE: Final[dict[str, Any]] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "max_position_embeddings": 256,
    "bos_token_id": 1,
    "eos_token_id": END,
    "pad_token_id": 0,
    "initializer_range": 0.3,
}
GROUPED: Final = {"num_key_value_heads": 2, "head_dim": 16}
EXPERTS: Final = {
    **GROUPED,
    "num_experts": 4,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 40,
    "shared_expert_intermediate_size": 40,
}
SLIDING: Final = {**GROUPED, "sliding_window": 12}
MIXED: Final = {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}


@dataclass(frozen=True)
class Example:
    """What a configuration is made of, and what is remarkable about the architecture."""

    feature: str
    changes: dict[str, Any] = field(default_factory=dict)
    config: str = ""


HOSTED: Final[dict[str, Example]] = {
    "LlamaForCausalLM": Example("grouped attention", GROUPED),
    "MistralForCausalLM": Example("sliding window in every layer", SLIDING),
    "Qwen2ForCausalLM": Example("biases; a window in some layers", {
        **SLIDING, **MIXED, "use_sliding_window": True,
    }),
    "Qwen3ForCausalLM": Example("norms of queries and keys", GROUPED),
    "GemmaForCausalLM": Example("one key head, scaled embeddings", {
        "num_key_value_heads": 1, "head_dim": 16,
    }),
    "Gemma2ForCausalLM": Example("soft-capped logits, windows in every other layer", {
        **SLIDING, "query_pre_attn_scalar": 20, "attn_logit_softcapping": 5.0,
        "final_logit_softcapping": 20.0,
    }),
    "Gemma3ForCausalLM": Example("another rope in layers with a window", {
        **SLIDING, **MIXED, "query_pre_attn_scalar": 20,
    }, "Gemma3TextConfig"),
    "Phi3ForCausalLM": Example("fused projections", GROUPED),
    "GPT2LMHeadModel": Example("learned positions"),
    "GPTNeoXForCausalLM": Example("partial rotation, parallel residuals"),
    "GPTBigCodeForCausalLM": Example("one key head, learned positions", {"multi_query": True}),
    "OPTForCausalLM": Example("learned positions behind an offset", {
        "ffn_dim": 80, "word_embed_proj_dim": 64,
    }),
    "CohereForCausalLM": Example("scaled logits, parallel residuals", GROUPED),
    "GraniteForCausalLM": Example("multipliers everywhere", {
        **GROUPED, "attention_multiplier": 0.3, "residual_multiplier": 0.5, "logits_scaling": 2.0,
    }),
    "Olmo2ForCausalLM": Example("norms behind the blocks", GROUPED),
    "SmolLM3ForCausalLM": Example("some layers without positions", GROUPED),
    "MixtralForCausalLM": Example("mixture of experts", EXPERTS),
    "Qwen3MoeForCausalLM": Example("mixture of experts", EXPERTS),
    "OlmoeForCausalLM": Example("mixture of experts", EXPERTS),
    "GptOssForCausalLM": Example("mixture of experts, attention sinks, windows", {
        **EXPERTS, **SLIDING, **MIXED,
    }),
}  # fmt: skip


def make(name: str, seed: int = 0) -> Any:  # noqa: ANN401  # transformers is untyped here
    """The model with random weights; biases and norms too, which start as zeros and ones and would hide mistakes."""
    example = HOSTED[name]
    family = name.removesuffix("ForCausalLM").removesuffix("LMHeadModel")
    config = getattr(transformers, example.config or f"{family}Config")
    torch.manual_seed(seed)
    model = getattr(transformers, name)(config(**(SHAPE | example.changes))).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def write(name: str, folder: Path) -> Any:  # noqa: ANN401
    """The checkpoint with the byte-level tokenizer; returns the model that has the same weights."""
    model = make(name)
    model.save_pretrained(folder)
    write_tokenizer(folder)
    return model
