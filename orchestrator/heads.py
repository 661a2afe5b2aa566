"""What a verifier must keep of its hidden states for the configured draft head. Imported late: it reads models."""

from drafter.checkpoints import Target, places, read
from drafter.checkpoints.head import reads_hidden
from drafter.config import DrafterConfig
from verifier.config import FeaturesConfig


def captured(config: DrafterConfig) -> FeaturesConfig:
    """The verifier's side of this drafter's head; nothing for other methods. A CheckpointError says what is wrong."""
    if not reads_hidden(config.methods) or config.model is None or config.target is None:
        return FeaturesConfig()
    head = read(
        config.model,
        Target.read(config.target),
        config.hidden.layer_convention,
        tuple(config.hidden.states),
    )
    head.check(config.methods)
    where = places(head) if config.hidden.projected else None
    if where is None:
        return FeaturesConfig(states=head.states, dtype=config.dtype)
    return FeaturesConfig(
        states=head.states,
        dtype=config.dtype,
        draft=where.folder,
        fc=where.fc,
        part_norms=where.part_norms,
        joint_norm=where.joint_norm,
        norm=where.norm,
        eps=where.eps,
    )
