"""How facts are written for Prometheus."""

import asyncio
import re
from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from prometheus_client.parser import text_string_to_metric_families

from orchestrator.front.metric_table import METRICS
from orchestrator.front.metrics import Metrics
from orchestrator.front.server import address, listen
from orchestrator.front.watch import Watch
from protocol.facts import level, one
from protocol.messages import Facts, Histogram, Limits, Report
from tests.orchestrator.fakes import Rig, config
from tests.orchestrator.metric_table import BEGIN, END, FILE, table
from tests.verifier.test_core import DRAFTER
from tests.verifier.test_core import Rig as Verifier

Labels = Mapping[str, str]


def page(*reports: Report, prefix: str = "vllm:") -> dict[str, list[tuple[Labels, float]]]:
    """Samples by name, as a scraper reads them."""
    text = Metrics(lambda: reports, "tiny", prefix).page()[0].decode()
    samples: dict[str, list[tuple[Labels, float]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            samples.setdefault(sample.name, []).append((sample.labels, sample.value))
    return samples


def of_verifier(facts: Facts, node_id: str = "verifier-0") -> Report:
    return Report(node_id, "verifier", 1, facts)


def test_without_reports_there_are_no_series() -> None:
    assert page() == {}


def test_known_names_have_the_labels_that_dashboards_expect() -> None:
    found = page(of_verifier(Facts({"drafts": one(3), "accepted_at": {"0": 2, "1": 1}})))
    whose = {"model_name": "tiny", "engine": "verifier-0"}
    assert found == {
        "vllm:spec_decode_num_drafts_total": [(whose, 3.0)],
        "vllm:spec_decode_num_accepted_tokens_per_pos_total": [
            ({**whose, "position": "0"}, 2.0),
            ({**whose, "position": "1"}, 1.0),
        ],
    }


def test_verifiers_are_told_apart() -> None:
    both = of_verifier(Facts({"drafts": one(3)})), of_verifier(Facts({"drafts": one(4)}), "v-1")
    values = {
        labels["engine"]: value
        for labels, value in page(*both)["vllm:spec_decode_num_drafts_total"]
    }
    assert values == {"verifier-0": 3.0, "v-1": 4.0}


def test_our_own_names_say_role_and_node() -> None:
    report = Report("drafter-0", "drafter", 1, Facts({"guesses": one(9)}, {"mirrors": level(2)}))
    whose = {"role": "drafter", "node": "drafter-0"}
    assert page(report) == {
        "draftmesh_guesses_total": [(whose, 9.0)],
        "draftmesh_mirrors": [(whose, 2.0)],
    }


def test_buckets_are_cumulative_and_end_in_infinity() -> None:
    histogram = Histogram((0.5, 1.0), (1, 2, 3), 7.25)
    found = page(of_verifier(Facts(histograms={"whole_seconds": histogram})))
    name = "vllm:e2e_request_latency_seconds"
    buckets = [(labels["le"], value) for labels, value in found[f"{name}_bucket"]]
    assert buckets == [("0.5", 1.0), ("1.0", 3.0), ("+Inf", 6.0)]
    assert found[f"{name}_count"][0][1] == 6.0
    assert found[f"{name}_sum"][0][1] == 7.25


def test_the_known_names_may_have_another_prefix() -> None:
    report = of_verifier(Facts({"drafts": one(3), "steps": one(1)}))
    assert [*page(report, prefix="mesh_")] == [
        "mesh_spec_decode_num_drafts_total",
        "draftmesh_steps_total",
    ]


@pytest.mark.parametrize(
    "facts",
    [
        Facts({"unheard_of": one(1)}, {"neither": level(1)}, {"nor": Histogram((), (1,))}),
        Facts(histograms={"whole_seconds": Histogram((1.0,), (1,))}),
        Facts({"drafts": {"label": 1}, "accepted_at": {"": 1}}),
    ],
)
def test_facts_that_this_version_does_not_know_are_left_out(facts: Facts) -> None:
    assert page(of_verifier(facts)) == {}


def test_strange_labels_do_not_break_the_page() -> None:
    strange = 'a "b"\n\\c{}='
    found = page(of_verifier(Facts({"drafted_by": {strange: 1}}), strange))
    [(labels, _)] = found["draftmesh_drafted_tokens_total"]
    assert (labels["drafter"], labels["node"]) == (strange, strange)


def test_a_reader_that_asks_for_openmetrics_gets_it() -> None:
    metrics = Metrics(lambda: [of_verifier(Facts({"drafts": one(3)}))], "tiny")
    body, kind = metrics.page("application/openmetrics-text; version=1.0.0")
    assert kind.startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")
    assert metrics.page("*/*")[1].startswith("text/plain")


def test_every_fact_of_a_verifier_has_a_metric() -> None:
    """Whoever counts something new says where it is shown."""
    verifier = Verifier(Limits())
    verifier.submit(max_tokens=30)
    verifier.step()
    verifier.says(DRAFTER)
    verifier.tail(1, 1, 5, 6, 7)
    verifier.step()
    facts = verifier.core.facts()
    shown = {each.fact for each in METRICS if each.role in {"", "verifier"}}
    assert {*facts.counters, *facts.gauges, *facts.histograms} <= shown


def test_names_are_different_and_legal() -> None:
    names = [each.shown for each in METRICS]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z_:][a-z0-9_:]*", name) for name in names)
    assert all(
        each.text and each.text[0].isupper() and not each.text.endswith(".") for each in METRICS
    )


def test_the_table_in_the_docs_is_the_table_in_the_code() -> None:
    text = FILE.read_text(encoding="utf-8")
    shown = text[text.index(BEGIN) + len(BEGIN) : text.index(END)]
    assert shown.strip() == table().strip(), "run python -m tests.orchestrator.metric_table"


# --- the page over HTTP ----------------------------------------------------------------------------------------------


def fetch(path: str, **fields: Any) -> httpx.Response:
    """What a front door without verifiers answers."""
    app = Watch(config(**fields), Rig(**fields).node).around(FastAPI(openapi_url=None))

    async def go() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://door") as client:
            return await client.get(path)

    return asyncio.run(go())


def test_the_page_tells_of_the_front_door_itself() -> None:
    answer = fetch("/metrics")
    assert answer.status_code == 200
    assert 'draftmesh_verifiers_live{node="front-0",role="front"} 0.0' in answer.text.splitlines()


def test_a_page_that_is_not_open_is_not_there() -> None:
    assert fetch("/metrics", metrics_open=False).status_code == 404


def test_a_port_of_its_own_answers_the_page_and_nothing_else() -> None:
    async def go() -> list[int]:
        page = listen("127.0.0.1", 0)
        watch = Watch(config(metrics_open=False), Rig().node)
        app = watch.around(FastAPI(openapi_url=None))
        watch.start(page)
        base = address("127.0.0.1", page)
        transport = httpx.ASGITransport(app=app)
        async with (
            httpx.AsyncClient(base_url=base) as other,
            httpx.AsyncClient(transport=transport, base_url="http://door") as api,
        ):
            answers = [await other.get("/metrics"), await other.get("/v1/models")]
            answers.append(await api.get("/metrics"))
        await watch.close()
        with pytest.raises(httpx.ConnectError):
            async with httpx.AsyncClient(base_url=base) as other:
                await other.get("/metrics")
        return [answer.status_code for answer in answers]

    assert asyncio.run(go()) == [200, 404, 404]


def test_the_front_door_knows_what_verifiers_reported() -> None:
    rig = Rig(lambda _submit: ())
    endpoint = rig.verifiers["verifier-0"].endpoint
    [link] = endpoint.links
    facts = Facts({"drafts": one(5)})
    endpoint.send(link, [Report("verifier-0", "verifier", 1, facts)], rig.now)
    rig.run(1.0)
    own, verifier = rig.node.reports()
    assert (own.role, own.node_id, own.facts.gauges["verifiers"]) == ("front", "front-0", level(1))
    assert verifier.facts == facts
    assert rig.core.counters["messages_unexpected"] == 0
    rig.kill("verifier-0")
    rig.run(5.0)
    assert [each.role for each in rig.node.reports()] == ["front"]
