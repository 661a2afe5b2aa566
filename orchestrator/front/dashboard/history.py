"""What drafts brought, second by second: from the reports of verifiers to the curves and shares of the page. Pure."""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from protocol.messages import Facts, Report

SPAN: Final = 300
"""Seconds that the curves reach back, one reading each."""
SMOOTH: Final = 3
"""Readings over which a rate is taken: reports and readings have no common beat."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reading:
    """What all verifiers together had counted at a time; `rates` are their own, with drafts and without."""

    at: float
    totals: Mapping[str, int]
    drafted: tuple[int, ...] = ()
    accepted: tuple[int, ...] = ()
    by: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    plain: Mapping[str, int] = field(default_factory=dict)
    rates: tuple[float, float] = (0.0, 0.0)


COUNTED: Final = ("emitted_tokens", "rounds", "drafts", "draft_tokens", "accepted_tokens")


def reading(reports: Iterable[Report], at: float) -> Reading:
    """Of verifiers; others have nothing to add up."""
    verifiers = [each.facts for each in reports if each.role == "verifier"]
    totals: Counter[str] = Counter(dict.fromkeys((*COUNTED, "answers"), 0))
    by: dict[str, tuple[int, int]] = {}
    plain: Counter[str] = Counter()
    for facts in verifiers:
        for name in COUNTED:
            totals[name] += sum(facts.counters.get(name, {}).values())
        totals["answers"] += sum(facts.counters.get("requests_ended", {}).values())
        plain.update(facts.counters.get("plain_rounds", {}))
        kept = facts.counters.get("accepted_by", {})
        for drafter, drafted in facts.counters.get("drafted_by", {}).items():
            before = by.get(drafter, (0, 0))
            by[drafter] = (before[0] + drafted, before[1] + kept.get(drafter, 0))
    return Reading(
        at,
        totals,
        _positions(verifiers, "drafted_at"),
        _positions(verifiers, "accepted_at"),
        by,
        plain,
        _rates(verifiers),
    )


def _positions(verifiers: Sequence[Facts], name: str) -> tuple[int, ...]:
    lists = [list(facts.counters.get(name, {}).values()) for facts in verifiers]
    longest = max(map(len, lists), default=0)
    return tuple(sum(each[p] for each in lists if p < len(each)) for p in range(longest))


def _rates(verifiers: Sequence[Facts]) -> tuple[float, float]:
    said = [facts.gauges.get("decoding_rate", {}) for facts in verifiers]
    return sum(each.get("drafts", 0.0) for each in said), sum(
        each.get("plain", 0.0) for each in said
    )


class History:
    """Readings, one a second, for as long as the curves reach back."""

    def __init__(self, span: int = SPAN) -> None:
        self._readings: deque[Reading] = deque(maxlen=span)
        self.points: deque[list[float]] = deque(maxlen=span)

    def add(self, now: Reading) -> None:
        """The newest reading. A process that began anew counts from zero again: what it lacks is not missed."""
        before = self._readings[-min(SMOOTH, len(self._readings))] if self._readings else now
        self._readings.append(now)
        seconds = max(1e-9, now.at - before.at)
        tokens = grown(before, now, "emitted_tokens") / seconds
        drafts = grown(before, now, "drafts")
        self.points.append(
            [
                round(now.at, 1),
                round(tokens, 2),
                round(tokens / gain if (gain := self.gain) else tokens, 2),
                round(grown(before, now, "draft_tokens") / drafts, 2) if drafts else 0.0,
                round(grown(before, now, "accepted_tokens") / drafts, 2) if drafts else 0.0,
            ]
        )

    @property
    def gain(self) -> float:
        """How many times as fast as without drafts; 0 before anything was decoded."""
        drafts, plain = self._readings[-1].rates if self._readings else (0.0, 0.0)
        return drafts / plain if plain else 0.0

    def shares(self) -> Json:
        """What drafts brought within the span; where nothing went on in it, since the processes began."""
        now = self._readings[-1]
        before = self._readings[0]
        recent = grown(before, now, "rounds") > 0
        if not recent:
            before = Reading(before.at, {})
        drafted, accepted = (
            [_less(each, was[p] if p < len(was) else 0) for p, each in enumerate(all_of)]
            for all_of, was in (
                (now.drafted, before.drafted),
                (now.accepted, before.accepted),
            )
        )
        return {
            "seconds": round(now.at - before.at) if recent else None,
            "rounds": grown(before, now, "rounds"),
            "drafts": grown(before, now, "drafts"),
            "tokens": grown(before, now, "emitted_tokens"),
            "drafted": grown(before, now, "draft_tokens"),
            "accepted": grown(before, now, "accepted_tokens"),
            "positions": [list(pair) for pair in zip(drafted, accepted, strict=False)],
            "drafters": {
                name: [
                    _less(mine, was)
                    for mine, was in zip(pair, before.by.get(name, (0, 0)), strict=True)
                ]
                for name, pair in now.by.items()
            },
            "plain": {
                why: count
                for why, whole in now.plain.items()
                if (count := _less(whole, before.plain.get(why, 0)))
            },
        }


def grown(before: Reading, now: Reading, name: str) -> int:
    """How much was counted in between."""
    return _less(now.totals.get(name, 0), before.totals.get(name, 0))


def _less(now: int, before: int) -> int:
    return now - before if now >= before else now
