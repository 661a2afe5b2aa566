"""Many histories, or one of them told in full."""

import traceback
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context

from tests.sim.history import History, Summary

LAST_LINES = 40


@dataclass(frozen=True, slots=True)
class Result:
    """How a history ended; `failure` is empty when all held, else it tells what broke and what came before it."""

    seed: int
    summary: Summary | None
    failure: str = ""


def replay(seed: int, lines: int | None = LAST_LINES) -> Result:
    """Run one seed; a failure tells its last `lines` lines (None: all)."""
    history = History(seed, None if lines is None else 10 * lines)
    try:
        return Result(seed, history.run())
    except Exception:  # noqa: BLE001  # whatever a core raises is a finding
        told = history.told()
        story = told if lines is None else told[-lines:]
        command = f"python -m tests.sim --seed {seed}"
        parts = [
            *story,
            traceback.format_exc(limit=-4).rstrip()[:4000],
            f"seed {seed} fails; replay: {command}",
        ]
        return Result(seed, None, "\n".join(parts))


def replay_all(seeds: Iterable[int], processes: int) -> Iterator[Result]:
    """Results as they come, in the order of the seeds."""
    if processes == 1:
        yield from map(replay, seeds)
        return
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        yield from pool.map(replay, seeds, chunksize=10)


def first_failures(seeds: Iterable[int], most: int = 1) -> list[str]:
    """The failures of the first seeds that fail, in this process."""
    return list(islice((text for seed in seeds if (text := replay(seed).failure)), most))
