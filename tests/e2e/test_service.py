"""Four operating-system processes serve; each is killed in turn, and what a client then sees is stated here.

| killed | what a client sees |
| --- | --- |
| a drafter | nothing: the stream goes on with the same text; drafts come back with the drafter |
| the verifier | the stream ends with an error and without a finish reason; `/ready` says 503 until it is back |
| the front door | the connection breaks; the same address answers again when it is back |
| the orchestrator | the connection breaks; no process is left |
"""

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import grpc
import httpx
import openai
import psutil
import pytest
import yaml
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from tests.e2e.service import Service, until, up
from tests.exact.oracle import greedy
from tests.models import write_byte_llama

PROMPT: Final = [
    ord(letter) % 200 + 5 for letter in "one two three one two three one two three one"
]
TOKENS: Final = 400
ENDLESS: Final = 7000
"""Tokens of a stream that is not over before something is done to it, however late we are."""


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("target")
    return folder, write_byte_llama(folder, positions=8192)


@pytest.fixture(scope="module")
def service(
    target: tuple[Path, Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("service")
    flags = ("--drafters", "2", "--dtype", "float32", "--draft-length", "4")
    with up(str(target[0]), folder, *flags) as running:
        yield running


def client(service: Service) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{service.url}/v1", api_key="none", max_retries=0, timeout=60)


def stream(service: Service, tokens: int = TOKENS) -> Any:  # noqa: ANN401
    model = client(service).models.list().data[0].id
    return client(service).completions.create(
        model=model,
        prompt=PROMPT,
        max_tokens=tokens,
        temperature=0,
        stream=True,
        extra_body={"ignore_eos": True, "return_token_ids": True},
    )


def token_ids(chunks: Any) -> list[int]:  # noqa: ANN401
    return [
        token
        for chunk in chunks
        for choice in chunk.choices
        for token in (choice.model_extra or {}).get("token_ids") or ()
    ]


def drafts(service: Service) -> int:
    """Draft tokens that were accepted in a short answer."""
    last = [chunk for chunk in stream(service, 64) if chunk.choices][-1].choices[0]
    accepted: int = last.model_extra["draftmesh"]["accepted"]
    return accepted


def right(target: tuple[Path, Any], tokens: int) -> list[int]:
    model = target[1]
    model.generation_config.eos_token_id = None
    return greedy(model, PROMPT, tokens).tokens


def test_four_processes_with_ids_of_their_own(service: Service) -> None:
    pids = service.pids
    assert set(pids) == {"front-0", "verifier-0", "drafter-0", "drafter-1"}
    assert len({*pids.values(), service.process.pid}) == 5
    assert all(psutil.pid_exists(pid) for pid in pids.values())


def test_they_stay_in_our_session_where_their_niceness_counts(service: Service) -> None:
    """Linux shares processors among sessions first; a Ctrl-C is for the foreground's group alone."""
    for pid in service.pids.values():
        assert os.getsid(pid) == service.process.pid
        assert os.getpgid(pid) == pid


def test_the_text_is_the_oracles(service: Service, target: tuple[Path, Any]) -> None:
    assert token_ids(stream(service, 100)) == right(target, 100)
    until(lambda: drafts(service) > 0, "a drafter is there")


def test_both_drafters_killed_in_mid_stream(service: Service, target: tuple[Path, Any]) -> None:
    before = service.pids
    running = stream(service)
    tokens = token_ids([next(running)])
    service.kill("drafter-0")
    service.kill("drafter-1")
    tokens += token_ids(running)
    assert tokens == right(target, TOKENS)
    until(lambda: drafts(service) > 0, "drafts are back")
    after = service.pids
    assert after["verifier-0"] == before["verifier-0"]
    assert after["drafter-0"] != before["drafter-0"]


def test_the_verifier_killed_in_mid_stream(service: Service, target: tuple[Path, Any]) -> None:
    running = stream(service, ENDLESS)
    next(running)
    service.kill("verifier-0")
    chunks = []
    with pytest.raises(openai.APIError, match="verifier"):
        chunks += list(running)
    assert not any(choice.finish_reason for chunk in chunks for choice in chunk.choices)
    assert not service.ready()
    until(service.ready, "the verifier is back")
    assert token_ids(stream(service, 50)) == right(target, 50)


def test_a_verifier_that_is_frozen_is_not_ready(service: Service) -> None:
    """Reported fault 17. Three seconds of silence end its link; it may come back whenever it likes."""
    process = psutil.Process(service.node("verifier-0").pid)
    process.suspend()
    try:
        until(lambda: not service.ready(), "it is not ready", 10.0)
        assert httpx.get(f"{service.url}/health").status_code == httpx.codes.OK
        refused = httpx.post(f"{service.url}/v1/completions", json={"prompt": "a"})
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
    finally:
        process.resume()
    until(service.ready, "it is back")


def test_the_front_door_killed_in_mid_stream(service: Service, target: tuple[Path, Any]) -> None:
    url = service.url
    running = stream(service, ENDLESS)
    next(running)
    service.kill("front-0")
    with pytest.raises((httpx.HTTPError, openai.APIError)):
        list(running)
    until(service.ready, "the front door is back")
    assert service.url == url
    assert token_ids(stream(service, 50)) == right(target, 50)


def test_a_client_that_leaves_frees_its_place(service: Service) -> None:
    running = stream(service, ENDLESS)
    next(running)
    running.response.close()
    until(lambda: _in_flight(service) == 0, "nothing is in flight", 10.0)


def _in_flight(service: Service) -> int:
    answer = httpx.get(f"{service.url}/ready").json()
    count: int = answer["in_flight"]
    return count


def test_a_drain_ends_streams_begins_none_and_leaves_nothing(
    target: tuple[Path, Any], tmp_path: Path
) -> None:
    patient = {part: {"drain_seconds": 90.0} for part in ("front", "verifier", "drafter")}
    (tmp_path / "draftmesh.yaml").write_text(yaml.safe_dump(patient))
    with up(str(target[0]), tmp_path, "--drafters", "1", "--dtype", "float32") as service:
        url, pids = service.url, service.pids
        running = stream(service, 900)
        tokens = token_ids([next(running)])
        service.interrupt()
        until(lambda: not service.ready(), "it drains", 10.0)
        refused = httpx.post(f"{url}/v1/completions", json={"prompt": "a"})
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
        assert refused.json()["error"]["code"] == "draining"
        tokens += token_ids(running)
        assert tokens == right(target, 900)
        assert service.process.wait(90) == 0
    assert not any(psutil.pid_exists(pid) for pid in pids.values())
    port = httpx.URL(url).port
    assert port
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))


