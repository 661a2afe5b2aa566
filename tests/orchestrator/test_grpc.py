"""The same requests over HTTP and gRPC: the same text, the same usage, the same errors; and what gRPC alone has."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest
from grpc_reflection.v1alpha.reflection_pb2_grpc import ServerReflectionStub

from orchestrator.front.messages import Failure, Status
from orchestrator.front.rpc.reading import parameters
from orchestrator.front.schema import CompletionRequest
from orchestrator.rpc.draftmesh_pb2 import (
    AbortRequest,
    GenerateRequest,
    GetModelInfoRequest,
    GetServerInfoRequest,
)
from orchestrator.rpc.draftmesh_pb2_grpc import InferenceStub
from protocol.messages import AnyMessage, Done, Emit, Submit
from tests.orchestrator.fakes import echo
from tests.orchestrator.http_app import READY, FakeDoor, Http, error, events
from tests.orchestrator.rpc_app import (
    call,
    calling,
    from_grpc,
    from_http,
    generated,
    refusal,
    served,
)
from tests.orchestrator.rpc_code import PLACE, ROOT, made

UNARY = ("best_of", "stream", "stream_options", "user")
"""HTTP parameters that calls do not have: they say how HTTP answers, or nothing."""

GOOD: list[dict[str, Any]] = [
    {"prompt": "hello"},
    {"prompt": [5, 6, 7], "max_tokens": 2},
    {"prompt": "hello", "n": 3, "return_token_ids": True},
    {"prompt": "hello", "logprobs": 2, "echo": True, "return_token_ids": True},
    {"prompt": "hello", "echo": True, "logprobs": 1, "max_tokens": 0},
    {
        "prompt": "many",
        "temperature": 0.7,
        "top_p": 0.9,
        "top_k": 5,
        "min_p": 0.1,
        "seed": -3,
        "repetition_penalty": 1.1,
        "presence_penalty": 0.5,
        "frequency_penalty": -0.5,
        "logit_bias": {"7": 1.5, "8": -100},
        "allowed_token_ids": [1, 2, 3],
        "bad_words": ["no"],
        "min_tokens": 1,
        "max_tokens": 4,
        "stop": ["END", "stop"],
        "stop_token_ids": [9],
        "include_stop_str_in_output": True,
        "ignore_eos": True,
        "model": "tiny",
    },
    {"prompt": "a", "regex": "[a-z]+"},
    {"prompt": "a", "response_format": {"type": "json_schema", "json_schema": {"schema": {"b": 1, "a": 2}}}},
    {"prompt": "a", "structured_outputs": {"choice": ["yes", "no"]}},
    {"prompt": "a", "structured_outputs": {"json": {"type": "object"}}},
]  # fmt: skip

BAD: list[dict[str, Any]] = [
    {},
    {"prompt": ""},
    {"prompt": [300]},
    {"prompt": [-1]},
    {"prompt": [1] * 64},
    {"prompt": "a" * 2000},
    {"prompt": "a", "model": "other"},
    {"prompt": "a", "temperature": -1.0},
    {"prompt": "a", "temperature": float("nan")},
    {"prompt": "a", "top_p": 0.0},
    {"prompt": "a", "n": 0},
    {"prompt": "a", "n": 129},
    {"prompt": "a", "max_tokens": 0},
    {"prompt": "a", "max_tokens": 65},
    {"prompt": "a", "max_tokens": 2, "min_tokens": 3},
    {"prompt": "a", "stop": [""]},
    {"prompt": "a", "stop": ["a"] * 17},
    {"prompt": "a", "stop_token_ids": [999]},
    {"prompt": "a", "logit_bias": {"-1": 1.0}},
    {"prompt": "a", "logit_bias": {"1": 101.0}},
    {"prompt": "a", "logprobs": 21},
    {"prompt": "a", "response_format": {"type": "xml"}},
    {"prompt": "a", "regex": "a", "structured_outputs": {"choice": ["a"]}},
    {"prompt": "a", "structured_outputs": {"regex": "a", "grammar": "b"}},
]


def asked(http: Http, task: Callable[[Any], Awaitable[Any]]) -> Any:  # noqa: ANN401
    """What a client of the gRPC side does, in a loop of its own."""

    async def go() -> Any:  # noqa: ANN401
        async with calling(http.desk) as stub:
            return await task(stub)

    return asyncio.run(go())


def refused(http: Http, request: GenerateRequest) -> tuple[int, str | None, str | None]:
    async def go(stub: Any) -> Any:  # noqa: ANN401
        with pytest.raises(grpc.aio.AioRpcError) as ended:
            await generated(stub, request)
        return refusal(ended.value)

    found: tuple[int, str | None, str | None] = asked(http, go)
    return found


@pytest.mark.parametrize("body", GOOD, ids="-".join)
def test_the_same_answer_over_both(tiny: Path, body: dict[str, Any]) -> None:
    http = Http(tiny, FakeDoor())
    stream = {"stream": True, "stream_options": {"include_usage": True}}
    over_http = from_http(events(http.complete(**body, **stream)))
    over_grpc = from_grpc(asked(http, lambda stub: generated(stub, call(**body))))
    assert over_grpc == over_http
    assert over_grpc.usage[2] > 0
    first, second = http.door.queries
    assert first == second


@pytest.mark.parametrize("body", BAD, ids=lambda body: "-".join(list(body)[1:]))
def test_the_same_error_over_both(tiny: Path, body: dict[str, Any]) -> None:
    http = Http(tiny, FakeDoor())
    text = str(body).replace("'", '"').replace("nan", "NaN")
    headers = {"content-type": "application/json"}
    over_http = error(http.request("POST", "/v1/completions", content=text, headers=headers))
    assert over_http[0] in {400, 404}
    assert refused(http, call(**body)) == over_http
    assert http.door.queries == []


@pytest.mark.parametrize(
    "failure",
    [
        Failure(429, "full", code="overloaded"),
        Failure(503, "lost", code="verifier_lost"),
        Failure(500, "broken", code="internal"),
        Failure(400, "no such grammar", "grammar", "invalid"),
        Failure(400, "too long", "prompt", "context"),
    ],
)
def test_what_a_verifier_refuses_is_the_same_over_both(tiny: Path, failure: Failure) -> None:
    http = Http(tiny, FakeDoor(lambda _: [failure]))
    body = {"prompt": "a", "regex": "a"}
    assert refused(http, call(**body)) == error(http.complete(**body))


@pytest.mark.parametrize(
    "status", [Status(alive=True, ready=False), Status(alive=True, ready=False, draining=True)]
)
def test_nobody_there_and_draining_are_the_same_over_both(tiny: Path, status: Status) -> None:
    http = Http(tiny, FakeDoor(status=status))
    assert refused(http, call("a")) == error(http.complete(prompt="a"))


def test_an_error_in_mid_stream_ends_the_call(tiny: Path) -> None:
    lost = Failure(503, "the verifier was lost", code="verifier_lost")
    http = Http(tiny, FakeDoor(lambda submit: [*list(echo(submit))[:1], lost]))

    async def go(stub: Any) -> list[str]:  # noqa: ANN401
        running = stub.Generate(call("hello"))
        heard = [(await running.read()).choice.text]
        with pytest.raises(grpc.aio.AioRpcError) as ended:
            await running.read()
        assert refusal(ended.value) == (503, None, "verifier_lost")
        return heard

    assert asked(http, go) == ["<76><73>"]


def test_what_a_prompt_is_worth_comes_first_and_is_what_http_tells(tiny: Path) -> None:
    """Over HTTP it is not streamed; a call's stream begins with it."""
    http = Http(tiny, FakeDoor())
    body: dict[str, Any] = {"prompt": "hello", "prompt_logprobs": 2, "n": 2}
    whole = http.complete(**body).json()["choices"]
    pieces = asked(http, lambda stub: generated(stub, call(**body)))
    for choice in whole:
        first, *others = [p.choice for p in pieces if p.choice.index == choice["index"]]
        assert not any(each.prompt_logprobs for each in others)
        nothing_yet, *rest = first.prompt_logprobs
        assert (choice["prompt_logprobs"][0], len(nothing_yet.tokens)) == (None, 0)
        for told, entry in zip(choice["prompt_logprobs"][1:], rest, strict=True):
            assert told == {
                str(each.id): {
                    "logprob": each.logprob,
                    "rank": each.rank if each.HasField("rank") else None,
                    "decoded_token": each.token,
                }
                for each in entry.tokens
            }
    assert refused(http, call("a", prompt_logprobs=21))[1] == "prompt_logprobs"


