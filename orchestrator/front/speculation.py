"""What speculation did for one request, in the shape of vLLM's `metrics.speculative_decoding`. Pure."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Literal

from protocol.messages import Statistics

Level = Literal["none", "summary", "detailed"]


def speculative_decoding(statistics: Statistics, draft_length: int, level: Level) -> dict[str, Any]:
    """Rounds without drafts are left out: they say how often nothing was drafted, not how good drafts were.

    `draft_length` is the most that a round may have; `detailed` adds what each round drafted and kept, in order.
    """
    rounds = [each for each in statistics.history if each[0]]
    steps = sum(times for _, _, times in rounds)
    drafted = sum(length * times for length, _, times in rounds)
    accepted = sum(kept * times for _, kept, times in rounds)
    longest = max([draft_length, *(length for length, _, _ in rounds)])
    by_length: dict[int, Counter[int]] = {length: Counter() for length, _, _ in sorted(rounds)}
    for length, kept, times in rounds:
        by_length[length][kept] += times
    shown: dict[str, Any] = {
        "mean_acceptance_length": 1 + accepted / max(1, steps),
        "draft_acceptance_rate": accepted / max(1, drafted),
        "acceptance_histogram": _dense(sum(by_length.values(), Counter()), longest),
        "acceptance_histogram_by_draft_length": {
            str(length): _dense(counts, length) for length, counts in by_length.items()
        },
        "num_spec_steps": steps,
        "num_accepted_draft_tokens": accepted,
        "num_draft_tokens": drafted,
        "num_spec_tokens": longest,
    }
    if level == "detailed":
        shown["per_step_accepted"] = [kept for _, kept, times in rounds for _ in range(times)]
        shown["per_step_drafted"] = [length for length, _, times in rounds for _ in range(times)]
    return shown


def _dense(counts: Mapping[int, int], longest: int) -> list[int]:
    return [counts.get(kept, 0) for kept in range(longest + 1)]
