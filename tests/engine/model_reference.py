"""The tables of `docs/models.md`, made of those that tests run over.

`python -m tests.engine.model_reference` writes them anew; a test holds the file against them.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from engine.models import ARCHITECTURES
from engine.models.llama_shape import ROPES
from orchestrator.models import MODELS
from tests.architectures import HOSTED
from tests.engine.test_refusals import FEATURES
from tests.generated import rewritten

FILE: Final = Path(__file__).parents[2] / "docs" / "models.md"
MAKER: Final = "tests.engine.model_reference"


def tables() -> Mapping[str, str]:
    """Every table by its name."""
    names = [f"| `{each.name}` | {each.title} | {each.licence} |" for each in MODELS.values()]
    lean = [f"| `{name}` | {HOSTED[name].feature} |" for name in ARCHITECTURES]
    hosted = [
        f"| `{name}` | {example.feature} |"
        for name, example in HOSTED.items()
        if name not in ARCHITECTURES
    ]
    refused = [f"| {name} | {feature} |" for name, (_, _, feature) in FEATURES.items()]
    return {
        "names": _table("name | weights | licence", names),
        "lean": _table("architecture | what is particular", lean),
        "ropes": ", ".join(f"`{rope}`" for rope in ROPES),
        "hosted": _table("architecture | what is particular", hosted),
        "refused": _table("for example | it has", refused),
    }


def _table(head: str, rows: list[str]) -> str:
    rule = "| " + " | ".join("---" for _ in head.split("|")) + " |"
    return "\n".join([f"| {head} |", rule, *rows])


def written(text: str) -> str:
    """The file with its tables made anew."""
    return rewritten(text, tables(), MAKER)


if __name__ == "__main__":
    FILE.write_text(written(FILE.read_text(encoding="utf-8")), encoding="utf-8")
