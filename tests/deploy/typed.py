"""What our own command line makes of words, without doing it."""

from collections.abc import Sequence
from typing import Any

import typer

from orchestrator.cli import app


def parsed(words: Sequence[str]) -> dict[str, Any]:
    """Go down to the command that is meant and read its options; whatever it does not know is an error."""
    command: Any = typer.main.get_command(app)
    rest = list(words)
    while hasattr(command, "commands"):
        name, *rest = rest
        command = command.commands[name]
    return {"command": name, **command.make_context(name, rest).params}
