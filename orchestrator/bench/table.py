"""Figures for people."""

from collections.abc import Sequence
from itertools import zip_longest

from rich.console import Console
from rich.table import Table

from orchestrator.bench.results import Run, Spread, Summary

COLUMNS = (
    "system", "at once", "tokens/s", "first\ntoken ms", "token ms\np50", "\np99", "emitted\na round", "accepted",
    "times\nplain", "times\ntransformers", "answers\nunlike plain", "busy\nothers",
)  # fmt: skip


def table(done: Sequence[Summary], prompts: str) -> Table:
    """One line for each system and concurrency: medians, and the lowest and highest run; columns that say something."""
    runs = max(one.runs for one in done)
    title = f"prompts: {prompts}; {f'medians of {runs} runs' if runs > 1 else 'one run'}"
    made = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    lines = [cells(each) for each in done]
    shown = [place for place in range(len(COLUMNS)) if any(line[place] for line in lines)]
    for place in shown:
        made.add_column(COLUMNS[place], justify="right" if place else "left", no_wrap=True)
    for each, following, line in zip_longest(done, done[1:], lines):
        last = following is None or following.row.concurrency != each.row.concurrency
        made.add_row(*(line[place] for place in shown), end_section=last)
    return made


def show(made: Table, console: Console) -> None:
    """Print a table as wide as it is: figures that are cut off say nothing."""
    wide = Console(file=console.file, width=10_000, highlight=False)
    width = wide.measure(made).maximum
    Console(file=console.file, width=max(width, console.width), highlight=False).print(made)


def cells(one: Summary) -> list[str]:
    """The texts of a line."""
    row = one.row
    return [
        str(row.label),
        str(row.concurrency),
        number(row.output_tokens_per_s, 1) + between(one.speed, 1, one.runs),
        number(row.ttft_ms, 0),
        number(row.tpot_ms_p50, 1),
        number(row.tpot_ms_p99, 1),
        number(row.mean_emitted, 2),
        "" if row.acceptance_rate is None else f"{row.acceptance_rate:.0%}",
        number(row.ratio_to_plain, 2) + between(one.to_plain, 2, one.runs),
        number(row.ratio_to_transformers, 2) + between(one.to_transformers, 2, one.runs),
        "" if one.differing is None else str(one.differing),
        number(one.others, 2),
    ]


def number(value: float | None, digits: int) -> str:
    """A figure; nothing where there is none."""
    return "" if value is None or value != value else f"{value:.{digits}f}"  # noqa: PLR0124


def between(spread: Spread | None, digits: int, runs: int) -> str:
    """Lowest and highest, if there were several runs."""
    if spread is None or runs < 2:
        return ""
    return f" ({spread.low:.{digits}f} - {spread.high:.{digits}f})"


def line(run: Run) -> str:
    """One run, as soon as it is done."""
    return (
        f"{run.label!s:<28} at once {run.concurrency:>3}  run {run.number + 1}"
        f"  {len(run.answers)} answers, {run.tokens} tokens, {run.seconds:.1f} s,"
        f" {run.speed:.1f}/s, others {run.others:.2f}"
    )
