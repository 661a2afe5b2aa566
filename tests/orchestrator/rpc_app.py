"""The gRPC side of a desk in this process, and calls to it over a real socket."""

import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from grpc_status.rpc_status import from_call

from orchestrator.front.desk import Desk
from orchestrator.front.rpc.errors import CODES
from orchestrator.front.rpc.server import RpcServer
from orchestrator.front.stories import Story
from orchestrator.rpc.draftmesh_pb2 import (
    GenerateRequest,
    GenerateResponse,
    StructuredOutputs,
    TokenIds,
)
from orchestrator.rpc.draftmesh_pb2_grpc import InferenceStub

SECONDS = 30.0


@asynccontextmanager
async def served(desk: Desk, story: Story | None = None) -> AsyncIterator[RpcServer]:
    """A gRPC server in front of the desk."""
    server = RpcServer(desk, 0, story)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@asynccontextmanager
async def calling(desk: Desk, story: Story | None = None) -> AsyncIterator[Any]:
    """A client of the desk's gRPC side."""
    async with (
        served(desk, story) as server,
        grpc.aio.insecure_channel(server.address) as channel,
    ):
        yield InferenceStub(channel)


def call(prompt: str | list[int] | None = None, **body: Any) -> GenerateRequest:
    """What an HTTP body for one prompt is as a call."""
    said = dict(body)
    if isinstance(prompt, str):
        said["text"] = prompt
    elif prompt is not None:
        said["token_ids"] = TokenIds(ids=prompt)
    if isinstance(stop := said.get("stop"), str):
        said["stop"] = [stop]
    if "logit_bias" in said:
        said["logit_bias"] = {int(key): value for key, value in said["logit_bias"].items()}
    if "response_format" in said:
        said["response_format"] = json.dumps(said["response_format"])
    if outputs := said.get("structured_outputs"):
        text = (
            {"json": json.dumps(outputs["json"], separators=(",", ":"))}
            if "json" in outputs
            else {}
        )
        said["structured_outputs"] = StructuredOutputs(**{**outputs, **text})
    return GenerateRequest(**said)


@dataclass
class Heard:
    """An answer, however it came: by choice, and of all of them together."""

    texts: dict[int, str] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)
    tokens: dict[int, list[int]] = field(default_factory=dict)
    drafted: dict[int, list[bool]] = field(default_factory=dict)
    prompts: dict[int, list[int]] = field(default_factory=dict)
    logprobs: dict[int, list[float | None]] = field(default_factory=dict)
    rounds: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    usage: tuple[int, int, int, int] = (0, 0, 0, 0)
    speculation: tuple[float, list[int]] | None = None

    def piece(
        self,
        index: int,
        text: str,
        *parts: Iterable[Any],
        reason: str | None,
        rounds: tuple[Any, ...],
    ) -> None:
        tokens, drafted, prompt, logprobs = parts
        self.texts[index] = self.texts.get(index, "") + text
        for kept, more in (
            (self.tokens, tokens),
            (self.drafted, drafted),
            (self.prompts, prompt),
            (self.logprobs, logprobs),
        ):
            kept.setdefault(index, []).extend(more)
        if reason:
            self.reasons[index] = reason
            self.rounds[index] = rounds


def from_http(events: Iterable[Any]) -> Heard:
    """What the events of a completion's stream say."""
    heard = Heard()
    for event in events:
        if event == "[DONE]":
            continue
        for entry in event["choices"]:
            marks = (entry.get("logprobs") or {}).get("token_logprobs", ())
            counts = entry.get("draftmesh", {})
            heard.piece(
                entry["index"],
                entry["text"],
                entry.get("token_ids", ()),
                entry.get("drafted", ()),
                entry.get("prompt_token_ids", ()),
                marks,
                reason=entry["finish_reason"],
                rounds=tuple(counts.get(name) for name in ("rounds", "drafted", "accepted")),
            )
        if usage := event.get("usage"):
            names = ("prompt_tokens", "completion_tokens", "total_tokens")
            cached = usage["prompt_tokens_details"]["cached_tokens"]
            heard.usage = (*(usage[name] for name in names), cached)
            if told := event["metrics"]["speculative_decoding"]:
                heard.speculation = (told["mean_acceptance_length"], told["acceptance_histogram"])
    return heard


def from_grpc(messages: Iterable[GenerateResponse]) -> Heard:
    """What the messages of a call say."""
    heard = Heard()
    for message in messages:
        if message.HasField("choice"):
            choice, rounds = message.choice, message.choice.rounds
            heard.piece(
                choice.index,
                choice.text,
                choice.token_ids,
                choice.drafted,
                choice.prompt_token_ids,
                [each.logprob if each.HasField("logprob") else None for each in choice.logprobs],
                reason=choice.finish_reason,
                rounds=(rounds.rounds, rounds.drafted, rounds.accepted),
            )
        if message.HasField("usage"):
            usage = message.usage
            heard.usage = (
                usage.prompt_tokens,
                usage.completion_tokens,
                usage.total_tokens,
                usage.cached_tokens,
            )
        if message.HasField("speculation"):
            told = message.speculation
            heard.speculation = (told.mean_acceptance_length, list(told.acceptance_histogram))
    return heard


async def generated(stub: Any, request: GenerateRequest, **how: Any) -> list[GenerateResponse]:  # noqa: ANN401
    """The whole answer."""
    return [each async for each in stub.Generate(request, **{"timeout": SECONDS, **how})]


def refusal(error: grpc.aio.AioRpcError) -> tuple[int, str | None, str | None]:
    """HTTP status, field and code of an error; its details are checked on the way."""
    told = from_call(_Ended(error))
    assert told is not None
    assert told.message == error.details()
    (info,) = _details(told, ErrorInfo)
    fields = [each.field for bad in _details(told, BadRequest) for each in bad.field_violations]
    statuses = {code: status for status, code in CODES.items()}
    status = statuses.get(error.code(), 500)
    assert bool(_details(told, RetryInfo)) == (status in {429, 503})
    return status, next(iter(fields), None), info.reason.lower()


def _details(told: Any, kind: Any) -> list[Any]:  # noqa: ANN401
    found = []
    for packed in told.details:
        made = kind()
        if packed.Unpack(made):
            found.append(made)
    return found


class _Ended:
    """An error of `grpc.aio` as `grpc_status` reads a call."""

    def __init__(self, error: grpc.aio.AioRpcError) -> None:
        self._error = error

    def trailing_metadata(self) -> list[tuple[str, Any]]:
        return list(self._error.trailing_metadata())

    def code(self) -> grpc.StatusCode:
        return self._error.code()

    def details(self) -> str:
        return str(self._error.details())
