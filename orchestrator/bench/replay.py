"""Recorded rounds under other planners: what each would have chosen, and what that would have brought. Pure.

A request's output is known, and for each place in it the tail that was there: the newest recorded one whose guesses
were right up to that place, without those. A step takes what recorded steps of its size took, as a median; what
drafting costs beside it (drafters on the same cores, waiting) is not replayed.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from statistics import fmean
from typing import Final

from verifier.costs import CostTable, table_of
from verifier.planner import Candidate, Outcome, Planner, Seen
from verifier.planners.oracle import oracle
from verifier.traces import Line, TracedEnd, TracedRound, TracedStep

NO_LIMIT: Final = 1 << 20
Lengths = Callable[[Sequence[Candidate], Sequence[int]], list[int]]
"""Draft lengths for tails of which so many guesses are right."""


@dataclass
class Request:
    """One recorded answer: its rounds by position, and how many output tokens it had."""

    rounds: list[TracedRound] = field(default_factory=list)
    output: int = 0

    def tail(self, position: int) -> tuple[tuple[float, ...], int, int, str]:
        """At a place of the output: confidences, guesses, how many of them are right, and whose they are."""
        place = bisect_right(self.rounds, position, key=lambda each: each.position) - 1
        if place < 0:
            return (), 0, 0, ""
        at = self.rounds[place]
        used = position - at.position
        if used > at.right or used >= at.available:
            return (), 0, 0, at.label
        return at.confidences[used:], at.available - used, at.right - used, at.label


@dataclass
class Trace:
    """What one verifier recorded."""

    requests: list[Request]
    table: CostTable


def traces(lines: Iterable[Line]) -> list[Trace]:
    """One for each verifier life; those without a finished answer are left out."""
    lives: list[tuple[dict[int, Request], list[tuple[int, float]]]] = []
    last = -1
    for line in lines:
        if isinstance(line, TracedStep):
            if line.step <= last or not lives:
                lives.append(({}, []))
            last = line.step
            if not line.beside:
                lives[-1][1].append((line.tokens, line.seconds))
            continue
        if not lives:
            continue  # the head of the file is missing
        request = lives[-1][0].setdefault(line.request, Request())
        if isinstance(line, TracedRound):
            request.rounds.append(line)
        else:
            assert isinstance(line, TracedEnd)
            request.output = line.output
    made = []
    for requests, steps in lives:
        whole = [each for each in requests.values() if each.output > 1 and each.rounds]
        for each in whole:
            each.rounds.sort(key=lambda one: one.position)
        if whole and steps:
            made.append(Trace(whole, table_of(steps)))
    return made


@dataclass(frozen=True)
class Chosen:
    """One request in one replayed step."""

    request: int
    position: int
    length: int
    best: int
    """The oracle's length there."""


@dataclass(frozen=True)
class Replayed:
    """What a planner made of a trace."""

    tokens: int
    seconds: float
    chosen: Sequence[Chosen]

    @property
    def speed(self) -> float:
        return self.tokens / self.seconds

    @property
    def deviation(self) -> float:
        """Mean distance of its lengths from the oracle's in the same place."""
        return fmean(abs(each.length - each.best) for each in self.chosen)


def replay(
    trace: Trace, concurrency: int, choose: Lengths, learn: Callable[[Outcome], None]
) -> Replayed:
    """Answer all recorded requests again, so many at once."""
    waiting = iter(enumerate(trace.requests, 1))
    places = {
        number: request.rounds[0].position for number, request in islice(waiting, concurrency)
    }
    tokens, seconds, chosen = 0, 0.0, []
    while places:
        numbers = list(places)
        tails = [trace.requests[number - 1].tail(places[number]) for number in numbers]
        limits = [trace.requests[number - 1].output - places[number] - 1 for number in numbers]
        asked = [
            Candidate(available, limit, said, number, label)
            for number, limit, (said, available, _, label) in zip(
                numbers, limits, tails, strict=True
            )
        ]
        right = [max(0, min(tail[2], limit)) for tail, limit in zip(tails, limits, strict=True)]
        lengths = choose(asked, right)
        prices = trace.table.costs(len(asked), len(asked), sum(right) + 1)
        best = oracle(right, prices)
        took = trace.table.cost(len(asked), len(asked) + sum(lengths))
        seconds += took
        parts = []
        for each, length, ideal, hits in zip(asked, lengths, best, right, strict=True):
            accepted = min(length, hits)
            chosen.append(Chosen(each.request, places[each.request], length, ideal))
            said = each.confidences[:length]
            parts.append(Seen(each.request, each.label, length, accepted, accepted + 1, said))
            tokens += accepted + 1
            places[each.request] += accepted + 1
            if places[each.request] >= trace.requests[each.request - 1].output:
                del places[each.request]
                places.update((n, r.rounds[0].position) for n, r in islice(waiting, 1))
        learn(Outcome(parts, len(asked) + sum(lengths), 0, took, took))
    return Replayed(tokens, seconds, chosen)


def by_planner(trace: Trace, concurrency: int, planner: Planner) -> Replayed:
    """With a planner of the table."""
    return replay(
        trace, concurrency, lambda asked, _: planner.lengths(asked, NO_LIMIT), planner.learn
    )


def by_oracle(trace: Trace, concurrency: int) -> Replayed:
    """With what nobody knows beforehand."""

    def best(asked: Sequence[Candidate], right: Sequence[int]) -> list[int]:
        return oracle(right, trace.table.costs(len(asked), len(asked), sum(right) + 1))

    return replay(trace, concurrency, best, lambda _: None)
