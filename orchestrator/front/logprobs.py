"""Log-probabilities in the shapes that clients know: of completions, of chats, and of prompts. Pure."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from protocol.messages import Scored
from protocol.token_bytes import TokenBytes

Json = dict[str, Any]
LEAST: Final = -9999.0
"""What is less likely is shown as this: JSON has no infinity."""


class Mark(NamedTuple):
    """One token, where its text begins, and how likely it was; the first token of a prompt has no score."""

    token: int
    offset: int
    score: Scored | None


def completion_logprobs(marks: Sequence[Mark], top: int, known: TokenBytes) -> Json:
    """Four lists with an entry for each token."""
    return {
        "tokens": [known.shown(mark.token) for mark in marks],
        "token_logprobs": [None if mark.score is None else _value(mark.score) for mark in marks],
        "top_logprobs": [_by_text(mark, top, known) for mark in marks],
        "text_offset": [mark.offset for mark in marks],
    }


def chat_logprobs(marks: Sequence[Mark], top: int, known: TokenBytes) -> Json:
    """An object for each token."""
    content = []
    for mark in marks:
        assert mark.score is not None  # chats do not repeat their prompt
        others = [_chat_token(token, value, known) for token, value in mark.score.top[:top]]
        entry = _chat_token(mark.token, mark.score.logprob, known)
        content.append({**entry, "top_logprobs": others})
    return {"content": content, "refusal": None}


def listed_logprobs(marks: Sequence[Mark], top: int, known: TokenBytes) -> list[Json]:
    """An object for each token, those of a prompt too."""
    return [
        {
            "token": known.shown(mark.token),
            "bytes": known[mark.token],
            "logprob": None if mark.score is None else _value(mark.score),
            "top_logprobs": [
                {"token": known.shown(token), "bytes": known[token], "logprob": _least(value)}
                for token, value in (mark.score.top[:top] if mark.score is not None else ())
            ],
        }
        for mark in marks
    ]


def prompt_logprobs(
    prompt: Sequence[int], scores: Sequence[Scored], top: int, known: TokenBytes
) -> list[Json | None]:
    """By token id, the prompt's own token first; nothing for the first token, which nothing predicts."""
    entries: list[Json | None] = [None]
    for token, scored in zip(prompt[1:], scores, strict=True):
        ranks = {each: rank for rank, (each, _) in enumerate(scored.top, 1)}
        likely = {token: scored.logprob} | dict(scored.top[:top])
        entries.append(
            {
                str(each): {
                    "logprob": _least(value),
                    "rank": ranks.get(each),
                    "decoded_token": known.shown(each),
                }
                for each, value in likely.items()
            }
        )
    return entries


def _by_text(mark: Mark, top: int, known: TokenBytes) -> Json | None:
    """The likeliest tokens and the one that was drawn; of two with the same text, the likelier."""
    if mark.score is None:
        return None
    by_text: Json = {}
    for token, value in (*mark.score.top[:top], (mark.token, mark.score.logprob)):
        by_text.setdefault(known.shown(token), _least(value))
    return by_text


def _chat_token(token: int, value: float, known: TokenBytes) -> Json:
    return {
        "token": known.shown(token),
        "logprob": _least(value),
        "bytes": list(known[token]),
    }


def _value(score: Scored) -> float:
    return _least(score.logprob)


def _least(value: float) -> float:
    return max(value, LEAST)
