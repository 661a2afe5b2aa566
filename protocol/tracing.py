"""Traces by the OpenTelemetry SDK. Imported only where traces are wanted: it costs time and threads.

What cores recorded becomes spans here, after the work was done and said. Exporting is the batch processor's thread;
a collector that is slow, dead or away costs spans, and the end of a process at most `FLUSH` seconds.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Final
from urllib.parse import urlsplit

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, TraceFlags, TraceState

from protocol.attributes import SCHEMA
from protocol.span_files import FileExporter
from protocol.spans import Context, Place, Span, folder_of

log = logging.getLogger(__name__)

FLUSH: Final = 2.0
"""Seconds that the last spans have to leave, when a process ends."""
EXPORT: Final = 3.0
"""Seconds that one attempt to export may take, unless the environment says otherwise."""
FILED: Final = 500.0
"""Milliseconds that spans wait on their way to a file: whoever asks for the last trace is at the terminal."""
NANO: Final = 1_000_000_000
DRIFT: Final = 5_000_000
"""Nanoseconds by which the time of day must have been set before spans follow it: parts must lie within their whole."""
SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)


def exporter(endpoint: str) -> SpanExporter:
    """OTLP over gRPC, or over HTTP where `OTEL_EXPORTER_OTLP_PROTOCOL` says so; no endpoint: the environment's.

    An endpoint that begins with `file://` is a folder of this machine.
    """
    if (folder := folder_of(endpoint)) is not None:
        return FileExporter(folder)
    timeouts = {"OTEL_EXPORTER_OTLP_TIMEOUT", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT"}
    timeout = None if timeouts & os.environ.keys() else EXPORT
    if protocol_wanted().startswith("http"):
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
            OTLPSpanExporter as HttpExporter,
        )

        if endpoint and urlsplit(endpoint).path in {"", "/"}:
            endpoint = endpoint.rstrip("/") + "/v1/traces"
        return HttpExporter(endpoint=endpoint or None, timeout=timeout)
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (  # noqa: PLC0415
        OTLPSpanExporter as GrpcExporter,
    )

    return GrpcExporter(endpoint=endpoint or None, timeout=timeout)


def processor(spans: SpanExporter) -> BatchSpanProcessor:
    """What hands spans on from a thread of its own, as the `OTEL_BSP_` variables say."""
    said = "OTEL_BSP_SCHEDULE_DELAY" in os.environ or not isinstance(spans, FileExporter)
    return BatchSpanProcessor(spans, schedule_delay_millis=None if said else FILED)


def protocol_wanted() -> str:
    general = os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    return os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", general)


def resource(role: str, node_id: str) -> Resource:
    """Who speaks. `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` are honoured; the rest tells nodes apart."""
    ours = {
        "service.instance.id": node_id,
        "service.version": release(),
        "draftmesh.role": role,
    }
    named = "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    if not named and "OTEL_SERVICE_NAME" not in os.environ:
        ours["service.name"] = role
    if "service.namespace=" not in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", ""):
        ours["service.namespace"] = "draftmesh"
    return Resource.create(ours, SCHEMA)


def release() -> str:
    """What is installed; in a checkout that is not, nothing is known."""
    try:
        return version("draftmesh")
    except PackageNotFoundError:
        return "unknown"


def close(shutdown: Callable[[], None], seconds: float = FLUSH) -> None:
    """Send what is left; what does not leave in time is lost."""
    thread = threading.Thread(target=shutdown, name="traces", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        log.warning("the last spans could not be sent within %g s", seconds)


class Tracer:
    """Makes spans of what cores recorded. `clock` is the one by which they did, `day` tells the time in nanoseconds.

    Finished spans are given to the processor as such: beginning and ending each of them costs fifteen times as much,
    and the decision what is sampled fell at the front door.
    """

    def __init__(
        self,
        role: str,
        node_id: str,
        spans: SpanExporter,
        clock: Callable[[], float] = time.monotonic,
        day: Callable[[], int] = time.time_ns,
    ) -> None:
        self._resource = resource(role, node_id)
        self._scope = InstrumentationScope("draftmesh", release(), SCHEMA)
        self._processor = processor(spans)
        self._clock = clock
        self._day = day
        self._offset = self._measured()
        self._draw = RandomIdGenerator().generate_span_id
        self._numbers: dict[Hashable, dict[str, int]] = {}  # by scope, by key

    def __call__(self, spans: Sequence[Span]) -> None:
        """Take records, in any order; whatever they name is found as long as its scope lives."""
        offset = self._measured()
        if abs(offset - self._offset) > DRIFT:
            self._offset = offset
        for span in spans:
            self._processor.on_end(self._made(span))
        for span in spans:
            if span.last:
                self._numbers.pop(span.scope, None)

    def close(self, seconds: float = FLUSH) -> None:
        close(self._processor.shutdown, seconds)

    def _measured(self) -> int:
        """Nanoseconds from the clock to the time of day."""
        return self._day() - int(self._clock() * NANO)

    def _made(self, span: Span) -> ReadableSpan:
        trace_number, above, state = span.context
        if span.parent:
            above = self._number(span.scope, span.parent)
        number = self._number(span.scope, span.key) if span.key else self._draw()
        return ReadableSpan(
            name=span.name,
            context=SpanContext(
                trace_number,
                number,
                is_remote=False,
                trace_flags=SAMPLED,
                trace_state=_others(state),
            ),
            parent=SpanContext(trace_number, above, is_remote=not span.parent, trace_flags=SAMPLED),
            resource=self._resource,
            attributes=span.attributes,
            links=[self._link(context.trace, place) for context, place in span.links],
            events=[
                Event(each.name, each.attributes, int(each.at * NANO) + self._offset)
                for each in span.events
            ],
            start_time=int(span.start * NANO) + self._offset,
            end_time=int(span.end * NANO) + self._offset,
            instrumentation_scope=self._scope,
        )

    def _link(self, trace_number: int, place: Place) -> Link:
        number = self._number(place.scope, place.key)
        return Link(SpanContext(trace_number, number, is_remote=False, trace_flags=SAMPLED))

    def _number(self, scope: Hashable, key: str) -> int:
        """Given out when somebody names the span first, be it as a parent or in a link."""
        numbers = self._numbers.setdefault(scope, {})
        if key not in numbers:
            numbers[key] = self._draw()
        return numbers[key]


@lru_cache(maxsize=64)
def _others(state: str) -> TraceState | None:
    return TraceState.from_header([state]) if state else None


def context_of(span: trace.Span) -> Context:
    """Where other processes may go on."""
    known = span.get_span_context()
    return Context(known.trace_id, known.span_id, known.trace_state.to_header())
