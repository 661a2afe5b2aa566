"""Answers of the real engine with drafts over gRPC are those over HTTP, and calls that are left free everything."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import grpc
import httpx

from tests.exact.conftest import Target
from tests.exact.test_http_same import ASKED, PROMPT, web
from tests.orchestrator.http_app import events
from tests.orchestrator.rpc_app import Heard, call, calling, from_grpc, from_http, generated
from tests.web import Json

CALLS: Final[Sequence[Json]] = [
    {"prompt": PROMPT, "max_tokens": 24, "return_token_ids": True, **body}
    for body in ASKED[::2]
    if not {"prompt_logprobs", "best_of", "prompt"} & body.keys()
]


def same(heard: Heard) -> tuple[Any, ...]:
    """What does not depend on who else is served, as rounds and rounding do."""
    return heard.texts, heard.tokens, heard.reasons, heard.prompts, heard.usage[:3]


def test_the_same_answers_over_both(target: Target) -> None:
    service = web(target, "standalone", 4)
    stream = {"stream": True, "stream_options": {"include_usage": True}}

    async def go() -> list[Any]:
        async with calling(service.desk) as stub:
            transport = httpx.ASGITransport(app=service.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://door") as client:
                posts = [client.post("/v1/completions", json=body | stream) for body in CALLS]
                return await service.among(
                    [*posts, *(generated(stub, call(**body)) for body in CALLS)]
                )

    heard = asyncio.run(go())
    over_http = [same(from_http(events(each))) for each in heard[: len(CALLS)]]
    over_grpc = [same(from_grpc(each)) for each in heard[len(CALLS) :]]
    assert over_grpc == over_http
    assert sum(usage[1] for *_, usage in over_grpc) > 100
    service.settle()


def test_calls_that_are_left_free_everything(target: Target) -> None:
    service = web(target, "standalone", 4)

    async def leave(stub: Any, number: int) -> bool:  # noqa: ANN401
        """Cancel after so many pieces; whether it was still running."""
        running = stub.Generate(call(PROMPT, seed=number, max_tokens=40, ignore_eos=True))
        for _ in range(number % 5):
            await running.read()
        return bool(running.cancel())

    async def late(stub: Any, number: int) -> bool:  # noqa: ANN401
        """Have no time at all."""
        try:
            await generated(stub, call(PROMPT, seed=number), timeout=0.001 * number)
        except grpc.aio.AioRpcError as error:
            return error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        return False

    async def stay(stub: Any, number: int) -> bool:  # noqa: ANN401
        return bool(await generated(stub, call(PROMPT, seed=number, max_tokens=40)))

    async def go() -> list[bool]:
        async with calling(service.desk) as stub:
            visits = [visit(stub, n) for n in range(4) for visit in (leave, late, stay)]
            return await service.among(visits)

    done = asyncio.run(go())
    assert sum(done) >= 9  # all that left and stayed, and at least the hastiest of the late
    service.settle()
