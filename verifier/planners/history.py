"""Draft length by a request's own last round: two more after a full one, one less after a rejection."""

from collections.abc import Sequence

from verifier.config import PlannerConfig
from verifier.planner import Candidate, Outcome, Steady, fit


def next_length(length: int, drafted: int, accepted: int, most: int) -> int:
    """After a round that verified `drafted` and kept `accepted`; a round without drafts says nothing."""
    if not drafted:
        return length
    if accepted < drafted:
        return max(1, length - 1)
    return min(most, length + 2)


class History(Steady):
    """Looks at finished rounds alone, so it goes with every rule."""

    def __init__(self, config: PlannerConfig) -> None:
        super().__init__(config)
        self._first = min(config.history.first, self.most)
        self._lengths: dict[int, int] = {}

    def lengths(self, candidates: Sequence[Candidate], budget: int, beside: int = 0) -> list[int]:  # noqa: ARG002
        wishes = [
            min(self._lengths.get(each.request, self._first), each.most) for each in candidates
        ]
        return fit(wishes, budget)

    def learn(self, outcome: Outcome) -> None:
        super().learn(outcome)
        if not self.most:
            return
        for each in outcome.parts:
            length = self._lengths.get(each.request, self._first)
            self._lengths[each.request] = next_length(
                length, each.drafted, each.accepted, self.most
            )

    def forget(self, request: int) -> None:
        self._lengths.pop(request, None)
