"""Acceptance without a service: which guesses a verifier would keep if it were asked round after round. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What rounds emitted. `kept[i]` counts rounds that kept more than i guesses."""

    rounds: int
    kept: tuple[int, ...]

    @property
    def mean_emitted(self) -> float:
        """Tokens a round, the target's own included."""
        return 1 + sum(self.kept) / max(1, self.rounds)

    @property
    def by_position(self) -> tuple[float, ...]:
        """How often a guess was kept when all before it were."""
        before = (self.rounds, *self.kept[:-1])
        return tuple(kept / max(1, asked) for kept, asked in zip(self.kept, before, strict=True))

    def __add__(self, other: "Acceptance") -> "Acceptance":
        return Acceptance(
            self.rounds + other.rounds,
            tuple(a + b for a, b in zip(self.kept, other.kept, strict=True)),
        )


def walk(right: Sequence[int], guesses: int) -> Acceptance:
    """The rounds of one text. `right[i]` counts the guesses behind its token i that are right before the first wrong.

    The first round is anchored at token 0; a round that keeps n guesses emits n + 1 tokens, and the next is anchored
    at the last of them. Tokens behind which the text ends soon have fewer right guesses than they might.
    """
    anchor, rounds = 0, 0
    kept = [0] * guesses
    while anchor < len(right):
        count = right[anchor]
        for place in range(count):
            kept[place] += 1
        rounds += 1
        anchor += count + 1
    return Acceptance(rounds, tuple(kept))


def whole(parts: Iterable[Acceptance], guesses: int) -> Acceptance:
    """All of them together."""
    return sum(parts, Acceptance(0, (0,) * guesses))
