"""The same draft length for everybody, whatever the load."""

from collections.abc import Sequence

from verifier.planner import Candidate, Steady, fit


class Fixed(Steady):
    """The configured length, as far as tails and limits reach."""

    def lengths(self, candidates: Sequence[Candidate], budget: int, beside: int = 0) -> list[int]:  # noqa: ARG002
        return fit([min(self.most, each.most) for each in candidates], budget)
