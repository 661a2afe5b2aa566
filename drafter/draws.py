"""How methods arrive at their guesses, for whoever decides which acceptance rule goes with them. Pure."""

from typing import Final, NamedTuple

from drafter.config import DrafterConfig


class Manner(NamedTuple):
    """`draws` and `confidence` as `verifier/exactness.py` names them."""

    draws: str = "certain"
    confidence: str = "token"


DRAWN: Final = Manner("one by one", "largest")


def manner(config: DrafterConfig) -> Manner:
    """Of the configured method, where a verifier takes laws."""
    samples = config.method == "standalone" and config.draft_sample_method == "probabilistic"
    return DRAWN if samples or config.method == "drawn" else Manner()
