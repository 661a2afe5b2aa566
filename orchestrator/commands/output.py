"""How commands speak: progress and news to stderr, results to stdout, and the exit codes."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from orchestrator.models import Report

FAILED: Final = 1
USAGE: Final = 2

out: Final = Console(highlight=False)
err: Final = Console(stderr=True, highlight=False)


def say(text: str, style: str | None = None) -> None:
    """A line of news; a terminal that is gone must not stop the work."""
    with suppress(OSError):
        err.print(text, style=style, markup=False, soft_wrap=True)


def stage(name: str, text: str, since: float) -> None:
    """A line about something that was reached, `since` being when it was begun."""
    say(f"  {name:<12} {text:<44} {time.monotonic() - since:6.1f} s")


def complain(text: str) -> None:
    """Say what is wrong."""
    say(f"error: {text}", "red")


@contextmanager
def progress() -> Iterator[Report]:
    """A bar for each stage that reports; nothing where nobody watches."""
    with Progress(
        TextColumn("  {task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        console=err,
        transient=True,
        disable=not err.is_terminal,
    ) as bars:
        tasks: dict[str, int] = {}

        def report(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(bars.task_ids[tasks[what]], completed=done, total=total)

        yield report
