"""DFlash (arXiv 2602.06036): a block of guesses in one pass, each slot for itself, over the target's own states."""

from drafter.config import DrafterConfig
from drafter.heads.blocks import BlockProposer, make_block
from drafter.heads.slots import at_once


def make(config: DrafterConfig) -> BlockProposer:
    """See `drafter.heads.blocks.make_block`."""
    return make_block(config, at_once)
