"""`python -m tests.sim`: a thousand histories, one of them in full, or every planted fault until it is noticed."""

import argparse
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from time import perf_counter

from tests.sim.history import History
from tests.sim.planted import PLANTED, note, noticed
from tests.sim.runner import replay_all


def main() -> int:
    """The exit code is 1 if anything broke, or if a planted fault was expected to be noticed and was not."""
    parser = argparse.ArgumentParser("python -m tests.sim", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="histories to run")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="run this one and tell all of it")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--planted", action="store_true", help="plant each known fault")
    parser.add_argument("--note", action="store_true", help="remember the seeds that show them")
    given = parser.parse_args()
    if given.seed is not None:
        return _tell(given.seed)
    if given.planted:
        return _plant(given.seeds, given.processes, remember=given.note)
    return _run(range(given.start, given.start + given.seeds), given.processes)


def _tell(seed: int) -> int:
    history = History(seed, remember=None)
    try:
        summary = history.run()
    except BaseException:
        print(*history.told(), sep="\n")
        raise
    print(*history.told(), summary, sep="\n")
    return 0


def _run(seeds: range, processes: int) -> int:
    begin = perf_counter()
    asks = failed = tokens = accepted = turns = 0
    covered: Counter[str] = Counter()
    for result in replay_all(seeds, processes):
        if result.summary is None:
            print(result.failure)
            return 1
        asks += result.summary.asks
        failed += result.summary.failed
        tokens += result.summary.tokens
        accepted += result.summary.accepted
        turns += result.summary.turns
        covered += result.summary.covered
    seconds = perf_counter() - begin
    for what, count in sorted(covered.items()):
        print(f"{what:40} {count:9}")
    print(
        f"{len(seeds)} histories hold: {turns} turns, {asks} requests ({failed} lost with their link or process), "
        f"{tokens} tokens, {accepted} of them drafted; {seconds:.1f} s"
    )
    return 0


def _plant(histories: int, processes: int, *, remember: bool) -> int:
    missed, counts = 0, {}
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        found = pool.map(partial(noticed, histories=histories), PLANTED)
        for (name, fault), result in zip(PLANTED.items(), found, strict=True):
            if result is not None:
                counts[name] = result[0]
                print(f"{name:45} {result[0]:5}  {result[1][:100]}", flush=True)
                continue
            missed += not fault.unseen
            print(f"{name:45}     -  {fault.unseen or 'NOT NOTICED'}", flush=True)
    if remember:
        note(counts)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
