"""The tables of `docs/api.md`, made of the models that requests are parsed with.

`python -m tests.orchestrator.api_reference` writes them anew; a test holds the file against them.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from orchestrator.front.openapi import ROUTES
from orchestrator.front.parsing import UNSUPPORTED
from orchestrator.front.schema import ChatRequest, CompletionRequest, Request
from orchestrator.speculative import UNSUPPORTED as UNSUPPORTED_KEYS
from tests.generated import rewritten

FILE: Final = Path(__file__).parents[2] / "docs" / "api.md"
MAKER: Final = "tests.orchestrator.api_reference"


def tables() -> Mapping[str, str]:
    """Every table by its name."""
    shared = [name for name in Request.model_fields if _same(name)]
    return {
        "endpoints": _endpoints(),
        "shared": _parameters(ChatRequest, shared),
        "completions": _parameters(CompletionRequest, _own(CompletionRequest, shared)),
        "chat": _parameters(ChatRequest, _own(ChatRequest, shared)),
        "refused": _refused(UNSUPPORTED),
        "speculative": _refused(UNSUPPORTED_KEYS),
    }


def _same(name: str) -> bool:
    chat, completion = (kind.model_fields[name] for kind in (ChatRequest, CompletionRequest))
    return chat.description == completion.description


def _own(model: type[BaseModel], shared: list[str]) -> list[str]:
    return [name for name in model.model_fields if name not in shared]


def _endpoints() -> str:
    rows = [
        f"| `{'POST' if route.asked else 'GET'} {route.path}` | {route.text} |" for route in ROUTES
    ]
    return "\n".join(["| | |", "| --- | --- |", *rows])


def _parameters(model: type[BaseModel], names: list[str]) -> str:
    schema = model.model_json_schema()
    properties, kinds = schema["properties"], schema["$defs"]
    rows = [
        f"| `{name}` | {_values(properties[name], kinds)} | {properties[name]['description'].strip()} |"
        for name in sorted(names)
    ]
    return "\n".join(["| parameter | values | meaning (default) |", "| --- | --- | --- |", *rows])


def _values(schema: Mapping[str, Any], kinds: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return _object(kinds[schema["$ref"].rpartition("/")[2]])
    if options := schema.get("anyOf") or schema.get("oneOf"):
        wanted = [each for each in options if each.get("type") != "null"]
        return " or ".join(dict.fromkeys(_values(each, kinds) for each in wanted))
    return _plain(schema, kinds)


def _plain(schema: Mapping[str, Any], kinds: Mapping[str, Any]) -> str:
    match schema["type"]:
        case "array":
            return f"list of {_counted(schema)}{_values(schema['items'], kinds)}"
        case "object":
            (value,) = schema["patternProperties"].values()
            return f"object of {_counted(schema)}token ids to {_values(value, kinds)}"
        case "string":
            most = schema.get("maxLength")
            return "text" + (f" of 1 to {most} characters" if most else "")
        case kind:
            return f"{kind}{_range(schema)}"


def _object(schema: Mapping[str, Any]) -> str:
    names = ", ".join(f"`{name}`" for name in schema["properties"])
    return f"object of {names}"


def _counted(schema: Mapping[str, Any]) -> str:
    most = schema.get("maxItems", schema.get("maxProperties"))
    return f"up to {most}: " if most else ""


def _range(schema: Mapping[str, Any]) -> str:
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    if low is None:
        return ""
    above = " above" if "exclusiveMinimum" in schema else ""
    below = " below" if "exclusiveMaximum" in schema else ""
    if high == 2**31 - 1:
        return f",{above} {low} or more"
    return f",{above} {_number(low)} to{below} {_number(high)}"


def _number(value: float) -> str:
    return f"2^{value.bit_length() - 1}" if isinstance(value, int) and value > 2**60 else f"{value}"


def _refused(table: Mapping[str, tuple[object, ...]]) -> str:
    rows = [
        f"| `{name}` | {', '.join(_literal(value) for value in neutral)} |"
        for name, neutral in sorted(table.items())
    ]
    return "\n".join(["| name | accepted all the same |", "| --- | --- |", *rows])


def _literal(value: object) -> str:
    words = {None: "null", True: "true", False: "false"}
    shown = words[value] if value is None or isinstance(value, bool) else repr(value)
    return f"`{shown}`".replace("'", '"')


def written(text: str) -> str:
    """The file with its tables made anew."""
    return rewritten(text, tables(), MAKER)


if __name__ == "__main__":
    FILE.write_text(written(FILE.read_text(encoding="utf-8")), encoding="utf-8")
