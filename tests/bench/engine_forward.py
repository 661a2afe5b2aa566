"""How long a forward takes, by the shape of its rows: `python -m tests.bench.engine_forward FOLDER`.

Contexts of the rows are spread by a fifth around the given one and their pages are scattered, as
they are in a running service. All times are medians in milliseconds; the last column is relative to
one row of one token.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Final

import torch

from engine.config import EngineConfig
from engine.runner import Engine, Row

# Rows, new tokens a row, context before them, logits a row.
SHAPES: Final = [
    (1, 1, 200, 1), (1, 1, 1000, 1),
    (1, 4, 200, 4), (1, 8, 200, 8), (1, 16, 200, 16),
    (8, 1, 300, 1), (8, 4, 300, 4), (8, 9, 300, 9),
    (32, 1, 300, 1), (32, 4, 300, 4), (64, 1, 300, 1), (64, 9, 300, 9),
    (1, 256, 0, 1), (1, 512, 0, 1), (1, 256, 512, 1),
]  # fmt: skip
PAGE_SIZE: Final = 16


def rows_of(shape: tuple[int, int, int, int], vocab: int, pages: int, *, lone: bool) -> list[Row]:
    """Rows with random tokens on random pages, or on contiguous ones as a lone sequence has."""
    count, new, context, logits = shape
    random = Random(0)
    free = list(range(pages))
    if not lone:
        random.shuffle(free)
    rows = []
    for index in range(count):
        spread = 0.8 + 0.4 * index / (count - 1) if count > 1 else 1.0
        start = int(context * spread)
        needed = -(-(start + new) // PAGE_SIZE)
        table, free = free[:needed], free[needed:]
        rows.append(Row([random.randrange(vocab) for _ in range(new)], start, table, logits))
    return rows


def timed(act: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Median and minimum in milliseconds, after one fifth more to warm up."""
    samples = []
    for _ in range(repeats + repeats // 5 + 1):
        start = time.perf_counter()
        act()
        samples.append(1e3 * (time.perf_counter() - start))
    kept = samples[-repeats:]
    return statistics.median(kept), min(kept)


def reference_step(folder: Path, dtype: torch.dtype, repeats: int) -> tuple[float, float]:
    """One token at context 200 through the modules of transformers."""
    from transformers import AutoModelForCausalLM, DynamicCache  # noqa: PLC0415

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
    with torch.inference_mode():
        cache = DynamicCache()
        model(torch.arange(200)[None] + 100, past_key_values=cache)

        def step() -> None:
            model(torch.tensor([[7]]), past_key_values=cache)
            cache.crop(-1)

        return timed(step, repeats)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="bfloat16")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--reference", action="store_true", help="time transformers as well")
    parser.add_argument("--shapes", help="only those that begin so, for instance 8x")
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)

    config = EngineConfig(pages=2048, max_context=2048, dtype=options.dtype, page_size=PAGE_SIZE)
    engine = Engine.load(options.folder, config)
    for kv in engine.kv:
        kv.normal_()  # what is read should look like keys and values
    write = sys.stdout.write
    write(f"{options.folder.name} {options.dtype} threads={options.threads}\n")
    write(f"{'rows x new':>10} {'context':>8} {'median':>8} {'min':>8} {'ratio':>6}\n")
    one = None
    for shape in SHAPES:
        name = f"{shape[0]}x{shape[1]}"
        if options.shapes and not name.startswith(options.shapes):
            continue
        rows = rows_of(shape, engine.model.vocab, config.pages, lone=shape[0] == 1)
        median, least = timed(lambda rows=rows: engine.forward(rows), options.repeats)  # type: ignore[misc]
        one = one or median
        write(f"{name:>10} {shape[2]:>8} {median:8.2f} {least:8.2f} {median / one:6.2f}\n")
    if options.reference:
        dtype = getattr(torch, options.dtype)
        median, least = reference_step(options.folder, dtype, options.repeats)
        write(f"{'reference':>10} {200:>8} {median:8.2f} {least:8.2f}\n")


if __name__ == "__main__":
    main()
