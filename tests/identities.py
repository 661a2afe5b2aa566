"""What the numbers of a verifier must always say, whatever happened: asserted after stories of every kind."""

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from math import isfinite

from protocol.messages import Facts, Histogram
from verifier.core import VerifierCore
from verifier.drafting import PLAIN, STALE
from verifier.ledger import ENDS

_watched: list[Callable[[], Facts]] = []


def watched(core: VerifierCore) -> VerifierCore:
    """The same core, whose numbers are checked when the test that made it is over."""
    _watched.append(core.facts)
    return core


def spoilt() -> None:
    """This test makes numbers that cannot be: none are checked after it."""
    _watched.clear()


def check_watched() -> None:
    """At the end of a test."""
    facts = [each() for each in _watched]
    _watched.clear()
    for each in facts:
        check(each)


def broken(facts: Facts) -> list[str]:
    """Sentences about numbers that cannot be; none is as it should be."""
    return [text for text, holds in _claims(facts) if not holds]


def check(facts: Facts) -> None:
    wrong = broken(facts)
    assert not wrong, (wrong, facts.counters)


def _claims(facts: Facts) -> Iterator[tuple[str, bool]]:
    count = {name: sum(each.values()) for name, each in facts.counters.items()}
    yield "0 <= accepted", count["accepted_tokens"] >= 0
    yield "accepted <= drafted", count["accepted_tokens"] <= count["draft_tokens"]
    yield "a round with drafts has at least one", count["drafts"] <= count["draft_tokens"]
    yield "emitted = accepted + rounds - cut", _emitted(count) == count["emitted_tokens"]
    yield "what is cut is never negative", count["cut_tokens"] >= 0
    yield (
        "a round has drafts or a reason",
        count["drafts"] + count["plain_rounds"] == count["rounds"],
    )
    yield from _positions("accepted", facts, count)
    yield from _positions("drafted", facts, count)
    yield (
        "no position is accepted more often than it was drafted",
        all(
            kept <= facts.counters["drafted_at"][place]
            for place, kept in facts.counters["accepted_at"].items()
        ),
    )
    yield "known reasons only", _known(facts)
    for name in ("drafted", "accepted"):
        whole = count["draft_tokens" if name == "drafted" else "accepted_tokens"]
        yield f"drafters together have no more {name} than all", count[f"{name}_by"] <= whole
    for node_id, accepted in facts.counters["accepted_by"].items():
        yield f"{node_id}: accepted <= drafted", accepted <= facts.counters["drafted_by"][node_id]
    yield "no more is found than was looked for", count["prefix_hits"] <= count["prefix_queries"]
    yield "whoever is bound was bound", sum(facts.gauges["bound"].values()) <= count["bindings"]
    yield "bindings end once", count["unbindings"] <= count["bindings"]
    yield from _levels(facts.gauges)
    for name, histogram in facts.histograms.items():
        yield f"{name} is a histogram", _whole(histogram)
    yield from _requests(facts, count)


def _emitted(count: Mapping[str, int]) -> int:
    return count["accepted_tokens"] + count["rounds"] - count["cut_tokens"]


def _positions(what: str, facts: Facts, count: Mapping[str, int]) -> Iterator[tuple[str, bool]]:
    at = facts.counters[f"{what}_at"]
    whole = count["draft_tokens" if what == "drafted" else "accepted_tokens"]
    yield f"positions in order: {what}", [*at] == [str(number) for number in range(len(at))]
    rates = [*at.values()]
    yield f"later positions are {what} no more often", all(a >= b for a, b in pairwise(rates))
    yield (
        f"no position {what} more often than there were drafts",
        (max(rates, default=0) <= count["drafts"]),
    )
    yield f"positions together are what was {what}", sum(rates) == whole


def _known(facts: Facts) -> bool:
    return (
        facts.counters["plain_rounds"].keys() == set(PLAIN)
        and facts.counters["stale_rows"].keys() == set(STALE)
        and facts.counters["requests_ended"].keys() == set(ENDS)
    )


def _levels(gauges: Mapping[str, Mapping[str, float]]) -> Iterator[tuple[str, bool]]:
    every = [value for each in gauges.values() for value in each.values()]
    yield "every gauge is a number", all(map(isfinite, every))
    yield "no gauge is negative", min(every) >= 0
    yield "free pages are pages", gauges["pages_free"][""] <= gauges["pages"][""]
    yield "promptness is a rate", all(value <= 1 for value in gauges["promptness"].values())
    yield "as many rows as drafters", len(gauges["bound"]) <= gauges["drafters"][""]


def _requests(facts: Facts, count: Mapping[str, int]) -> Iterator[tuple[str, bool]]:
    seen = {name: sum(each.counts) for name, each in facts.histograms.items()}
    ended = facts.counters["requests_ended"]
    answered = ended["stop"] + ended["length"]
    for name in ("whole", "queued", "prefill", "decode", "inference"):
        yield f"{name}: one for each answer", seen[f"{name}_seconds"] == answered
    yield "one size of prompt for each answer", seen["request_prompt_tokens"] == answered
    yield "no answer without a first token", seen["first_token_seconds"] >= answered
    rounds = seen["first_token_seconds"] + seen["between_tokens_seconds"]
    yield "every round brings the first token or a later one", rounds == count["rounds"]
    yield "one time for each step", seen["step_seconds"] == count["steps"] == seen["step_tokens"]


def _whole(histogram: Histogram) -> bool:
    return (
        len(histogram.counts) == len(histogram.bounds) + 1
        and all(a < b for a, b in pairwise(histogram.bounds))
        and isfinite(histogram.total)
        and bool(histogram.total) <= bool(sum(histogram.counts))
    )
