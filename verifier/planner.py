"""What planners are: how many tail tokens of each request are worth verifying in this step. Pure.

A planner sees confidences and costs, never tokens. What it may look at under which acceptance rule:
`verifier/exactness.py`. The planners themselves: `verifier/planners/`, one file each.
"""

from collections.abc import Mapping, Sequence
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
    """One request in a step: `available` tail tokens, of which its limits allow `limit`; confidences where known.

    `request` tells requests apart over steps; `label` is whose guesses these are: method and adapter.
    """

    available: int
    limit: int
    confidences: Sequence[float] = ()
    request: int = 0
    label: str = ""

    @property
    def most(self) -> int:
        return max(0, min(self.available, self.limit))


@dataclass(frozen=True, slots=True)
class Seen:
    """What came of one request's part in a step; `confidences` are those of the drafts, where known.

    `no_tail`: its drafter had answered, and had no guess.
    """

    request: int
    label: str
    drafted: int
    accepted: int
    emitted: int
    confidences: Sequence[float] = ()
    no_tail: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a step. `tokens` were computed, `beside` of them for prompts.

    `forward` is the time of the step itself, `cycle` that since the step before it if nothing was idle between.
    """

    parts: Sequence[Seen]
    tokens: int
    beside: int
    forward: float
    cycle: float


@dataclass(frozen=True, slots=True)
class Choice:
    """Why the lengths are what they are; what the planner expects of the step, where it expects something.

    `plain` is what it expects the same step to take without drafts, in seconds as `seconds` is.
    """

    reason: str = "set"
    emitted: float | None = None
    seconds: float | None = None
    plain: float | None = None


REASONS: Final = ("set", "probe", "rest", "waste", "worth")
"""set: by a rule that weighs nothing; probe: to learn something; rest: drafting does not pay now; waste: no draft at
hand is worth its place; worth: drafts are."""


class Planner(Protocol):
    """Decides draft lengths; holds what it learned, if anything."""

    @property
    def looks(self) -> Looks:
        """What it looks at: with some rules that decides whether the output's law is the target's."""

    @property
    def wanted(self) -> int:
        """Guesses a drafter should hold at most beyond the committed prefix; 0: there are never any."""

    @property
    def patience(self) -> float:
        """Seconds that a step may wait for a tail that is expected."""

    @property
    def choice(self) -> Choice:
        """About the newest lengths."""

    @property
    def errors(self) -> Mapping[str, float]:
        """Expected calibration errors by whose confidences, before and after; nothing where none are calibrated."""

    def ahead(self, request: int) -> int:
        """Guesses that the drafter of this request should hold now; 0: it rests, and is told nothing meanwhile."""

    def enough(self, available: int) -> bool:
        """Whether a tail of this length is worth no waiting."""

    def lengths(self, candidates: Sequence[Candidate], budget: int, beside: int = 0) -> list[int]:
        """Draft length for each candidate, at most `budget` in sum; earlier positions first, then earlier requests.

        `beside` tokens of prompts are computed in the same step.
        """

    def learn(self, outcome: Outcome) -> None:
        """Take notice of finished positions and of what they cost."""

    def forget(self, request: int) -> None:
        """This request is over."""


IN_TURN: Final = 1.0
"""Seconds that a step waits for its tails at most where nothing overlaps."""
NEWEST: Final = 0.02
"""How much the newest step counts in what drafts bring."""


class Patience:
    """Seconds that a step may wait for its tails: no more than what drafts bring a window is worth of a step.

    Windows whose tail had come teach what tails bring, those without a guess as well: waiting for them was in vain. A
    tail that was late says nothing of what it would have been.
    """

    def __init__(self, longest: float, *, in_turn: bool) -> None:
        self.seconds = longest
        self._longest = longest
        self._in_turn = in_turn
        self._gain = 1.0  # accepted drafts of a window whose tail had come

    def learn(self, outcome: Outcome) -> None:
        """A step taught what drafts bring, and what it takes itself."""
        accepted = [each.accepted for each in outcome.parts if each.drafted or each.no_tail]
        if accepted:
            self._gain += NEWEST * (sum(accepted) / len(accepted) - self._gain)
        if not self._in_turn and not outcome.beside:
            self.seconds = min(self._longest, self._gain * outcome.forward)


class Steady:
    """What planners share that learn nothing of lengths, or little: whoever needs something else says so.

    A drafter is asked for one window being verified and one more behind it, so that a fully accepted window is
    followed by the next without a round trip.
    """

    looks = Looks.NOTHING

    def __init__(self, config: PlannerConfig, most: int | None = None) -> None:
        self.most = config.draft_length if most is None else min(most, config.draft_length)
        longest = config.patience if config.overlap else max(config.patience, IN_TURN)
        self._patience = Patience(longest if self.most else 0.0, in_turn=not config.overlap)
        self.wanted = (2 * self.most + 1 if config.overlap else self.most) if self.most else 0
        self.choice = Choice()

    @property
    def patience(self) -> float:
        return self._patience.seconds

    @property
    def errors(self) -> Mapping[str, float]:
        return {}

    def ahead(self, request: int) -> int:  # noqa: ARG002
        return self.wanted

    def enough(self, available: int) -> bool:
        return available >= self.most

    def learn(self, outcome: Outcome) -> None:
        self._patience.learn(outcome)

    def forget(self, request: int) -> None:
        """Nothing was kept."""


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
