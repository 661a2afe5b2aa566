"""The state of one choice of one request on the verifier. Data, with what can be derived from it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from engine.pages import PagedSequence
from kvtransfer.leases import Lease
from protocol.messages import Scored, Submit
from protocol.spans import Context, Happening, Value
from verifier.commit import Output, Timed
from verifier.roster import Drafter, Waits
from verifier.step import Verdict, Work
from verifier.tail import DraftTail

MOST_HAPPENINGS: Final = 128
"""Events of a choice that its span tells at most: collectors keep no more."""


@dataclass(slots=True, eq=False)
class Binding:
    """A request bound to a drafter. `told` counts the output tokens that were said; None: not opened yet.

    `told_hidden` is the position before which it was sent its rows of hidden states, if it needs any; `late` counts
    rounds since `kept_up_at` for which no answer had come, less those that others make up for.
    """

    drafter: Drafter
    epoch: int
    tail: DraftTail
    told: int | None = None
    told_hidden: int = 0
    label: str = ""  # whose guesses these are, for planners: method and adapter
    held: bool = False  # commits are not said while it rests
    woken: int = 0  # how much was committed when it last was told all of that at once
    kept_up_at: float = 0.0
    late: int = 0


@dataclass(slots=True, eq=False)
class Generation:
    """`line` is prompt + committed output; its last token is the anchor, whose target KV is not written yet.

    `sequence` is None while the choice waits (or was preempted and waits again). While it has a `lease` a prefill node
    fills its pages, and it takes part in no step.
    """

    id: int
    front: int
    submit: Submit
    choice: int
    arrived: float
    output: Output
    line: list[int]
    sequence: PagedSequence | None = None
    lease: Lease | None = None
    binding: Binding | None = None
    epoch: int = 0
    waits: Waits = field(default_factory=Waits)
    moves: int = 0  # how often it left a drafter that was too slow
    cached: int = 0
    context: Context | None = None  # of its trace, if it is traced
    timed: Timed | None = None  # what makes its text, if that is told in its trace
    written: float = 0.0  # when that was last made
    happenings: list[Happening] = field(default_factory=list)  # for its span
    admitted: float | None = None  # when it began to run
    queued: float | None = None  # when it lost its pages and waited again, the last time
    first: float | None = None  # when its first token was committed
    last: float = 0.0  # when its newest token was
    preemptions: int = 0
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    history: list[tuple[int, int, int]] = field(default_factory=list)  # see `Statistics`
    marks: list[bool] = field(
        default_factory=list
    )  # for each output token: was it an accepted draft
    scores: list[Scored] = field(default_factory=list)  # of output tokens, where asked for
    prompt_scores: list[Scored] = field(default_factory=list)  # of prompt tokens from the second on
    sent_tokens: int = 0
    sent_prompt_scores: int = 0
    sent_text: int = 0

    def happened(self, now: float, name: str, about: Mapping[str, Value]) -> None:
        """Something that its span tells, if it is traced."""
        if self.context is not None and len(self.happenings) < MOST_HAPPENINGS:
            self.happenings.append(Happening(now, name, about))

    def score(self, work: Work, verdict: Verdict) -> None:
        """Note what a verdict says of the prompt's tokens."""
        if verdict.prompt_logprobs:
            known = len(self.prompt_scores) - work.start
            self.prompt_scores += verdict.prompt_logprobs[known:]

    def take(self, verdict: Verdict) -> list[int]:
        """Commit what a verdict says until something ends the choice; returns what was committed."""
        taken = self.output.commit(verdict.tokens)
        if verdict.fault:
            self.output.fail(verdict.fault)
        self.line += taken
        self.marks += [index < verdict.accepted for index in range(len(taken))]
        self.scores += verdict.logprobs[: len(taken)]
        return taken

    def count_round(self, drafted: int, accepted: int) -> None:
        """One more verdict."""
        self.rounds += 1
        self.drafted += drafted
        self.accepted += accepted
        times = 1
        if self.history and self.history[-1][:2] == (drafted, accepted):
            times += self.history.pop()[2]
        self.history.append((drafted, accepted, times))

    @property
    def ready(self) -> bool:
        """It may run: its grammar is compiled, if it has one."""
        return self.submit.grammar is None or self.output.matcher is not None

    @property
    def todo(self) -> int:
        """Tokens of the line whose target KV is not computed; 1 in steady decoding: the anchor."""
        return len(self.line) - (self.sequence.computed if self.sequence else 0)

    @property
    def pages(self) -> int:
        """KV pages that it holds."""
        return len(self.sequence.pages) if self.sequence else 0

    @property
    def scoring(self) -> bool:
        """Whether prompt tokens are still to be scored: every position must be computed here, none shared."""
        asked = self.submit.prompt_logprobs is not None and self.choice == 0
        return asked and len(self.prompt_scores) < len(self.submit.tokens) - 1

    @property
    def deadline(self) -> float:
        seconds = self.submit.deadline
        return float("inf") if seconds is None else self.arrived + seconds
