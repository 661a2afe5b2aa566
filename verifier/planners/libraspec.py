"""Draft length by marginal gain (LibraSpec, arXiv 2608.08721, Algorithm 1).

With q_k the confidence of the k-th token, S_i = sum over j in i..d of q_i * ... * q_j is what is expected to be
accepted from i on, once what is before it was. What lies behind i is worth its verification up to i + alpha * S_i;
the smallest such bound over i is the length to go to: further, which may take more blocks, or back, which ends it.
Drafters stream ahead, so a block is what the tail holds already; what it does not hold is not waited for twice.
"""

from collections.abc import Sequence
from math import floor
from typing import Final, NamedTuple

from verifier.config import PlannerConfig
from verifier.planner import Candidate, Looks, Steady, fit

NEAR: Final = 1e-9
"""A bound this close below a whole number is that number, on every machine."""


class Submitted(NamedTuple):
    """So many tokens are verified, of so many that were drafted for it."""

    length: int
    drafted: int


def bound(confidences: Sequence[float], length: int, alpha: float) -> int:
    """Where the first `length` confidences say that the window should end: e* in the paper."""
    expected, least = 0.0, length + floor(alpha) + 1
    for place in range(length, 0, -1):
        expected = confidences[place - 1] * (1.0 + expected)
        least = min(least, floor(alpha * expected + place + NEAR))
    return least


def submitted(confidences: Sequence[float], block: int, most: int, alpha: float) -> Submitted:
    """The window of a tail of these confidences, of which a drafter makes `block` at a time."""
    if not confidences or not most:
        return Submitted(0, 0)
    drafted = min(block, len(confidences))
    length, spare = min(drafted, most), drafted - min(drafted, most)
    while length < most:
        best = bound(confidences, length, alpha)
        if best <= length:
            return Submitted(best, drafted)
        best = min(best, most, len(confidences))
        if best == length:
            break  # the tail ends here
        spare -= best - length
        length = best
        while spare < 0:
            spare += block
            drafted += block
    return Submitted(length, drafted)


def extended(confidences: Sequence[float], most: int, alpha: float) -> int:
    """The same without going back: a token enters by what those before it say, whatever it says itself."""
    most = min(most, len(confidences))
    length = min(1, most)
    while 0 < length < most:
        best = bound(confidences, length, alpha)
        if best <= length:
            break
        length = min(best, most)
    return length


class LibraSpec(Steady):
    """Every request for itself. Where guesses are drawn (`careful`) windows only grow: see `docs/planning.md`."""

    def __init__(self, config: PlannerConfig) -> None:
        own = config.libraspec
        super().__init__(config, own.most)
        self._block = own.block
        self._alpha = own.alpha
        self._careful = config.careful
        self.looks = Looks.BEHIND if config.careful else Looks.AHEAD

    def enough(self, available: int) -> bool:
        return available >= min(self._block, self.most)

    def lengths(self, candidates: Sequence[Candidate], budget: int, beside: int = 0) -> list[int]:  # noqa: ARG002
        return fit([self._length(each) for each in candidates], budget)

    def _length(self, each: Candidate) -> int:
        most = min(self.most, each.most)
        if not each.confidences:
            return min(most, self._block)
        known = each.confidences[: each.most]
        if self._careful:
            return extended(known, most, self._alpha)
        return submitted(known, self._block, most, self._alpha).length
