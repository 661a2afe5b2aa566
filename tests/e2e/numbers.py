"""The page of metrics read back into what the nodes had counted."""

from collections import defaultdict
from collections.abc import Mapping

import httpx
from prometheus_client import Metric as Family
from prometheus_client.parser import text_string_to_metric_families

from orchestrator.front.metric_table import METRICS, Metric
from protocol.messages import Facts, Histogram

Node = tuple[str, str]
"""Role and id."""


def read(url: str, key: str = "") -> Mapping[Node, Facts]:
    """What every node behind a front door had counted when it last reported."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    page = httpx.get(f"{url}/metrics", headers=headers)
    assert page.is_success, page.text
    families = {family.name: family for family in text_string_to_metric_families(page.text)}
    nodes: defaultdict[Node, Facts] = defaultdict(Facts)
    for metric in METRICS:
        if metric.name in families:
            _fill(nodes, metric, families[metric.name])
    return nodes


def _fill(nodes: defaultdict[Node, Facts], metric: Metric, family: Family) -> None:
    buckets: defaultdict[Node, list[tuple[str, float]]] = defaultdict(list)
    for sample in family.samples:
        assert sample.value == sample.value, sample  # a number
        labels = sample.labels
        node = (labels.get("role", "verifier"), labels.get("node") or labels["engine"])
        of = labels[metric.label] if metric.label else ""
        if metric.kind == "counter":
            nodes[node].counters.setdefault(metric.fact, {})[of] = int(sample.value)
        elif metric.kind == "gauge":
            nodes[node].gauges.setdefault(metric.fact, {})[of] = sample.value
        elif sample.name.endswith("_bucket"):
            buckets[node].append((labels["le"], sample.value))
        elif sample.name.endswith("_sum"):
            nodes[node].histograms[metric.fact] = Histogram((), (0,), sample.value)
    for node, counts in buckets.items():
        bounds = tuple(float(bound) for bound, _ in counts[:-1])
        each = [int(count) for _, count in counts]
        parts = tuple(b - a for a, b in zip([0, *each], each, strict=False))
        nodes[node].histograms[metric.fact] = Histogram(
            bounds, parts, nodes[node].histograms[metric.fact].total
        )
