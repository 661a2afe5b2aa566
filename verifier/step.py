"""What one forward of the target is asked, and what came of it: values between the core and the engine."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from protocol.laws import Law
from protocol.messages import Sampling, Scored
from verifier.matcher import Matcher


@dataclass(frozen=True, slots=True)
class Work:
    """One row. `tokens` begin at position `start`; the last `drafts` of them are guesses.

    `draws` is 0 for a chunk of a prompt that goes on, else drafts + 1: the number of target tokens to draw, the first
    of them for the absolute position `start + len(tokens) - drafts`. In the first `banned_draws` draws the tokens in
    `banned` cannot come (an end before `min_tokens`).

    `prompt` and `output` are what was there before the row's drafts, for penalties and the like. `logprobs` asks for
    scores of the tokens that are drawn; `prompt_logprobs` for scores of the prompt's tokens that this row's positions
    predict. `matcher` stands at the end of `output` in the choice's grammar, if it has one.

    `further` is the guess behind the drafts, if there is one already: the last target token to draw may be tested
    against it. `laws` are what drafts and `further` were drawn from, in order; where there is none, a guess is certain.
    `confidences` are those of the drafts, where they are known; `label` is whose guesses they are.
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
    prompt: Sequence[int] = ()
    output: Sequence[int] = ()
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    matcher: Matcher | None = None
    further: int | None = None
    laws: Sequence[Law | None] = ()
    confidences: Sequence[float] = ()
    label: str = ""

    @property
    def position(self) -> int:
        """Absolute position of the first token that is drawn."""
        return self.start + len(self.tokens) - self.drafts

    @property
    def guesses(self) -> tuple[int, ...]:
        """The drafts."""
        return self.tokens[len(self.tokens) - self.drafts :]

    @property
    def tested(self) -> tuple[int, ...]:
        """The drafts, and the guess behind them."""
        return self.guesses if self.further is None else (*self.guesses, self.further)

    @property
    def predicted(self) -> Sequence[int]:
        """The prompt tokens that are scored: those after the row's own positions."""
        if self.prompt_logprobs is None:
            return ()
        return self.prompt[self.start + 1 : self.start + len(self.tokens) + 1]

    @property
    def logits(self) -> int:
        """Positions at the end of the row whose logits are needed."""
        return len(self.tokens) if self.predicted else self.draws


@dataclass(frozen=True, slots=True)
class Step:
    """One ragged forward."""

    rows: tuple[Work, ...]

    @property
    def tokens(self) -> int:
        return sum(len(row.tokens) for row in self.rows)


@dataclass(frozen=True, slots=True)
class Verdict:
    """`tokens` are final: the first `accepted` were guessed, one more is the target's own. Empty for a chunk.

    `fault` says why that one is missing: no token may stand there, and the choice is over.
    """

    tokens: tuple[int, ...] = ()
    accepted: int = 0
    logprobs: tuple[Scored, ...] = ()
    prompt_logprobs: tuple[Scored, ...] = ()
    fault: str = ""


class Round(NamedTuple):
    """What came of one choice's part in a step that lasted from `started` to `now`, for those who count.

    `taken` is how many of the verdict's tokens were committed before something ended the choice; `plain` says why there
    were no drafts, and is empty where there were some.
    """

    drafted: int
    accepted: int
    taken: int
    plain: str
    started: float
    now: float
