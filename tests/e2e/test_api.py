"""A real service with a key, configured as vLLM is: the API from end to end, and whatever is thrown at it."""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import openai
import pytest
from pydantic import BaseModel

from orchestrator.front import responses
from tests.e2e.service import ROOT, Service, until, up
from tests.exact.oracle import greedy
from tests.interop.openai_tour import Tour
from tests.models import write_byte_llama

KEY: Final = "e2e-key"
HEADERS: Final = {"Authorization": f"Bearer {KEY}"}
PROMPT: Final = [ord(letter) % 200 + 5 for letter in "one two three one two three one two"]
SPECULATION: Final = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 3}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("target")
    return folder, write_byte_llama(folder, positions=2048)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("service")


@pytest.fixture(scope="module")
def service(target: tuple[Path, Any], folder: Path) -> Iterator[Service]:
    flags = ("--drafters", "1", "--dtype", "float32", "--api-key", KEY)
    wanted = ("--speculative-config", json.dumps(SPECULATION))
    with up(str(target[0]), folder, *flags, *wanted) as running:
        yield running


def ask(service: Service, **body: Any) -> httpx.Response:
    url = f"{service.url}/v1/completions"
    return httpx.post(url, json=body, headers=HEADERS, timeout=60)


STEPS: Final = [name for name in dir(Tour) if name.startswith("step_")]


@pytest.mark.parametrize("step", STEPS)
def test_the_tour(service: Service, step: str) -> None:
    tour = Tour(f"{service.url}/v1", KEY)
    with tour.client:
        getattr(tour, step)()


class Fruit(BaseModel):
    """A schema as the client's own helper sends it."""

    ripe: bool
    kind: str


def test_an_answer_can_be_parsed_by_its_schema(service: Service) -> None:
    with openai.OpenAI(base_url=f"{service.url}/v1", api_key=KEY, timeout=60) as client:
        said = client.chat.completions.parse(
            model=client.models.list().data[0].id,
            messages=[{"role": "user", "content": "a fruit"}],
            response_format=Fruit,
            temperature=0,
            max_tokens=1500,
            frequency_penalty=1.0,  # so that a model that knows nothing comes to an end
        )
    choice = said.choices[0]
    assert choice.finish_reason == "length" or isinstance(choice.message.parsed, Fruit)


def test_every_position_can_be_the_stop(service: Service, target: tuple[Path, Any]) -> None:
    model = target[1]
    model.generation_config.eos_token_id = None
    right = greedy(model, PROMPT, 24).tokens
    for place in range(0, 24, 3):
        found = right.index(right[place])
        body: dict[str, Any] = {
            "prompt": PROMPT,
            "max_tokens": 24,
            "temperature": 0,
            "ignore_eos": True,
            "stop_token_ids": [right[place]],
            "return_token_ids": True,
            "logprobs": 0,
        }
        whole = responses.Completion.model_validate_json(ask(service, **body).content)
        (choice,) = whole.choices
        assert choice.token_ids == right[: found + 1]
        assert choice.finish_reason == "stop"
        assert choice.logprobs
        assert len(choice.logprobs.tokens) == whole.usage.completion_tokens == found + 1
        lines = ask(service, **body, stream=True).text.split("\n\n")
        pieces = [json.loads(line[6:]) for line in lines if "{" in line]
        streamed = [t for p in pieces for c in p["choices"] for t in c.get("token_ids", [])]
        assert streamed == right[: found + 1]


def test_it_says_what_it_is(service: Service) -> None:
    def ask_it() -> httpx.Response:
        return httpx.get(f"{service.url}/server_info", headers=HEADERS)

    until(lambda: "drafter-0" in ask_it().text, "the drafter was reported", 20.0)
    answer = ask_it()
    info = responses.ServerInfo.model_validate_json(answer.content)
    assert info.config["method"] == "ngram"
    assert info.config["drafter"]["ngram"]["max_match"] == 3
    assert info.limits["draft_length"] == 4
    roles = {node["role"]: node for node in info.nodes}
    assert set(roles) == {"front", "verifier", "drafter"}
    assert len(roles["verifier"]["weights"]) == 64
    assert info.api_key
    assert KEY not in answer.text


def test_nobody_sees_the_key(service: Service) -> None:
    for name in ("front-0", "verifier-0", "drafter-0"):
        command = Path(f"/proc/{service.node(name).pid}/cmdline").read_bytes()
        assert KEY.encode() not in command
    assert httpx.get(f"{service.url}/v1/models").status_code == 401
    assert httpx.get(f"{service.url}/health").status_code == 200
    assert httpx.get(f"{service.url}/metrics").status_code == 401


