"""What each parameter becomes for a verifier."""

from pathlib import Path
from typing import Any

import pytest

from orchestrator.front.messages import Query, Status
from protocol.messages import Sampling
from tests.orchestrator.http_app import FakeDoor, Http, error


def asked(http: Http, **body: Any) -> Query:
    response = http.complete(prompt="a", **body)
    assert response.status_code == 200, response.text
    return http.door.queries.pop()


def test_penalties_and_biases_arrive(http: Http) -> None:
    sampling = asked(
        http,
        repetition_penalty=1.5,
        presence_penalty=-2,
        frequency_penalty=0.5,
        logit_bias={"5": -100, "260": 2.5},
        allowed_token_ids=[7, 8],
    ).sampling
    assert sampling.repetition_penalty == 1.5
    assert (sampling.presence_penalty, sampling.frequency_penalty) == (-2.0, 0.5)
    assert sampling.logit_bias == ((5, -100.0), (260, 2.5))
    assert sampling.allowed == (7, 8)


def test_nothing_said_changes_nothing(http: Http) -> None:
    assert asked(http, seed=1).sampling == Sampling(temperature=1.0, seed=1)


def test_bad_words_are_meant_at_the_beginning_of_a_text_and_behind_a_space(http: Http) -> None:
    ab, c, space = (asked_tokens(http, text) for text in ("ab", "c", " "))
    expected = (ab, space + ab, c, space + c)
    assert asked(http, bad_words=["ab", " c", "c"]).sampling.bad_words == expected


def asked_tokens(http: Http, text: str) -> tuple[int, ...]:
    http.complete(prompt=text)
    return http.door.queries.pop().tokens


@pytest.mark.parametrize(
    ("body", "logprobs", "prompt_logprobs"),
    [
        ({}, None, None),
        ({"logprobs": 0}, 0, None),
        ({"logprobs": 5}, 5, None),
        ({"prompt_logprobs": 0}, None, 0),
        ({"logprobs": 2, "echo": True}, 2, 2),
        ({"echo": True}, None, None),
        ({"echo": True, "prompt_logprobs": 3}, None, 3),
        ({"echo": True, "prompt_logprobs": 1, "logprobs": 4}, 4, 4),
    ],
)
def test_scores_are_asked_for_where_they_are_shown(
    http: Http, body: dict[str, Any], logprobs: int | None, prompt_logprobs: int | None
) -> None:
    query = asked(http, **body)
    assert (query.logprobs, query.prompt_logprobs) == (logprobs, prompt_logprobs)


@pytest.mark.parametrize(
    ("body", "logprobs"),
    [
        ({}, None),
        ({"logprobs": False}, None),
        ({"logprobs": True}, 0),
        ({"logprobs": True, "top_logprobs": 20}, 20),
    ],
)
def test_a_chat_asks_in_two_parameters(
    http: Http, body: dict[str, Any], logprobs: int | None
) -> None:
    assert http.chat(**body).status_code == 200
    assert http.door.queries[-1].logprobs == logprobs


def test_the_newer_name_of_max_tokens_is_stronger(http: Http) -> None:
    http.chat(max_tokens=3, max_completion_tokens=5)
    assert http.door.queries[-1].ending.max_tokens == 5


def test_nothing_to_write_is_asked_for_as_one_token(http: Http) -> None:
    assert asked(http, max_tokens=0, echo=True).ending.max_tokens == 1


def test_what_asks_for_nothing_is_no_fault(http: Http) -> None:
    neutral: dict[str, Any] = {"user": "me", "suffix": None, "best_of": 1, "logit_bias": {}}
    asked(http, **neutral, top_logprobs=None, use_beam_search=False, skip_special_tokens=True)
    answer = http.chat(tools=[], tool_choice="auto", response_format={"type": "text"}, echo=False)
    assert answer.status_code == 200


def test_an_earlier_answer_can_be_sent_back_as_it_came(http: Http) -> None:
    empty: dict[str, object] = {
        "refusal": None,
        "tool_calls": None,
        "annotations": [],
        "audio": None,
    }
    messages = [
        {"role": "developer", "content": "a", "name": "me"},
        {"role": "assistant", "content": "b", "function_call": None, **empty},
        {"role": "user", "content": [{"type": "text", "text": "c"}]},
    ]
    assert http.chat(messages=messages).status_code == 200


@pytest.mark.parametrize("tokens", [63, 64])
def test_the_advertised_limit_is_the_real_one(http: Http, tokens: int) -> None:
    limit = http.get("/v1/models").json()["data"][0]["max_model_len"]
    response = http.complete(prompt=[7] * (tokens - 1), max_tokens=1)
    assert (limit, response.status_code) == (64, 200)
    over = http.complete(prompt=[7] * (tokens - 1), max_tokens=limit - tokens + 2)
    assert error(over) == (400, "max_tokens", "context_length_exceeded")


def test_where_no_limit_is_known_all_that_is_left_is_a_guess(tiny: Path) -> None:
    http = Http(tiny, FakeDoor(status=Status(alive=True, ready=True)))
    http.chat()
    http.chat(min_tokens=300)
    assert [query.ending.max_tokens for query in http.door.queries] == [256, 300]
