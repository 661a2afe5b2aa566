"""What is asked of Prometheus, by alerts and by the dashboard, is what is counted."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator.front.metric_table import METRICS, Metric

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "draftmesh"
NAME = re.compile(r"(?:vllm:|draftmesh_)\w+")
SELECTED = re.compile(r"((?:vllm:|draftmesh_)\w+)\{([^}]*)\}")
GROUPED = re.compile(r"by \(([^)]*)\)")


def alerts() -> list[dict[str, Any]]:
    said = yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())
    return [rule for group in said["groups"] for rule in group["rules"]]


def queries() -> Iterator[str]:
    yield from (rule["expr"] for rule in alerts())
    board = json.loads((CHART / "files" / "dashboard.json").read_text())
    for panel in board["panels"]:
        yield from (target["expr"] for target in panel["targets"])


def series() -> dict[str, Metric]:
    """By every name that a page has."""
    made = {metric.shown: metric for metric in METRICS}
    for metric in METRICS:
        if metric.kind == "histogram":
            made |= {f"{metric.shown}_{end}": metric for end in ("bucket", "sum", "count")}
    return made


@pytest.mark.parametrize("query", tuple(queries()))
def test_every_query_asks_for_series_and_labels_that_there_are(query: str) -> None:
    known = series()
    names = NAME.findall(query)
    assert names
    assert set(names) <= known.keys()
    for name, matchers in SELECTED.findall(query):
        labels = set(re.findall(r"(\w+)=", matchers))
        assert labels <= set(known[name].labels), name
    there = {label for name in names for label in known[name].labels} | {"le"}
    for group in GROUPED.findall(query):
        assert set(group.split(", ")) <= there, query


@pytest.mark.parametrize("query", tuple(queries()))
def test_every_query_is_in_balance(query: str) -> None:
    for opening, closing in ("()", "{}", "[]"):
        assert query.count(opening) == query.count(closing)
    for counter in re.findall(r"((?:vllm:|draftmesh_)\w+_total)", query):
        assert re.search(rf"rate\({counter}(\{{[^}}]*\}})?\[\d+m\]\)", query), "a count only grows"


def test_alerts_say_how_bad_it_is_and_what() -> None:
    assert len({rule["alert"] for rule in alerts()}) == len(alerts()) >= 8
    for rule in alerts():
        assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        assert rule["annotations"]["summary"]
