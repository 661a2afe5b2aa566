"""The front door's part of a trace: one server span a request, which is over when the last byte has left.

The span is begun by the outermost layer of the HTTP side and found by the innermost, where prompts leave for the mesh:
so neither schemas nor answers know of traces. Whether a request is traced is decided here for all processes.
"""

import time
from collections.abc import AsyncIterator, Callable, Mapping, MutableMapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Final

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.types import ASGIApp, Receive, Scope, Send

from orchestrator import __version__
from orchestrator.front import messages
from orchestrator.front.errors import ApiError
from orchestrator.front.generation import Door
from orchestrator.front.messages import Failure, Query, Reply
from protocol import attributes
from protocol.messages import Done, Emit
from protocol.spans import traceparent
from protocol.tracing import context_of, processor, resource

OPERATIONS: Final = {"/v1/chat/completions": "chat", "/v1/completions": "text_completion"}
"""Routes that are traced, and what the GenAI conventions call them."""
SERVER_ERROR: Final = 500

_PROPAGATOR: Final = TraceContextTextMapPropagator()


class _Story:
    """A request that is traced."""

    def __init__(self, span: Span) -> None:
        self.span = span
        self.trace = traceparent(context_of(span))
        self._begun = time.monotonic()
        self._first = True
        self._asked = 0
        self._prompts: dict[int, Done] = {}
        self._output = 0
        self._reasons: list[str] = []
        self._failed = False

    def asks(self, query: Query) -> int:
        """A prompt leaves for the mesh; its number."""
        if not self._asked:
            sampling, ending = query.sampling, query.ending
            self.span.set_attributes(
                {
                    attributes.REQUEST_MAX_TOKENS: ending.max_tokens,
                    attributes.REQUEST_TEMPERATURE: sampling.temperature,
                    attributes.REQUEST_TOP_P: sampling.top_p,
                    attributes.REQUEST_TOP_K: sampling.top_k,
                    attributes.REQUEST_SEED: _seed(sampling.seed),
                    attributes.REQUEST_STOP: ending.stop,
                    attributes.REQUEST_CHOICES: query.choices,
                }
            )
        self._asked += 1
        return self._asked

    def hears(self, prompt: int, reply: Reply) -> None:
        if self._first and isinstance(reply, Emit):
            self._first = False
            seconds = time.monotonic() - self._begun
            self.span.set_attribute(attributes.RESPONSE_FIRST_CHUNK, seconds)
        match reply:
            case Done():
                self._prompts.setdefault(prompt, reply)
                self._output += reply.output_tokens
                self._reasons.append(reply.reason)
            case Failure():
                self.fails(
                    reply.code or str(reply.status), reply.text, server=reply.status >= SERVER_ERROR
                )
            case Emit():
                pass

    def fails(self, kind: str, text: str, *, server: bool) -> None:
        self._failed = True
        self.span.set_attribute(attributes.ERROR_TYPE, kind)
        if server:
            self.span.set_status(Status(StatusCode.ERROR, text))

    def refuses(self, error: ApiError) -> None:
        """The request ends with it, if nothing was said of a fault yet."""
        if not self._failed:
            kind = error.code or str(error.status)
            self.fails(kind, error.text, server=error.status >= SERVER_ERROR)

    def ends(self, status: int = 0) -> None:
        """The last byte has left, or the client has; `status` is HTTP's, where that was spoken."""
        self.span.set_attributes(
            {
                attributes.INPUT_TOKENS: sum(d.prompt_tokens for d in self._prompts.values()),
                attributes.CACHED_TOKENS: sum(
                    d.statistics.cached_tokens for d in self._prompts.values()
                ),
                attributes.OUTPUT_TOKENS: self._output,
                attributes.RESPONSE_FINISH: self._reasons,
            }
        )
        if status:
            self.span.set_attribute(attributes.HTTP_STATUS, status)
        if status >= SERVER_ERROR and not self._failed:
            self.fails(str(status), "", server=True)
        self.span.end()


def _seed(seed: int) -> int | str:
    """OTLP has whole numbers of 63 bits and a sign."""
    return seed if seed < 1 << 63 else str(seed)


