"""An OpenTelemetry collector in this process: a real gRPC server that keeps what it hears."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (
    TraceServiceServicer,
    add_TraceServiceServicer_to_server,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue


@dataclass(frozen=True)
class Heard:
    """A span as it came over the wire; numbers of spans in hexadecimal, no parent is empty."""

    service: str
    instance: str
    name: str
    trace: str
    number: str
    parent: str
    start: int
    end: int
    attributes: Mapping[str, Any]
    links: tuple[str, ...]
    kind: int
    failed: bool
    state: str


@dataclass
class Collector(TraceServiceServicer):
    """`spans` in the order in which they came."""

    spans: list[Heard] = field(default_factory=list)
    port: int = 0

    def Export(  # noqa: N802  # the name in the protocol
        self, request: ExportTraceServiceRequest, _context: grpc.ServicerContext
    ) -> ExportTraceServiceResponse:
        for each in request.resource_spans:
            about = _plain(each.resource.attributes)
            for scope in each.scope_spans:
                for span in scope.spans:
                    self.spans.append(
                        Heard(
                            service=about["service.name"],
                            instance=about["service.instance.id"],
                            name=span.name,
                            trace=span.trace_id.hex(),
                            number=span.span_id.hex(),
                            parent=span.parent_span_id.hex(),
                            start=span.start_time_unix_nano,
                            end=span.end_time_unix_nano,
                            attributes=_plain(span.attributes),
                            links=tuple(link.span_id.hex() for link in span.links),
                            kind=span.kind,
                            failed=span.status.code == 2,
                            state=span.trace_state,
                        )
                    )
        return ExportTraceServiceResponse()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def of(self, trace: str) -> list[Heard]:
        return [span for span in self.spans if span.trace == trace]


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector on a port that the system picks."""
    collector = Collector()
    server = grpc.server(ThreadPoolExecutor(2), options=[("grpc.so_reuseport", 0)])
    add_TraceServiceServicer_to_server(collector, server)  # type: ignore[no-untyped-call]
    collector.port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield collector
    finally:
        server.stop(None).wait()


def _plain(attributes: Sequence[KeyValue]) -> dict[str, Any]:
    return {each.key: _value(each.value) for each in attributes}


def _value(value: AnyValue) -> Any:  # noqa: ANN401
    which = value.WhichOneof("value")
    if which == "array_value":
        return [_value(each) for each in value.array_value.values]
    return getattr(value, which) if which else None
