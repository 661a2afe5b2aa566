"""Grammars that clients may ask for, in OpenAI's words, vLLM's and SGLang's, and what a verifier is told of them."""

import json
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from orchestrator.front.errors import ApiError
from protocol.messages import Grammar

STRICT: Final = ConfigDict(
    extra="forbid", frozen=True, strict=True, allow_inf_nan=False, use_attribute_docstrings=True
)
LONGEST: Final = {"json_object": 0, "json_schema": 1 << 16, "regex": 1 << 13, "lark": 1 << 15}
"""Bytes of a grammar of each kind, as verifiers take them."""

Schema = dict[str, JsonValue]
Pattern = Annotated[str, Field(min_length=1, max_length=LONGEST["regex"])]


class Text(BaseModel):
    """No format at all."""

    model_config = STRICT

    type: Literal["text"]


class AnyObject(BaseModel):
    """Some JSON object."""

    model_config = STRICT

    type: Literal["json_object"]


class NamedSchema(BaseModel):
    """`schema_` is written `schema`. It is always kept to, whether `strict` or not."""

    model_config = STRICT | ConfigDict(serialize_by_alias=True)

    name: str | None = None
    description: str | None = None
    schema_: Schema | None = Field(None, alias="schema")
    strict: bool | None = None


class JsonSchema(BaseModel):
    """A JSON text by a schema."""

    model_config = STRICT

    type: Literal["json_schema"]
    json_schema: NamedSchema


ResponseFormat = Annotated[Text | AnyObject | JsonSchema, Field(discriminator="type")]


class StructuredOutputs(BaseModel):
    """vLLM's way to say it; exactly one of them."""

    model_config = STRICT

    json_: Schema | Annotated[str, Field(min_length=1)] | None = Field(None, alias="json")
    json_object: bool | None = None
    regex: Pattern | None = None
    choice: Annotated[list[str], Field(min_length=1, max_length=1024)] | None = None
    grammar: Annotated[str, Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _one(self) -> "StructuredOutputs":
        said = (self.json_, self.json_object or None, self.regex, self.choice, self.grammar)
        if sum(each is not None for each in said) != 1:
            raise ValueError("exactly one of json, json_object, regex, choice and grammar")
        return self


def of_format(wanted: Text | AnyObject | JsonSchema) -> Grammar | None:
    """What a `response_format` asks for."""
    match wanted:
        case Text():
            return None
        case AnyObject() | JsonSchema(json_schema=NamedSchema(schema_=None)):
            return Grammar("json_object")
        case JsonSchema():
            return _told("json_schema", _json(wanted.json_schema.schema_), "response_format")


def of_regex(pattern: str) -> Grammar:
    """Text that a regular expression matches as a whole."""
    return _told("regex", pattern, "regex")


def of_outputs(wanted: StructuredOutputs) -> Grammar:
    """What `structured_outputs` asks for."""
    kind, text = "json_object", ""
    if wanted.json_ is not None:
        said = wanted.json_
        kind, text = "json_schema", said if isinstance(said, str) else _json(said)
    elif wanted.regex is not None:
        kind, text = "regex", wanted.regex
    elif wanted.choice is not None:
        words = " | ".join(json.dumps(each, ensure_ascii=False) for each in wanted.choice)
        kind, text = "lark", f"start: {words}"
    elif wanted.grammar is not None:
        kind, text = "lark", wanted.grammar
    return _told(kind, text, "structured_outputs")


def _json(schema: Any) -> str:  # noqa: ANN401
    return json.dumps(schema, ensure_ascii=False, separators=(",", ":"))


def _told(kind: str, text: str, param: str) -> Grammar:
    size = len(text.encode())
    if size > LONGEST[kind]:
        text = f"{param}: {size} bytes are more than the {LONGEST[kind]} that a {kind} may have"
        raise ApiError(400, text, param, "invalid_value")
    return Grammar(kind, text)
