"""Ranks that are threads of one process: what they say to each other is what processes say over torch.distributed."""

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from engine.config import EngineConfig
from engine.ranks import OVER, Shard
from engine.runner import Engine
from engine.spanning import SpanningEngine, follow

PATIENCE: Final = 60.0


class ThreadRanks:
    """See `engine.ranks.Words`. All of a group share a table and a barrier."""

    def __init__(self, shard: Shard, table: list[Any], barrier: threading.Barrier) -> None:
        self.shard = shard
        self.said: list[bytes] = []
        self._table = table
        self._barrier = barrier
        self._words: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.others: list[ThreadRanks] = []

    @classmethod
    def group(cls, count: int) -> "list[ThreadRanks]":
        table: list[Any] = [None] * count
        barrier = threading.Barrier(count, timeout=PATIENCE)
        made = [cls(Shard(rank, count), table, barrier) for rank in range(count)]
        made[0].others = made[1:]
        return made

    def meet(self) -> None:
        self._barrier.wait()

    def sum(self, part_TH: Tensor) -> Tensor:
        parts = self._exchange(part_TH)
        return torch.stack(parts).sum(0)

    def gather(self, part_NV: Tensor, size: int) -> Tensor:
        parts = self._exchange(part_NV)
        for rank, part in enumerate(parts):
            own = Shard(rank, self.shard.ranks).of(size)
            assert part.shape[1] == own.stop - own.start
        return part_NV if self.shard.rank else torch.cat(parts, dim=1)

    def tell(self, words: bytes) -> None:
        self.said.append(words)
        for other in self.others:
            other._words.put(words)

    def hear(self) -> bytes:
        return self._words.get(timeout=PATIENCE)

    def _exchange(self, part: Tensor) -> list[Tensor]:
        self._table[self.shard.rank] = part
        self._barrier.wait()
        parts: list[Tensor] = list(self._table)
        self._barrier.wait()
        return parts


@contextmanager
def following(ranks: list[ThreadRanks], engines: list[Engine]) -> Iterator[None]:
    """All but rank 0 follow in threads of theirs, until the block ends."""
    threads = [
        threading.Thread(target=follow, args=each) for each in zip(engines, ranks[1:], strict=True)
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ranks[0].tell(OVER)
        for thread in threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()


@contextmanager
def spanning(
    folder: Path, config: EngineConfig, count: int = 2
) -> Iterator[tuple[SpanningEngine, list[Engine]]]:
    """Rank 0, and the engines of all ranks."""
    ranks = ThreadRanks.group(count)
    engines = [Engine.load(folder, config, each) for each in ranks]
    with following(ranks, engines[1:]):
        yield SpanningEngine(engines[0], ranks[0]), engines
