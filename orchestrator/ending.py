"""How every command ends: what the user got wrong, or cannot have, is one sentence and an exit code."""

# ruff: noqa: PLC0415

from collections.abc import Callable

import typer


def end(run: Callable[[], int]) -> None:
    """Run a command and leave with its exit code."""
    from orchestrator.bench.errors import BenchError
    from orchestrator.commands.output import FAILED, USAGE, complain
    from orchestrator.models import ModelError
    from orchestrator.settings import ConfigError

    try:
        code = run()
    except ConfigError as error:
        complain(str(error))
        code = USAGE
    except (ModelError, BenchError) as error:
        complain(str(error))
        code = FAILED
    except KeyboardInterrupt:
        code = 130
    raise typer.Exit(code)
