"""Where values come from: flags over environment over file over defaults. Imported late: it costs a quarter second."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsConfigDict, SettingsError

from orchestrator.config import Config, near

PREFIX: Final = "DRAFTMESH_"
RESERVED: Final = frozenset({"DRAFTMESH_CACHE"})
DEFAULT_FILE: Final = Path("draftmesh.yaml")


class ConfigError(Exception):
    """The user's configuration cannot be used; the text is one sentence for the user."""


class _Settings(Config, BaseSettings):
    model_config = SettingsConfigDict(env_prefix=PREFIX, env_nested_delimiter="__", extra="forbid")


class _Source(NamedTuple):
    values: Mapping[str, Any]
    spelling: str
    """`{}` is the path of a key; how the user wrote it there."""
    joint: str = "."

    def spell(self, path: tuple[str, ...]) -> str:
        if "--" in self.spelling:  # flags have no sections
            return self.spelling.format(path[-1].replace("_", "-"))
        key = self.joint.join(path)
        if self.joint == "__":
            return self.spelling.format(key.upper())
        return self.spelling.format(key)


class Loaded(NamedTuple):
    """A configuration, and for each value that somebody set, by its path, who wrote it where."""

    config: Config
    origins: Mapping[tuple[str, ...], str]


def load(flags: Mapping[str, Any], file: Path | None = None) -> Config:
    """The merged configuration; a ConfigError names the key and where it was written."""
    return traced(flags, file).config


def traced(flags: Mapping[str, Any], file: Path | None = None) -> Loaded:
    """As `load`, with the origin of each value that is no default."""
    sources = [
        _Source(given(flags), "--{}"),
        _Source(_environment(), PREFIX + "{}", "__"),
        _file(file),
    ]
    config = _merged(sources)
    origins: dict[tuple[str, ...], str] = {}
    for source in reversed(sources):
        origins |= {path: source.spell(path) for path in _leaves(source.values)}
    return Loaded(config, origins)


def _leaves(values: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, (*above, key))
        else:
            yield (*above, key)


def _merged(sources: list[_Source]) -> Config:
    merged: dict[str, Any] = {}
    for source in reversed(sources):
        for path in _unknown(source.values, Config):
            known = _fields(Config, path[:-1])
            raise ConfigError(f"There is no {source.spell(path)}{near(path[-1], known)}")
        merged = _merge(merged, source.values)
    try:
        return Config.model_validate(merged)
    except ValidationError as error:
        raise ConfigError(_sentence(error, sources)) from error


def given(flags: Mapping[str, Any]) -> Mapping[str, Any]:
    """Flags that were said; sections of them that hold nothing were not."""
    inner = {
        key: given(value) if isinstance(value, Mapping) else value for key, value in flags.items()
    }
    return {key: value for key, value in inner.items() if value not in (None, {})}


def _environment() -> Mapping[str, Any]:
    """What the environment sets; a variable of ours that sets nothing is an error."""
    for name in sorted(os.environ):
        if name.startswith(PREFIX) and name not in RESERVED:
            path = tuple(name.removeprefix(PREFIX).lower().split("__"))
            _check_variable(name, path)
    try:
        values: Mapping[str, Any] = EnvSettingsSource(_Settings)()
    except SettingsError as error:
        raise ConfigError(f"The environment cannot be read: {error}") from error
    return values


def _check_variable(name: str, path: tuple[str, ...]) -> None:
    for depth, key in enumerate(path):
        known = _fields(Config, path[:depth])
        if key not in known:
            spelled = {PREFIX + "__".join((*path[:depth], each)).upper(): None for each in known}
            raise ConfigError(f"There is no {name}{near(name, spelled)}")


def _file(file: Path | None) -> _Source:
    if file is None and not DEFAULT_FILE.is_file():
        return _Source({}, "{}")
    path = file or DEFAULT_FILE
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"The file {path} cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"The file {path} is no YAML: {' '.join(str(error).split())}") from error
    if values is None:
        values = {}
    if not isinstance(values, dict) or not all(isinstance(key, str) for key in values):
        raise ConfigError(f"The file {path} is no mapping of keys to values")
    return _Source(values, f"{{}} (in {path})")


def _fields(model: type[BaseModel], path: tuple[str, ...]) -> Mapping[str, Any]:
    """The keys below `path`; none where a value lies."""
    section: type[BaseModel] | None = model
    for key in path:
        section = _section(section, key) if section else None
    return section.model_fields if section else {}


def _section(model: type[BaseModel], key: str) -> type[BaseModel] | None:
    """The part that lies at `key`, if that is no plain value."""
    field = model.model_fields.get(key)
    kind: Any = field.annotation if field else None
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def _unknown(values: Mapping[str, Any], model: type[BaseModel]) -> Iterator[tuple[str, ...]]:
    for key, value in values.items():
        if key not in model.model_fields:
            yield (str(key),)
        elif isinstance(value, Mapping) and (section := _section(model, key)):
            yield from ((key, *rest) for rest in _unknown(value, section))


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        lower = merged.get(key)
        both = isinstance(lower, Mapping) and isinstance(value, Mapping)
        merged[key] = _merge(lower, value) if both else value  # type: ignore[arg-type]
    return merged


def _sentence(error: ValidationError, sources: list[_Source]) -> str:
    """The first fault, with the key as the user wrote it."""
    fault = error.errors()[0]
    path = tuple(str(part) for part in fault["loc"])
    text = fault["msg"].removeprefix("Value error, ")
    if not path:  # about keys that do not go together: the text names them
        return text
    for source in sources:
        value: Any = source.values
        for part in path:
            value = value.get(part) if isinstance(value, Mapping) else None
        if value is not None:
            return f"{source.spell(path)} cannot be {value!r}: {text}"
    return f"{'.'.join(path)}: {text}"