_STORY: Final[ContextVar[_Story | None]] = ContextVar("story", default=None)


def provider(node_id: str, spans: SpanExporter) -> TracerProvider:
    """Samples as `OTEL_TRACES_SAMPLER` says; the default is everything whose caller does not say no."""
    made = TracerProvider(resource=resource("front", node_id), shutdown_on_exit=False)
    made.add_span_processor(processor(spans))
    return made


def tracer(traces: TracerProvider) -> Tracer:
    return traces.get_tracer("draftmesh", __version__, schema_url=attributes.SCHEMA)


def begun(
    tracer: Tracer, operation: str, model: str, headers: Mapping[str, str], about: Mapping[str, Any]
) -> Span:
    """The span of a request; what its caller says of a trace is in the headers."""
    of_model = {
        attributes.OPERATION: operation,
        attributes.PROVIDER: "draftmesh",
        attributes.REQUEST_MODEL: model,
        attributes.RESPONSE_MODEL: model,
    }
    return tracer.start_span(
        f"{operation} {model}",
        context=_PROPAGATOR.extract(headers),
        kind=SpanKind.SERVER,
        attributes={**of_model, **about},
    )


class Traced:
    """An ASGI layer around the whole app."""

    def __init__(self, app: ASGIApp, traces: TracerProvider, model: str) -> None:
        self._app = app
        self._model = model
        self._tracer = tracer(traces)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        operation = OPERATIONS.get(scope.get("path", "")) if scope["type"] == "http" else None
        if operation is None or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        span = self._begin(scope, operation)
        if not span.is_recording():
            await self._app(scope, receive, send)
            return
        story = _Story(span)
        status = 0

        async def watched(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                kinds = [value for name, value in message["headers"] if name == b"content-type"]
                streams = any(kind.startswith(b"text/event-stream") for kind in kinds)
                span.set_attribute(attributes.REQUEST_STREAM, streams)
            await send(message)

        token = _STORY.set(story)
        try:
            await self._app(scope, receive, watched)
        finally:
            _STORY.reset(token)
            story.ends(status)

    def _begin(self, scope: Scope, operation: str) -> Span:
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        about = {
            attributes.HTTP_METHOD: scope["method"],
            attributes.HTTP_ROUTE: scope["path"],
            attributes.URL_PATH: scope["path"],
            attributes.URL_SCHEME: scope["scheme"],
        }
        if scope.get("client"):
            about[attributes.CLIENT_ADDRESS] = scope["client"][0]
        return begun(self._tracer, operation, self._model, headers, about)


class TracedCalls:
    """The same around gRPC calls: `orchestrator.front.rpc.servicer.Story`."""

    def __init__(self, traces: TracerProvider, model: str) -> None:
        self._model = model
        self._tracer = tracer(traces)

    @asynccontextmanager
    async def __call__(self, peer: str, headers: Mapping[str, str]) -> AsyncIterator[None]:
        about = {
            attributes.RPC_SYSTEM: "grpc",
            attributes.RPC_SERVICE: "draftmesh.v1.Inference",
            attributes.RPC_METHOD: "Generate",
            attributes.REQUEST_STREAM: True,
            attributes.CLIENT_ADDRESS: peer,
        }
        span = begun(self._tracer, "text_completion", self._model, headers, about)
        if not span.is_recording():
            yield
            return
        story = _Story(span)
        token = _STORY.set(story)
        try:
            yield
        except ApiError as error:
            story.refuses(error)
            raise
        finally:
            _STORY.reset(token)
            story.ends()


class TracedDoor:
    """Keeps the contract of `orchestrator.front.generation.Door`: tells the mesh of the trace, and hears what comes."""

    def __init__(self, door: Door) -> None:
        self._door = door

    def submit(self, query: Query, listener: Callable[[Reply], None]) -> int:
        story = _STORY.get()
        if story is None:
            return self._door.submit(query, listener)
        prompt = story.asks(query)

        def heard(reply: Reply) -> None:
            story.hears(prompt, reply)
            listener(reply)

        return self._door.submit(replace(query, trace=story.trace), heard)

    def abort(self, ticket: int) -> None:
        self._door.abort(ticket)

    def status(self) -> messages.Status:
        return self._door.status()
