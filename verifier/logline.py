"""The line that a verifier logs every few seconds while it has traffic, in the form that tools for vLLM read. Pure.

All numbers are of the time since the line before, and come from the same facts as the metrics.
"""

from typing import Final

from protocol.messages import Facts

EVERY: Final = 10.0
"""Seconds between two lines."""


def summary(before: Facts, after: Facts, seconds: float) -> str:
    """What speculation brought between two states of the counters; empty where there was no traffic."""
    rounds = _grown(before, after, "rounds")
    lossy = "".join(f", Lossy by rule: {rule}" for rule in after.counters.get("lossy_tokens", {}))
    drafts = _grown(before, after, "drafts")
    if not rounds or seconds <= 0:
        return ""
    if not drafts:
        reasons = ", ".join(f"{why} {count}" for why, count in _reasons(before, after))
        return f"SpecDecoding metrics: no drafts in {rounds} rounds ({reasons}){lossy}"
    drafted = _grown(before, after, "draft_tokens")
    accepted = _grown(before, after, "accepted_tokens")
    earlier = before.counters.get("accepted_at", {})
    rates = [
        (count - earlier.get(position, 0)) / drafts
        for position, count in after.counters["accepted_at"].items()
    ]
    return (
        "SpecDecoding metrics: "
        f"Mean acceptance length: {1 + accepted / drafts:.2f}, "
        f"Accepted throughput: {accepted / seconds:.2f} tokens/s, "
        f"Drafted throughput: {drafted / seconds:.2f} tokens/s, "
        f"Accepted: {accepted} tokens, "
        f"Drafted: {drafted} tokens, "
        f"Per-position acceptance rate: {', '.join(f'{rate:.3f}' for rate in rates)}, "
        f"Avg Draft acceptance rate: {100 * accepted / drafted:.1f}%{lossy}"
    )


class Summaries:
    """Lines every so often; the caller has the clock and asks whenever it likes."""

    def __init__(self, facts: Facts, now: float) -> None:
        self._before = facts
        self._since = now

    def due(self, now: float) -> bool:
        return now >= self._since + EVERY

    def take(self, facts: Facts, now: float) -> str:
        """The line for the time since the last one; empty where there is nothing to say."""
        text = summary(self._before, facts, now - self._since)
        self._before, self._since = facts, now
        return text


def _grown(before: Facts, after: Facts, name: str) -> int:
    return after.counters[name][""] - before.counters.get(name, {}).get("", 0)


def _reasons(before: Facts, after: Facts) -> list[tuple[str, int]]:
    earlier = before.counters.get("plain_rounds", {})
    grown = [
        (why, count - earlier.get(why, 0)) for why, count in after.counters["plain_rounds"].items()
    ]
    return [(why, count) for why, count in grown if count]
