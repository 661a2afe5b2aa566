"""What tests of planners share."""

from collections.abc import Sequence
from typing import Any

from verifier.config import PlannerConfig
from verifier.planner import Candidate, Outcome, Planner, Seen
from verifier.planners import PLANNERS


def planner(name: str, **settings: Any) -> Planner:
    """One of the table; draft length 16 unless something else is said."""
    return PLANNERS[name](PlannerConfig.model_validate({"draft_length": 16} | settings))


def tails(*confidences: Sequence[float], label: str = "suffix") -> list[Candidate]:
    """A candidate for each tail, numbered from 1, with no other limit."""
    return [
        Candidate(len(each), 99, tuple(each), number, label)
        for number, each in enumerate(confidences, 1)
    ]


def outcome(
    *parts: tuple[int, int], forward: float = 0.01, cycle: float = 0.0, label: str = "suffix"
) -> Outcome:
    """A step in which request 1, 2, ... had so many drafts of which so many were accepted."""
    seen = [
        Seen(number, label, drafted, accepted, accepted + 1)
        for number, (drafted, accepted) in enumerate(parts, 1)
    ]
    tokens = len(parts) + sum(drafted for drafted, _ in parts)
    return Outcome(seen, tokens, 0, forward, cycle or forward)
