"""What formats become for a verifier, and how its refusal comes back."""

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.front.messages import Failure
from protocol.messages import Grammar
from tests.orchestrator.http_app import FakeDoor, Http, error

SCHEMA = {"type": "object", "properties": {"ß": {"type": "integer"}}, "required": ["ß"]}
WRITTEN = '{"type":"object","properties":{"ß":{"type":"integer"}},"required":["ß"]}'


def named(schema: object, **more: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "a", "schema": schema, **more}}


@pytest.mark.parametrize(
    ("body", "grammar"),
    [
        ({}, None),
        ({"response_format": None}, None),
        ({"response_format": {"type": "text"}}, None),
        ({"response_format": {"type": "json_object"}}, Grammar("json_object")),
        ({"response_format": named(SCHEMA, strict=True)}, Grammar("json_schema", WRITTEN)),
        ({"response_format": named(SCHEMA, description="d")}, Grammar("json_schema", WRITTEN)),
        ({"response_format": named(None)}, Grammar("json_object")),
        ({"response_format": named({})}, Grammar("json_schema", "{}")),
        ({"regex": "[ab]+"}, Grammar("regex", "[ab]+")),
        ({"structured_outputs": {"json": SCHEMA}}, Grammar("json_schema", WRITTEN)),
        ({"structured_outputs": {"json": WRITTEN}}, Grammar("json_schema", WRITTEN)),
        ({"structured_outputs": {"json_object": True}}, Grammar("json_object")),
        ({"structured_outputs": {"regex": "a|b"}}, Grammar("regex", "a|b")),
        (
            {"structured_outputs": {"choice": ["yes", '"no" \\ é']}},
            Grammar("lark", 'start: "yes" | "\\"no\\" \\\\ é"'),
        ),
        ({"structured_outputs": {"grammar": "start: /a/"}}, Grammar("lark", "start: /a/")),
    ],
)
def test_every_way_to_say_it_arrives(http: Http, body: dict[str, Any], grammar: Grammar) -> None:
    for ask in (http.chat, lambda **more: http.complete(prompt="a", **more)):
        response = ask(**body)
        assert response.status_code == 200, response.text
        assert http.door.queries.pop().grammar == grammar


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"response_format": {"type": "xml"}}, "response_format"),
        ({"response_format": {"type": "json_schema"}}, "response_format"),
        ({"response_format": {}}, "response_format"),
        ({"response_format": "json_object"}, "response_format"),
        ({"response_format": named([])}, "response_format"),
        ({"response_format": named({"enum": ["x" * 70_000]})}, "response_format"),
        ({"response_format": {"type": "json_object", "schema": {}}}, "response_format"),
        ({"regex": ""}, "regex"),
        ({"regex": "é" * 5000}, "regex"),
        ({"regex": "a", "response_format": {"type": "json_object"}}, "response_format"),
        ({"regex": "a", "structured_outputs": {"regex": "a"}}, "response_format"),
        ({"structured_outputs": {}}, "structured_outputs"),
        ({"structured_outputs": {"json_object": False}}, "structured_outputs"),
        ({"structured_outputs": {"regex": "a", "choice": ["a"]}}, "structured_outputs"),
        ({"structured_outputs": {"choice": []}}, "structured_outputs"),
        ({"structured_outputs": {"choice": ["x" * 40_000]}}, "structured_outputs"),
        ({"structured_outputs": {"patern": "a"}}, "structured_outputs"),
    ],
)
def test_what_is_no_format_is_named(tiny: Path, body: dict[str, Any], param: str) -> None:
    http = Http(tiny, FakeDoor(), max_body=1 << 20)
    assert error(http.chat(**body))[:2] == (400, param)
    assert http.door.queries == []


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"response_format": named({"type": "nothing"})}, "response_format"),
        ({"regex": "foo**"}, "regex"),
        ({"structured_outputs": {"regex": "foo**"}}, "structured_outputs"),
    ],
)
def test_a_verifier_that_cannot_compile_it_is_heard(
    tiny: Path, body: dict[str, Any], param: str
) -> None:
    refusal = Failure(400, "multiple repeat", "grammar", "invalid")
    for stream in (False, True):
        http = Http(tiny, FakeDoor(lambda _: [refusal]))
        assert error(http.complete(prompt="a", stream=stream, **body)) == (400, param, "invalid")


def test_a_refused_prompt_is_called_what_the_client_calls_it(tiny: Path) -> None:
    http = Http(tiny, FakeDoor(lambda _: [Failure(400, "no", "prompt", "invalid")]))
    assert error(http.chat())[1] == "messages"
    assert error(http.complete(prompt="a"))[1] == "prompt"


def test_not_a_number_in_a_schema_is_no_json(http: Http) -> None:
    body = json.dumps({"prompt": "a", "response_format": named({"const": float("nan")})})
    response = http.request("POST", "/v1/completions", content=body)
    assert error(response)[:2] == (400, "response_format")
