"""Heads that come with draftmesh: `drafter/checkpoints/TARGET/METHOD`, made by `drafter train` (see their cards)."""

from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent


def bundled(target: str, method: str) -> Path | None:
    """The head of this method for the model of this name; None where there is none.

    A folder of somebody's own with the name of a model is not that model.
    """
    folder = HERE / target / method
    plain = Path(target).name == target and not Path(target).exists()
    return folder if plain and (folder / "config.json").is_file() else None


def targets() -> list[str]:
    """Models for which there are heads."""
    return sorted({each.parent.parent.name for each in HERE.glob("*/*/config.json")})
