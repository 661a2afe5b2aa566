"""What SpecForge writes: EAGLE-3 for SGLang, and DSpark with everything in `dflash_config`."""

from drafter.checkpoints.blocks import dspark
from drafter.checkpoints.chains import eagle3
from drafter.checkpoints.head import OUT, Head, Source
from drafter.checkpoints.layers import states
from drafter.checkpoints.parts import shape


def chain(source: Source) -> bool:
    return source.architecture.endswith("ForCausalLMEagle3")


def read_chain(source: Source) -> Head:
    """Layer ids lie in `eagle_config` and name outputs there; `norm_output` is about the logits only."""
    ids = (source.config.get("eagle_config") or {}).get("eagle_aux_hidden_state_layer_ids")
    model = shape(source.config, source, "llama")
    return eagle3(
        source,
        model,
        "specforge",
        states=states(source, ids, OUT),
        norms_logits=bool(source.config.get("norm_output", True)),
    )


def block(source: Source) -> bool:
    inner = source.config.get("dflash_config") or {}
    marked = source.architecture == "DFlashDraftModel" and inner.get("projector_type") == "dspark"
    return source.architecture == "DSparkDraftModel" or marked


def read_block(source: Source) -> Head:
    """The anchor's slot is a guess too."""
    inner = source.config.get("dflash_config") or {}
    ids = source.need("target_layer_ids", "dflash_config")
    fields = {**source.config, "model_type": "qwen3"}  # SpecForge gives its own name to a Qwen3
    return dspark(
        source,
        shape(fields, source, "qwen3"),
        "specforge",
        {**source.config, **inner},
        states=states(source, ids, OUT),
        block=source.need("block_size", "dflash_config"),
        mask_token=source.need("mask_token_id", "dflash_config"),
        from_anchor=bool(inner.get("sample_from_anchor", True)),
    )