def test_calls_have_every_parameter_but_those_that_say_how_http_answers() -> None:
    known = {field.name for field in GenerateRequest.DESCRIPTOR.fields}
    assert known - {"text", "token_ids", "request_id"} | {"prompt", *UNARY} == set(
        CompletionRequest.model_fields
    )


def test_a_field_that_is_not_known_is_refused_and_not_passed_over(http: Http) -> None:
    newer = GenerateRequest.FromString(call("a").SerializeToString() + b"\xd8\x3e\x01")
    assert refused(http, newer) == (400, "1003", "unknown_parameter")


def test_a_prompt_of_no_tokens_is_empty_and_not_missing(http: Http) -> None:
    assert parameters(call([]))["prompt"] == []
    assert refused(http, call([]))[:2] == (400, "prompt")


def test_a_format_that_is_no_json_is_named(http: Http) -> None:
    request = GenerateRequest(text="a", response_format="{")
    assert refused(http, request) == (400, "response_format", "invalid_value")


# --- endings --------------------------------------------------------------------------------------------------------


def begun(http: Http, task: Callable[[Any, Any], Awaitable[None]], **how: Any) -> grpc.StatusCode:
    """A call that has had its first piece and gets no further by itself; how it ended."""

    async def go(stub: Any) -> grpc.StatusCode:  # noqa: ANN401
        running = stub.Generate(call("hello", request_id="mine"), **how)
        assert (await running.read()).choice.text == "one"
        await task(stub, running)
        code: grpc.StatusCode = await running.code()
        return code

    code: grpc.StatusCode = asked(http, go)
    return code