def test_generate_needs_the_key_too(service: Service, folder: Path) -> None:
    assert service.ready()
    command = [sys.executable, "-m", "orchestrator", "generate", "hi", "--raw", "--max-tokens", "3"]
    environment = os.environ | {"XDG_RUNTIME_DIR": str(folder), "PYTHONPATH": str(ROOT)}
    refused = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stderr) == (1, "error: a valid API key is needed\n")
    known = environment | {"DRAFTMESH_FRONT__API_KEY": KEY}
    done = subprocess.run(command, env=known, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# --- whatever is thrown at it -------------------------------------------------------------------------------------

DEEP: Final[Any] = json.loads('{"not":' * 150 + "{}" + "}" * 150)
WRONG: Final[list[tuple[dict[str, Any], str]]] = [
    ({"prompt": ""}, "prompt"),
    ({"prompt": [261]}, "prompt"),
    ({"prompt": [2**31]}, "prompt"),
    ({"prompt": [[1]] * 100_000}, "prompt"),
    ({"prompt": "x" * 1_000_000}, "prompt"),
    ({"prompt": "a", "max_tokens": 2**31 - 1}, "max_tokens"),
    ({"prompt": [7] * 2047, "max_tokens": 2}, "max_tokens"),
    ({"prompt": "a", "n": 10**9}, "n"),
    ({"prompt": "a", "logit_bias": {"261": 5}}, "logit_bias"),
    ({"prompt": "a", "stop_token_ids": [261]}, "stop_token_ids"),
    ({"prompt": "a", "stop": ["x"] * 100_000}, "stop"),
    ({"prompt": "a", "regex": "foo**"}, "regex"),
    ({"prompt": "a", "regex": "("}, "regex"),
    (
        {
            "prompt": "a",
            "response_format": {"type": "json_schema", "json_schema": {"schema": DEEP}},
        },
        "response_format",
    ),
    ({"prompt": "a", "structured_outputs": {"grammar": "start: ("}}, "structured_outputs"),
    ({"prompt": "a", "temperature": 1e308 * 10}, "temperature"),
]
NARROW: Final[list[dict[str, Any]]] = [
    {"temperature": 1e-300},
    {"temperature": 1e-45, "top_p": 1e-300, "min_p": 1.0},
    {"repetition_penalty": 1e-300},
    {"repetition_penalty": 1e-300, "temperature": 0, "logprobs": 5},
    {"allowed_token_ids": [20], "logit_bias": {"20": -100}},
]
"""As far as numbers go; they are followed."""
DEAD_ENDS: Final[list[dict[str, Any]]] = [
    {"allowed_token_ids": [20], "bad_words": ["0"]},
    {"allowed_token_ids": [2], "min_tokens": 3},
    {"allowed_token_ids": [20], "stop_token_ids": [20], "min_tokens": 2, "temperature": 0},
    {"allowed_token_ids": [20], "regex": "[x-z]+"},
    {"bad_words": ["x"], "regex": "x"},
]
"""No token is left that could be drawn."""
STRANGE: Final = ["((a{0,999}){0,999}){0,999}", "(.*a.{60}){30}", "(x+x+)+y", "(a|b|ab)*c{5000}"]
"""Patterns that may be refused or followed, but not for long."""


def test_bad_input_is_refused_while_a_stream_goes_on(
    service: Service, target: tuple[Path, Any]
) -> None:
    model = target[1]
    model.generation_config.eos_token_id = None
    right = greedy(model, PROMPT, 1500).tokens
    tokens: list[int] = []

    def stream() -> None:
        body = {
            "prompt": PROMPT,
            "max_tokens": 1500,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "return_token_ids": True,
        }
        url = f"{service.url}/v1/completions"
        with httpx.stream("POST", url, json=body, headers=HEADERS, timeout=120) as answer:
            for line in answer.iter_lines():
                if "{" in line:
                    for choice in json.loads(line[6:])["choices"]:
                        tokens.extend(choice.get("token_ids", []))

    before = service.pids
    beside = threading.Thread(target=stream)
    beside.start()
    for body, param in WRONG:
        content = json.dumps(body)
        answer = httpx.post(
            f"{service.url}/v1/completions", content=content, headers=HEADERS, timeout=60
        )
        error = responses.Error.model_validate_json(answer.content).error
        assert (answer.status_code, error.param) == (400, param), (param, answer.text)
    for pattern in STRANGE:
        assert ask(service, prompt="a", regex=pattern, max_tokens=30).status_code in {200, 400}
    for body in NARROW:
        assert ask(service, prompt="a", max_tokens=8, **body).status_code == 200, body
    for body in DEAD_ENDS:
        answer = ask(service, prompt="a", max_tokens=8, **body)
        assert answer.status_code == 400, (body, answer.text)
        assert answer.json()["error"]["code"] == "cannot_continue"
        events = ask(service, prompt="a", max_tokens=8, stream=True, **body).text
        assert "cannot_continue" in events
        assert 'finish_reason":"' not in events
    assert endless(service) == 413
    beside.join(120)
    assert tokens == right
    assert service.pids == before
    assert ask(service, prompt="a", max_tokens=2).status_code == 200


def endless(service: Service) -> int:
    """A body that never says how long it is: the status of the answer, which comes before its end."""
    url = httpx.URL(service.url)
    assert url.port
    with socket.create_connection((url.host, url.port), 30) as connection:
        head = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
        connection.sendall(f"{head}Authorization: Bearer {KEY}\r\n\r\n".encode())
        chunk = b"10000\r\n" + b"a" * 65536 + b"\r\n"
        try:
            for _ in range(1000):
                connection.sendall(chunk)
        except OSError:
            pass  # it does not listen any more
        return int(connection.recv(64).split()[1])
