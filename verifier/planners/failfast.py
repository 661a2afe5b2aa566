"""Chunks until one is in doubt (arXiv 2512.20573): that one is kept whole, and nothing behind it is taken."""

from collections.abc import Sequence

from verifier.config import PlannerConfig
from verifier.planner import Candidate, Looks, Steady, fit


def length(confidences: Sequence[float], chunk: int, least: float, most: int) -> int:
    """How much of a tail is taken: whole chunks, up to the first that holds a confidence below `least`."""
    end = min(len(confidences), most)
    for start in range(0, end, chunk):
        if any(each < least for each in confidences[start : min(start + chunk, end)]):
            return min(start + chunk, end)
    return end


class FailFast(Steady):
    """Tokens that are taken decide about those behind them; a method that says nothing is trusted."""

    looks = Looks.BEHIND

    def __init__(self, config: PlannerConfig) -> None:
        super().__init__(config)
        self._chunk = config.failfast.chunk
        self._least = config.failfast.least

    def lengths(self, candidates: Sequence[Candidate], budget: int, beside: int = 0) -> list[int]:  # noqa: ARG002
        return fit([self._length(each) for each in candidates], budget)

    def _length(self, each: Candidate) -> int:
        most = min(self.most, each.most)
        if not each.confidences:
            return most
        return length(each.confidences, self._chunk, self._least, most)
