"""Bodies that are no request, or far too much of one: refused by name, before anybody looks at every item."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
from pydantic import ValidationError

from orchestrator.front.errors import ApiError
from orchestrator.front.parsing import checked, plain
from orchestrator.front.schema import ChatRequest, CompletionRequest, Request
from tests.orchestrator.http_app import FakeDoor, Http, error

MANY: Final = 100_000
WRONG: Final = {"no": "item"}


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
    ("kind", "body", "param", "items"),
    [
        (CompletionRequest, {"prompt": [["a"]] * MANY}, "prompt", MANY),
        (CompletionRequest, {"prompt": [*["a"] * MANY, WRONG]}, "prompt", MANY + 1),
        (CompletionRequest, {"prompt": [*[1] * MANY, WRONG]}, "prompt", MANY + 1),
        (CompletionRequest, {"prompt": [[*[1] * MANY, WRONG], "a"]}, "prompt", MANY + 1),
        (CompletionRequest, {"prompt": "a", "stop": [WRONG] * MANY}, "stop", MANY),
        (
            CompletionRequest,
            {"prompt": "a", "stop_token_ids": [*[1] * MANY, WRONG]},
            "stop_token_ids",
            MANY + 1,
        ),
        (CompletionRequest, {"prompt": "a", "bad_words": [WRONG] * MANY}, "bad_words", MANY),
        (
            CompletionRequest,
            {"prompt": "a", "allowed_token_ids": [*[1] * MANY, WRONG]},
            "allowed_token_ids",
            MANY + 1,
        ),
        (
            CompletionRequest,
            {"prompt": "a", "logit_bias": dict.fromkeys(map(str, range(MANY)), WRONG)},
            "logit_bias",
            MANY,
        ),
        (ChatRequest, {"messages": [WRONG] * MANY}, "messages", MANY),
        (
            ChatRequest,
            {"messages": [{"role": "user", "content": [WRONG] * MANY}]},
            "messages",
            MANY,
        ),
    ],
)
def test_lists_are_refused_by_their_length(
    kind: type[Request], body: dict[str, Any], param: str, items: int
) -> None:
    """Each has an item that is wrong too, and nobody has come to see it: the length is the one fault told."""
    fault = _refused(kind, body, param)
    assert str(items) in str(fault)


@pytest.mark.parametrize(
    "body",
    [{"prompt": [-1] * 50}, {"prompt": "a", "allowed_token_ids": ["a"] * MANY}],
)
def test_a_list_is_not_looked_through_behind_its_first_fault(body: dict[str, Any]) -> None:
    fault = _refused(CompletionRequest, body, [*body][-1])
    assert isinstance(fault.__cause__, ValidationError)
    assert fault.__cause__.error_count() == 1


def _refused(kind: type[Request], body: dict[str, Any], param: str) -> ApiError:
    with pytest.raises(ApiError) as refused:
        checked(kind, plain(json.dumps(body).encode()), context=64)
    assert (refused.value.status, refused.value.param) == (400, param)
    return refused.value


def test_a_text_that_cannot_fit_is_not_tokenised(tiny: Path) -> None:
    http = Http(tiny, FakeDoor(), max_body=8 << 20)
    response = http.complete(prompt="a" * (4 << 20))
    assert error(response) == (400, "prompt", "context_length_exceeded")
    response = http.chat(messages=[{"role": "user", "content": "a" * (4 << 20)}])
    assert error(response) == (400, "messages", "context_length_exceeded")
