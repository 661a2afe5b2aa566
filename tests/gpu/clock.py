"""Times and bounds of a device; on a CPU the same code runs, and its figures mean nothing."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch


@dataclass(slots=True)
class Table:
    """Lines of the table that is printed last: what, measured, wanted."""

    lines: list[tuple[str, str, str]] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def right(self, what: str, error: float, most: float) -> None:
        """A comparison: its largest error, which must not be above `most`."""
        fine = error <= most
        self.add(what, f"{error:.2e}", f"at most {most:.0e}: {'right' if fine else 'WRONG'}")
        if not fine:
            self.failed.append(what)

    def add(self, what: str, measured: str, wanted: str = "") -> None:
        """A figure; it is printed at once too, for whoever's time runs out."""
        self.lines.append((what, measured, wanted))
        print(f"{what}: {measured}  {wanted}", flush=True)

    def text(self) -> str:
        wide = [max(len(line[place]) for line in self.lines) for place in range(3)]
        return "\n".join(
            "  ".join(each.ljust(width) for each, width in zip(line, wide, strict=True)).rstrip()
            for line in self.lines
        )


def seconds(run: Callable[[], object], device: str, repeats: int = 20) -> float:
    """The median of one call, on the device's own clock."""
    if device == "cpu":
        began = time.perf_counter()
        run()
        return time.perf_counter() - began
    for _ in range(3):
        run()
    event: Any = torch.cuda.Event  # which is untyped
    pairs = []
    for _ in range(repeats):
        begin, end = event(enable_timing=True), event(enable_timing=True)
        begin.record()
        run()
        end.record()
        pairs.append((begin, end))
    torch.cuda.synchronize()
    spent: list[float] = [begin.elapsed_time(end) for begin, end in pairs]
    return statistics.median(spent) / 1e3


def copied(device: str, size: int) -> float:
    """Bytes a second that a large copy reads and writes: what the memory gives."""
    one = torch.empty(size, dtype=torch.uint8, device=device)
    other = torch.empty_like(one)
    return 2 * size / seconds(lambda: other.copy_(one), device)


def multiplied(device: str, size: int) -> float:
    """Operations a second of a large product of bfloat16 matrices: what the matrix units give."""
    one, other = (torch.randn(size, size, device=device).bfloat16() for _ in range(2))
    return 2 * size**3 / seconds(lambda: one @ other, device)
