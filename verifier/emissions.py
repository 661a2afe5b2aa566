"""What a front door is told of a choice: what became certain since it was last told. Pure."""

from collections.abc import Iterator
from typing import Final

from protocol.messages import Done, Emit, Statistics
from verifier.generation import Generation

SCORES: Final = 512
"""Tokens whose scores one message holds at most: frames have a cap, prompts and backlogs are long."""


def emissions(generation: Generation) -> Iterator[Emit]:
    """Nothing, or one message; more of them where there are many scores. The text comes with the last."""
    output = generation.output
    text = output.text[generation.sent_text : output.certain]
    if not text and generation.sent_tokens == len(output.tokens):
        return
    while _scores(generation) > SCORES:
        yield _emit(generation, SCORES)
    yield _emit(generation, None, text)
    generation.sent_text += len(text)


def last_words(
    generation: Generation, reason: str, detail: str, lossy: str = ""
) -> Iterator[Emit | Done]:
    """What is left to be said, and that it is over; `lossy` labels what the acceptance rule did to its law."""
    yield from emissions(generation)
    yield Done(
        request=generation.submit.request,
        choice=generation.choice,
        reason=reason,
        prompt_tokens=len(generation.submit.tokens),
        output_tokens=len(generation.output.tokens),
        statistics=Statistics(
            generation.rounds,
            generation.drafted,
            generation.accepted,
            generation.cached,
            tuple(generation.history),
            lossy,
        ),
        detail=detail,
    )


def _scores(generation: Generation) -> int:
    """Scores in the longer of the two lists that are not sent yet."""
    return max(
        len(generation.scores) - generation.sent_tokens,
        len(generation.prompt_scores) - generation.sent_prompt_scores,
    )


def _emit(generation: Generation, most: int | None, text: str = "") -> Emit:
    """The next `most` tokens and scores, or all that are left; they count as sent from now on."""
    first, first_scored = generation.sent_tokens, generation.sent_prompt_scores
    end = None if most is None else first + most
    tokens = tuple(generation.output.tokens[first:end])
    scored = tuple(generation.prompt_scores[first_scored:][:most])
    generation.sent_tokens += len(tokens)
    generation.sent_prompt_scores += len(scored)
    return Emit(
        request=generation.submit.request,
        choice=generation.choice,
        tokens=tokens,
        text=text,
        drafted=tuple(generation.marks[first:end]),
        logprobs=tuple(generation.scores[first:end]),
        prompt_logprobs=scored,
    )
