"""Pictures of a table: speed, ratio and latency against the number of requests at once, as PNG and SVG."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

from orchestrator.bench.results import Label, Spread, Summary

COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's: they stay apart for those who see fewer colours."""
MARKS: Final = "osD^vPX"
STYLE: Final = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "svg.fonttype": "none",
    "svg.hashsalt": "draftmesh",
}


@dataclass(frozen=True)
class Panel:
    """One picture: what stands on its upright axis."""

    name: str
    title: str
    unit: str
    value: Callable[[Summary], float | None]
    spread: Callable[[Summary], Spread | None] = lambda _: None
    logarithmic: bool = False
    level: float | None = None
    """A line that everything is compared with."""


PANELS: Final = (
    Panel(
        "speed",
        "Output tokens a second",
        "tokens/s",
        lambda one: one.row.output_tokens_per_s,
        lambda one: one.speed,
        logarithmic=True,
    ),
    Panel(
        "ratio",
        "Speed relative to plain decoding",
        "times plain",
        lambda one: one.row.ratio_to_plain,
        lambda one: one.to_plain,
        level=1.0,
    ),
    Panel(
        "token",
        "Time for an output token, median answer",
        "ms",
        lambda one: one.row.tpot_ms_p50,
        logarithmic=True,
    ),
    Panel(
        "token-p99",
        "Time for an output token, slowest of a hundred answers",
        "ms",
        lambda one: one.row.tpot_ms_p99,
        logarithmic=True,
    ),
    Panel(
        "first",
        "Time to the first token, median answer",
        "ms",
        lambda one: one.row.ttft_ms,
        logarithmic=True,
    ),
)


def draw(done: Sequence[Summary], folder: Path) -> list[Path]:
    """Write every picture for which there are figures; the files."""
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    with mpl.rc_context(STYLE):  # type: ignore[arg-type]  # its names are strings to us
        for panel in PANELS:
            if any(_known(panel.value(one)) for one in done):
                figure = picture(done, panel)
                for kind in ("png", "svg"):
                    path = folder / f"{done[0].row.prompts}-{panel.name}.{kind}"
                    figure.savefig(
                        path, dpi=160, metadata={"Date": None} if kind == "svg" else None
                    )
                    written.append(path)
    return written


def picture(done: Sequence[Summary], panel: Panel) -> Figure:
    """One panel, a line for each system, the runs' spread as bars."""
    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    axes = figure.subplots()
    labels = list(dict.fromkeys(one.row.label for one in done))
    for place, label in enumerate(labels):
        _line(axes, [one for one in done if one.row.label == label], panel, place)
    if panel.level is not None:
        axes.axhline(panel.level, color="#555555", linewidth=1, linestyle="--", zorder=1)
    _axes(axes, sorted({one.row.concurrency for one in done}), panel)
    runs = max(one.runs for one in done)
    what = f"median of {runs} runs, bars from lowest to highest" if runs > 1 else "one run"
    axes.set_title(
        f"{panel.title}\nprompts: {done[0].row.prompts}; {what}", loc="left", fontsize=10
    )
    figure.legend(loc="outside right upper", frameon=False)
    return figure


def _line(axes: Axes, group: Sequence[Summary], panel: Panel, place: int) -> None:
    points = [
        (one.row.concurrency, value, panel.spread(one))
        for one in group
        if (value := panel.value(one)) is not None and _known(value)
    ]
    if not points:
        return
    low = [value - spread.low if spread else 0.0 for _, value, spread in points]
    high = [spread.high - value if spread else 0.0 for _, value, spread in points]
    axes.errorbar(
        [at for at, _, _ in points],
        [value for _, value, _ in points],
        yerr=(low, high) if any(low) or any(high) else None,
        label=_name(group[0].row.label),
        color=COLOURS[place % len(COLOURS)],
        marker=MARKS[place % len(MARKS)],
        markersize=5,
        capsize=3,
        linewidth=1.6,
    )


def _axes(axes: Axes, concurrencies: Sequence[int], panel: Panel) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(concurrencies, [str(each) for each in concurrencies])
    axes.minorticks_off()
    axes.set_xlabel("requests at once")
    axes.set_ylabel(panel.unit)
    if panel.logarithmic:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.set_ylim(bottom=0)


def _name(label: Label) -> str:
    """Without the planner where it is the usual one."""
    return str(label).removesuffix(" fixed")


def _known(value: float | None) -> bool:
    return value is not None and value == value  # noqa: PLR0124
