"""Between the core's steps and the engine: one forward, then a verdict for all windows."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from engine.attention import Reached
from engine.runner import Forward, Row
from engine.scores import score
from protocol.messages import Scored
from verifier.judge_torch import changes, views
from verifier.judges import Judge
from verifier.pending import Pending, Then, Wake
from verifier.step import Step, Verdict, Work


class Target(Protocol):
    """The engine as the verifier sees it."""

    def forward(self, rows: Sequence[Row], *, reached: Reached | None = None) -> Forward:
        """Logits for the last `logits` tokens of every row, in order."""


class EngineWorker:
    """Runs steps on the target. `reached` is called behind each layer of a forward, if it is given."""

    def __init__(self, engine: Target, judge: Judge, reached: Reached | None = None) -> None:
        self._engine = engine
        self._judge = judge
        self._reached = reached

    @torch.inference_mode()
    def begin(self, step: Step, wake: Wake) -> Pending:
        """See `verifier.node.Worker`; chunks that go on emit nothing."""
        logits = self._engine.forward(
            [Row(work.tokens, work.start, work.pages, work.logits) for work in step.rows],
            reached=self._reached,
        ).logits_NV
        windows = [work for work in step.rows if work.draws]
        raw = drawn = _draws(step.rows, logits)
        scored = any(work.logprobs is not None or work.predicted for work in step.rows)
        if scored and any(changes(work) for work in windows):
            drawn = drawn.clone()  # scores are of what the target said itself
        pending = self._judge.begin(windows, drawn, wake)
        return Then(pending, partial(_told, step.rows, logits, raw))

    def run(self, step: Step) -> list[Verdict]:
        """The same, waited for."""
        return self.begin(step, lambda: None).take()


@torch.inference_mode()
def _told(
    rows: Sequence[Work], logits: Tensor, raw: Tensor, verdicts: Sequence[Verdict]
) -> list[Verdict]:
    """A verdict for each row from those of its windows, with the scores that were asked for."""
    windows = [work for work in rows if work.draws]
    if any(work.logprobs is not None for work in windows):
        verdicts = [
            verdict
            if work.logprobs is None
            else replace(verdict, logprobs=_scored(window, verdict.tokens, work.logprobs))
            for work, window, verdict in zip(windows, views(windows, raw), verdicts, strict=True)
        ]
    judged = iter(verdicts)
    told = [next(judged) if work.draws else Verdict() for work in rows]
    if not any(work.predicted for work in rows):
        return told
    parts = _split(logits, [work.logits for work in rows])
    return [
        replace(verdict, prompt_logprobs=_scored(part, work.predicted, work.prompt_logprobs))
        for work, part, verdict in zip(rows, parts, told, strict=True)
    ]


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
