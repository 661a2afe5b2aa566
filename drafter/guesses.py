"""What is asked of a draft model, and what it says. Pure."""

from typing import NamedTuple

from drafter.mirror import Mirror
from protocol.laws import Law


class Place(NamedTuple):
    """A token is to be guessed for this position of prompt and output."""

    mirror: Mirror
    position: int


class Guess(NamedTuple):
    """A token, and how sure the model is of it.

    With a law it was drawn from that, and the confidence is how likely the likeliest token was; without, it is a
    function of text and seed, and the confidence is its own probability.
    """

    token: int
    confidence: float
    law: Law | None = None
