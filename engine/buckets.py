"""The sizes that forwards are padded to, so that each can be captured once and replayed. Pure."""

from bisect import bisect_left
from dataclasses import dataclass
from typing import Final

STEPS: Final = ((4, 1), (64, 8), (256, 16), (512, 32))
"""Up to so many tokens buckets are so far apart; beyond, 64: padding stays below an eighth where it costs most."""
FAR: Final = 64


@dataclass(frozen=True, slots=True)
class Buckets:
    """Sizes that rise; `of` says which one a forward is padded to."""

    sizes: tuple[int, ...]

    def of(self, tokens: int) -> int | None:
        """The least bucket that holds so many tokens; None where no bucket does."""
        at = bisect_left(self.sizes, tokens)
        return self.sizes[at] if at < len(self.sizes) else None

    @property
    def largest(self) -> int:
        return self.sizes[-1]


def buckets(most: int) -> Buckets:
    """Buckets for forwards of 1 to `most` tokens; the last of them is `most`."""
    sizes: list[int] = []
    size = 0
    while size < most:
        apart = next((apart for end, apart in STEPS if size < end), FAR)
        size = 8 if size == 4 else size + apart
        sizes.append(min(size, most))
    return Buckets(tuple(sizes))
