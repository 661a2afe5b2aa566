"""How methods arrive at their guesses, for whoever decides which acceptance rule goes with them. Pure."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from drafter.config import DrafterConfig


class Manner(NamedTuple):
    """`draws` and `confidence` as `verifier/exactness.py` names them."""

    draws: str = "certain"
    confidence: str = "token"


DRAWN: Final = Manner("one by one", "largest")
SAMPLERS: Final[Mapping[str, Manner]] = {
    "standalone": DRAWN,
    "eagle3": DRAWN,
    "dflash": Manner("at once", "largest"),  # no slot sees what another drew
    "dspark": Manner("one by one", "head"),  # what it is sure of may depend on the token before
}
"""Methods that draw where they are configured to, and how."""


def manner(config: DrafterConfig) -> Manner:
    """Of the configured method, where a verifier takes laws."""
    parts = config.methods
    drawn = {
        DRAWN if part == "drawn" else SAMPLERS[part]
        for part in parts
        if part == "drawn" or (config.samples and part in SAMPLERS)
    }
    if not drawn:
        return Manner()
    if len(parts) == 1:
        return drawn.pop()
    # Whoever guesses next to others sees what they drew.
    largest = any(each.confidence == "largest" for each in drawn)
    return Manner("one by one", "largest" if largest else "head")
