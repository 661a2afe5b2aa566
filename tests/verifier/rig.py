"""Pieces that tests of the verifier share: submissions, choices, and text that is easy to read."""

from collections.abc import Sequence
from typing import Any, Final

from protocol.messages import AnyMessage, Emit, Ending, Limits, Submit
from verifier.commit import Output
from verifier.generation import Binding, Generation
from verifier.roster import Drafter
from verifier.step import Verdict, Work
from verifier.tail import DraftTail

VOCABULARY: Final = 100
END: Final = 99


class Letters:
    """Token n is the n-th letter, over and over; the end token has no text."""

    def step(self, token: int) -> str:
        return "" if token == END else chr(ord("a") + token % 26)


def submit(request: int = 1, tokens: Sequence[int] = (1, 2, 3), **fields: Any) -> Submit:
    """A submission; what belongs to the ending goes there by its name."""
    names = set(Ending.__struct_fields__)
    ending = {"max_tokens": 8} | {name: fields.pop(name) for name in names & set(fields)}
    return Submit(request, tuple(tokens), Ending(**ending), **fields)


def generation(
    number: int, prompt: Sequence[int] | int = 3, output: Sequence[int] = (), **fields: Any
) -> Generation:
    """A choice with so many prompt tokens that has already committed `output`."""
    tokens = list(range(prompt)) if isinstance(prompt, int) else list(prompt)
    asked = submit(number, tokens, **fields)
    made = Generation(
        id=number,
        front=0,
        submit=asked,
        choice=0,
        arrived=0.0,
        output=Output(asked.ending, frozenset({END}), Letters()),
        line=tokens,
    )
    made.line = tokens + made.output.commit(output)
    return made


def with_tail(made: Generation, *ahead: int, confidences: Sequence[float] = ()) -> Generation:
    """Bound to a drafter whose guesses are `ahead`."""
    tail = DraftTail(made.output.tokens, VOCABULARY)
    tail.ahead = list(ahead)
    tail.confidences = list(confidences)
    made.binding = Binding(Drafter(1, "drafter-0", "ngram", Limits()), 1, tail)
    return made


def judge(work: Work) -> Verdict:
    """The target counts up from the anchor."""
    if not work.draws:
        return Verdict()
    window = work.tokens[len(work.tokens) - work.drafts - 1 :]
    drawn = [token + 1 for token in window]
    accepted = 0
    while accepted < work.drafts and window[accepted + 1] == drawn[accepted]:
        accepted += 1
    return Verdict(tuple(drawn[: accepted + 1]), accepted)


def tokens(messages: Sequence[AnyMessage]) -> list[int]:
    return [token for each in messages if isinstance(each, Emit) for token in each.tokens]
