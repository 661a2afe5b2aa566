"""`GET /openapi.json`: made of the models that requests are parsed with, and of those that answers are held against."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from orchestrator import __version__
from orchestrator.front import responses
from orchestrator.front.keys import OPEN
from orchestrator.front.schema import ChatRequest, CompletionRequest

Json = dict[str, Any]
REFERENCE: Final = "#/components/schemas/{model}"
PROBLEMS: Final[Mapping[int, str]] = {
    400: "what was asked cannot be done: `param` names the field",
    401: "the API key is missing or wrong",
    404: "there is no such thing here",
    405: "not with this method",
    413: "the body is too large",
    429: "too much is waiting: come again after `Retry-After` seconds",
    500: "a fault of the service",
    503: "nobody is there to answer now: come again after `Retry-After` seconds",
}


@dataclass(frozen=True)
class Route:
    """What a path does, with what it is asked, and what comes back."""

    path: str
    text: str
    answer: type[BaseModel] | None
    asked: type[BaseModel] | None = None
    piece: type[BaseModel] | None = None
    problems: Sequence[int] = ()


ASKING: Final = (400, 401, 404, 413, 429, 500, 503)
ROUTES: Final = (
    Route(
        "/v1/chat/completions",
        "Answer a conversation.",
        responses.ChatCompletion,
        ChatRequest,
        responses.ChatPiece,
        ASKING,
    ),
    Route(
        "/v1/completions",
        "Continue texts.",
        responses.Completion,
        CompletionRequest,
        responses.CompletionPiece,
        ASKING,
    ),
    Route("/v1/models", "The model that is served.", responses.ModelList, problems=(401,)),
    Route("/v1/models/{name}", "A model by name.", responses.ModelCard, problems=(401, 404)),
    Route("/health", "Whether the process and its loops are alive.", responses.Health),
    Route("/ping", "The same as `/health`.", responses.Health),
    Route("/ready", "Whether a request would be served now.", responses.Ready),
    Route("/version", "Version of the software and of the mesh protocol.", responses.Version),
    Route(
        "/server_info",
        "Who takes part, what is served, within which limits, how it was configured.",
        responses.ServerInfo,
        problems=(401,),
    ),
    Route("/metrics", "Counters, gauges and histograms for Prometheus.", None),
)


def document() -> Json:
    """The whole description, as plain data."""
    models: list[tuple[type[BaseModel], JsonSchemaMode]] = [(responses.Error, "serialization")]
    for route in ROUTES:
        models += [(model, "validation") for model in (route.asked,) if model]
        models += [(model, "serialization") for model in (route.answer, route.piece) if model]
    _, schemas = models_json_schema(models, ref_template=REFERENCE)
    return {
        "openapi": "3.1.0",
        "info": {"title": "draftmesh", "version": __version__},
        "paths": {route.path: _path(route) for route in ROUTES},
        "components": {
            "schemas": schemas["$defs"],
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}, {}],
    }


def _path(route: Route) -> Json:
    method: Json = {"summary": route.text, "responses": _responses(route)}
    if route.path in OPEN:
        method["security"] = []
    if route.asked:
        body = {"application/json": {"schema": _reference(route.asked)}}
        method["requestBody"] = {"required": True, "content": body}
    if "{name}" in route.path:
        name = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
        method["parameters"] = [name]
    return {"post" if route.asked else "get": method}


def _responses(route: Route) -> Json:
    content: Json = {"text/plain": {"schema": {"type": "string"}}}
    if route.answer:
        content = {"application/json": {"schema": _reference(route.answer)}}
    if route.piece:
        content["text/event-stream"] = {"schema": _event(route.piece)}
    found: Json = {"200": {"description": "as asked", "content": content}}
    if route.path in {"/health", "/ping", "/ready"}:
        found["503"] = {"description": "it is not", "content": content}
    for status in route.problems:
        error = {"application/json": {"schema": _reference(responses.Error)}}
        found[str(status)] = {"description": PROBLEMS[status], "content": error}
    return found


def _event(piece: type[BaseModel]) -> Json:
    """One event of a stream; the last of one that went well is `[DONE]`."""
    either = {"anyOf": [_reference(piece), _reference(responses.Error)]}
    data = {"type": "string", "contentMediaType": "application/json", "contentSchema": either}
    said = {"anyOf": [data, {"const": "[DONE]"}]}
    return {"type": "object", "properties": {"data": said}, "required": ["data"]}


def _reference(model: type[BaseModel]) -> Json:
    return {"$ref": REFERENCE.format(model=model.__name__)}
