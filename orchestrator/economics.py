"""When speculation pays, in a few formulas. Pure; figures are checked against published ones in the tests.

A target step takes 1, a draft step `ratio` of it. `acceptance` is the chance that a draft is kept if those before it
were. Up to `saturation` tokens a step costs the same whatever their number; above, it grows with them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from verifier.costs import CostTable


def emitted(acceptance: float, drafts: int) -> float:
    """Expected tokens of a round: what is kept of `drafts`, and the target's own."""
    return sum(acceptance**power for power in range(drafts + 1))


def drafting(ratio: float, drafts: int, *, parallel: bool) -> float:
    """What drafting takes, in target steps: a chain makes one token a step, a parallel drafter all of them in one."""
    return ratio * (min(drafts, 1) if parallel else drafts)


@dataclass(frozen=True)
class Economics:
    """A drafter and a target. With a `table`, steps of the target take what it says, and `saturation` is unused."""

    acceptance: float
    ratio: float
    saturation: float = inf
    parallel: bool = False
    table: CostTable | None = None

    def step(self, rows: int, tokens: int) -> float:
        """What verifying takes, in steps of one request alone."""
        if self.table is not None:
            return self.table.cost(rows, tokens) / self.table.cost(1, 1)
        return max(1.0, tokens / self.saturation)

    def speedup(self, drafts: int, requests: int = 1) -> float:
        """Tokens a second with drafts, relative to none, for so many requests at once."""
        plain = self.step(requests, requests)
        whole = drafting(self.ratio, drafts, parallel=self.parallel) * plain
        whole += self.step(requests, requests * (drafts + 1))
        return emitted(self.acceptance, drafts) * plain / whole

    def best(self, requests: int, longest: int = 16) -> int:
        """The draft length that brings most."""
        return max(range(longest + 1), key=lambda drafts: self.speedup(drafts, requests))

    def break_even(self, drafts: int, most: int = 4096) -> float:
        """Requests at once up to which drafts pay.

        Below saturation plain decoding takes 1 a step; drafts fill it earlier, and what they bring beyond their own
        cost is used up when (drafts + 1) * requests / saturation = emitted - drafting.
        """
        if self.table is None:
            cost = drafting(self.ratio, drafts, parallel=self.parallel)
            return self.saturation * (emitted(self.acceptance, drafts) - cost) / (drafts + 1)
        return float(
            max((each for each in range(1, most) if self.speedup(drafts, each) >= 1), default=0)
        )

    def at_saturation(self, drafts: int) -> float:
        """The speedup where the target is saturated without drafts already: never more than 1."""
        cost = drafting(self.ratio, drafts, parallel=self.parallel)
        return emitted(self.acceptance, drafts) / (drafts + 1 + cost)


def tie(chain: Economics, drafts: int) -> float:
    """The acceptance at which a parallel drafter of the same cost is as fast as this chain, for one request."""
    goal = emitted(chain.acceptance, drafts) / (1 + drafting(chain.ratio, drafts, parallel=False))
    own = 1 + drafting(chain.ratio, drafts, parallel=True)
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if emitted(middle, drafts) / own < goal:
            low = middle
        else:
            high = middle
    return high


def curve(one: Economics, lengths: Sequence[int], requests: int = 1) -> list[float]:
    """Speedup for each draft length."""
    return [one.speedup(drafts, requests) for drafts in lengths]
