"""What the `speculators` library writes: fields that have their defaults may be missing."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from drafter.checkpoints.blocks import dflash, dspark
from drafter.checkpoints.chains import eagle3
from drafter.checkpoints.head import IN, CheckpointError, Head, Source
from drafter.checkpoints.layers import states
from drafter.checkpoints.parts import shape
from engine.models.config import ModelConfig

FIELD: Final = "speculators_model_type"


def any_of_them(source: Source) -> bool:
    return FIELD in source.config


def read(source: Source) -> Head:
    """By the model type that it names."""
    kind = source.config[FIELD]
    if kind not in READERS:
        raise CheckpointError(
            f"{source.folder}: {FIELD} is {kind!r}, only {', '.join(READERS)} are known"
        )
    fields: Mapping[str, Any] = source.need("transformer_layer_config")
    return READERS[kind](source, shape(fields, source, "qwen3" if kind != "eagle3" else "llama"))


def _eagle3(source: Source, model: ModelConfig) -> Head:
    said = source.config
    parts, joint = bool(said.get("fc_norm", False)), bool(said.get("norm_before_fc", False))
    if parts and joint:
        raise CheckpointError(f"{source.folder}: fc_norm and norm_before_fc are both true")
    return eagle3(
        source,
        model,
        "speculators",
        states=states(source, said.get("eagle_aux_hidden_state_layer_ids"), IN),
        norm_before_residual=bool(said.get("norm_before_residual", False)),
        feeds_normed=bool(said.get("norm_output", False)),
        part_norms=parts,
        joint_norm=joint,
    )


def _shared(source: Source, *, from_anchor: bool) -> dict[str, Any]:
    return {
        "states": states(source, source.need("aux_hidden_state_layer_ids"), IN),
        "block": source.config.get("block_size", 8),
        "mask_token": source.need("mask_token_id"),
        "from_anchor": bool(source.config.get("sample_from_anchor", from_anchor)),
    }


def _dflash(source: Source, model: ModelConfig) -> Head:
    return dflash(source, model, "speculators", **_shared(source, from_anchor=False))


def _dspark(source: Source, model: ModelConfig) -> Head:
    fields = {"markov_rank": 256, **source.config}
    shared = _shared(source, from_anchor=True)
    return dspark(source, model, "speculators", fields, **shared)


READERS: Final[Mapping[str, Callable[[Source, ModelConfig], Head]]] = {
    "eagle3": _eagle3,
    "dflash": _dflash,
    "dspark": _dspark,
}
