"""The description of the API, and that what is answered is what it describes."""

import json
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from orchestrator.front import responses
from orchestrator.front.openapi import ROUTES, document
from tests.orchestrator.http_app import Http, events

EVERYTHING: dict[str, Any] = {
    "n": 2,
    "return_token_ids": True,
    "max_tokens": 3,
}


def held(model: type[BaseModel], content: bytes | str) -> None:
    model.model_validate_json(content)


def test_every_reference_leads_somewhere_and_every_route_is_there(http: Http) -> None:
    described = http.get("/openapi.json").json()
    assert described == json.loads(json.dumps(document()))
    names = described["components"]["schemas"]
    for text in json.dumps(described).split("#/components/schemas/")[1:]:
        assert text.partition('"')[0] in names
    served = {getattr(route, "path", "").replace(":path", "") for route in http.app.routes}
    assert served - {"/openapi.json"} == {route.path for route in ROUTES} - {"/metrics"}


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"logprobs": 2, "echo": True},
        {"prompt_logprobs": 1, **EVERYTHING},
        {"logprobs": 0, "echo": True, "max_tokens": 0},
        {"prompt": ["a", [7, 8]]},
    ],
)
def test_completions_are_as_described(http: Http, body: dict[str, Any]) -> None:
    held(responses.Completion, http.complete(**{"prompt": "ab", **body}).content)
    if "prompt_logprobs" in body:
        return
    options = {"stream": True, "stream_options": {"include_usage": True}}
    for event in events(http.complete(**{"prompt": "ab", **body, **options}))[:-1]:
        held(responses.CompletionPiece, json.dumps(event))


@pytest.mark.parametrize(
    "body", [{}, {"logprobs": True, "top_logprobs": 2}, {"prompt_logprobs": 1, **EVERYTHING}]
)
def test_chats_are_as_described(http: Http, body: dict[str, Any]) -> None:
    held(responses.ChatCompletion, http.chat(**body).content)
    body = {name: value for name, value in body.items() if name != "prompt_logprobs"}
    for event in events(http.chat(**body, stream=True))[:-1]:
        held(responses.ChatPiece, json.dumps(event))


def test_the_rest_is_as_described(http: Http) -> None:
    pages: dict[str, type[BaseModel]] = {
        "/v1/models": responses.ModelList,
        "/v1/models/tiny": responses.ModelCard,
        "/health": responses.Health,
        "/ready": responses.Ready,
        "/version": responses.Version,
        "/server_info": responses.ServerInfo,
        "/v1/models/other": responses.Error,
        "/nothing": responses.Error,
    }
    for path, model in pages.items():
        held(model, http.get(path).content)


def test_what_is_only_there_when_asked_for_has_a_default() -> None:
    """So that a client made of the description accepts an answer without it."""
    for name, model in vars(responses).items():
        if isinstance(model, type) and issubclass(model, BaseModel) and not name.startswith("_"):
            for field in model.model_fields.values():
                if not field.is_required():
                    assert field.default == [] or type(None) in get_args(field.annotation)
