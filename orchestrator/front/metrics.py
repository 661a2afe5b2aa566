"""How facts are written for Prometheus. Nothing is counted here.

Every number is as it was when its node last reported. A process that starts anew counts from zero, which Prometheus
knows as a reset; a node that is gone has no series.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client import Metric as Family
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from orchestrator.front.metric_table import KNOWN, METRICS, Metric
from protocol.messages import Histogram, Report


class Metrics:
    """The page. `reports` tells the newest of every node, `prefix` stands before the names that others know."""

    def __init__(
        self, reports: Callable[[], Sequence[Report]], model: str, prefix: str = KNOWN
    ) -> None:
        self._reports = reports
        self._model = model
        self._prefix = prefix

    async def answer(self, http: HttpRequest) -> Response:
        """`GET /metrics`."""
        body, kind = self.page(http.headers.get("accept", ""))
        return Response(body, media_type=kind)

    def page(self, accept: str = "") -> tuple[bytes, str]:
        """The text and its content type, in the format that the reader accepts."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Snapshot(self._reports(), self._model, self._prefix))
        encode, kind = choose_encoder(accept)
        return encode(registry), kind


class _Snapshot(Collector):
    """The families of one page."""

    def __init__(self, reports: Sequence[Report], model: str, prefix: str) -> None:
        self._reports = reports
        self._model = model
        self._prefix = prefix

    def collect(self) -> Iterator[Family]:
        for metric in METRICS:
            name = metric.name
            if metric.known:
                name = self._prefix + name.removeprefix(KNOWN)
            family = _FAMILIES[metric.kind](name, metric.text, labels=metric.labels)
            for report in self._reports:
                if metric.role in {"", report.role}:
                    first = self._model if metric.known else report.role
                    _fill(family, metric, report, [first, report.node_id])
            if family.samples:
                yield family


_FAMILIES: Final[
    Mapping[str, type[CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily]]
] = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
    "histogram": HistogramMetricFamily,
}


def _fill(
    family: CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily,
    metric: Metric,
    report: Report,
    whose: list[str],
) -> None:
    facts = report.facts
    if isinstance(family, HistogramMetricFamily):
        histogram = facts.histograms.get(metric.fact)
        if histogram is not None and len(histogram.counts) == len(histogram.bounds) + 1:
            family.add_metric(whose, _buckets(histogram), histogram.total)
        return
    source: Mapping[str, Mapping[str, float]] = (
        facts.counters if metric.kind == "counter" else facts.gauges
    )
    for label, value in source.get(metric.fact, {}).items():
        if bool(label) == bool(metric.label):
            family.add_metric([*whose, label] if label else whose, value)


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    """Prometheus counts what is at most a bound, not what is between two."""
    bounds = [*map(str, histogram.bounds), "+Inf"]
    return list(zip(bounds, accumulate(map(float, histogram.counts)), strict=True))
