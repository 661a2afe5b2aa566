"""From the bytes of a body to a request, or to an error that names the parameter at fault."""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from pydantic import ValidationError
from pydantic_core import from_json
from starlette.requests import Request as HttpRequest

from orchestrator.front.errors import ApiError
from orchestrator.front.fields import LIST, TEXT, TOO_LONG
from orchestrator.front.schema import Request

UNSUPPORTED: Final[Mapping[str, tuple[object, ...]]] = {
    "add_generation_prompt": (None, True),
    "add_special_tokens": (None,),
    "audio": (None,),
    "chat_template": (None,),
    "chat_template_kwargs": (None, {}),
    "continue_final_message": (None, False),
    "documents": (None, []),
    "echo": (None, False),
    "function_call": (None, "none", "auto"),
    "functions": (None, []),
    "guided_choice": (None,),
    "guided_grammar": (None,),
    "guided_json": (None,),
    "guided_regex": (None,),
    "length_penalty": (None, 1, 1.0),
    "logprobs": (None,),
    "metadata": (None, {}),
    "modalities": (None, ["text"]),
    "parallel_tool_calls": (None, True, False),
    "prediction": (None,),
    "priority": (None, 0),
    "reasoning_effort": (None,),
    "service_tier": (None, "auto", "default"),
    "skip_special_tokens": (None, True),
    "spaces_between_special_tokens": (None, True),
    "store": (None, False),
    "suffix": (None, ""),
    "tool_choice": (None, "none", "auto"),
    "tools": (None, []),
    "top_logprobs": (None,),
    "truncate_prompt_tokens": (None,),
    "use_beam_search": (None, False),
    "verbosity": (None,),
    "web_search_options": (None,),
}
"""Parameters that are known but not obeyed (by one endpoint or both), with the values that ask for nothing."""

RequestT = TypeVar("RequestT", bound=Request)


async def body(http: HttpRequest, limit: int) -> bytes:
    """The body, never more of it than the limit, whatever its headers say."""
    text = f"the body has more than {limit} bytes"
    declared = http.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > limit:
        raise ApiError(413, text, code="body_too_large")
    read = bytearray()
    async for chunk in http.stream():
        read += chunk
        if len(read) > limit:
            raise ApiError(413, text, code="body_too_large")
    return bytes(read)


def plain(content: bytes) -> dict[str, Any]:
    """What the text of a body holds, which must be a JSON object."""
    try:
        raw = from_json(content, allow_inf_nan=True)
    except ValueError as error:
        raise ApiError(400, f"The body is no JSON: {error}", code="invalid_json") from error
    if not isinstance(raw, dict):
        raise ApiError(400, "The body is no JSON object", code="invalid_json")
    return raw


def checked(kind: type[RequestT], given: Mapping[str, Any], context: int = 0) -> RequestT:
    """The request in it; an ApiError with status 400 names the parameter at fault.

    Lists of token ids that are longer than `context` are refused unread.
    """
    raw = dict(given)
    for name in UNSUPPORTED.keys() & raw.keys() - kind.model_fields.keys():
        if not _among(raw.pop(name), UNSUPPORTED[name]):
            text = f"{name} is not supported by this endpoint"
            raise ApiError(400, text, name, "unsupported_parameter")
    for name in raw.keys() - kind.model_fields.keys():
        text = f"there is no parameter {_short(name)!r}"
        raise ApiError(400, text, _short(name), "unknown_parameter")
    try:
        return kind.model_validate(raw, context={"context": context})
    except ValidationError as error:
        raise _refusal(error) from error


def _among(value: object, neutral: tuple[object, ...]) -> bool:
    """Membership that tells 0 from False: for some parameters one of them asks for something."""
    return any(type(value) is type(each) and value == each for each in neutral)


def _refusal(error: ValidationError) -> ApiError:
    fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
    text = fault["msg"].removeprefix("Value error, ")
    path = [str(part) for part in fault["loc"] if part not in {TEXT, LIST, "[key]"}]
    if not path:  # a rule about several parameters: its text begins with the one to change
        param = text.partition(":")[0]
        return ApiError(400, text, param, "invalid_value")
    code = TOO_LONG if fault["type"] == TOO_LONG else "invalid_value"
    return ApiError(400, f"{_short('.'.join(path))}: {text}", path[0], code)


def _short(text: str) -> str:
    """Names that a client made up come back, but not at any length."""
    return text if len(text) <= 128 else text[:125] + "..."
