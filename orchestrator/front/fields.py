"""Kinds of values that clients may send. Sizes are checked before anybody looks at what is inside."""

from typing import Annotated, Any, Final

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    ValidationInfo,
)
from pydantic_core import PydanticCustomError

LIKELIEST: Final = 20
"""Likeliest tokens that may be asked for at a position."""
MOST: Final = 2**31 - 1
PROMPTS: Final = 128
TOO_LONG: Final = "context_length_exceeded"
FAIL_FAST: Final = Field(fail_fast=True)
"""A list is not looked through behind its first fault."""
TEXT: Final = "(text)"
LIST: Final = "(list)"
"""Names of branches, in the paths of faults."""


def few(most: int) -> BeforeValidator:
    """A list or object with more items is refused before anybody looks at one of them."""

    def check(value: Any) -> Any:  # noqa: ANN401
        if isinstance(value, list | dict) and len(value) > most:
            raise ValueError(f"{len(value)} are more than {most}")
        return value

    return BeforeValidator(check)


def _listed(value: Any) -> Any:  # noqa: ANN401
    return [value] if isinstance(value, str) else value


def _prompts(value: Any, info: ValidationInfo) -> Any:  # noqa: ANN401
    """A text, some token ids, or a list of either, as a list of prompts, none of them longer than the context."""
    longest = (info.context or {}).get("context") or MOST
    if isinstance(value, str) or (isinstance(value, list) and value and type(value[0]) is int):
        value = [value]
    if isinstance(value, list) and len(value) > PROMPTS:
        raise ValueError(f"{len(value)} prompts are more than {PROMPTS}")
    for prompt in value if isinstance(value, list) else ():
        if isinstance(prompt, list) and len(prompt) >= longest:
            text = f"the prompt has {len(prompt)} tokens, which leaves no room within {longest}"
            raise PydanticCustomError(TOO_LONG, "{text}", {"text": text})
    return value


def branch(value: Any) -> str:  # noqa: ANN401
    return LIST if isinstance(value, list) else TEXT


TokenId = Annotated[int, Field(ge=0, le=MOST)]
Tokens = Annotated[list[TokenId], FAIL_FAST]
Stop = Annotated[str, Field(min_length=1, max_length=1024)]
Stops = Annotated[
    list[Stop],
    FAIL_FAST,
    few(16),
    BeforeValidator(
        _listed, json_schema_input_type=Stop | Annotated[list[Stop], Field(max_length=16)]
    ),
]
_Text = Annotated[str, Field(min_length=1)]
_Tokens = Annotated[list[TokenId], Field(min_length=1)]
Prompt = Annotated[Annotated[str, Tag(TEXT)] | Annotated[Tokens, Tag(LIST)], Discriminator(branch)]
Prompts = Annotated[
    list[Prompt],
    Field(min_length=1),
    FAIL_FAST,
    BeforeValidator(
        _prompts,
        json_schema_input_type=_Text
        | _Tokens
        | Annotated[list[_Text | _Tokens], Field(min_length=1, max_length=PROMPTS)],
    ),
]
Biases = Annotated[
    dict[
        Annotated[str, StringConstraints(pattern=r"^(0|[1-9][0-9]{0,8})$")],
        Annotated[float, Field(ge=-100, le=100)],
    ],
    Field(max_length=1024),
    FAIL_FAST,
    few(1024),
]
BadWords = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=256)]],
    Field(max_length=128),
    FAIL_FAST,
    few(128),
]
