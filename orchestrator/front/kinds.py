"""How answers of chats and plain completions differ."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from orchestrator.front.logprobs import (
    Json,
    Mark,
    chat_logprobs,
    completion_logprobs,
    listed_logprobs,
)
from protocol.token_bytes import TokenBytes


@dataclass(frozen=True)
class Kind:
    """`prompt` is the parameter that holds it.

    `prompt_aside`: what an answer says of its prompt stands beside its choices, not in them.
    """

    prompt: str
    prefix: str
    whole_object: str
    piece_object: str
    whole: Callable[[str], Json]
    piece: Callable[[str], Json]
    opening: Json | None
    closing: Json
    logprobs: Callable[[Sequence[Mark], int, TokenBytes], Json | list[Json]]
    prompt_aside: bool


CHAT: Final = Kind(
    prompt="messages",
    prefix="chatcmpl-",
    whole_object="chat.completion",
    piece_object="chat.completion.chunk",
    whole=lambda text: {"message": {"role": "assistant", "content": text}},
    piece=lambda text: {"delta": {"content": text}},
    opening={"delta": {"role": "assistant", "content": ""}},
    closing={"delta": {}},
    logprobs=chat_logprobs,
    prompt_aside=True,
)
COMPLETION: Final = Kind(
    prompt="prompt",
    prefix="cmpl-",
    whole_object="text_completion",
    piece_object="text_completion",
    whole=lambda text: {"text": text},
    piece=lambda text: {"text": text},
    opening=None,
    closing={"text": ""},
    logprobs=completion_logprobs,
    prompt_aside=False,
)
CALL: Final = replace(COMPLETION, prefix="gen-", logprobs=listed_logprobs)
"""A gRPC call: a plain completion with other log-probabilities."""
