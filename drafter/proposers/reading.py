"""How much of which texts one forward of a draft model reads: commits wait for it. Pure."""

from collections.abc import Sequence
from typing import Final

SECONDS: Final = 0.25  # no forward should take longer
FEWEST: Final = 16  # tokens of unread text that a forward takes in any case, so that it gets read
FIRST: Final = 64
MOST: Final = 1024


def share(unread: Sequence[int], chunk: int) -> list[int]:
    """How many tokens of each text one forward of about `chunk` tokens reads.

    Those with one token to read all draw; the rest of the chunk, or a little in any case, goes to the others in order.
    """
    room = max(FEWEST, chunk - sum(count for count in unread if count == 1))
    shares: list[int] = []
    for count in unread:
        given = 1 if count == 1 else min(count, room)
        room -= given if count > 1 else 0
        shares.append(given)
    return shares


def paced(chunk: int, tokens: int, seconds: float) -> int:
    """The next chunk, from how long a forward of `tokens` took; small ones tell little."""
    if 2 * tokens < chunk:
        return chunk
    fitting = int(tokens * SECONDS / max(seconds, 1e-6))
    return max(FEWEST, min(MOST, 2 * chunk, fitting))
