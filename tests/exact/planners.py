"""Planners by what they look at: the smallest one of each kind, and each on the side that makes a bias large.

What a planner may look at under which rule is said by `verifier/exactness.py`; `test_laws.py` shows why.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from verifier.planner import Candidate, Choice, Looks, Outcome


class _Alone:
    """Each request for itself, and then within the budget."""

    looks: Looks
    wanted = 9
    patience = 0.0
    choice = Choice()
    errors: Mapping[str, float] = MappingProxyType({})

    def __init__(self, most: int, least: float = 0.5) -> None:
        self.most = most
        self.least = least

    def enough(self, available: int) -> bool:
        return available >= self.most

    def lengths(self, candidates: Sequence[Candidate], budget: int, beside: int = 0) -> list[int]:  # noqa: ARG002
        lengths = []
        for each in candidates:
            lengths.append(min(self.length(each.confidences[: self.most]), budget))
            budget -= lengths[-1]
        return lengths

    def length(self, confidences: Sequence[float]) -> int:
        raise NotImplementedError

    def ahead(self, request: int) -> int:  # noqa: ARG002
        return self.wanted

    def learn(self, outcome: Outcome) -> None:
        """The laws of a step do not depend on what one knows already."""

    def forget(self, request: int) -> None:
        """Nothing was kept."""


class LooksBehind(_Alone):
    """Goes on to the next token while the last one it took is sure enough: whatever it looked at is verified."""

    looks = Looks.BEHIND

    def length(self, confidences: Sequence[float]) -> int:
        for place, confidence in enumerate(confidences):
            if confidence < self.least:
                return place + 1
        return len(confidences)


class LooksAtIt(_Alone):
    """Stops before the first token that is not sure enough."""

    looks = Looks.AT

    def length(self, confidences: Sequence[float]) -> int:
        for place, confidence in enumerate(confidences):
            if confidence < self.least:
                return place
        return len(confidences)


class LooksAhead(_Alone):
    """All or nothing: one token that is not sure enough takes those before it back as well."""

    looks = Looks.AHEAD

    def length(self, confidences: Sequence[float]) -> int:
        return 0 if any(each < self.least for each in confidences) else len(confidences)


class Ranks(_Alone):
    """The likeliest survivors of all requests, as many as the budget allows; earlier positions first."""

    looks = Looks.AT

    def lengths(self, candidates: Sequence[Candidate], budget: int, beside: int = 0) -> list[int]:  # noqa: ARG002
        slots = []
        for request, each in enumerate(candidates):
            survival = 1.0
            for place, confidence in enumerate(each.confidences[: self.most]):
                survival *= confidence
                slots.append((-survival, place, request))
        taken = [request for _, _, request in sorted(slots)[:budget]]
        return [taken.count(request) for request in range(len(candidates))]


class Trades(_Alone):
    """Gives the whole budget to the request whose last token is the surest: a later token counts for earlier ones."""

    looks = Looks.AHEAD

    def lengths(self, candidates: Sequence[Candidate], budget: int, beside: int = 0) -> list[int]:  # noqa: ARG002
        best = max(range(len(candidates)), key=lambda each: candidates[each].confidences[-1])
        return [
            min(self.most, budget) if request == best else 0 for request in range(len(candidates))
        ]
