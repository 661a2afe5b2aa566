"""From a request to what a verifier is asked, within the limits that the verifiers have told. Pure."""

from collections.abc import Iterator, Sequence
from typing import Final

from orchestrator.front.errors import ApiError
from orchestrator.front.fields import TOO_LONG
from orchestrator.front.messages import Query, Status
from orchestrator.front.schema import Request
from protocol.messages import Ending, Grammar, Sampling

MOST_CHOICES: Final = 128
NO_CONTEXT_TOKENS: Final = 256
"""What a request gets that wants all that is left, where the verifiers tell no limit."""

Words = tuple[tuple[int, ...], ...]


def query(
    request: Request,
    tokens: tuple[int, ...],
    status: Status,
    *,
    field: str,
    seed: int,
    bad_words: Words = (),
    grammar: Grammar | None = None,
    name: str = "",
) -> Query:
    """One prompt as a query; `field` is where the client wrote it.

    A request for no tokens asks for one, since there is no smaller query: whoever answers leaves it out.
    """
    if not tokens:
        raise ApiError(
            400, "the prompt is empty: there is nothing to continue", field, "invalid_value"
        )
    for parameter, ids in ((field, tokens), *_token_lists(request)):
        if status.vocabulary and max(ids, default=0) >= status.vocabulary:
            text = f"token {max(ids)} is outside the vocabulary of {status.vocabulary}"
            raise ApiError(400, text, parameter, "invalid_value")
    return Query(
        tokens=tokens,
        ending=_ending(request, _budget(request, tokens, status, field)),
        sampling=_sampling(request, seed, bad_words),
        choices=request.n or 1,
        logprobs=request.likeliest,
        prompt_logprobs=_prompt_logprobs(request),
        grammar=grammar,
        name=name,
    )


def _token_lists(request: Request) -> Iterator[tuple[str, Sequence[int]]]:
    yield "stop_token_ids", request.stop_token_ids or ()
    yield "allowed_token_ids", request.allowed_token_ids or ()
    yield "logit_bias", [int(token) for token in request.logit_bias or ()]


def _prompt_logprobs(request: Request) -> int | None:
    """What is wanted of the prompt's tokens, by its own parameter or as a part of the answer."""
    echoed = request.likeliest if request.echoes else None
    wanted = [each for each in (request.prompt_logprobs, echoed) if each is not None]
    return max(wanted, default=None)


def _sampling(request: Request, seed: int, bad_words: Words) -> Sampling:
    return Sampling(
        temperature=_or(request.temperature, 1.0),
        top_k=max(0, request.top_k or 0),
        top_p=_or(request.top_p, 1.0),
        min_p=_or(request.min_p, 0.0),
        seed=seed % 2**64,
        repetition_penalty=_or(request.repetition_penalty, 1.0),
        presence_penalty=_or(request.presence_penalty, 0.0),
        frequency_penalty=_or(request.frequency_penalty, 0.0),
        logit_bias=tuple((int(token), bias) for token, bias in (request.logit_bias or {}).items()),
        allowed=tuple(request.allowed_token_ids or ()),
        bad_words=bad_words,
    )


def _budget(request: Request, tokens: tuple[int, ...], status: Status, field: str) -> int:
    """Output tokens that are asked for."""
    name, max_tokens = request.budget
    minimum = request.min_tokens or 0
    if max_tokens is not None and minimum > max_tokens:
        text = f"min_tokens {minimum} is more than {name} {max_tokens}"
        raise ApiError(400, text, "min_tokens", "invalid_value")
    wanted = 1 if max_tokens == 0 else max_tokens
    if not status.context:
        return wanted or max(NO_CONTEXT_TOKENS, minimum)
    left = status.context - len(tokens)
    if left < 1:
        text = f"the prompt has {len(tokens)} tokens, which leaves no room within {status.context}"
        raise ApiError(400, text, field, TOO_LONG)
    for least, its_name in ((wanted or 0, name), (minimum, "min_tokens")):
        if least > left:
            text = (
                f"{len(tokens)} prompt tokens and {its_name} {least} "
                f"are more than the context of {status.context}"
            )
            raise ApiError(400, text, its_name, TOO_LONG)
    return wanted or left


def _ending(request: Request, max_tokens: int) -> Ending:
    return Ending(
        max_tokens=max_tokens,
        min_tokens=request.min_tokens or 0,
        ignore_eos=bool(request.ignore_eos),
        stop=tuple(request.stop or ()),
        stop_token_ids=tuple(request.stop_token_ids or ()),
        include_stop=bool(request.include_stop_str_in_output),
    )


def _or(value: float | None, default: float) -> float:
    return default if value is None else value
