"""Between the core's steps and the engine: one forward, then a verdict for all windows."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor

from engine.runner import Forward, Row
from engine.scores import score
from protocol.messages import Scored
from verifier.judge_torch import changes, views
from verifier.judges import Judge
from verifier.step import Step, Verdict, Work


class Target(Protocol):
    """The engine as the verifier sees it."""

    def forward(self, rows: Sequence[Row]) -> Forward:
        """Logits for the last `logits` tokens of every row, in order."""


class EngineWorker:
    """Runs steps on the target."""

    def __init__(self, engine: Target, judge: Judge) -> None:
        self._engine = engine
        self._verdicts = judge

    @torch.inference_mode()
    def run(self, step: Step) -> list[Verdict]:
        """A verdict for each row, in order; chunks that go on emit nothing."""
        logits = self._engine.forward(
            [Row(work.tokens, work.start, work.pages, work.logits) for work in step.rows]
        ).logits_NV
        verdicts = self._judge(step.rows, logits)
        if any(work.predicted for work in step.rows):
            verdicts = [
                replace(
                    verdict, prompt_logprobs=_scored(rows, work.predicted, work.prompt_logprobs)
                )
                for work, rows, verdict in zip(
                    step.rows,
                    _split(logits, [work.logits for work in step.rows]),
                    verdicts,
                    strict=True,
                )
            ]
        return verdicts

    def _judge(self, rows: Sequence[Work], logits: Tensor) -> list[Verdict]:
        windows = [work for work in rows if work.draws]
        if not windows:
            return [Verdict() for _ in rows]
        drawn = _draws(rows, logits)
        raw = drawn
        scored = any(work.logprobs is not None or work.predicted for work in rows)
        if scored and any(changes(work) for work in windows):
            drawn = drawn.clone()  # scores are of what the target said itself
        verdicts = self._verdicts(windows, drawn)
        if any(work.logprobs is not None for work in windows):
            verdicts = [
                verdict
                if work.logprobs is None
                else replace(verdict, logprobs=_scored(window, verdict.tokens, work.logprobs))
                for work, window, verdict in zip(
                    windows, views(windows, raw), verdicts, strict=True
                )
            ]
        judged = iter(verdicts)
        return [next(judged) if work.draws else Verdict() for work in rows]


def _draws(rows: Sequence[Work], logits: Tensor) -> Tensor:
    """The rows of logits that something is drawn from: all of them, unless prompts are scored."""
    if all(work.logits == work.draws for work in rows):
        return logits
    parts = _split(logits, [work.logits for work in rows])
    return torch.cat(
        [part[work.logits - work.draws :] for work, part in zip(rows, parts, strict=True)]
    )


def _split(logits: Tensor, sizes: Sequence[int]) -> Iterator[Tensor]:
    return iter(torch.split(logits, list(sizes)))


def _scored(rows: Tensor, tokens: Sequence[int], top: int | None) -> tuple[Scored, ...]:
    return tuple(Scored(*each) for each in score(rows, tokens, top or 0))
