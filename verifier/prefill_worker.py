"""Between the steps of a prefill node and the engine: forwards from which nothing is drawn."""

from collections.abc import Callable, Sequence
from typing import Protocol

import torch

from engine.attention import Reached
from engine.runner import Forward, Row
from verifier.step import Step


class Target(Protocol):
    """The engine as a prefill node sees it."""

    def forward(
        self, rows: Sequence[Row], hidden: Sequence[int] = (), reached: Reached | None = None
    ) -> Forward: ...


class PrefillWorker:
    """See `verifier.prefill.Worker`."""

    def __init__(self, engine: Target) -> None:
        self._engine = engine

    @torch.inference_mode()
    def run(self, step: Step, reached: Callable[[int], None]) -> None:
        """Compute all rows of the step; `reached` hears how many layers are in the pages while it runs."""
        rows = [Row(work.tokens, work.start, work.pages, 0) for work in step.rows]
        self._engine.forward(rows, reached=reached)
