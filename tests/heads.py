"""Tiny random draft heads for the byte-level target of `tests/models.py`, written with the names that are published."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

HIDDEN: Final = 64
VOCAB: Final = 261
LAYER: Final[dict[str, Any]] = {
    "hidden_size": HIDDEN,
    "intermediate_size": 80,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": VOCAB,
    "max_position_embeddings": 1024,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
}


class Maker:
    """Random tensors, norms not far from one."""

    def __init__(self, seed: int, scale: float = 0.2) -> None:
        self._generator = torch.Generator().manual_seed(seed)
        self._scale = scale

    def matrix(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self._generator) * self._scale

    def norm(self, size: int) -> Tensor:
        return 1.0 + 0.2 * torch.randn(size, generator=self._generator)

    def layer(
        self, at: str, *, inputs: int, norms: tuple[str, ...], heads_normed: bool
    ) -> dict[str, Tensor]:
        width, keys, inner = 64, 32, 80
        tensors = {
            f"{at}self_attn.q_proj.weight": self.matrix(width, inputs),
            f"{at}self_attn.k_proj.weight": self.matrix(keys, inputs),
            f"{at}self_attn.v_proj.weight": self.matrix(keys, inputs),
            f"{at}self_attn.o_proj.weight": self.matrix(HIDDEN, width),
            f"{at}mlp.gate_proj.weight": self.matrix(inner, HIDDEN),
            f"{at}mlp.up_proj.weight": self.matrix(inner, HIDDEN),
            f"{at}mlp.down_proj.weight": self.matrix(HIDDEN, inner),
        }
        tensors |= {f"{at}{norm}.weight": self.norm(HIDDEN) for norm in norms}
        if heads_normed:
            tensors |= {f"{at}self_attn.{each}_norm.weight": self.norm(16) for each in "qk"}
        return tensors

    def small_vocabulary(self, size: int) -> dict[str, Tensor]:
        """Which tokens a head with `size` of them knows, as offsets and as marks."""
        chosen = torch.randperm(VOCAB, generator=self._generator)[:size].sort().values
        marks = torch.zeros(VOCAB, dtype=torch.bool)
        marks[chosen] = True
        return {"d2t": chosen - torch.arange(size), "t2d": marks}


INNER: Final = ("input_layernorm", "post_attention_layernorm")


def write(folder: Path, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    save_file(
        {name: tensor.contiguous() for name, tensor in tensors.items()},
        folder / "model.safetensors",
    )
    return folder


def eagle_1(folder: Path, *, seed: int = 1, bias: bool = True) -> Path:
    """As published with EAGLE: a Llama of one layer with `fc`; `bias` is said only where it is false."""
    make = Maker(seed)
    tensors = {
        "embed_tokens.weight": make.matrix(VOCAB, HIDDEN),
        "fc.weight": make.matrix(HIDDEN, 2 * HIDDEN),
        **make.layer(
            "layers.0.", inputs=HIDDEN, norms=("post_attention_layernorm",), heads_normed=False
        ),
    }
    config: dict[str, Any] = {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}
    config |= LAYER | {"num_hidden_layers": 1}
    if bias:
        tensors["fc.bias"] = make.matrix(HIDDEN)
    else:
        config["bias"] = False
    return write(folder, config, tensors)


def _eagle_3(
    make: Maker,
    at: str,
    *,
    states: int,
    vocab: int,
    heads_normed: bool = False,
    embedding: bool = True,
) -> dict[str, Tensor]:
    tensors = {
        "fc.weight": make.matrix(HIDDEN, states * HIDDEN),
        "norm.weight": make.norm(HIDDEN),
        "lm_head.weight": make.matrix(vocab, HIDDEN),
        **make.layer(
            at, inputs=2 * HIDDEN, norms=(*INNER, "hidden_norm"), heads_normed=heads_normed
        ),
    }
    if vocab != VOCAB:
        tensors |= make.small_vocabulary(vocab)
    if embedding:
        tensors["embed_tokens.weight"] = make.matrix(VOCAB, HIDDEN)
    return tensors


def eagle_3(folder: Path, *, seed: int = 2, vocab: int = 120) -> Path:
    """As published with EAGLE-3; the target has two layers, so its states are said."""
    tensors = _eagle_3(Maker(seed), "midlayer.", states=3, vocab=vocab, embedding=False)
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        **LAYER,
        "num_hidden_layers": 1,
        "draft_vocab_size": vocab,
        "eagle_aux_hidden_state_layer_ids": [0, 1, 2],
    }
    return write(folder, config, tensors)


def specforge_eagle_3(folder: Path, *, seed: int = 3, vocab: int = 120) -> Path:
    tensors = _eagle_3(Maker(seed), "midlayer.", states=3, vocab=vocab)
    config = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        **LAYER,
        "num_hidden_layers": 1,
        "draft_vocab_size": vocab,
        "eagle_config": {
            "use_aux_hidden_state": True,
            "eagle_aux_hidden_state_layer_ids": [-1, 0, 1],
        },
    }
    return write(folder, config, tensors)


def deepspec_eagle_3(folder: Path, *, seed: int = 4) -> Path:
    tensors = _eagle_3(Maker(seed), "layers.0.", states=2, vocab=VOCAB, heads_normed=True)
    config = {
        "architectures": ["Qwen3Eagle3Model"],
        "model_type": "qwen3",
        **LAYER,
        "num_hidden_layers": 1,
        "target_layer_ids": [0, 1],
        "ttt_length": 3,
        "step_loss_decay": 1.0,
    }
    return write(folder, config, tensors)


def speculators_eagle_3(folder: Path, *, seed: int = 5, vocab: int = 120, **said: Any) -> Path:
    """`said` are fields that differ from their defaults: such as norm_output, fc_norm, norm_before_residual."""
    make = Maker(seed)
    tensors = _eagle_3(make, "layers.0.", states=3, vocab=vocab)
    if said.get("fc_norm"):
        tensors |= {f"fc_norm.{part}.weight": make.norm(HIDDEN) for part in range(3)}
    if said.get("norm_before_fc"):
        tensors["input_norm.weight"] = make.norm(3 * HIDDEN)
    config = {
        "architectures": ["Eagle3DraftModel"],
        "speculators_model_type": "eagle3",
        "draft_vocab_size": vocab,
        "eagle_aux_hidden_state_layer_ids": [0, 1, 2],
        "norm_before_residual": False,
        "transformer_layer_config": {"model_type": "llama", **LAYER, "num_hidden_layers": 1},
        "speculators_version": "0.9.0",
        **said,
    }
    return write(folder, config, tensors)


def _blocks(make: Maker, *, states: int, layers: int = 2) -> dict[str, Tensor]:
    tensors = {
        "fc.weight": make.matrix(HIDDEN, states * HIDDEN),
        "hidden_norm.weight": make.norm(HIDDEN),
        "norm.weight": make.norm(HIDDEN),
    }
    for layer in range(layers):
        tensors |= make.layer(f"layers.{layer}.", inputs=HIDDEN, norms=INNER, heads_normed=True)
    return tensors


def _sequential(make: Maker, kind: str, vocab: int, *, rank: int = 8) -> dict[str, Tensor]:
    tensors = {
        "markov_head.markov_w1.weight": make.matrix(VOCAB, rank),
        "markov_head.markov_w2.weight": make.matrix(vocab, rank),
        "confidence_head.proj.weight": make.matrix(1, HIDDEN + rank),
        "confidence_head.proj.bias": make.matrix(1),
    }
    if kind == "gated":
        tensors["markov_head.gate_proj.weight"] = make.matrix(rank, HIDDEN + rank)
        tensors["markov_head.gate_proj.bias"] = make.matrix(rank)
    if kind == "rnn":
        tensors["markov_head.joint_proj.weight"] = make.matrix(3 * rank, 2 * rank + HIDDEN)
        tensors["markov_head.joint_proj.bias"] = make.matrix(3 * rank)
    return tensors


BLOCK: Final = {"model_type": "qwen3", **LAYER, "num_hidden_layers": 2, "num_target_layers": 2}
CAPTURED: Final = {"mask_token_id": 4, "target_layer_ids": [0, 1]}


def zlab_dflash(folder: Path, *, seed: int = 6, block: int = 8) -> Path:
    """As published with DFlash: neither embedding nor output matrix."""
    config = {
        "architectures": ["DFlashDraftModel"],
        "auto_map": {"AutoModel": "dflash.DFlashDraftModel"},
        **BLOCK,
        "block_size": block,
        "dflash_config": CAPTURED,
    }
    return write(folder, config, _blocks(Maker(seed), states=2))


def specforge_dspark(folder: Path, *, seed: int = 7, block: int = 7) -> Path:
    make = Maker(seed)
    inner = {
        **CAPTURED,
        "projector_type": "dspark",
        "block_size": block,
        "markov_rank": 8,
        "markov_head_type": "vanilla",
        "attention_mode": "gqa",
    }
    config = {"architectures": ["DSparkDraftModel"], **BLOCK, "dflash_config": inner}
    tensors = _blocks(make, states=2) | _sequential(make, "vanilla", VOCAB)
    return write(folder, config, tensors)


def deepspec_dspark(folder: Path, *, seed: int = 8, kind: str = "gated", block: int = 7) -> Path:
    make = Maker(seed)
    config = {
        "architectures": ["Qwen3DSparkModel"],
        **BLOCK,
        **CAPTURED,
        "block_size": block,
        "num_anchors": 512,
        "markov_rank": 8,
        "markov_head_type": kind,
        "enable_confidence_head": True,
        "confidence_head_with_markov": True,
    }
    tensors = _blocks(make, states=2) | _sequential(make, kind, VOCAB)
    tensors["embed_tokens.weight"] = make.matrix(VOCAB, HIDDEN)
    tensors["lm_head.weight"] = make.matrix(VOCAB, HIDDEN)
    return write(folder, config, tensors)


def _speculators(kind: str, **said: Any) -> dict[str, Any]:
    layers = {"model_type": "qwen3", **LAYER, "num_hidden_layers": 2}
    return {
        "architectures": ["DFlashDraftModel"],
        "speculators_model_type": kind,
        "aux_hidden_state_layer_ids": [1, 2],
        "mask_token_id": 4,
        "transformer_layer_config": layers,
        "speculators_version": "0.9.0",
        **said,
    }


def speculators_dflash(folder: Path, *, seed: int = 9, vocab: int = 120) -> Path:
    """The block size is the default of 8, and so is not said."""
    make = Maker(seed)
    tensors = _blocks(make, states=2) | make.small_vocabulary(vocab)
    tensors["lm_head.weight"] = make.matrix(vocab, HIDDEN)
    return write(folder, _speculators("dflash", draft_vocab_size=vocab), tensors)


def speculators_dspark(
    folder: Path, *, seed: int = 10, kind: str = "rnn", vocab: int = VOCAB, **said: Any
) -> Path:
    make = Maker(seed)
    tensors = _blocks(make, states=2) | _sequential(make, kind, vocab)
    if vocab != VOCAB:
        tensors |= make.small_vocabulary(vocab) | {"lm_head.weight": make.matrix(vocab, HIDDEN)}
    config = _speculators(
        "dspark", draft_vocab_size=vocab, block_size=7, markov_rank=8, markov_head_type=kind, **said
    )
    return write(folder, config, tensors)


def speaks(folder: Path, tokens: Sequence[int]) -> Path:
    """Let a head with a small vocabulary of this size know these tokens, and prefer none of them by much."""
    file = folder / "model.safetensors"
    tensors = load_file(file)
    chosen = torch.tensor(sorted(tokens))
    assert tensors["d2t"].shape == chosen.shape
    tensors["d2t"] = chosen - torch.arange(len(chosen))
    tensors["t2d"] = torch.zeros(VOCAB, dtype=torch.bool).index_fill(0, chosen, True)
    tensors["lm_head.weight"] *= 0.5
    save_file(tensors, file)
    return folder
