"""Names and shapes that heads are made of, the same in all dialects once prefixes are gone."""

from collections.abc import Mapping
from typing import Any, Final

from drafter.checkpoints.head import CheckpointError, Source
from engine.models.config import ModelConfig
from engine.models.llama_shape import LlamaShape

Shapes = dict[str, tuple[int, ...]]

RENAMED: Final = (("model.", ""), ("midlayer.", "layers.0."))
"""Prefixes of published names, and what they stand for."""
UNUSED: Final = ("rotary_emb.inv_freq", "verifier_lm_head.weight", "verifier_norm.weight")
"""Tensors that may be there in vain, by how their names end."""


def shape(fields: Mapping[str, Any], source: Source, default: str) -> ModelConfig:
    """The layers that a configuration describes, with what its own class says where it says nothing."""
    from transformers import AutoConfig  # noqa: PLC0415  # seconds to import

    plain = {key: value for key, value in fields.items() if key not in {"auto_map", "model_type"}}
    kind = fields.get("model_type", default)
    try:
        config = AutoConfig.for_model(kind, **plain)
    except ValueError as error:
        raise CheckpointError(f"{source.folder}: model_type {kind!r} is not known") from error
    model = ModelConfig.translate(config, [])
    if not LlamaShape.fits(model):
        raise CheckpointError(
            f"{source.folder}: layers of {config.model_type} with {config.hidden_act} are not served"
        )
    return model


def decoder(model: ModelConfig, layer: int, inputs: int, norms: tuple[str, ...]) -> Shapes:
    """One layer whose attention reads `inputs` numbers a token, with these norms."""
    own = LlamaShape.of(model)
    at, H, D, I = f"layers.{layer}.", model.hidden, model.head_dim, own.intermediate  # noqa: E741, N806
    queries, keys = model.heads * D, model.kv_heads * D
    linears = {
        "self_attn.q_proj": (queries, inputs, own.qkv_bias),
        "self_attn.k_proj": (keys, inputs, own.qkv_bias),
        "self_attn.v_proj": (keys, inputs, own.qkv_bias),
        "self_attn.o_proj": (H, queries, own.output_bias),
        "mlp.gate_proj": (I, H, own.mlp_bias),
        "mlp.up_proj": (I, H, own.mlp_bias),
        "mlp.down_proj": (H, I, own.mlp_bias),
    }
    shapes: Shapes = {f"{at}{norm}.weight": (H,) for norm in norms}
    if own.qk_norm:
        shapes |= {f"{at}self_attn.{each}_norm.weight": (D,) for each in "qk"}
    for name, (outputs, width, bias) in linears.items():
        shapes[f"{at}{name}.weight"] = (outputs, width)
        if bias:
            shapes[f"{at}{name}.bias"] = (outputs,)
    return shapes


def vocabulary(source: Source, field: str = "draft_vocab_size", *sections: str) -> int:
    """Tokens that the head knows: the target's, unless it says otherwise."""
    for section in (*(source.config.get(each) or {} for each in sections), source.config):
        if section.get(field) is not None:
            return int(section[field])
    return source.target.vocab


def tables(source: Source, vocab: int, hidden: int) -> tuple[Shapes, Shapes]:
    """The maps and matrices between tokens and numbers: those that must be there, and those that may."""
    full = vocab == source.target.vocab
    needed: Shapes = {} if full else {"d2t": (vocab,)}
    optional: Shapes = {
        "t2d": (source.target.vocab,),
        "d2t": (vocab,),
        "lm_head.weight": (vocab, hidden),
        "embed_tokens.weight": (source.target.vocab, hidden),
    }
    if hidden != source.target.hidden:
        needed["embed_tokens.weight"] = optional["embed_tokens.weight"]
        needed["lm_head.weight"] = optional["lm_head.weight"]
    return needed, {name: shape for name, shape in optional.items() if name not in needed}


def names(source: Source, needed: Shapes, optional: Shapes) -> dict[str, str]:
    """Where each tensor lies; or a CheckpointError with every name and shape that is wrong."""
    found = {canonical(name): name for name in source.shapes}
    faults = [f"{name} is missing" for name in needed if name not in found]
    for name, place in found.items():
        wanted = needed.get(name, optional.get(name))
        if wanted is None:
            if not name.endswith(UNUSED):
                faults.append(f"{place} is unexpected")
        elif source.shapes[place] != wanted:
            faults.append(f"{place} is {source.shapes[place]}, not {wanted}")
    if faults:
        raise CheckpointError(f"weights in {source.folder} do not fit: {'; '.join(faults)}")
    return {name: place for name, place in found.items() if name in needed or name in optional}


def canonical(name: str) -> str:
    """A published name without the prefixes that differ."""
    for prefix, instead in RENAMED:
        if name.startswith(prefix):
            name = instead + name.removeprefix(prefix)
    return name