@pytest.mark.full  # what it starts is that of tests/orchestrator/test_local_service.py
def test_a_parent_that_dies_takes_its_children_along(
    target: tuple[Path, Any], tmp_path: Path
) -> None:
    with up(str(target[0]), tmp_path, "--drafters", "1", "--dtype", "float32") as service:
        pids = service.pids
        os.kill(service.process.pid, signal.SIGKILL)
        service.process.wait(10)
        until(
            lambda: not any(psutil.pid_exists(pid) for pid in pids.values()),
            "all children are gone",
            20.0,
        )


@pytest.mark.full
def test_a_verifier_that_is_told_to_drain_says_so_first_and_finishes_what_it_has(
    target: tuple[Path, Any], tmp_path: Path
) -> None:
    patient = {"verifier": {"drain_seconds": 90.0, "health": {"port": 0}}}
    (tmp_path / "draftmesh.yaml").write_text(yaml.safe_dump(patient))
    with up(str(target[0]), tmp_path, "--drafters", "1", "--dtype", "float32") as service:
        verifier = service.node("verifier-0")
        with grpc.insecure_channel(verifier.health) as channel:
            watched = HealthStub(channel).Watch(HealthCheckRequest(service="verifier"), timeout=90)
            assert next(watched).status == HealthCheckResponse.SERVING
            running = stream(service, 900)
            tokens = token_ids([next(running)])
            os.kill(verifier.pid, signal.SIGTERM)
            assert next(watched).status == HealthCheckResponse.NOT_SERVING
            until(lambda: not service.ready(), "the front door heard of it", 10.0)
            tokens += token_ids(running)
            assert tokens == right(target, 900)
        until(lambda: service.node("verifier-0").pid not in {0, verifier.pid}, "another one")
