"""Records become spans: who lies below whom, when, and what happens when nobody takes them."""

import threading
from collections.abc import Sequence

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from protocol import tracing
from protocol.runtime import traces_wanted
from protocol.spans import Context, Place, Span
from protocol.tracing import Tracer

OURS, OTHER = Context(0xAA, 0xBB), Context(0xCC, 0xDD)


def made(*batches: Sequence[Span], now: float = 100.0) -> dict[str, ReadableSpan]:
    """What a collector gets of records, by name."""
    memory = InMemorySpanExporter()
    tracer = Tracer("verifier", "verifier-0", memory, lambda: now)
    for batch in batches:
        tracer(batch)
    tracer.close()
    return {span.name: span for span in memory.get_finished_spans()}


def number(span: ReadableSpan) -> int:
    context = span.get_span_context()
    assert context is not None
    return context.span_id


def parent(span: ReadableSpan) -> int:
    assert span.parent is not None
    return span.parent.span_id


def test_a_span_without_a_parent_here_lies_below_the_one_of_the_other_process() -> None:
    [span] = made([Span(OURS, 1, "choice", 1.0, 2.5, {"spec.rounds": 3})]).values()
    assert (span.context and span.context.trace_id, parent(span)) == (0xAA, 0xBB)
    assert span.parent is not None
    assert span.parent.is_remote
    assert span.attributes == {"spec.rounds": 3}


def test_what_other_tracers_say_stays_with_every_span() -> None:
    theirs = OURS._replace(state="theirs=1,more=2")
    [span] = made([Span(theirs, 1, "choice", 1.0, 2.5, {})]).values()
    assert span.context is not None
    assert span.context.trace_state.to_header() == "theirs=1,more=2"


def test_children_may_come_before_their_parents_and_in_other_batches() -> None:
    spans = made(
        [Span(OURS, 1, "verify", 1.0, 2.0, {}, parent="decode")],
        [Span(OURS, 1, "decode", 0.5, 3.0, {}, parent="choice", key="decode")],
        [Span(OURS, 1, "choice", 0.0, 3.0, {}, key="choice", last=True)],
    )
    assert parent(spans["verify"]) == number(spans["decode"])
    assert parent(spans["decode"]) == number(spans["choice"])
    assert parent(spans["choice"]) == 0xBB


def test_two_scopes_have_spans_of_their_own_under_the_same_key() -> None:
    spans = made(
        [
            Span(OURS, 1, "one", 0.0, 1.0, {}, key="choice"),
            Span(OTHER, 2, "two", 0.0, 1.0, {}, key="choice"),
            Span(OTHER, 2, "below two", 0.0, 1.0, {}, parent="choice"),
        ]
    )
    assert number(spans["one"]) != number(spans["two"])
    assert parent(spans["below two"]) == number(spans["two"])


def test_a_link_leads_to_a_span_of_another_trace() -> None:
    step = Place(1, "step 0")
    spans = made(
        [
            Span(OTHER, 2, "verify", 0.0, 1.0, {}, links=((OURS, step),)),
            Span(OURS, 1, "step", 0.0, 1.0, {}, key="step 0"),
        ]
    )
    [link] = spans["verify"].links
    assert (link.context.trace_id, link.context.span_id) == (0xAA, number(spans["step"]))


def test_a_scope_that_is_over_is_forgotten_and_its_number_may_come_again() -> None:
    tracer = Tracer("verifier", "verifier-0", InMemorySpanExporter())
    for _ in range(100):
        tracer([Span(OURS, 1, "choice", 0.0, 1.0, {}, key="choice", last=True)])
    assert tracer._numbers == {}
    tracer.close()


def test_times_are_those_of_the_day_and_parts_lie_within_their_whole() -> None:
    times = iter([5_000_000_000_000, 5_000_000_001_000, 5_000_000_000_500, 5_000_010_000_000])
    memory = InMemorySpanExporter()
    tracer = Tracer("verifier", "v", memory, lambda: 100.0, lambda: next(times))
    for name in ("part", "whole", "after the day was set"):
        tracer([Span(OURS, 1, name, 99.0, 99.5, {})])
    tracer.close()
    seen = [(span.start_time, span.end_time) for span in memory.get_finished_spans()]
    first = (4_999_000_000_000, 4_999_500_000_000)
    assert seen == [first, first, (4_999_010_000_000, 4_999_510_000_000)]


class Deaf(SpanExporter):
    """A collector that takes a call and never answers it."""

    def __init__(self) -> None:
        self.called = threading.Event()
        self.never = threading.Event()

    def export(self, _spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.called.set()
        self.never.wait()
        return SpanExportResult.FAILURE

    def shutdown(self) -> None:
        self.never.wait()


def test_a_deaf_collector_delays_neither_the_work_nor_the_end() -> None:
    deaf = Deaf()
    tracer = Tracer("verifier", "verifier-0", deaf)
    tracer([Span(OURS, number, "verify", 0.0, 1.0, {}) for number in range(1000)])
    assert deaf.called.wait(10)
    tracer([Span(OURS, number, "verify", 0.0, 1.0, {}) for number in range(1000)])
    tracer.close(0.05)  # comes back although the collector does not
    deaf.never.set()


@pytest.mark.parametrize(
    ("endpoint", "environment", "wanted"),
    [
        ("", {}, False),
        ("http://collector:4317", {}, True),
        ("", {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4317"}, True),
        ("", {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4317"}, True),
        ("http://collector:4317", {"OTEL_SDK_DISABLED": "true"}, False),
        ("http://collector:4317", {"OTEL_TRACES_EXPORTER": "none"}, False),
        ("http://collector:4317", {"OTEL_TRACES_EXPORTER": "otlp"}, True),
    ],
)
def test_who_wants_traces_says_so_by_configuration_or_by_the_usual_variables(
    monkeypatch: pytest.MonkeyPatch, endpoint: str, environment: dict[str, str], wanted: bool
) -> None:
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert traces_wanted(endpoint) is wanted


def test_the_service_is_called_by_its_role_unless_the_environment_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OTEL_SERVICE_NAME", raising=False)
    known = tracing.resource("drafter", "drafter-3").attributes
    names = ("service.name", "service.instance.id", "service.namespace", "draftmesh.role")
    assert [known[name] for name in names] == ["drafter", "drafter-3", "draftmesh", "drafter"]
    monkeypatch.setenv("OTEL_SERVICE_NAME", "chat")
    assert tracing.resource("drafter", "drafter-3").attributes["service.name"] == "chat"


def test_http_is_spoken_where_the_environment_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
    over_http = tracing.exporter("http://127.0.0.1:4318")
    assert type(over_http).__module__.startswith("opentelemetry.exporter.otlp.proto.http")
    over_http.shutdown()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc")
    over_grpc = tracing.exporter("http://127.0.0.1:4317")
    assert type(over_grpc).__module__.startswith("opentelemetry.exporter.otlp.proto.grpc")
    over_grpc.shutdown()
