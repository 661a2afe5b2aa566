"""DSpark (arXiv 2607.05147): the block of DFlash, slot after slot a bias from the token before, and how sure it is."""

from drafter.config import DrafterConfig
from drafter.heads.blocks import BlockProposer, make_block
from drafter.heads.slots import one_by_one


def make(config: DrafterConfig) -> BlockProposer:
    """See `drafter.heads.blocks.make_block`."""
    return make_block(config, one_by_one)
