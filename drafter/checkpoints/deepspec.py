"""What DeepSpec writes: everything at the top of the configuration, and the anchor's slot is a guess too."""

from drafter.checkpoints.blocks import dspark
from drafter.checkpoints.chains import eagle3
from drafter.checkpoints.head import OUT, Head, Source
from drafter.checkpoints.layers import states
from drafter.checkpoints.parts import shape


def block(source: Source) -> bool:
    return source.architecture.endswith("DSparkModel")


def read_block(source: Source) -> Head:
    """Its "DFlash" heads are of this class too, with a rank of 0."""
    return dspark(
        source,
        shape(source.config, source, "qwen3"),
        "deepspec",
        source.config,
        states=states(source, source.need("target_layer_ids"), OUT),
        block=source.need("block_size"),
        mask_token=source.need("mask_token_id"),
        from_anchor=True,
    )


def chain(source: Source) -> bool:
    return source.architecture.endswith("Eagle3Model")


def read_chain(source: Source) -> Head:
    """Five states, and the whole vocabulary."""
    ids = source.need("target_layer_ids")
    model = shape(source.config, source, "qwen3")
    return eagle3(source, model, "deepspec", states=states(source, ids, OUT))
