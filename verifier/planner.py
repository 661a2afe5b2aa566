"""Planners: how many tail tokens of each request are worth verifying in this step. Pure functions in one table.

A planner sees confidences and costs, never tokens. What it may look at under which acceptance rule:
`verifier/exactness.py`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from verifier.config import PlannerConfig


class Looks(StrEnum):
    """Which confidences decide whether a token of the tail enters a window. Those of finished positions always may."""

    NOTHING = "nothing"
    BEHIND = "behind"  # those of tokens before it, which enter themselves
    AT = "at"  # its own as well, and what is behind it never decides about it
    AHEAD = "ahead"  # any, those of later tokens too


@dataclass(frozen=True, slots=True)
class Candidate:
    """One request in a step: `available` tail tokens, of which its limits allow `limit`; confidences where known."""

    available: int
    limit: int
    confidences: Sequence[float] = ()


class Planner(Protocol):
    """Decides draft lengths; holds what it learned, if anything."""

    @property
    def looks(self) -> Looks:
        """What it looks at: with some rules that decides whether the output's law is the target's."""

    @property
    def wanted(self) -> int:
        """Guesses a drafter should hold beyond the committed prefix."""

    @property
    def patience(self) -> float:
        """Seconds that a step may wait for a tail that is expected."""

    def enough(self, available: int) -> bool:
        """Whether a tail of this length is worth no waiting."""

    def lengths(self, candidates: Sequence[Candidate], budget: int) -> list[int]:
        """Draft length for each candidate, at most `budget` in sum; earlier positions first, then earlier requests."""


IN_TURN: Final = 1.0
"""Seconds that a step waits for its tails at most where nothing overlaps."""


class Fixed:
    """The same draft length for everybody, whatever the load.

    A drafter is asked for one window being verified and one more behind it, so that a fully accepted window is
    followed by the next without a round trip.
    """

    looks = Looks.NOTHING

    def __init__(self, config: PlannerConfig) -> None:
        self._length = config.draft_length
        patience = config.patience if config.overlap else max(config.patience, IN_TURN)
        self.patience = patience if config.draft_length else 0.0
        ahead = config.draft_length + 1 if config.overlap else 0
        self.wanted = config.draft_length + ahead if config.draft_length else 0

    def enough(self, available: int) -> bool:
        return available >= self._length

    def lengths(self, candidates: Sequence[Candidate], budget: int) -> list[int]:
        wishes = [min(self._length, each.available, each.limit) for each in candidates]
        return fit(wishes, budget)


def fit(wishes: Sequence[int], budget: int) -> list[int]:
    """Cut wishes to a budget: position by position, within a position in the order of the requests."""
    if sum(wishes) <= budget:
        return list(wishes)
    lengths = [0] * len(wishes)
    for position in range(1, max(wishes) + 1):
        for index, wish in enumerate(wishes):
            if wish >= position and budget > 0:
                lengths[index] = position
                budget -= 1
    return lengths


PLANNERS: Final[Mapping[str, Callable[[PlannerConfig], Planner]]] = {"fixed": Fixed}
