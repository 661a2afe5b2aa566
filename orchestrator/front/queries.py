"""From a request to what a verifier is asked, within the limits that the verifiers have told. Pure."""

from typing import Final

from orchestrator.front.errors import ApiError
from orchestrator.front.messages import Query, Status
from orchestrator.front.schema import Request
from protocol.messages import Ending, Sampling

MOST_CHOICES: Final = 128
NO_CONTEXT_TOKENS: Final = 256
"""What a request gets that wants all that is left, where the verifiers tell no limit."""


def query(
    request: Request,
    tokens: tuple[int, ...],
    status: Status,
    *,
    field: str,
    max_tokens: int | None,
    seed: int,
) -> Query:
    """One prompt as a query; `field` is where the client wrote it, no `max_tokens` means all that is left."""
    if not tokens:
        raise ApiError(
            400, "the prompt is empty: there is nothing to continue", field, "invalid_value"
        )
    if status.vocabulary and max(tokens) >= status.vocabulary:
        text = f"token {max(tokens)} is outside the vocabulary of {status.vocabulary}"
        raise ApiError(400, text, field, "invalid_value")
    return Query(
        tokens=tokens,
        ending=_ending(request, _budget(tokens, status, field, max_tokens)),
        sampling=Sampling(
            temperature=_or(request.temperature, 1.0),
            top_k=max(0, request.top_k or 0),
            top_p=_or(request.top_p, 1.0),
            min_p=_or(request.min_p, 0.0),
            seed=seed % 2**64,
        ),
        choices=request.n or 1,
    )


def _budget(tokens: tuple[int, ...], status: Status, field: str, max_tokens: int | None) -> int:
    if not status.context:
        return max_tokens or NO_CONTEXT_TOKENS
    left = status.context - len(tokens)
    if left < 1:
        text = f"the prompt has {len(tokens)} tokens, which leaves no room within {status.context}"
        raise ApiError(400, text, field, "context_length_exceeded")
    if max_tokens is None:
        return left
    if max_tokens > left:
        text = (
            f"{len(tokens)} prompt tokens and max_tokens {max_tokens} "
            f"are more than the context of {status.context}"
        )
        raise ApiError(400, text, "max_tokens", "context_length_exceeded")
    return max_tokens


def _ending(request: Request, max_tokens: int) -> Ending:
    minimum = request.min_tokens or 0
    if minimum > max_tokens:
        text = f"min_tokens {minimum} is more than max_tokens {max_tokens}"
        raise ApiError(400, text, "min_tokens", "invalid_value")
    return Ending(
        max_tokens=max_tokens,
        min_tokens=minimum,
        ignore_eos=bool(request.ignore_eos),
        stop=tuple(request.stop or ()),
        stop_token_ids=tuple(request.stop_token_ids or ()),
        include_stop=bool(request.include_stop_str_in_output),
    )


def _or(value: float | None, default: float) -> float:
    return default if value is None else value