@pytest.fixture
def slow(tiny: Path) -> Http:
    """Every answer stops after its first piece."""
    return Http(tiny, FakeDoor(lambda s: [Emit(s.request, 0, (1,), "one")]))


async def nothing(_stub: Any, _running: Any) -> None:  # noqa: ANN401
    pass


def test_a_call_that_is_cancelled_frees_everything(slow: Http) -> None:
    async def cancel(_stub: Any, running: Any) -> None:  # noqa: ANN401
        running.cancel()

    assert begun(slow, cancel) is grpc.StatusCode.CANCELLED
    assert slow.door.aborted == [1]


def test_a_call_whose_deadline_is_over_frees_everything(slow: Http) -> None:
    assert begun(slow, nothing, timeout=0.3) is grpc.StatusCode.DEADLINE_EXCEEDED
    assert slow.door.aborted == [1]


@pytest.mark.parametrize("by", ["request_id", "id"])
def test_a_call_that_is_aborted_ends_as_cancelled(slow: Http, by: str) -> None:
    async def go(stub: Any) -> grpc.StatusCode:  # noqa: ANN401
        running = stub.Generate(call("hello", request_id="mine"))
        name = "mine" if by == "request_id" else (await running.read()).id
        if by == "request_id":
            await running.read()
        answer = await stub.Abort(AbortRequest(ids=["nobody", name]))
        assert list(answer.aborted) == [name]
        code: grpc.StatusCode = await running.code()
        again = await stub.Abort(AbortRequest(ids=[name]))
        assert list(again.aborted) == []
        return code

    assert asked(slow, go) is grpc.StatusCode.CANCELLED
    assert slow.door.aborted == [1]


