"""What clients may say. Whatever is not understood is refused by name: silence would look like obedience."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import from_json

from orchestrator.front.errors import ApiError

UNSUPPORTED: Final[Mapping[str, tuple[object, ...]]] = {
    "logprobs": (None, False),
    "top_logprobs": (None,),
    "prompt_logprobs": (None,),
    "echo": (None, False),
    "suffix": (None, ""),
    "tools": (None, []),
    "tool_choice": (None, "none", "auto"),
    "parallel_tool_calls": (None, True, False),
    "functions": (None, []),
    "function_call": (None, "none", "auto"),
    "response_format": (None, {"type": "text"}),
    "logit_bias": (None, {}),
    "presence_penalty": (None, 0, 0.0),
    "frequency_penalty": (None, 0, 0.0),
    "repetition_penalty": (None, 1, 1.0),
    "modalities": (None, ["text"]),
    "audio": (None,),
    "prediction": (None,),
    "reasoning_effort": (None,),
    "store": (None, False),
    "metadata": (None, {}),
    "service_tier": (None, "auto", "default"),
    "web_search_options": (None,),
}
"""Parameters that are known but not obeyed, with the values that ask for nothing."""


def _listed(value: Any) -> Any:  # noqa: ANN401
    return [value] if isinstance(value, str) else value


def _prompts(value: Any) -> Any:  # noqa: ANN401
    """A text, some token ids, or a list of either, as a list of prompts."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and value and all(type(each) is int for each in value):
        return [value]
    return value


Stops = Annotated[list[Annotated[str, Field(min_length=1, max_length=1024)]], Field(max_length=16)]
TokenId = Annotated[int, Field(ge=0, le=2**31 - 1)]
_STRICT: Final = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class StreamOptions(BaseModel):
    model_config = _STRICT

    include_usage: bool | None = None


class Request(BaseModel):
    """What both kinds of completion share. None is the default, as if it had not been said."""

    model_config = _STRICT

    model: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    temperature: float | None = Field(None, ge=0, le=100)
    top_p: float | None = Field(None, gt=0, le=1)
    top_k: int | None = Field(None, ge=-1, le=2**31 - 1)
    min_p: float | None = Field(None, ge=0, le=1)
    seed: int | None = Field(None, ge=-(2**63), lt=2**64)
    n: int | None = Field(None, ge=1, le=128)
    best_of: int | None = None
    max_tokens: int | None = Field(None, ge=1, le=2**31 - 1)
    min_tokens: int | None = Field(None, ge=0, le=2**31 - 1)
    stop: Annotated[Stops | None, BeforeValidator(_listed)] = None
    stop_token_ids: Annotated[list[TokenId], Field(max_length=256)] | None = None
    ignore_eos: bool | None = None
    include_stop_str_in_output: bool | None = None
    return_token_ids: bool | None = None
    user: str | None = None

    @model_validator(mode="after")
    def _agrees(self) -> "Request":
        if self.stream_options and not self.stream:
            raise ValueError("stream_options: only with stream")
        if self.best_of is not None and self.best_of != (self.n or 1):
            raise ValueError("best_of: only the value of n is supported")
        return self


class CompletionRequest(Request):
    prompt: Annotated[
        list[str | list[TokenId]],
        Field(min_length=1, max_length=128),
        BeforeValidator(_prompts),
    ]


class Part(BaseModel):
    model_config = _STRICT

    type: Literal["text"]
    text: str


class ChatMessage(BaseModel):
    model_config = _STRICT

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[Part]
    name: str | None = None

    @property
    def text(self) -> str:
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.text for part in self.content)


class ChatRequest(Request):
    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    max_completion_tokens: int | None = Field(None, ge=1, le=2**31 - 1)


RequestT = TypeVar("RequestT", bound=Request)


def parse(kind: type[RequestT], body: bytes) -> RequestT:
    """The request in a body; an ApiError with status 400 names the parameter at fault."""
    try:
        raw = from_json(body, allow_inf_nan=True)
    except ValueError as error:
        raise ApiError(400, f"The body is no JSON: {error}", code="invalid_json") from error
    if not isinstance(raw, dict):
        raise ApiError(400, "The body is no JSON object", code="invalid_json")
    for name, neutral in UNSUPPORTED.items():
        if name in raw and not _among(raw.pop(name), neutral):
            text = f"{name} is not supported by this service"
            raise ApiError(400, text, name, "unsupported_parameter")
    try:
        return kind.model_validate(raw)
    except ValidationError as error:
        raise _refusal(error) from error


def _among(value: object, neutral: tuple[object, ...]) -> bool:
    """Membership that tells 0 from False: for some parameters one of them asks for something."""
    return any(type(value) is type(each) and value == each for each in neutral)


def _refusal(error: ValidationError) -> ApiError:
    fault = error.errors(include_url=False)[0]
    text = fault["msg"].removeprefix("Value error, ")
    path = [str(part) for part in fault["loc"]]
    if not path:  # a rule about several parameters: its text begins with the one to change
        param = text.partition(":")[0]
        return ApiError(400, text, param, "invalid_value")
    if fault["type"] == "extra_forbidden":
        text = f"there is no parameter {'.'.join(path)!r}"
        return ApiError(400, text, path[0], "unknown_parameter")
    return ApiError(400, f"{'.'.join(path)}: {text}", path[0], "invalid_value")
