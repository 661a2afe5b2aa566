"""Between the core's steps and the engine: one forward, then one acceptance rule over all windows."""

from collections.abc import Sequence
from typing import Protocol

import torch

from engine.runner import Forward, Row
from verifier.acceptance import Rule
from verifier.step import Step, Verdict, Work


class Target(Protocol):
    """The engine as the verifier sees it."""

    def forward(self, rows: Sequence[Row]) -> Forward:
        """Logits for the last `logits` tokens of every row, in order."""


class EngineWorker:
    """Runs steps on the target."""

    def __init__(self, engine: Target, rule: Rule) -> None:
        self._engine = engine
        self._rule = rule

    @torch.inference_mode()
    def run(self, step: Step) -> list[Verdict]:
        """A verdict for each row, in order; chunks that go on have an empty one."""
        forward = self._engine.forward(
            [Row(work.tokens, work.start, work.pages, work.draws) for work in step.rows]
        )
        windows = [work for work in step.rows if work.draws]
        if not windows:
            return [Verdict() for _ in step.rows]
        _ban(windows, forward.logits_NV)
        verdicts = iter(self._rule(windows, forward.logits_NV))
        return [next(verdicts) if work.draws else Verdict() for work in step.rows]


def _ban(windows: Sequence[Work], logits: torch.Tensor) -> None:
    """An end that is too early cannot be drawn."""
    begin = 0
    for work in windows:
        early = min(work.banned_draws, work.draws)
        if work.banned and early > 0:
            logits[begin : begin + early, sorted(work.banned)] = float("-inf")
        begin += work.draws
