"""DFlash (arXiv 2602.06036): a block of guesses in one pass, each slot for itself, over the target's own states."""

from drafter.config import DrafterConfig
from drafter.heads.blocks import BlockProposer, at_once, make_block


def make(config: DrafterConfig) -> BlockProposer:
    """See `drafter.heads.blocks.make_block`."""
    return make_block(config, at_once)
