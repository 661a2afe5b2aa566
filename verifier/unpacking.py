"""From the numbers that come back from a device to verdicts: the way back of `verifier.packing`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from engine.fetch import Arrival
from verifier import packing
from verifier.judge_torch import DEAD_END, End, cut
from verifier.matcher import Masks
from verifier.packing import Asked
from verifier.rules.plain import compare
from verifier.rules.windows import NOT_NUMBERS
from verifier.step import Verdict, Work

DEAD: Final = 1
"""State of a row from which nothing may be drawn."""


@dataclass(frozen=True, slots=True)
class Coming:
    """Verdicts that are made of numbers, once these are here."""

    arrival: Arrival
    make: Callable[[npt.NDArray[Any]], list[Verdict]]

    def ready(self) -> bool:
        return self.arrival.ready()

    def take(self) -> list[Verdict]:
        return self.make(self.arrival.numbers())


def verdicts(
    asked: Sequence[Asked],
    masks: Sequence[Masks | None],
    hot: Sequence[int],
    said: npt.NDArray[Any],
) -> list[Verdict]:
    """Verdicts from the numbers: a token and a state for each row, then ends of the windows that were tested."""
    rows = sum(each.work.draws for each in asked)
    tokens, states = said[:rows], said[rows : 2 * rows]
    kept, last, state = said[2 * rows :].reshape(3, -1)
    works = [each.work for each in asked]
    made = compare(works, tokens.tolist(), (states == 0).tolist())
    for place in hot:
        made[place] = _tested(works[place], kept[place], last[place], state[place])
    return [
        _ended(verdict, each, grammar, states[first : first + each.work.draws])
        for verdict, each, grammar, first in zip(
            made, asked, masks, packing.begins(asked), strict=True
        )
    ]


def _tested(work: Work, kept: int, last: int, state: int) -> Verdict:
    tokens = work.tested[: int(kept)]
    if state:
        return Verdict(tokens, len(tokens), fault=NOT_NUMBERS)
    if last >= 0:
        tokens = (*tokens, int(last))
    # A guess that took the place of the target's own token is not counted as a draft.
    return Verdict(tokens, len(tokens) - 1)


def _ended(verdict: Verdict, each: Asked, grammar: Masks | None, states: Any) -> Verdict:  # noqa: ANN401
    """The same, where no token may stand somewhere."""
    if not each.bans:
        return verdict
    dead = np.flatnonzero(states == DEAD)
    rows = len(grammar.rows) if grammar else 0
    if grammar and grammar.fault and (not len(dead) or dead[0] > rows):
        return cut(verdict, End(rows, grammar.fault))
    if len(dead) and verdict.fault and len(verdict.tokens) == dead[0]:
        return Verdict(verdict.tokens, int(dead[0]), fault=DEAD_END)
    return verdict
