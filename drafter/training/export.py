"""Trained heads as others write them: EAGLE-3 and DSpark like `speculators`, DFlash like z-lab."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from safetensors.torch import save_file
from torch import Tensor

from drafter.training.block import Blocks
from drafter.training.dflash import DFlash
from drafter.training.dspark import DSpark
from drafter.training.eagle3 import Eagle3
from drafter.training.known import Known
from drafter.training.methods import Method
from drafter.training.target import Dense


def write(
    method: Method, w: Mapping[str, Tensor], folder: Path, temperatures: Sequence[float] = ()
) -> None:
    """`config.json` and bfloat16 weights."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: tensor.detach().to(torch.bfloat16).cpu() for name, tensor in w.items()}
    if method.kind != "dflash":
        tensors |= _map(method)
    save_file(
        {name: each.contiguous() for name, each in tensors.items()}, folder / "model.safetensors"
    )
    config = CONFIGS[method.kind](method)
    if temperatures:
        config["confidence_temperatures"] = list(temperatures)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def _map(method: Method) -> dict[str, Tensor]:
    """Which of the target's tokens the head knows: as offsets, and as marks."""
    ids_U = method.ids_U.cpu()
    marks_V = Known.of(method.target, method.ids_U).marks_V.cpu()
    return {"d2t": ids_U - torch.arange(len(ids_U)), "t2d": marks_V}


def _like(target: Dense) -> dict[str, Any]:
    """One layer like the target's."""
    shape = target.shape
    return _layers(target, "llama", 1, shape.intermediate, shape.kv_heads)


def _block(blocks: Blocks) -> dict[str, Any]:
    own, shape = blocks.target.shape, blocks.shape
    inner = min(shape.inner, own.intermediate)
    return _layers(blocks.target, "qwen3", shape.layers, inner, own.heads)


def _layers(target: Dense, kind: str, count: int, inner: int, kv_heads: int) -> dict[str, Any]:
    """The fields of a decoder with layers like the target's, but for the size of MLPs and the heads of keys."""
    shape, model = target.shape, target.model
    return {
        "model_type": kind,
        "hidden_size": shape.hidden,
        "intermediate_size": inner,
        "num_hidden_layers": count,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": kv_heads,
        "head_dim": shape.head_dim,
        "hidden_act": "silu",
        "rms_norm_eps": shape.eps,
        "rope_theta": model.rope["rope_theta"],
        "rope_parameters": dict(model.rope),
        "max_position_embeddings": model.positions,
        "vocab_size": shape.vocab,
        "attention_bias": False,
        "tie_word_embeddings": False,
    }


def _eagle3(method: Method) -> dict[str, Any]:
    assert isinstance(method, Eagle3)
    return {
        "architectures": ["Eagle3DraftModel"],
        "speculators_model_type": "eagle3",
        "draft_vocab_size": len(method.ids_U),
        "eagle_aux_hidden_state_layer_ids": list(method.states),
        "norm_before_residual": False,
        "fc_norm": True,
        "transformer_layer_config": _like(method.target),
        "speculators_version": "0.9.0",
    }


def _dflash(method: Method) -> dict[str, Any]:
    assert isinstance(method, DFlash)
    shape = method.blocks.shape
    return {
        "architectures": ["DFlashDraftModel"],
        "auto_map": {"AutoModel": "dflash.DFlashDraftModel"},
        **_block(method.blocks),
        "num_target_layers": method.target.shape.layers,
        "block_size": shape.size,
        "dflash_config": {
            "mask_token_id": shape.mask,
            "target_layer_ids": [state - 1 for state in method.states],
        },
    }


def _dspark(method: Method) -> dict[str, Any]:
    assert isinstance(method, DSpark)
    shape = method.blocks.shape
    return {
        "architectures": ["DSparkDraftModel"],
        "speculators_model_type": "dspark",
        "draft_vocab_size": len(method.ids_U),
        "aux_hidden_state_layer_ids": list(method.states),
        "mask_token_id": shape.mask,
        "block_size": shape.size,
        "sample_from_anchor": shape.from_anchor,
        "markov_rank": method.settings.rank,
        "markov_head_type": "vanilla",
        "enable_confidence_head": True,
        "confidence_head_with_markov": True,
        "transformer_layer_config": _block(method.blocks),
        "speculators_version": "0.9.0",
    }


CONFIGS: Final[Mapping[str, Callable[[Method], dict[str, Any]]]] = {
    "eagle3": _eagle3,
    "dflash": _dflash,
    "dspark": _dspark,
}
