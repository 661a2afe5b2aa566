"""An engine that gives way: warmed up before it serves, and down to one thread while others need its cores."""

import time
from collections.abc import Callable, Sequence
from typing import Final

import torch

from engine.attention import Reached
from engine.runner import Engine, Forward, Row
from engine.spanning import SpanningEngine
from engine.threads import Team

WARM_UP: Final = (1, 9, 64, 128, 256)
"""Sizes of the first forwards: they cost several times what later ones do, and teach what one thread takes."""


class PacedEngine:
    """The same forwards; between them, the number of threads follows `engine.threads.Team`.

    Sums that are split over threads may round differently, so bfloat16 near ties may fall otherwise.
    """

    def __init__(
        self,
        engine: Engine | SpanningEngine,
        threads: int,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.team = Team(threads)
        self._engine = engine
        self._clock = clock

    def warm_up(self) -> None:
        """Run forwards of all sizes on pages that nobody holds yet."""
        config = self._engine.config
        sizes = [
            size
            for size in WARM_UP
            if size <= min(config.max_context, config.pages * config.page_size)
        ]
        self.team.alone(len(sizes))
        torch.set_num_threads(self.team.threads)
        for size in sizes:  # the first of each is slow in its own way: nobody learns from it
            self._engine.forward(self._rows(size))
        for size in (*sizes, *sizes[:2]):
            self.forward(self._rows(size))

    def _rows(self, size: int) -> Sequence[Row]:
        pages = range(-(-size // self._engine.config.page_size))
        return [Row([0] * size, 0, list(pages), 1)]

    def forward(
        self, rows: Sequence[Row], hidden: Sequence[int] = (), reached: Reached | None = None
    ) -> Forward:
        """See `engine.runner.Engine.forward`."""
        if torch.get_num_threads() != self.team.threads:
            torch.set_num_threads(self.team.threads)
        began = self._clock()
        result = self._engine.forward(rows, hidden, reached)
        self.team.ran(sum(len(row.tokens) for row in rows), self._clock() - began)
        return result
