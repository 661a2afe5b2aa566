"""Sets of prompts: one JSON object a line, in `orchestrator/bench/prompts/` or in a file of the user's."""

import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from orchestrator.config import near
from orchestrator.settings import ConfigError

FOLDER: Final = "bench/prompts"


class Prompt(BaseModel):
    """One question, asked once in a run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(min_length=1)
    messages: list[dict[str, Any]] = Field(min_length=1)
    max_tokens: int | None = Field(None, ge=1)
    """Where an answer is cut; None: as the run says."""


SENTENCES: Final = (
    "Seven grey geese crossed the wet field and none of them looked back at the farm.",
    "Please leave the parcel with the neighbours at number nine if nobody opens the door.",
    "Tighten the upper screw first, then the lower one, and check that the wheel turns freely.",
    "Our ferry was late, the hotel was full, and yet it became the best day of the journey.",
)

WARM_UP: Final[Sequence[Prompt]] = tuple(
    Prompt(
        id=f"warm-{number}",
        messages=[{"role": "user", "content": f"Repeat this sentence five times:\n\n{text}"}],
        max_tokens=100,
    )
    for number, text in enumerate(SENTENCES)
)
"""What a system answers before it is measured; in no set."""


def sets() -> list[str]:
    """Names of the sets that ship."""
    entries = files("orchestrator").joinpath(FOLDER).iterdir()
    return sorted(each.name.removesuffix(".jsonl") for each in entries if each.name.endswith("l"))


def read(source: str, count: int | None = None) -> list[Prompt]:
    """The first prompts of a set or a file; a ConfigError says what is wrong with it."""
    prompts = parse(_text(source), source)
    if count is None:
        return prompts
    if count > len(prompts):
        raise ConfigError(f"{source} has {len(prompts)} prompts, not {count}")
    return prompts[:count]


def parse(text: str, source: str) -> list[Prompt]:
    """The prompts of a file's text, each of them once."""
    prompts: list[Prompt] = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            prompts.append(Prompt.model_validate_json(line))
        except ValidationError as error:
            fault = error.errors(include_url=False)[0]
            where = ".".join(map(str, fault["loc"]))
            raise ConfigError(f"{source}, line {number}: {where} {fault['msg']}") from error
    if not prompts:
        raise ConfigError(f"{source} holds no prompts")
    asked: dict[str, int] = {}
    for number, prompt in enumerate(prompts, 1):
        first = asked.setdefault(json.dumps(prompt.messages), number)
        if first != number:
            raise ConfigError(f"{source}: lines {first} and {number} ask the same")
    return prompts


def _text(source: str) -> str:
    if source in sets():
        return files("orchestrator").joinpath(FOLDER, f"{source}.jsonl").read_text("utf-8")
    path = Path(source)
    if not path.is_file():
        raise ConfigError(
            f"There is no set or file {source!r}{near(source, dict.fromkeys(sets()))}"
        )
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"The file {path} cannot be read: {error}") from error
