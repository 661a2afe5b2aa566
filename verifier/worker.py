"""Between the core's steps and the engine: one forward, adjusted logits, then one acceptance rule over all windows."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Protocol

import torch
from torch import Tensor

from engine.adjust import Adjustments, adjust
from engine.runner import Forward, Row
from engine.scores import score
from protocol.messages import Sampling, Scored
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
        if any(_changes(work) for work in windows):
            drawn = drawn.clone()
            for work, window in zip(windows, _windows(windows, drawn), strict=True):
                _change(work, window)
        verdicts = self._rule(windows, drawn)
        if any(work.logprobs is not None for work in windows):
            verdicts = [
                verdict
                if work.logprobs is None
                else replace(verdict, logprobs=_scored(window, verdict.tokens, work.logprobs))
                for work, window, verdict in zip(
                    windows, _windows(windows, raw), verdicts, strict=True
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


def _windows(windows: Sequence[Work], drawn: Tensor) -> Iterator[Tensor]:
    """Views of the logits of each window."""
    return _split(drawn, [work.draws for work in windows])


@lru_cache(maxsize=1024)
def _adjustments(sampling: Sampling) -> Adjustments:
    return Adjustments(
        allowed=sampling.allowed,
        bad_words=sampling.bad_words,
        bias=dict(sampling.logit_bias),
        repetition=sampling.repetition_penalty,
        presence=sampling.presence_penalty,
        frequency=sampling.frequency_penalty,
    )


def _changes(work: Work) -> bool:
    return bool(work.banned and work.banned_draws) or not _adjustments(work.sampling).neutral


def _change(work: Work, window: Tensor) -> None:
    """Adjust each row of a window as if the drafts before it had been output."""
    early = min(work.banned_draws, work.draws)
    if work.banned and early:
        window[:early, sorted(work.banned)] = float("-inf")
    wanted = _adjustments(work.sampling)
    if wanted.neutral:
        return
    drafts = work.tokens[len(work.tokens) - work.drafts :]
    for index, row in enumerate(window):
        adjust(row, wanted, work.prompt, [*work.output, *drafts[:index]])


def _scored(rows: Tensor, tokens: Sequence[int], top: int | None) -> tuple[Scored, ...]:
    return tuple(Scored(*each) for each in score(rows, tokens, top or 0))
