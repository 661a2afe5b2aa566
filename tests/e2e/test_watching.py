"""A service as those see it who watch: its metrics add up, and one trace goes through all of its processes."""

import secrets
import socket
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from orchestrator.front.metric_table import METRICS
from protocol import attributes
from tests.e2e.collector import Collector, Heard, collecting
from tests.e2e.service import Service, until, up
from tests.models import write_byte_llama

PROMPT = [ord(letter) % 200 + 5 for letter in "one two three one two three one two three one"]
TOKENS = 60


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("target")
    write_byte_llama(folder)
    return folder


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with collecting() as running:
        yield running


@pytest.fixture(scope="module")
def service(
    target: Path, collector: Collector, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("service")
    drafter = ("--drafters", "1", "--method", "standalone", "--draft", str(target))
    flags = (*drafter, "--dtype", "float32", "--draft-length", "4")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        patch.setenv(
            "DRAFTMESH_VERIFIER__PLANNER__NAME", "fixed"
        )  # so small a target needs no drafts
        with up(str(target), folder, *flags, "--otlp-traces-endpoint", collector.url) as running:
            yield running


def ask(service: Service, traceparent: str = "", **body: Any) -> dict[str, Any]:
    asked = {"prompt": PROMPT, "max_tokens": TOKENS, "temperature": 0, "ignore_eos": True}
    headers = {"traceparent": traceparent, "tracestate": "theirs=1"} if traceparent else {}
    answer = httpx.post(
        f"{service.url}/v1/completions", json=asked | body, headers=headers, timeout=60
    )
    answer.raise_for_status()
    whole: dict[str, Any] = answer.json()
    return whole


def numbers(service: Service) -> dict[str, float]:
    """Samples by name, those of all labels together."""
    page = httpx.get(f"{service.url}/metrics").text
    found: dict[str, float] = defaultdict(float)
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            assert sample.value == sample.value, sample
            found[sample.name] += sample.value
    return dict(found)


def test_before_traffic_every_number_is_there_and_zero(service: Service) -> None:
    until(lambda: "vllm:spec_decode_num_drafts_total" in numbers(service), "reports came", 20.0)
    until(lambda: "draftmesh_guesses_total" in numbers(service), "drafters are told of", 20.0)
    found = numbers(service)
    for name in ("num_drafts", "num_draft_tokens", "num_accepted_tokens"):
        assert found[f"vllm:spec_decode_{name}_total"] == 0
    assert found["vllm:spec_decode_num_accepted_tokens_per_pos_total"] == 0
    assert found["vllm:e2e_request_latency_seconds_count"] == 0
    assert found["draftmesh_drafters_live"] == found["draftmesh_verifiers_live"] == 1


def test_after_traffic_the_numbers_are_those_of_the_answers(service: Service) -> None:
    before = numbers(service)
    statistics = Counter[str]()
    for _ in range(3):
        told = ask(service)["choices"][0]["draftmesh"]
        statistics.update({name: told[name] for name in ("rounds", "drafted", "accepted")})

    def grown(name: str) -> float:
        return found[name] - before[name]

    until(
        lambda: (
            numbers(service)["vllm:request_success_total"] - before["vllm:request_success_total"]
            >= 3
        ),
        "counted",
    )
    found = numbers(service)
    assert grown("vllm:generation_tokens_total") == 3 * TOKENS
    assert grown("vllm:prompt_tokens_total") == 3 * len(PROMPT)
    assert grown("draftmesh_rounds_total") == statistics["rounds"]
    assert grown("vllm:spec_decode_num_draft_tokens_total") == statistics["drafted"] > 0
    assert grown("vllm:spec_decode_num_accepted_tokens_total") == statistics["accepted"] > 0
    assert grown("draftmesh_accepted_tokens_total") == statistics["accepted"]
    emitted = statistics["accepted"] + statistics["rounds"] - grown("draftmesh_cut_tokens_total")
    assert emitted == 3 * TOKENS
    assert grown("vllm:time_to_first_token_seconds_count") == 3
    assert found["vllm:num_requests_running"] == found["vllm:num_requests_waiting"] == 0


def test_every_metric_of_the_table_is_shown(service: Service) -> None:
    ask(service)
    until(lambda: "draftmesh_round_trip_seconds" in numbers(service), "beats went both ways", 20.0)
    names = {name.removesuffix("_count") for name in numbers(service)}
    absent = {each.shown for each in METRICS} - names
    only_in_trouble = {
        "draftmesh_links_ended_total",
        "draftmesh_lossy_tokens_total",
        "draftmesh_prompts_failed_total",
        "draftmesh_requests_refused_total",
    }
    only_with_planners_that_calibrate = {"draftmesh_calibration_error"}
    only_with_prefill_nodes = {each.shown for each in METRICS if each.role == "prefill"}
    assert absent <= only_in_trouble | only_with_planners_that_calibrate | only_with_prefill_nodes


# --- traces ------------------------------------------------------------------------------------------------------


def traced(
    service: Service, collector: Collector, **body: Any
) -> tuple[str, list[Heard], dict[str, Any]]:
    """The caller's span, and all spans of its trace when all three processes have told theirs."""
    trace, caller = secrets.token_hex(16), secrets.token_hex(8)
    answer = ask(service, f"00-{trace}-{caller}-01", **body)
    ends = {attributes.CHOICE, attributes.MIRROR, "text_completion"}

    def all_there() -> bool:
        names = [span.name.split(" /")[0] for span in collector.of(trace)]
        return ends <= set(names) and names.count(attributes.CHOICE) >= body.get("n", 1)

    until(all_there, "all processes told of the trace", 20.0)
    return caller, collector.of(trace), answer


def named(spans: list[Heard], name: str) -> list[Heard]:
    return [span for span in spans if span.name == name]


def test_one_trace_goes_through_front_door_verifier_and_drafter(
    service: Service, collector: Collector
) -> None:
    caller, spans, answer = traced(service, collector)
    assert {span.service for span in spans} == {"front", "verifier", "drafter"}
    assert {span.instance for span in spans} == {"front-0", "verifier-0", "drafter-0"}
    assert {span.state for span in spans} == {"theirs=1"}
    [door] = [span for span in spans if span.service == "front"]
    [choice], [mirror] = named(spans, attributes.CHOICE), named(spans, attributes.MIRROR)
    assert (door.parent, choice.parent, mirror.parent) == (caller, door.number, door.number)
    texts = named(spans, attributes.DETOKENISE)
    assert sum(span.attributes[attributes.EMITTED] for span in texts) == TOKENS
    for name in (attributes.QUEUE, attributes.PREFILL, attributes.DECODE):
        [part] = named(spans, name)
        assert part.parent == choice.number
        assert choice.start <= part.start <= part.end <= choice.end
    [decode] = named(spans, attributes.DECODE)
    rounds = [span for span in named(spans, attributes.VERIFY) if span.parent == decode.number]
    told = answer["choices"][0]["draftmesh"]
    assert len(rounds) == told["rounds"] - 1  # the first belongs to the prompt
    assert sum(span.attributes[attributes.ACCEPTED] for span in rounds) == told["accepted"]
    steps = {span.number: span for span in named(spans, attributes.STEP)}
    assert all(span.links[0] in steps for span in rounds)
    drafts = named(spans, attributes.DRAFT)
    assert {span.parent for span in drafts} == {mirror.number}
    assert sum(span.attributes[attributes.GUESSES] for span in drafts) >= told["accepted"]
    numbers_given = [span.number for span in spans]
    assert len(set(numbers_given)) == len(numbers_given)


def test_the_drafter_works_while_the_verifier_does(service: Service, collector: Collector) -> None:
    """It runs ahead: what it guesses beyond a window is guessed while that is verified."""
    _, spans, _ = traced(service, collector)
    drafts, rounds = named(spans, attributes.DRAFT), named(spans, attributes.VERIFY)
    assert any(
        draft.start < verified.end and verified.start < draft.end
        for draft in drafts
        for verified in rounds
    )


def test_the_server_span_says_what_was_asked_and_what_came(
    service: Service, collector: Collector
) -> None:
    _, spans, _ = traced(service, collector, temperature=0.5, seed=7, n=2)
    [door] = [span for span in spans if span.service == "front"]
    said = door.attributes
    assert door.kind == 2  # a server
    assert said[attributes.OPERATION] == "text_completion"
    assert (said[attributes.REQUEST_TEMPERATURE], said[attributes.REQUEST_SEED]) == (0.5, 7)
    assert said[attributes.REQUEST_CHOICES] == 2
    assert said[attributes.INPUT_TOKENS] == len(PROMPT)
    assert said[attributes.OUTPUT_TOKENS] == 2 * TOKENS
    assert said[attributes.RESPONSE_FINISH] == ["length", "length"]
    assert said[attributes.HTTP_STATUS] == 200
    assert len(named(spans, attributes.CHOICE)) == 2


def test_a_caller_that_does_not_sample_is_obeyed_by_all(
    service: Service, collector: Collector
) -> None:
    trace = secrets.token_hex(16)
    ask(service, f"00-{trace}-{secrets.token_hex(8)}-00")
    traced(service, collector)  # by now the other one would be here too
    assert collector.of(trace) == []


def test_a_collector_that_never_answers_delays_nothing(target: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=1) as deaf:
        endpoint = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        flags = ("--drafters", "0", "--dtype", "float32", "--otlp-traces-endpoint", endpoint)
        with up(str(target), tmp_path, *flags) as service:
            for _ in range(3):
                assert ask(service)["usage"]["completion_tokens"] == TOKENS
            service.interrupt()
            assert service.process.wait(15) == 0
