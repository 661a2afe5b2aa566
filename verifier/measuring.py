"""What steps of all sizes cost: `verifier profile`."""

import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Final

from engine.runner import Forward, Row
from protocol.runtime import clock
from verifier.config import VerifierConfig
from verifier.costs import LEAST, SIZES, CostTable, table_of
from verifier.loading import Loaded, load
from verifier.profiling import hardware, place, write
from verifier.worker import Target

START: Final = 128
"""Tokens before those of a measured step."""
REPEATS: Final = 5
WINDOW: Final = 8
"""Tokens of a request in a measured step with few requests."""


def profile(config: VerifierConfig) -> None:
    """Measure the steps of a configured verifier, print them, and keep the table where services look for it."""
    loaded = load(config)
    try:
        _profile(config, loaded)
    finally:
        if loaded.span:
            loaded.span.close()


def _profile(config: VerifierConfig, loaded: Loaded) -> None:
    machine = hardware()
    path = config.planner.budget.table or place(config, loaded.weights, machine)
    table = measure(loaded.engine, config, loaded.pages, clock, loaded.buckets)
    write(path, table, machine, "measured")
    lines = [f"{path}", f"{'tokens':>8} {'ms':>9}"]
    lines += [
        f"{tokens:>8} {1e3 * seconds:>9.3f}"
        for tokens, seconds in zip(table.tokens, table.seconds, strict=True)
    ]
    lines.append(f"a request more adds {1e3 * table.row:.3f} ms")
    sys.stdout.write("\n".join(lines) + "\n")


def measure(
    engine: Target,
    config: VerifierConfig,
    pages: int,
    clock: Callable[[], float],
    buckets: tuple[int, ...] = (),
) -> CostTable:
    """Medians over steps of all sizes that a service may take, and what a request more adds to one of the same size.

    Where steps are padded to `buckets`, these are the sizes.
    """
    most = config.scheduler.max_running * (config.planner.draft_length + 1)
    sizes = [size for size in buckets or SIZES if size <= most]
    samples: list[tuple[int, float]] = []
    apart: list[float] = []
    for size in sizes:
        few, many = max(1, size // WINDOW), min(size, config.scheduler.max_running)
        rows = list(_rows(size, few, config.page_size, pages))
        if not rows:
            break
        samples += [(size, each) for each in _times(engine, rows, clock)]
        spread = list(_rows(size, many, config.page_size, pages))
        if spread and many > few:
            costs = min(_times(engine, spread, clock)) - min(_times(engine, rows, clock))
            apart.append(costs / (many - few))
    row = max(0.0, sorted(apart)[len(apart) // 2]) if apart else 0.0
    known = table_of(samples, row)
    bare = [
        max(seconds - row * max(1, size // WINDOW), LEAST)
        for size, seconds in zip(known.tokens, known.seconds, strict=True)
    ]
    padded = buckets[-1] if buckets else 0
    return table_of(list(zip(known.tokens, bare, strict=True)), row, padded)


def _times(engine: Target, rows: Sequence[Row], clock: Callable[[], float]) -> Iterator[float]:
    _done(engine.forward(rows))
    for _ in range(REPEATS):
        began = clock()
        _done(engine.forward(rows))
        yield clock() - began


def _done(made: Forward) -> None:
    """Wait for a device, which otherwise has only been told."""
    made.logits_NV.flatten()[:1].cpu()


def _rows(size: int, requests: int, page_size: int, pages: int) -> Iterator[Row]:
    """So many windows with so many tokens together, each with text before it; none where pages do not suffice."""
    least, more = divmod(size, requests)
    free = count()
    each = -(-(START + least + 1) // page_size)
    if each * requests > pages:
        return
    for request in range(requests):
        tokens = least + (request < more)
        yield Row([0] * tokens, START, [next(free) for _ in range(each)], tokens)
