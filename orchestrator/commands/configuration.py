"""`orchestrator config`: what the configuration is and where it comes from, and what it may be."""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from orchestrator.commands.output import data
from orchestrator.config import OWNED, Config
from orchestrator.settings import traced

DEFAULT: Final = "default"
WIDE: Final = 1 << 20
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def show(file: Path | None, *, as_json: bool) -> int:
    """Every value that a user may set; as YAML, a comment tells the origin of those that somebody did."""
    loaded = traced({}, file)
    values = loaded.config.shown()
    origins = {".".join(path): origin for path, origin in loaded.origins.items()}
    if as_json:
        flat = dict(_flat(values))
        data({k: {"value": v, "origin": _origin(k, origins)} for k, v in flat.items()})
        return 0
    sys.stdout.writelines(f"{line}\n" for line in _lines(values, origins))
    return 0


def schema() -> int:
    """JSON Schema of a configuration file, without the keys that are decided elsewhere."""
    data(schema_of_file())
    return 0


def schema_of_file() -> Mapping[str, Any]:
    """As `schema` prints it."""
    whole: dict[str, Any] = {"$schema": DIALECT, **Config.model_json_schema()}
    for section, paths in OWNED.items():
        for path in paths:
            _remove(whole, whole["properties"][section], path.split("."))
    return whole


def _remove(whole: Mapping[str, Any], place: Mapping[str, Any], path: list[str]) -> None:
    """Take the key at `path` out of the object that `place` refers to."""
    here = whole["$defs"][place["$ref"].rpartition("/")[2]]
    key, *rest = path
    if rest:
        _remove(whole, here["properties"][key], rest)
        return
    here["properties"].pop(key, None)
    here["required"] = [each for each in here.get("required", ()) if each != key]


def _origin(key: str, origins: Mapping[str, str]) -> str:
    """Of the key itself, or of something above or below that was set as a whole."""
    for known, origin in origins.items():
        if key == known or key.startswith(f"{known}.") or known.startswith(f"{key}."):
            return origin
    return DEFAULT


def _flat(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def _lines(
    values: Mapping[str, Any], origins: Mapping[str, str], above: str = "", indent: str = ""
) -> Iterator[str]:
    for key, value in values.items():
        path = f"{above}{key}"
        if isinstance(value, Mapping) and value:
            yield f"{indent}{_plain(key)}:"
            yield from _lines(value, origins, f"{path}.", f"{indent}  ")
            continue
        origin = _origin(path, origins)
        comment = "" if origin == DEFAULT else f"  # {origin}"
        yield f"{indent}{_plain(key)}: {_plain(value)}{comment}"


def _plain(value: object) -> str:
    """A value on one line: JSON is YAML, but words look better without quotes."""
    text = yaml.safe_dump(value, default_flow_style=True, width=WIDE).removesuffix("...\n").strip()
    return text if "\n" not in text else json.dumps(value)