def test_a_name_that_is_taken_is_refused_until_it_is_free(slow: Http) -> None:
    async def twice(stub: Any, running: Any) -> None:  # noqa: ANN401
        with pytest.raises(grpc.aio.AioRpcError) as ended:
            await generated(stub, call("hello", request_id="mine"))
        assert refusal(ended.value) == (409, "request_id", "already_exists")
        running.cancel()

    begun(slow, twice)
    assert len(slow.door.queries) == 1
    begun(slow, twice)


# --- what is told ---------------------------------------------------------------------------------------------------


def test_the_model_and_the_service_are_as_http_tells(http: Http) -> None:
    async def go(stub: Any) -> tuple[Any, Any]:  # noqa: ANN401
        model = await stub.GetModelInfo(GetModelInfoRequest())
        return model, await stub.GetServerInfo(GetServerInfoRequest())

    model, server = asked(http, go)
    card, info = http.get("/v1/models/tiny").json(), http.get("/server_info")
    assert (model.name, model.context) == (card["id"], card["max_model_len"])
    assert (model.vocabulary, model.draft_length) == (READY.vocabulary, READY.draft_length)
    told = json.loads(server.json)
    assert 0 <= info.json()["time"] - server.time < 60
    assert told | {"time": info.json()["time"]} == info.json()
    assert [node.node_id for node in server.nodes] == ["front-0"]
    assert server.ready


async def services(channel: Any, **how: Any) -> list[str]:  # noqa: ANN401
    """As `grpcurl ADDRESS list` asks."""
    wish = ServerReflectionRequest(list_services="")
    replies = ServerReflectionStub(channel).ServerReflectionInfo(iter([wish]), **how)
    async for reply in replies:
        return [service.name for service in reply.list_services_response.service]
    return []


def test_the_server_tells_what_it_speaks(http: Http) -> None:
    async def go() -> list[str]:
        async with (
            served(http.desk) as server,
            grpc.aio.insecure_channel(server.address) as channel,
        ):
            return await services(channel)

    assert "draftmesh.v1.Inference" in asyncio.run(go())


def test_the_stubs_are_what_the_tools_make(tmp_path: Path) -> None:
    for path in made(tmp_path):
        assert path.read_text() == (ROOT / PLACE / path.name).read_text(), (
            "python -m tests.orchestrator.rpc_code"
        )


# --- who may ask ----------------------------------------------------------------------------------------------------


def test_without_the_key_nothing_is_told(tiny: Path) -> None:
    http = Http(tiny, FakeDoor(), api_key="s3cret,other", key_concurrent=1)

    async def go() -> None:
        async with (
            served(http.desk) as server,
            grpc.aio.insecure_channel(server.address) as channel,
        ):
            stub = InferenceStub(channel)
            for header in ((), (("authorization", "Bearer s3cre"),)):
                for asking in (
                    generated(stub, call("a"), metadata=header),
                    stub.Abort(AbortRequest(), metadata=header),
                    stub.GetModelInfo(GetModelInfoRequest(), metadata=header),
                    stub.GetServerInfo(GetServerInfoRequest(), metadata=header),
                    services(channel, metadata=header),
                ):
                    with pytest.raises(grpc.aio.AioRpcError) as ended:
                        await asking
                    assert refusal(ended.value) == (401, None, "invalid_api_key")
            right = (("authorization", "Bearer other"),)
            assert await generated(stub, call("a"), metadata=right)
            assert await services(channel, metadata=right)

    asyncio.run(go())
    assert len(http.door.queries) == 1


