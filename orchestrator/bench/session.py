"""The order of measuring: systems take turns within a pair of runs, and pairs take turns in who is first."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from orchestrator.bench.client import Asking, drive
from orchestrator.bench.cpu import Others
from orchestrator.bench.prompts import WARM_UP, Prompt
from orchestrator.bench.results import Run
from orchestrator.bench.systems import System

WARM: Final = Asking()


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is asked, how often, and how many questions at once."""

    prompts: Sequence[Prompt]
    asking: Asking
    concurrencies: Sequence[int]
    runs: int


def turns(
    count: int, concurrencies: Sequence[int], runs: int
) -> Iterator[tuple[int, int, list[int]]]:
    """Number of the pair, concurrency, and the order of so many systems; each is first equally often."""
    for number in range(runs):
        for place, concurrency in enumerate(concurrencies):
            first = (number + place) % count
            yield number, concurrency, [*range(first, count), *range(first)]


def measure(plan: Plan, systems: Sequence[System], heard: Callable[[Run], None]) -> list[Run]:
    """Every run of the plan; `heard` is told each as soon as it is done."""
    runs: list[Run] = []
    with ExitStack() as stack:
        for system in systems:
            stack.callback(system.close)
        for number, concurrency, order in turns(len(systems), plan.concurrencies, plan.runs):
            for index in order:
                runs.append(_run(plan, systems[index], concurrency, number))
                heard(runs[-1])
    return runs


def _run(plan: Plan, system: System, concurrency: int, number: int) -> Run:
    with system.fresh() as url:
        drive(url, WARM_UP, min(concurrency, len(WARM_UP)), WARM)
        before, work = system.drafts(), system.work(url)
        others = Others()
        answers, seconds = drive(url, plan.prompts, concurrency, plan.asking)
        busy = others.seconds() / seconds
        after, done = system.drafts(), system.work(url)
    drafts = (after[0] - before[0], after[1] - before[1]) if before and after else None
    return Run(
        label=system.label,
        concurrency=concurrency,
        number=number,
        seconds=seconds,
        answers=answers,
        drafts=drafts,
        work=done.since(work) if work and done else None,
        others=busy,
    )


def machine() -> str:
    """What was measured on, in a line."""
    import platform  # noqa: PLC0415

    from orchestrator.launch.threads import usable_cores  # noqa: PLC0415

    load = os.getloadavg()[0]
    return f"{usable_cores()} cores, {platform.machine()}, {platform.system()}, load {load:.1f}"
