"""Bodies that are no request, or far too much of one: refused by name, before anybody looks at every item."""

import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest

from orchestrator.front.errors import ApiError
from orchestrator.front.parsing import checked, plain
from orchestrator.front.schema import ChatRequest, CompletionRequest, Request
from tests.orchestrator.http_app import FakeDoor, Http, error

MANY: Final = 1_000_000


@pytest.mark.parametrize("content", ["", "{", "[]", "3", '{"a": "\\ud800"', b"\xff\xfe{}"])
def test_a_body_that_is_no_object_is_400(http: Http, content: str | bytes) -> None:
    response = http.request("POST", "/v1/completions", content=content)
    assert error(response) == (400, None, "invalid_json")


def test_not_a_number_is_400(http: Http) -> None:
    response = http.request("POST", "/v1/completions", content='{"prompt":"a","top_p":NaN}')
    assert error(response)[:2] == (400, "top_p")


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400", "-1e400"])
@pytest.mark.parametrize("name", ["temperature", "min_p", "presence_penalty", "logit_bias"])
def test_numbers_that_are_none_are_named(http: Http, number: str, name: str) -> None:
    value = f'{{"5":{number}}}' if name == "logit_bias" else number
    response = http.request("POST", "/v1/completions", content=f'{{"prompt":"a","{name}":{value}}}')
    assert error(response)[:2] == (400, name)


@pytest.mark.parametrize("content", ["[" * 3000, '{"a":' * 1000 + "1" + "}" * 1000, "9" * 5000])
def test_depth_and_length_do_no_harm(tiny: Path, content: str) -> None:
    http = Http(tiny, FakeDoor(), max_body=1 << 20)
    body = f'{{"prompt":"a","temperature":{content}}}'
    assert error(http.request("POST", "/v1/completions", content=body))[0] == 400


def test_an_unknown_name_is_quoted_but_not_at_any_length(http: Http) -> None:
    response = http.complete(prompt="a", **{"x" * 3000: 1})
    assert error(response)[2] == "unknown_parameter"
    assert len(response.content) < 1000


def test_a_large_body_is_413_whatever_its_headers_say(http: Http) -> None:
    assert error(http.complete(prompt="a" * 5000))[0] == 413

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(5):
            yield b"a" * 1000

    response = http.request("POST", "/v1/completions", content=chunks())
    assert error(response) == (413, None, "body_too_large")


@pytest.mark.parametrize(
    ("kind", "body", "param"),
    [
        (CompletionRequest, {"prompt": [[1]] * (MANY // 4)}, "prompt"),
        (CompletionRequest, {"prompt": ["a"] * MANY}, "prompt"),
        (CompletionRequest, {"prompt": [1] * MANY}, "prompt"),
        (CompletionRequest, {"prompt": [[1] * MANY, "a"]}, "prompt"),
        (CompletionRequest, {"prompt": [-1] * 50}, "prompt"),
        (CompletionRequest, {"prompt": "a", "stop": ["a"] * MANY}, "stop"),
        (CompletionRequest, {"prompt": "a", "stop_token_ids": [1] * MANY}, "stop_token_ids"),
        (CompletionRequest, {"prompt": "a", "bad_words": ["a"] * MANY}, "bad_words"),
        (
            CompletionRequest,
            {"prompt": "a", "allowed_token_ids": ["a"] * MANY},
            "allowed_token_ids",
        ),
        (
            CompletionRequest,
            {"prompt": "a", "logit_bias": dict.fromkeys(map(str, range(MANY // 4)), 1)},
            "logit_bias",
        ),
        (ChatRequest, {"messages": [{"role": "user", "content": ""}] * (MANY // 4)}, "messages"),
        (
            ChatRequest,
            {
                "messages": [
                    {"role": "user", "content": [{"type": "text", "text": ""}] * (MANY // 4)}
                ]
            },
            "messages",
        ),
    ],
)
def test_lists_are_refused_by_their_length(
    kind: type[Request], body: dict[str, Any], param: str
) -> None:
    """As fast as the JSON can be read, more or less: nothing is done for each item."""
    content = json.dumps(body).encode()
    begun = time.process_time()
    json.loads(content)
    reading = time.process_time() - begun
    begun = time.process_time()
    with pytest.raises(ApiError) as refused:
        checked(kind, plain(content), context=64)
    assert (refused.value.status, refused.value.param) == (400, param)
    assert time.process_time() - begun < 2 * reading + 0.02


def test_a_text_that_cannot_fit_is_not_tokenised(tiny: Path) -> None:
    http = Http(tiny, FakeDoor(), max_body=8 << 20)
    response = http.complete(prompt="a" * (4 << 20))
    assert error(response) == (400, "prompt", "context_length_exceeded")
    response = http.chat(messages=[{"role": "user", "content": "a" * (4 << 20)}])
    assert error(response) == (400, "messages", "context_length_exceeded")
