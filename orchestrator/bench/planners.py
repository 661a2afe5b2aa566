"""`orchestrator bench planner`: recorded rounds under every planner, beside the oracle."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
from rich.table import Table

from orchestrator.bench.errors import BenchError
from orchestrator.bench.replay import Replayed, Trace, by_oracle, by_planner, traces
from orchestrator.commands.output import out, say
from verifier.config import PlannerConfig
from verifier.costs import Costs
from verifier.planner import Planner
from verifier.planners import PLANNERS
from verifier.planners.budget import Budget
from verifier.traces import Line

FIXED: Final = (0, 1, 2, 4, 8, 15)
LONGEST: Final = 15
HINDSIGHT: Final = "budget, calibrated on the trace"


@dataclass(frozen=True)
class Result:
    """One planner at one point. `share` is of what the oracle gains over no drafts."""

    planner: str
    concurrency: int
    tokens_per_s: float
    to_plain: float
    share: float | None
    deviation: float


def read(path: Path) -> list[Trace]:
    """The traces in a file; a BenchError says what is wrong with it."""
    try:
        data = path.read_bytes()
        lines = [msgspec.json.decode(each, type=Line) for each in data.splitlines()]
    except OSError as error:
        raise BenchError(f"{path} cannot be read: {error}") from error
    except msgspec.DecodeError as error:
        raise BenchError(f"{path} is no trace of rounds: {error}") from error
    found = traces(lines)
    if not found:
        raise BenchError(f"{path} holds no finished answer")
    return found


def replays(trace: Trace, concurrency: int) -> Mapping[str, Replayed]:
    """Every planner of the table, fixed lengths and the oracle on one trace; the first is plain decoding."""
    made = {
        f"fixed {length}": by_planner(trace, concurrency, _planner("fixed", trace, length))
        for length in FIXED
    }
    for name in PLANNERS:
        if name != "fixed":
            made[name] = by_planner(trace, concurrency, _planner(name, trace))
    taught = _planner("budget", trace)
    by_planner(trace, concurrency, taught)
    made[HINDSIGHT] = by_planner(trace, concurrency, taught)
    made["oracle"] = by_oracle(trace, concurrency)
    return made


def _planner(name: str, trace: Trace, length: int = LONGEST) -> Planner:
    config = PlannerConfig(name=name, draft_length=length, patience=0.0)
    made = PLANNERS[name](config)
    if isinstance(made, Budget):
        made.costs = Costs(trace.table)
    return made


def results(found: Sequence[Trace], concurrency: int) -> list[Result]:
    """Over all traces together."""
    each = [replays(trace, concurrency) for trace in found]
    speed = {
        name: sum(one[name].tokens for one in each) / sum(one[name].seconds for one in each)
        for name in each[0]
    }
    plain, gain = speed["fixed 0"], speed["oracle"] - speed["fixed 0"]
    rounds = {name: [chosen for one in each for chosen in one[name].chosen] for name in each[0]}
    return [
        Result(
            name,
            concurrency,
            value,
            value / plain,
            (value - plain) / gain if gain > 1e-9 * plain else None,
            sum(abs(one.length - one.best) for one in rounds[name]) / len(rounds[name]),
        )
        for name, value in speed.items()
    ]


def planner(path: Path, concurrencies: Sequence[int], json: Path | None, plot: Path | None) -> int:
    """Replay and tell; the exit code."""
    found = read(path)
    told = [one for concurrency in concurrencies for one in results(found, concurrency)]
    shown = Table(box=None, title=f"{path.name}, replayed", title_justify="left")
    for name in (
        "at once",
        "planner",
        "tok/s",
        "vs plain",
        "of the oracle's gain",
        "off the oracle",
    ):
        shown.add_column(name, justify="left" if name == "planner" else "right")
    for one in told:
        share = "" if one.share is None else f"{100 * one.share:.0f} %"
        shown.add_row(
            str(one.concurrency), one.planner, f"{one.tokens_per_s:.1f}", f"{one.to_plain:.2f}", share,
            f"{one.deviation:.2f}",
        )  # fmt: skip
    out.print(shown)
    say(
        "  off the oracle: mean distance in tokens; LibraSpec's paper has 2.78, and 9.48 for one length"
    )
    if json:
        json.write_bytes(msgspec.json.format(msgspec.json.encode(told)))
    if plot:
        for picture in draw(found[0], concurrencies[0], plot):
            say(f"  {picture}")
    return 0


def draw(trace: Trace, concurrency: int, folder: Path) -> list[Path]:
    """The length that `budget` chose and the oracle's, round by round, for the longest answer."""
    from orchestrator.bench.pictures import lines  # noqa: PLC0415  # an extra

    done = by_planner(trace, concurrency, _planner("budget", trace))
    longest = max(range(len(trace.requests)), key=lambda one: trace.requests[one].output) + 1
    own = [each for each in done.chosen if each.request == longest]
    at = [each.position for each in own]
    drawn = [
        ("budget", at, [each.length for each in own]),
        ("oracle", at, [each.best for each in own]),
    ]
    return lines(folder, "planner-lengths", "output token", "draft tokens", drawn, stepped=True)
