"""A judge on the CPU: adjusted logits, then a rule of `verifier/rules`."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import torch
from torch import Tensor

from engine.adjust import Adjustments, adjust, dead_end, restrict
from protocol.messages import Sampling
from verifier.acceptance import Rule
from verifier.matcher import Masks
from verifier.pending import Known, Pending, Wake
from verifier.step import Verdict, Work

DEAD_END: Final = "no token is left that may be drawn: what the request allows and what it bans exclude each other"


class TorchJudge:
    """See `verifier.judges.Judge`. Logits of a device are copied to the CPU as they are."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule

    def begin(self, windows: Sequence[Work], logits_NV: Tensor, _wake: Wake) -> Pending:
        return Known(self(windows, logits_NV) if windows else ())

    def __call__(self, windows: Sequence[Work], logits_NV: Tensor) -> list[Verdict]:
        logits_NV = logits_NV.cpu()
        ends: list[End | None] = []
        if any(changes(work) for work in windows):
            for work, window in zip(windows, views(windows, logits_NV), strict=True):
                _change(work, window)
                ends.append(_end(work, window) if bans(work) else None)
        verdicts = self._rule(windows, logits_NV)
        if any(ends):
            verdicts = [cut(each, end) for each, end in zip(verdicts, ends, strict=True)]
        return verdicts


def views(windows: Sequence[Work], drawn: Tensor) -> Iterator[Tensor]:
    """Of the logits of each window."""
    return iter(torch.split(drawn, [work.draws for work in windows]))


@lru_cache(maxsize=1024)
def adjustments(sampling: Sampling) -> Adjustments:
    """What a request wants of its logits."""
    return Adjustments(
        allowed=sampling.allowed,
        bad_words=sampling.bad_words,
        bias=dict(sampling.logit_bias),
        repetition=sampling.repetition_penalty,
        presence=sampling.presence_penalty,
        frequency=sampling.frequency_penalty,
    )


def changes(work: Work) -> bool:
    """Whether its logits are not drawn from as they are."""
    return (
        work.matcher is not None
        or bool(work.banned and work.banned_draws)
        or not adjustments(work.sampling).neutral
    )


def bans(work: Work) -> bool:
    """Whether some tokens cannot be drawn, so that none may be left."""
    wanted = adjustments(work.sampling)
    early = work.banned and work.banned_draws
    return bool(work.matcher is not None or early or wanted.allowed or wanted.bad_words)


def _change(work: Work, window: Tensor) -> None:
    """Adjust each row of a window as if the drafts before it had been output."""
    early = min(work.banned_draws, work.draws)
    if work.banned and early:
        window[:early, sorted(work.banned)] = float("-inf")
    wanted = adjustments(work.sampling)
    if wanted.neutral:
        return
    for index, row in enumerate(window):
        adjust(row, wanted, work.prompt, [*work.output, *work.guesses[:index]])


class End(NamedTuple):
    """From row `at` of a window on nothing can be drawn, and why."""

    at: int
    fault: str


def _end(work: Work, window: Tensor) -> End | None:
    """Leave each row of a window what the grammar allows there, behind the drafts before it; where that is nothing."""
    masks = Masks(()) if work.matcher is None else work.matcher.masks(work.guesses)
    restrict(window, masks.rows)
    dead = dead_end(window)
    if dead is not None:
        window[dead:] = 0.0  # what is drawn there is cut off, but it can be drawn
    if masks.fault and (dead is None or dead > len(masks.rows)):
        return End(len(masks.rows), masks.fault)
    return None if dead is None else End(dead, DEAD_END)


def cut(verdict: Verdict, end: End | None) -> Verdict:
    """The verdict, as far as something could be drawn."""
    if end is None or len(verdict.tokens) <= end.at:
        return verdict
    return Verdict(verdict.tokens[: end.at], end.at, fault=end.fault)
