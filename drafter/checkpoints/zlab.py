"""What the authors of DFlash publish; SpecForge writes the same."""

from drafter.checkpoints.blocks import default_ids, dflash
from drafter.checkpoints.head import OUT, CheckpointError, Head, Source
from drafter.checkpoints.layers import states
from drafter.checkpoints.parts import canonical, shape

KNOWN = (None, "", "dflash")


def block(source: Source) -> bool:
    inner = source.config.get("dflash_config") or {}
    return source.architecture == "DFlashDraftModel" and inner.get("projector_type") != "dspark"


def read_block(source: Source) -> Head:
    """Ids name outputs. A head without them was trained on states spread over the target."""
    inner = source.config.get("dflash_config") or {}
    kind = inner.get("projector_type")
    if kind not in KNOWN:
        raise CheckpointError(
            f"{source.folder}: dflash_config.projector_type is {kind!r}, only 'dflash' and 'dspark' are known"
        )
    ids = inner.get("target_layer_ids", source.config.get("target_layer_ids"))
    if ids is None:
        ids = default_ids(source.target.layers, _count(source))
    return dflash(
        source,
        shape(source.config, source, "qwen3"),
        "z-lab",
        states=states(source, ids, OUT),
        block=source.need("block_size", "dflash_config"),
        mask_token=source.need("mask_token_id", "dflash_config"),
        causal=bool(inner.get("causal", False)),
    )


def _count(source: Source) -> int:
    """How many states `fc` takes."""
    for name, found in source.shapes.items():
        if canonical(name) == "fc.weight":
            return max(1, found[1] // source.target.hidden)
    raise CheckpointError(f"{source.folder}: fc.weight is missing")
