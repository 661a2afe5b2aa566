"""How commands speak: progress and news to stderr, results to stdout, and the exit codes."""

import json
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from orchestrator.models import Report, silent

FAILED: Final = 1
USAGE: Final = 2
NONE_RUNS: Final = 3
"""There is no such service."""

out: Final = Console(highlight=False)
err: Final = Console(stderr=True, highlight=False)


def say(text: str, style: str | None = None) -> None:
    """A line of news; a terminal that is gone must not stop the work."""
    with suppress(OSError):
        err.print(text, style=style, markup=False, soft_wrap=True)


def data(value: object) -> None:
    """A result for programs: JSON."""
    sys.stdout.write(json.dumps(value, indent=2) + "\n")


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A result for people; where no terminal reads it, a line a row with tabs between, nothing cut off."""
    if not out.is_terminal:
        sys.stdout.writelines("\t".join(row) + "\n" for row in (heads, *rows))
        return
    shown = Table(*heads, box=None, pad_edge=False)
    for row in rows:
        shown.add_row(*map(Text, row))
    out.print(shown)


def stage(name: str, text: str, since: float) -> None:
    """A line about something that was reached, `since` being when it was begun."""
    say(f"  {name:<12} {text:<44} {time.monotonic() - since:6.1f} s")


def complain(text: str) -> None:
    """Say what is wrong."""
    say(f"error: {text}", "red")


@contextmanager
def progress(*, lines: bool = False, console: Console = err) -> Iterator[Report]:
    """A bar for each stage that reports, from any thread; later than the block none is drawn.

    Where no terminal watches nothing is said, or with `lines` a line for each quarter of a stage.
    """
    if not console.is_terminal:
        yield _Quarters().report if lines else silent
        return
    bars = Progress(
        TextColumn("  {task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
    tasks: dict[str, int] = {}
    lock, over = threading.Lock(), threading.Event()

    def report(what: str, done: int, total: int) -> None:
        with lock:
            if over.is_set():
                return
            bars.start()  # not before: most of what is waited for has no stages
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(bars.task_ids[tasks[what]], completed=done, total=total)

    try:
        yield report
    finally:
        with lock:
            over.set()
            bars.stop()


class _Quarters:
    """A line when a stage begins, and for each quarter of it."""

    def __init__(self) -> None:
        self._said: dict[str, int] = {}

    def report(self, what: str, done: int, total: int) -> None:
        quarter = 4 * done // max(total, 1)
        if quarter > self._said.get(what, -1):
            self._said[what] = quarter
            say(f"  {what}: {done} of {total}")
