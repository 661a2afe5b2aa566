"""Every way to be refused over HTTP: the status, and the parameter that is named."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.front.messages import Failure, Status
from protocol.messages import AnyMessage, Done, Emit, Submit
from tests.orchestrator.http_app import FakeDoor, Http, error, events


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"prompt": ""}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": [[]]}, "prompt"),
        ({"prompt": 5}, "prompt"),
        ({"prompt": None}, "prompt"),
        ({"prompt": [261]}, "prompt"),
        ({"prompt": [-1]}, "prompt"),
        ({"prompt": [1.5]}, "prompt"),
        ({"prompt": [True]}, "prompt"),
        ({"prompt": list(range(64))}, "prompt"),
        ({}, "prompt"),
        ({"prompt": "a", "max_tokens": 0}, "max_tokens"),
        ({"prompt": "a", "max_tokens": 64}, "max_tokens"),
        ({"prompt": "a", "max_tokens": "5"}, "max_tokens"),
        ({"prompt": "a", "max_tokens": 2, "min_tokens": 3}, "min_tokens"),
        ({"prompt": "a", "temperature": -1}, "temperature"),
        ({"prompt": "a", "temperature": 1e999}, "temperature"),
        ({"prompt": "a", "top_p": 0}, "top_p"),
        ({"prompt": "a", "top_p": 2}, "top_p"),
        ({"prompt": "a", "top_k": -2}, "top_k"),
        ({"prompt": "a", "min_p": 2}, "min_p"),
        ({"prompt": "a", "n": 0}, "n"),
        ({"prompt": "a", "n": 129}, "n"),
        ({"prompt": ["a"] * 65, "n": 2}, "n"),
        ({"prompt": "a", "n": True}, "n"),
        ({"prompt": "a", "stop": ""}, "stop"),
        ({"prompt": "a", "stop": ["x"] * 17}, "stop"),
        ({"prompt": "a", "stop_token_ids": [-1]}, "stop_token_ids"),
        ({"prompt": "a", "seed": 2**64}, "seed"),
        ({"prompt": "a", "stream": "yes"}, "stream"),
        ({"prompt": "a", "stream_options": {"include_usage": True}}, "stream_options"),
        ({"prompt": "a", "stop_token_ids": [261]}, "stop_token_ids"),
        ({"prompt": "a", "max_tokens": 0, "min_tokens": 1, "echo": True}, "min_tokens"),
        ({"prompt": "a", "logprobs": True}, "logprobs"),
        ({"prompt": "a", "logprobs": -1}, "logprobs"),
        ({"prompt": "a", "logprobs": 21}, "logprobs"),
        ({"prompt": "a", "top_logprobs": 1}, "top_logprobs"),
        ({"prompt": "a", "prompt_logprobs": -1}, "prompt_logprobs"),
        ({"prompt": "a", "prompt_logprobs": 1, "stream": True}, "prompt_logprobs"),
        ({"prompt": "a", "echo": 1}, "echo"),
        ({"prompt": "a", "suffix": "x"}, "suffix"),
        ({"prompt": "a", "best_of": 2}, "best_of"),
        ({"prompt": "a", "best_of": 1, "n": 2}, "best_of"),
        ({"prompt": "a", "presence_penalty": 2.1}, "presence_penalty"),
        ({"prompt": "a", "frequency_penalty": -3}, "frequency_penalty"),
        ({"prompt": "a", "repetition_penalty": 0}, "repetition_penalty"),
        ({"prompt": "a", "logit_bias": {"261": 1}}, "logit_bias"),
        ({"prompt": "a", "logit_bias": {"-1": 1}}, "logit_bias"),
        ({"prompt": "a", "logit_bias": {"05": 1}}, "logit_bias"),
        ({"prompt": "a", "logit_bias": {"five": 1}}, "logit_bias"),
        ({"prompt": "a", "logit_bias": {"5": 101}}, "logit_bias"),
        ({"prompt": "a", "logit_bias": {"5": 1e999}}, "logit_bias"),
        ({"prompt": "a", "logit_bias": {"5": None}}, "logit_bias"),
        ({"prompt": "a", "logit_bias": [5]}, "logit_bias"),
        ({"prompt": "a", "allowed_token_ids": []}, "allowed_token_ids"),
        ({"prompt": "a", "allowed_token_ids": [261]}, "allowed_token_ids"),
        ({"prompt": "a", "allowed_token_ids": [-1]}, "allowed_token_ids"),
        ({"prompt": "a", "bad_words": "word"}, "bad_words"),
        ({"prompt": "a", "bad_words": [""]}, "bad_words"),
        ({"prompt": "a", "use_beam_search": True}, "use_beam_search"),
        ({"prompt": "a", "guided_regex": "a"}, "guided_regex"),
        ({"prompt": "a", "tempreature": 1}, "tempreature"),
    ],
)
def test_what_cannot_be_done_is_400_and_named(http: Http, body: dict[str, Any], param: str) -> None:
    content = json.dumps({"model": "tiny", **body})
    response = http.request("POST", "/v1/completions", content=content)
    assert error(response)[:2] == (400, param)
    assert http.door.queries == []


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "user"}]}, "messages"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages"),
        ({"messages": [{"role": "user", "content": "x" * 100}]}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages"),
        ({"tools": [{"type": "function"}]}, "tools"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"logprobs": 1}, "logprobs"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"top_logprobs": 2, "logprobs": False}, "top_logprobs"),
        ({"top_logprobs": 21, "logprobs": True}, "top_logprobs"),
        ({"echo": True}, "echo"),
        ({"suffix": "a"}, "suffix"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_completion_tokens": 64}, "max_completion_tokens"),
        ({"max_completion_tokens": 2, "min_tokens": 3}, "min_tokens"),
        ({"min_tokens": 64}, "min_tokens"),
        ({"prompt": "a"}, "prompt"),
    ],
)
def test_the_same_goes_for_chat(http: Http, body: dict[str, Any], param: str) -> None:
    assert error(http.chat(**body))[:2] == (400, param)
    assert http.door.queries == []


def test_an_unknown_model_is_404(http: Http) -> None:
    assert error(http.complete(prompt="a", model="other")) == (404, "model", "model_not_found")
    assert error(http.get("/v1/models/other"))[0] == 404


def test_no_model_is_the_only_one(http: Http) -> None:
    assert http.request("POST", "/v1/completions", json={"prompt": "a"}).status_code == 200


def test_routes_and_methods_that_are_not_there_have_the_same_shape(http: Http) -> None:
    assert error(http.get("/v1/nothing"))[0] == 404
    assert error(http.get("/v1/completions"))[0] == 405


@pytest.mark.parametrize(
    ("failure", "retry"),
    [
        (Failure(429, "full", code="full"), "1"),
        (Failure(503, "lost", code="verifier_lost"), "1"),
        (Failure(400, "no", "prompt", "invalid"), None),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_a_refusal_by_the_mesh_has_its_own_status(
    tiny: Path, failure: Failure, retry: str | None, stream: bool
) -> None:
    response = Http(tiny, FakeDoor(lambda _: [failure])).complete(prompt="a", stream=stream)
    assert error(response) == (failure.status, failure.param, failure.code)
    assert response.headers.get("Retry-After") == retry


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (Status(alive=True, ready=False), "no_verifier"),
        (Status(alive=True, ready=False, draining=True), "draining"),
    ],
)
def test_without_anybody_to_ask_it_is_503(tiny: Path, status: Status, code: str) -> None:
    http = Http(tiny, FakeDoor(status=status))
    assert error(http.complete(prompt="a")) == (503, None, code)
    assert http.get("/ready").status_code == 503
    assert http.get("/health").status_code == 200


def test_a_loop_that_stands_still_is_unhealthy(tiny: Path) -> None:
    http = Http(tiny, FakeDoor(status=Status(alive=False, ready=False)))
    assert http.get("/health").status_code == 503


def broken_off(submit: Submit) -> Iterable[AnyMessage | Failure]:
    """A word, then the verifier is lost."""
    yield Emit(submit.request, 0, (1,), "one")
    yield Failure(503, "lost", code="verifier_lost")


def test_an_error_in_a_stream_ends_it_without_a_finish(tiny: Path) -> None:
    http = Http(tiny, FakeDoor(broken_off))
    first, last = events(http.complete(prompt="a", stream=True))
    assert first["choices"][0]["finish_reason"] is None
    assert last["error"]["code"] == "verifier_lost"
    assert http.door.aborted == [1]


def test_an_error_before_a_whole_answer_is_a_status(tiny: Path) -> None:
    assert error(Http(tiny, FakeDoor(broken_off)).complete(prompt="a"))[0] == 503


@pytest.mark.parametrize(
    ("reason", "status", "code"), [("abort", 503, "abort"), ("error", 400, "cannot_continue")]
)
def test_a_choice_that_did_not_end_well_is_no_answer(
    tiny: Path, reason: str, status: int, code: str
) -> None:
    door = FakeDoor(lambda s: [Done(s.request, 0, reason, 1, 0, detail="deadline")])
    response = Http(tiny, door).complete(prompt="a")
    assert error(response) == (status, None, code)
    assert response.json()["error"]["message"] == "deadline"
