"""The front door's span: begun with the request, over with the answer, and known to whoever works for it."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from orchestrator.front.app import make_app
from orchestrator.front.desk import Desk
from orchestrator.front.messages import Failure
from orchestrator.front.text import Tokenizer
from orchestrator.front.tracing import Traced, TracedCalls, TracedDoor
from protocol import attributes
from protocol.spans import Context, traced, traceparent
from tests.orchestrator.fakes import config, echo
from tests.orchestrator.http_app import Answer, FakeDoor
from tests.orchestrator.rpc_app import call, calling, generated

CALLER = Context(0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331)


@dataclass
class Door:
    """A front door in this process, and the spans that it made."""

    folder: Path
    memory: InMemorySpanExporter = field(default_factory=InMemorySpanExporter)
    provider: TracerProvider = field(default_factory=TracerProvider)
    door: FakeDoor = field(default_factory=FakeDoor)

    def __post_init__(self) -> None:
        self.provider.add_span_processor(SimpleSpanProcessor(self.memory))

    def ask(
        self,
        path: str = "/v1/completions",
        traceparent: str = "",
        tracestate: str = "",
        **body: Any,
    ) -> httpx.Response:
        desk = Desk(config(), TracedDoor(self.door), Tokenizer(self.folder), draw=lambda: 77)
        app = Traced(make_app(desk), self.provider, "tiny")
        asked = {"prompt": [5, 6, 7], "max_tokens": 3} | body

        async def go() -> httpx.Response:
            transport = httpx.ASGITransport(app=app)
            async with httpx.AsyncClient(transport=transport, base_url="http://door") as client:
                headers = {"traceparent": traceparent, "tracestate": tracestate}
                said = {name: value for name, value in headers.items() if value}
                return await client.post(path, json=asked, headers=said)

        return asyncio.run(go())

    @property
    def span(self) -> ReadableSpan:
        [span] = self.memory.get_finished_spans()
        return span

    @property
    def said(self) -> dict[str, Any]:
        return dict(self.span.attributes or {})


@pytest.fixture
def door(tiny: Path) -> Iterator[Door]:
    made = Door(tiny)
    yield made
    made.provider.shutdown()


def test_a_request_is_one_server_span_that_says_what_was_asked_and_what_came(door: Door) -> None:
    assert door.ask(temperature=0.5, top_p=0.9, seed=11, stop=["END"]).status_code == 200
    assert (door.span.name, door.span.kind) == ("text_completion tiny", SpanKind.SERVER)
    said = door.said
    assert said.pop(attributes.RESPONSE_FIRST_CHUNK) >= 0
    assert said.pop(attributes.CLIENT_ADDRESS)
    assert said == {
        attributes.OPERATION: "text_completion",
        attributes.PROVIDER: "draftmesh",
        attributes.REQUEST_MODEL: "tiny",
        attributes.RESPONSE_MODEL: "tiny",
        attributes.REQUEST_MAX_TOKENS: 3,
        attributes.REQUEST_TEMPERATURE: 0.5,
        attributes.REQUEST_TOP_P: 0.9,
        attributes.REQUEST_TOP_K: 0,
        attributes.REQUEST_SEED: 11,
        attributes.REQUEST_STOP: ("END",),
        attributes.REQUEST_CHOICES: 1,
        attributes.REQUEST_STREAM: False,
        attributes.RESPONSE_FINISH: ("length",),
        attributes.INPUT_TOKENS: 3,
        attributes.CACHED_TOKENS: 0,
        attributes.OUTPUT_TOKENS: 3,
        attributes.HTTP_METHOD: "POST",
        attributes.HTTP_ROUTE: "/v1/completions",
        attributes.URL_PATH: "/v1/completions",
        attributes.URL_SCHEME: "http",
        attributes.HTTP_STATUS: 200,
    }


def test_chat_has_a_name_of_its_own(door: Door) -> None:
    door.ask("/v1/chat/completions", prompt=None, messages=[{"role": "user", "content": "hi"}])
    assert door.span.name == "chat tiny"


def test_the_mesh_is_told_of_the_span_and_of_no_other(door: Door) -> None:
    door.ask(prompt=[[5], [6]])
    context = door.span.get_span_context()
    assert context is not None
    ours = Context(context.trace_id, context.span_id)
    assert [traced(query.trace) for query in door.door.queries] == [ours, ours]
    assert door.said[attributes.INPUT_TOKENS] == 2


def test_a_callers_trace_goes_on(door: Door) -> None:
    door.ask(traceparent=traceparent(CALLER))
    context, parent = door.span.get_span_context(), door.span.parent
    assert context is not None
    assert parent is not None
    assert Context(context.trace_id, parent.span_id) == CALLER


def test_what_other_tracers_say_of_it_goes_on_too(door: Door) -> None:
    door.ask(traceparent=traceparent(CALLER), tracestate="theirs=1,more=2")
    contexts = [traced(query.trace) for query in door.door.queries]
    assert [context and context.state for context in contexts] == ["theirs=1,more=2"]


def test_a_caller_that_does_not_sample_is_obeyed(door: Door) -> None:
    answer = door.ask(traceparent=traceparent(CALLER).removesuffix("01") + "00")
    assert answer.status_code == 200
    assert door.memory.get_finished_spans() == ()
    assert [query.trace for query in door.door.queries] == [""]


def test_a_caller_that_talks_nonsense_begins_no_trace_of_its_own(door: Door) -> None:
    door.ask(traceparent="what?")
    assert door.span.parent is None


def test_a_stream_is_over_with_its_last_byte(door: Door) -> None:
    answer = door.ask(stream=True)
    assert answer.text.endswith("data: [DONE]\n\n")
    assert door.said[attributes.REQUEST_STREAM] is True
    assert door.said[attributes.OUTPUT_TOKENS] == 3


def failing(failure: Failure) -> Answer:
    return lambda _submit: [failure]


@pytest.mark.parametrize(("status", "failed"), [(503, StatusCode.ERROR), (429, StatusCode.UNSET)])
def test_an_error_says_its_kind_and_is_the_servers_or_the_clients(
    tiny: Path, status: int, failed: StatusCode
) -> None:
    door = Door(tiny, door=FakeDoor(failing(Failure(status, "no", code="why"))))
    assert door.ask().status_code == status
    assert (door.said[attributes.ERROR_TYPE], door.said[attributes.HTTP_STATUS]) == ("why", status)
    assert door.span.status.status_code is failed
    door.provider.shutdown()


def test_a_verifier_that_is_lost_in_mid_stream_marks_the_span(tiny: Path) -> None:
    lost = Failure(503, "the verifier was lost", code="verifier_lost")
    door = Door(tiny, door=FakeDoor(lambda submit: [*list(echo(submit))[:1], lost]))
    assert door.ask(stream=True).status_code == 200
    assert door.said[attributes.ERROR_TYPE] == "verifier_lost"
    assert door.span.status.status_code is StatusCode.ERROR
    door.provider.shutdown()


def test_what_is_refused_at_the_door_has_a_span_too(door: Door) -> None:
    assert door.ask(max_tokens=-1).status_code == 400
    assert door.said[attributes.HTTP_STATUS] == 400
    assert door.span.status.status_code is StatusCode.UNSET


def test_a_call_over_grpc_is_a_span_too_within_its_callers_trace(door: Door) -> None:
    desk = Desk(config(), TracedDoor(door.door), Tokenizer(door.folder), draw=lambda: 77)

    async def go() -> None:
        async with calling(desk, TracedCalls(door.provider, "tiny")) as stub:
            await generated(stub, call([5, 6, 7]), metadata=(("traceparent", traceparent(CALLER)),))

    asyncio.run(go())
    assert (door.span.name, door.span.kind) == ("text_completion tiny", SpanKind.SERVER)
    parent, context = door.span.parent, door.span.get_span_context()
    assert parent is not None
    assert context is not None
    assert Context(parent.trace_id, parent.span_id) == CALLER
    assert [traced(query.trace) for query in door.door.queries] == [
        Context(context.trace_id, context.span_id)
    ]
    assert door.said[attributes.RPC_METHOD] == "Generate"
    assert door.said[attributes.INPUT_TOKENS] == 3
    assert door.said[attributes.RESPONSE_FINISH] == ("stop",)


def test_what_a_call_is_refused_for_is_in_its_span(door: Door) -> None:
    desk = Desk(config(), TracedDoor(door.door), Tokenizer(door.folder))

    async def go() -> None:
        async with calling(desk, TracedCalls(door.provider, "tiny")) as stub:
            with pytest.raises(grpc.aio.AioRpcError):
                await generated(stub, call("a", temperature=-1.0))

    asyncio.run(go())
    assert door.said[attributes.ERROR_TYPE] == "invalid_value"
    assert door.span.status.status_code is StatusCode.UNSET


def test_probes_are_not_traced(door: Door) -> None:
    app = Traced(make_app(Desk(config(), door.door, Tokenizer(door.folder))), door.provider, "tiny")

    async def go() -> int:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://door") as client:
            return (await client.get("/health")).status_code

    assert asyncio.run(go()) == 200
    assert door.memory.get_finished_spans() == ()