def test_a_key_has_one_quota_for_both(tiny: Path) -> None:
    http = Http(tiny, FakeDoor(), key_rate=0.001, key_burst=1)
    assert http.complete(prompt="a").status_code == 200
    assert refused(http, call("a")) == (429, None, "rate_limit")
    assert error(http.complete(prompt="a")) == (429, None, "rate_limit")


def test_another_keys_calls_are_not_its_to_abort(tiny: Path) -> None:
    http = Http(tiny, FakeDoor(lambda s: [Emit(s.request, 0, (1,), "one")]), api_key="a,b")

    async def go(stub: Any) -> None:  # noqa: ANN401
        mine, theirs = ((("authorization", f"Bearer {key}"),) for key in "ab")
        running = stub.Generate(call("hello", request_id="x"), metadata=mine)
        await running.read()
        answer = await stub.Abort(AbortRequest(ids=["x"]), metadata=theirs)
        assert list(answer.aborted) == []
        running.cancel()

    asked(http, go)


# --- the line -------------------------------------------------------------------------------------------------------


def test_a_message_that_is_too_large_is_not_read(tiny: Path) -> None:
    http = Http(tiny, FakeDoor(), max_body=2048)

    async def go(stub: Any) -> grpc.StatusCode:  # noqa: ANN401
        with pytest.raises(grpc.aio.AioRpcError) as ended:
            await generated(stub, call("a" * 4096))
        code: grpc.StatusCode = ended.value.code()
        return code

    assert asked(http, go) is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert http.door.queries == []


def test_messages_just_over_the_usual_limit_of_4_mib_pass_both_ways(tiny: Path) -> None:
    """What comes in is read, and refused for what it asks; what goes out arrives where the client takes it."""
    long = "a" * ((4 << 20) + 1)
    http = Http(tiny, FakeDoor(), max_body=8 << 20)
    assert refused(http, call(long))[:2] == (400, "prompt")

    def answer(submit: Submit) -> Iterable[AnyMessage | Failure]:
        yield Emit(submit.request, 0, (1,), long, drafted=(False,))
        yield Done(submit.request, 0, "length", len(submit.tokens), 1)

    async def go() -> str:
        taken = (("grpc.max_receive_message_length", 8 << 20),)
        async with (
            served(Http(tiny, FakeDoor(answer)).desk) as server,
            grpc.aio.insecure_channel(server.address, options=taken) as channel,
        ):
            return from_grpc(await generated(InferenceStub(channel), call("a"))).texts[0]

    assert asyncio.run(go()) == long


def test_a_port_that_is_taken_is_an_error(http: Http) -> None:
    async def go() -> None:
        async with served(http.desk) as server:
            from orchestrator.front.rpc.server import RpcServer  # noqa: PLC0415

            with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1 port {server.port}"):
                RpcServer(http.desk, server.port)

    asyncio.run(go())


IDLE = (
    ("grpc.keepalive_time_ms", 6_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
)


@pytest.mark.full
def test_a_link_that_nobody_uses_is_kept_by_pings_that_others_would_forbid(http: Http) -> None:
    """A server with gRPC's own limits hangs up on the same client: it pings too often for those."""

    async def hung_up(address: str) -> bool:
        async with grpc.aio.insecure_channel(address, options=IDLE) as channel:
            await asyncio.wait_for(channel.channel_ready(), 10)
            ready = grpc.ChannelConnectivity.READY
            try:
                await asyncio.wait_for(channel.wait_for_state_change(ready), 40)
            except TimeoutError:
                return False
            return True

    async def go() -> tuple[bool, bool]:
        strict = grpc.aio.server()
        port = strict.add_insecure_port("127.0.0.1:0")
        await strict.start()
        async with served(http.desk) as ours:
            kept, lost = await asyncio.gather(hung_up(ours.address), hung_up(f"127.0.0.1:{port}"))
        await strict.stop(0)
        return kept, lost

    assert asyncio.run(go()) == (False, True)
