"""Answers in the shapes that OpenAI clients read: whole, or as server-sent events."""

import json
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from orchestrator.front.errors import ApiError
from orchestrator.front.generation import ClientGoneError, Generation, News
from orchestrator.front.schema import Request
from protocol.messages import Done, Emit, Statistics

Json = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """How the two kinds of completion differ."""

    prefix: str
    whole_object: str
    piece_object: str
    whole: Callable[[str], Json]
    piece: Callable[[str], Json]
    opening: Json | None
    closing: Json


CHAT: Final = Kind(
    prefix="chatcmpl-",
    whole_object="chat.completion",
    piece_object="chat.completion.chunk",
    whole=lambda text: {"message": {"role": "assistant", "content": text}},
    piece=lambda text: {"delta": {"content": text}},
    opening={"delta": {"role": "assistant", "content": ""}},
    closing={"delta": {}},
)
COMPLETION: Final = Kind(
    prefix="cmpl-",
    whole_object="text_completion",
    piece_object="text_completion",
    whole=lambda text: {"text": text},
    piece=lambda text: {"text": text},
    opening=None,
    closing={"text": ""},
)


@dataclass(slots=True)
class _Choice:
    text: list[str] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    drafted: list[bool] = field(default_factory=list)
    done: Done | None = None


class Answer:
    """One request's answer. `number` makes its id, `created` is the Unix time."""

    def __init__(self, kind: Kind, request: Request, model: str, number: str, created: int) -> None:
        self._kind = kind
        self._ids = bool(request.return_token_ids)
        self._usage_wanted = bool(request.stream_options and request.stream_options.include_usage)
        self._head: Json = {"id": kind.prefix + number, "created": created, "model": model}
        self._prompts: dict[int, Done] = {}
        self._output = 0
        self._opened: set[int] = set()

    async def whole(self, generation: Generation) -> Json:
        """Everything at once."""
        choices: dict[int, _Choice] = defaultdict(_Choice)
        async for news in generation.news():
            choice = choices[news.choice]
            match news.reply:
                case Emit():
                    choice.text.append(news.reply.text)
                    choice.tokens += news.reply.tokens
                    choice.drafted += news.reply.drafted
                case Done():
                    choice.done = news.reply
                    self._account(news.prompt, news.reply)
        listed = [self._whole_choice(index, choices[index]) for index in sorted(choices)]
        return {
            **self._head,
            "object": self._kind.whole_object,
            "choices": listed,
            "usage": self._usage(),
        }

    async def pieces(self, generation: Generation) -> AsyncIterator[bytes]:
        """Server-sent events. An error is an event too, and then nothing says that a choice finished."""
        try:
            async for news in generation.news():
                for choice in self._choices(news):
                    yield self._event([choice])
            if self._usage_wanted:
                yield self._event([], self._usage())
            yield b"data: [DONE]\n\n"
        except ApiError as error:
            yield _encode(error.body)
        except ClientGoneError:
            return

    def _choices(self, news: News) -> list[Json]:
        """The choice entries that one reply becomes."""
        entries: list[Json] = []
        if news.choice not in self._opened:
            self._opened.add(news.choice)
            if self._kind.opening is not None:
                entries.append(_entry(news.choice, self._kind.opening))
        match news.reply:
            case Emit(text=text, tokens=tokens, drafted=drafted) if text or self._ids:
                entry = _entry(news.choice, self._kind.piece(text))
                entries.append({**entry, **self._token_ids(tokens, drafted)})
            case Done():
                self._account(news.prompt, news.reply)
                entry = _entry(news.choice, self._kind.closing, news.reply.reason)
                entries.append({**entry, "draftmesh": _statistics(news.reply.statistics)})
        return entries

    def _event(self, choices: list[Json], usage: Json | None = None) -> bytes:
        event = {**self._head, "object": self._kind.piece_object, "choices": choices}
        if self._usage_wanted:
            event["usage"] = usage
        return _encode(event)

    def _whole_choice(self, index: int, choice: _Choice) -> Json:
        assert choice.done is not None
        entry = _entry(index, self._kind.whole("".join(choice.text)), choice.done.reason)
        entry |= self._token_ids(choice.tokens, choice.drafted)
        return {**entry, "draftmesh": _statistics(choice.done.statistics)}

    def _token_ids(
        self, tokens: list[int] | tuple[int, ...], drafted: list[bool] | tuple[bool, ...]
    ) -> Json:
        return {"token_ids": list(tokens), "drafted": list(drafted)} if self._ids else {}

    def _account(self, prompt: int, done: Done) -> None:
        self._prompts.setdefault(prompt, done)
        self._output += done.output_tokens

    def _usage(self) -> Json:
        prompt = sum(done.prompt_tokens for done in self._prompts.values())
        cached = sum(done.statistics.cached_tokens for done in self._prompts.values())
        return {
            "prompt_tokens": prompt,
            "completion_tokens": self._output,
            "total_tokens": prompt + self._output,
            "prompt_tokens_details": {"cached_tokens": cached},
        }


class EventStream(Response):
    """A response that is written as it comes; it owns the generation behind it."""

    media_type = "text/event-stream"

    def __init__(self, generation: Generation, events: AsyncIterator[bytes]) -> None:
        super().__init__(headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._generation = generation
        self._events = events

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        try:
            start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
            await send(start)
            async for event in self._events:
                await send({"type": "http.response.body", "body": event, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._generation.close()


def _entry(index: int, content: Mapping[str, Any], finish: str | None = None) -> Json:
    return {"index": index, **content, "logprobs": None, "finish_reason": finish}


def _statistics(statistics: Statistics) -> Json:
    return {
        "rounds": statistics.rounds,
        "drafted": statistics.drafted,
        "accepted": statistics.accepted,
    }


def _encode(event: Json) -> bytes:
    text = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
    return b"data: " + text.encode() + b"\n\n"
