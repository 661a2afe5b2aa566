"""Figures for people."""

from collections.abc import Sequence
from itertools import zip_longest

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from orchestrator.bench.results import Run, Spread, Summary

COLUMNS = (
    "system", "at once", "tokens/s", "first\ntoken ms", "token ms\np50", "\np99", "emitted\na round", "accepted",
    "times\nplain", "times\ntransformers", "answers\nunlike plain", "busy\nverifier", "\ndrafter", "\nothers",
)  # fmt: skip


def title(done: Sequence[Summary]) -> str:
    """What stands above the table."""
    runs = max(one.runs for one in done)
    what = f"medians of {runs} runs (lowest - highest)" if runs > 1 else "one run"
    return f"prompts: {done[0].row.prompts}; {what}"


def table(done: Sequence[Summary]) -> Table:
    """One line for each system and concurrency: medians, the lowest and the highest run; no column that is empty."""
    lines = [cells(each) for each in done]
    shown = [place for place in range(len(COLUMNS)) if any(line[place] for line in lines)]
    made = columns([COLUMNS[place] for place in shown], (), left=1)
    for each, following, line in zip_longest(done, done[1:], lines):
        last = following is None or following.row.concurrency != each.row.concurrency
        made.add_row(*(line[place] for place in shown), end_section=last)
    return made


def columns(heads: Sequence[str], lines: Sequence[Sequence[str]], left: int) -> Table:
    """A table whose first `left` columns are words and whose others are figures."""
    made = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False)
    for place, head in enumerate(heads):
        made.add_column(head, justify="left" if place < left else "right", no_wrap=True)
    for line in lines:
        made.add_row(*line)
    return made


def show(heading: str, made: Table, console: Console) -> None:
    """Print a table as wide as it is: figures that are cut off say nothing."""
    wide = Console(file=console.file, width=10_000, highlight=False)
    width = max(wide.measure(made).maximum, console.width)
    console.print(f"\n{heading}\n", markup=False, soft_wrap=True)
    Console(file=console.file, width=width, highlight=False).print(made)


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
        number(row.verifier_busy, 2),
        number(row.drafter_busy, 2),
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
