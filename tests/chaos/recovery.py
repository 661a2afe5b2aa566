"""How long from each fault of a drafter to drafting again, with real processes: `python -m tests.chaos.recovery`.

Two requests are drafted for; then something happens to their drafter. Either another one takes them, or there is no
other and the fault is mended after a while. What the same faults come to in simulated time: `tests.sim.recovery`.
"""

import argparse
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Final

from protocol.config import LinkConfig
from protocol.runtime import clock
from tests.chaos.ground import AT_ONCE, PROMPT, VICTIM, Ground, Line, target
from verifier.drafting import TOO_LONG

DOWN: Final = 4.0
"""Seconds until a fault is mended: longer than silence."""
SHORT: Final = 600
CALM: Final = 0.5
"""Seconds of drafting after which it is said to be back."""
SLOW: Final = 0.7
MARGIN: Final = 1.0
"""Seconds for what else a machine does."""
LINK: Final = LinkConfig()
AWAY: Final = TOO_LONG + MARGIN


@dataclass(frozen=True)
class Fault:
    """`strike` returns what mends it. Bounds are seconds from there to drafting; `settings` are the victim's."""

    strike: Callable[[Ground], Callable[[], None]]
    moved: float
    back: float | None
    settings: Mapping[str, object] = field(default_factory=dict)


def _kill(ground: Ground) -> Callable[[], None]:
    ground.signal(signal.SIGKILL)
    return ground.restart


def _freeze(ground: Ground) -> Callable[[], None]:
    ground.signal(signal.SIGSTOP)
    return lambda: ground.signal(signal.SIGCONT)


def _cut(ground: Ground) -> Callable[[], None]:
    wire = ground.relays[VICTIM].wire
    wire.cut = True

    def join() -> None:
        wire.cut = False

    return join


def _drain(ground: Ground) -> Callable[[], None]:
    ground.drain()
    return ground.restart


def _slow(ground: Ground) -> Callable[[], None]:
    """Its words take longer than anybody waits; its link lives."""
    wire = ground.relays[VICTIM].wire
    wire.delay = SLOW

    def hurry() -> None:
        wire.delay = 0.0

    return hurry


def _outgrow(ground: Ground) -> Callable[[], None]:
    """Nothing but time: until one of the requests is longer than the victim's context."""
    long = SHORT - len(PROMPT)
    fresh = ground.until(lambda: all(each.tokens < long / 2 for each in ground.lines))
    assert fresh
    assert ground.until(lambda: any(each.tokens >= long for each in ground.lines))
    return lambda: None


FAULTS: Final[Mapping[str, Fault]] = {
    "killed": Fault(_kill, AWAY, 2 * LINK.beat + MARGIN),
    "frozen": Fault(_freeze, AWAY, 2 * LINK.beat + MARGIN),
    "unreachable": Fault(_cut, AWAY, LINK.silence + 2 * LINK.beat + MARGIN),
    "draining": Fault(_drain, MARGIN, 2 * LINK.beat + MARGIN),
    "refusing": Fault(Ground.rival, MARGIN, 2 * DOWN + MARGIN, {"max_requests": AT_ONCE}),
    "too slow": Fault(_slow, AWAY + 2 * SLOW, 2 * SLOW + MARGIN),
    "context limit": Fault(_outgrow, MARGIN, None, {"context": SHORT}),
}


@dataclass(frozen=True)
class Recovery:
    """Seconds until both requests were drafted for again, and the longest wait for a piece meanwhile.

    A wait counts while somebody looked: whoever measures starts processes, too, and looks for nothing until they run.
    """

    seconds: float
    stall: float


def recoveries(name: str, rounds: int, *, other: bool) -> Iterator[Recovery]:
    """The same fault so often, in one service."""
    fault = FAULTS[name]
    with tempfile.TemporaryDirectory() as folder:
        ground = Ground(target(Path(folder) / "model"), fault.settings, other=other)
        try:
            for _ in range(rounds):
                yield _recovery(ground, fault, other=other)
        finally:
            ground.close()


def _recovery(ground: Ground, fault: Fault, *, other: bool) -> Recovery:
    assert ground.until(lambda: _calm(ground, clock() - CALM)), (
        "nothing is drafted before the fault"
    )
    mend, struck = fault.strike(ground), clock()
    if not other:
        ground.until(lambda: False, DOWN)
        mend()
    begun = struck if other else clock()
    again = ground.until(lambda: clock() > begun + CALM and _calm(ground, begun + CALM))
    assert again, "no drafts within a minute"
    found = Recovery(
        max(_resumed(each, begun) for each in ground.lines) - begun,
        max(_waited(each, struck) for each in ground.lines),
    )
    if other:
        mend()
        ground.until(lambda: False, LINK.silence)
    return found


def _calm(ground: Ground, since: float) -> bool:
    """Whether both have been drafted for, time and again, since then."""
    return all(sum(at > since for at in each.drafted[-20:]) >= 10 for each in ground.lines)


def _waited(line: Line, since: float) -> float:
    """The longest wait for a piece that came later than this."""
    before = [since, *line.pieces]
    return max(
        looked - max(since, last)
        for last, came, looked in zip(before, line.pieces, line.looked, strict=False)
        if came > since
    )


def _resumed(line: Line, begun: float) -> float:
    """When drafts came again after the longest time without."""
    return _longest(line.drafted, begun)[1]


def _longest(times: list[float], since: float) -> tuple[float, float]:
    """The longest time between two of these, and its end."""
    later = [since, *(each for each in times if each > since)]
    return max((after - before, after) for before, after in pairwise(later))


def table(rounds: int) -> tuple[list[str], bool]:
    """A row for each fault; whether all bounds were kept."""
    lines = [
        "| drafter | another is there, s | alone, s after it is back | longest wait for a piece, ms |",
        "| --- | --- | --- | --- |",
    ]
    kept = True
    for name, fault in FAULTS.items():
        cells, stall = [], 0.0
        for other, bound in ((True, fault.moved), (False, fault.back)):
            if bound is None:
                cells.append("never: it will not fit again")
                continue
            found = list(recoveries(name, rounds, other=other))
            longest, middle = (measure(each.seconds for each in found) for measure in (max, median))
            stall = max(stall, *(each.stall for each in found))
            cells.append(f"{middle:.2f}, at most {longest:.2f} (bound {bound:.2f})")
            kept = kept and longest <= bound
        lines.append(f"| {name} | {' | '.join(cells)} | {1e3 * stall:.0f} |")
        sys.stdout.write(lines[-1] + "\n")
        sys.stdout.flush()
    return lines, kept


def main() -> int:
    """The exit code is 1 if a bound was not kept."""
    parser = argparse.ArgumentParser("python -m tests.chaos.recovery", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    lines, kept = table(parser.parse_args().rounds)
    sys.stdout.write("\n" + "\n".join(lines) + "\n")
    return int(not kept)


if __name__ == "__main__":
    sys.exit(main())
