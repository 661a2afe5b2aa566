"""From a gRPC message to the parameters of an HTTP body: the same names, the same checks behind them. Pure."""

from typing import Any, Final

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet
from pydantic_core import from_json

from orchestrator.front.errors import ApiError
from orchestrator.front.logprobs import Json
from orchestrator.rpc.draftmesh_pb2 import GenerateRequest

OWN: Final = frozenset({"text", "token_ids", "request_id"})
"""Fields that are no parameters."""
AS_TEXT: Final = frozenset({"response_format"})
"""Parameters whose value comes as JSON text: protobuf's own objects forget the order of their keys."""


def parameters(request: GenerateRequest) -> Json:
    """What a client set, as an HTTP body for a stream with usage would say it; an ApiError names what nobody knows."""
    raw = _fields(request)
    given = {name: value for name, value in raw.items() if name not in OWN}
    for name in AS_TEXT & given.keys():
        given[name] = _parsed(name, given[name])
    which = request.WhichOneof("prompt")
    if which is not None:
        given["prompt"] = request.text if which == "text" else list(request.token_ids.ids)
    return {**given, "stream": True, "stream_options": {"include_usage": True}}


def _fields(message: Message) -> Json:
    """Fields that are set, by name."""
    for unknown in UnknownFieldSet(message):
        text = f"{message.DESCRIPTOR.name} has no field {unknown.field_number} here"
        raise ApiError(400, text, str(unknown.field_number), "unknown_parameter")
    return {field.name: _plain(field, value) for field, value in message.ListFields()}


def _plain(field: Any, value: Any) -> Any:  # noqa: ANN401
    if field.message_type is None:
        return list(value) if field.is_repeated else value
    if field.message_type.GetOptions().map_entry:
        return {str(key): each for key, each in sorted(value.items())}
    return _fields(value)


def _parsed(name: str, text: str) -> Any:  # noqa: ANN401
    try:
        return from_json(text)
    except ValueError as error:
        raise ApiError(400, f"{name}: no JSON: {error}", name, "invalid_value") from error
