"""Between the core's steps and the engine: one forward, adjusted logits, then one acceptance rule over all windows."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final, NamedTuple, Protocol

import torch
from torch import Tensor

from engine.adjust import Adjustments, adjust, dead_end, restrict
from engine.runner import Forward, Row
from engine.scores import score
from protocol.messages import Sampling, Scored
from verifier.acceptance import Rule
from verifier.matcher import Masks
from verifier.step import Step, Verdict, Work

DEAD_END: Final = "no token is left that may be drawn: what the request allows and what it bans exclude each other"


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
        ends: list[_End | None] = []
        if any(_changes(work) for work in windows):
            if any(work.logprobs is not None or work.predicted for work in rows):
                drawn = drawn.clone()  # scores are of what the target said itself
            for work, window in zip(windows, _windows(windows, drawn), strict=True):
                _change(work, window)
                ends.append(_end(work, window) if _bans(work) else None)
        verdicts = self._rule(windows, drawn)
        if any(ends):
            verdicts = [_cut(each, end) for each, end in zip(verdicts, ends, strict=True)]
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
    return (
        work.matcher is not None
        or bool(work.banned and work.banned_draws)
        or not _adjustments(work.sampling).neutral
    )


def _bans(work: Work) -> bool:
    """Whether some tokens cannot be drawn, so that none may be left."""
    wanted = _adjustments(work.sampling)
    early = work.banned and work.banned_draws
    return bool(work.matcher is not None or early or wanted.allowed or wanted.bad_words)


def _change(work: Work, window: Tensor) -> None:
    """Adjust each row of a window as if the drafts before it had been output."""
    early = min(work.banned_draws, work.draws)
    if work.banned and early:
        window[:early, sorted(work.banned)] = float("-inf")
    wanted = _adjustments(work.sampling)
    if wanted.neutral:
        return
    for index, row in enumerate(window):
        adjust(row, wanted, work.prompt, [*work.output, *work.guesses[:index]])


class _End(NamedTuple):
    """From row `at` of a window on nothing can be drawn, and why."""

    at: int
    fault: str


def _end(work: Work, window: Tensor) -> _End | None:
    """Leave each row of a window what the grammar allows there, behind the drafts before it; where that is nothing."""
    masks = Masks(()) if work.matcher is None else work.matcher.masks(work.guesses)
    restrict(window, masks.rows)
    dead = dead_end(window)
    if dead is not None:
        window[dead:] = 0.0  # what is drawn there is cut off, but it can be drawn
    if masks.fault and (dead is None or dead > len(masks.rows)):
        return _End(len(masks.rows), masks.fault)
    return None if dead is None else _End(dead, DEAD_END)


def _cut(verdict: Verdict, end: _End | None) -> Verdict:
    if end is None or len(verdict.tokens) <= end.at:
        return verdict
    return Verdict(verdict.tokens[: end.at], end.at, fault=end.fault)


def _scored(rows: Tensor, tokens: Sequence[int], top: int | None) -> tuple[Scored, ...]:
    return tuple(Scored(*each) for each in score(rows, tokens, top or 0))
