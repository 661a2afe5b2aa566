"""Pictures of a few lines, as PNG and SVG."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from orchestrator.bench.plot import COLOURS, MARKS, STYLE

Line = tuple[str, Sequence[float], Sequence[float]]
"""Name, and places on both axes."""


def lines(
    folder: Path,
    name: str,
    across: str,
    up: str,
    drawn: Sequence[Line],
    *,
    level: float | None = None,
    doubling: bool = False,
    stepped: bool = False,
) -> list[Path]:
    """Draw into `folder`; the files."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    with mpl.rc_context(STYLE):  # type: ignore[arg-type]  # its names are strings to us
        figure = Figure(figsize=(7.2, 4.2), layout="constrained")
        axes = figure.subplots()
        for place, (label, xs, ys) in enumerate(drawn):
            look = {"color": COLOURS[place % len(COLOURS)], "label": label, "linewidth": 1.6}
            if stepped:
                axes.step(xs, ys, where="mid", **look)  # type: ignore[arg-type]
            else:
                axes.plot(xs, ys, marker=MARKS[place % len(MARKS)], markersize=4, **look)  # type: ignore[arg-type]
        if level is not None:
            axes.axhline(level, color="#555555", linewidth=1, linestyle="--", zorder=1)
        if doubling:
            axes.set_xscale("log", base=2)
        axes.set_xlabel(across)
        axes.set_ylabel(up)
        axes.set_ylim(bottom=0)
        figure.legend(loc="outside right upper", frameon=False)
        for kind in ("png", "svg"):
            path = folder / f"{name}.{kind}"
            figure.savefig(path, dpi=160, metadata={"Date": None} if kind == "svg" else None)
            written.append(path)
    return written
