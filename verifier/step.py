"""What one forward of the target is asked, and what came of it: values between the core and the engine."""

from dataclasses import dataclass

from protocol.messages import Sampling


@dataclass(frozen=True, slots=True)
class Work:
    """One row. `tokens` begin at position `start`; the last `drafts` of them are guesses.

    `draws` is 0 for a chunk of a prompt that goes on, else drafts + 1: the number of target tokens to draw, the first
    of them for the absolute position `start + len(tokens) - drafts`. In the first `banned_draws` draws the tokens in
    `banned` cannot come (an end before `min_tokens`).
    """

    request: int
    tokens: tuple[int, ...]
    start: int
    pages: tuple[int, ...]
    drafts: int
    draws: int
    sampling: Sampling
    choice: int
    banned: frozenset[int] = frozenset()
    banned_draws: int = 0

    @property
    def position(self) -> int:
        """Absolute position of the first token that is drawn."""
        return self.start + len(self.tokens) - self.drafts


@dataclass(frozen=True, slots=True)
class Step:
    """One ragged forward."""

    rows: tuple[Work, ...]

    @property
    def tokens(self) -> int:
        return sum(len(row.tokens) for row in self.rows)


@dataclass(frozen=True, slots=True)
class Verdict:
    """`tokens` are final: the first `accepted` were guessed, one more is the target's own. Empty for a chunk."""

    tokens: tuple[int, ...] = ()
    accepted: int = 0
