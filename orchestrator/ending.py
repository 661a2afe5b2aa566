"""How every command ends: what the user got wrong, or cannot have, is one sentence and an exit code.

`EXIT_CODES` is what the help and the docs say of them.
"""

# ruff: noqa: PLC0415

from collections.abc import Callable, Mapping
from typing import Final

import typer

EXIT_CODES: Final[Mapping[int, str]] = {
    0: "done",
    1: "it failed; stderr says why in one sentence",
    2: "the command or the configuration is wrong",
    3: "no such service or node runs here",
    130: "Ctrl-C",
}


def end(run: Callable[[], int]) -> None:
    """Run a command and leave with its exit code."""
    from orchestrator.bench.errors import BenchError
    from orchestrator.commands.output import FAILED, NONE_RUNS, USAGE, complain
    from orchestrator.commands.services import NoServiceError
    from orchestrator.models import ModelError
    from orchestrator.settings import ConfigError

    try:
        code = run()
    except ConfigError as error:
        complain(str(error))
        code = USAGE
    except NoServiceError as error:
        complain(str(error))
        code = NONE_RUNS
    except (ModelError, BenchError) as error:
        complain(str(error))
        code = FAILED
    except KeyboardInterrupt:
        code = 130
    raise typer.Exit(code)
