"""From logits to the few numbers that a decision needs, and from its cut to tokens.

Shapes: N rows of logits, V vocabulary, K tokens of a law.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from torch import Tensor

from engine.masses import Ids, Mass, Numbers, draw_rest, masses, usable
from engine.params import SamplingParams
from engine.philox import Role
from verifier.rules.decisions import Decide, Place
from verifier.rules.plain import greedy
from verifier.rules.windows import NOT_NUMBERS, begins, coins, params_of
from verifier.step import Verdict, Work

NOTHING: Ids = np.zeros(0, dtype=np.int32)
CERTAIN: Numbers = np.ones(1)


class Guess(NamedTuple):
    """A token that is tested, and its law."""

    token: int
    ids: Ids
    shares: Numbers


def judge(
    decide: Decide,
    windows: Sequence[Work],
    logits_NV: Tensor,
    *,
    laws: bool = False,
    fresh: bool = False,
) -> list[Verdict]:
    """Test the guesses of each window, the one behind its drafts among them; then draw the token that ends the round.

    Without `laws` every guess counts as certain, whatever it was drawn from. `fresh`: see `coins`. At temperature 0 all
    of that comes to the likeliest token, which costs less to find.
    """
    params = [params_of(work) for work in windows]
    if all(each.greedy for each in params):
        return greedy(windows, logits_NV)
    guesses = [
        [] if own.greedy else guesses_of(work, laws=laws)
        for work, own in zip(windows, params, strict=True)
    ]
    ids: list[Ids | None] = []
    for work, tested in zip(windows, guesses, strict=True):
        ids += [guess.ids for guess in tested]
        ids += [None] * (work.draws - len(tested))
    row_params = [
        each for work, own in zip(windows, params, strict=True) for each in [own] * work.draws
    ]
    found = masses(logits_NV, row_params, ids)
    accepting = coins(windows, Role.ACCEPT, fresh=fresh)
    final = coins(windows, Role.FINAL, fresh=fresh)
    verdicts = []
    for index, (work, begin) in enumerate(zip(windows, begins(windows), strict=True)):
        rows_NV = logits_NV[begin : begin + work.draws]
        if params[index].greedy:
            verdicts += greedy([work], rows_NV)
            continue
        verdicts.append(
            verdict(
                work,
                guesses[index],
                found[begin : begin + work.draws],
                decide=decide,
                coins=accepting[index],
                drawing=_Rows(rows_NV, params[index], final[index]),
            )
        )
    return verdicts


class Drawing(Protocol):
    """What the token that ends a round is drawn from: the target's distribution at each place of a window."""

    def usable(self, place: int) -> bool:
        """Whether anything can be drawn there."""

    def draw(self, place: int, ids: Ids, taken: Numbers) -> int:
        """A token of what is left when `taken` is taken off the probabilities of `ids` (see `draw_rest`)."""


class _Rows(NamedTuple):
    """Rows of logits."""

    logits: Tensor
    params: SamplingParams
    coins: Sequence[float]

    def usable(self, place: int) -> bool:
        return usable(self.logits[place : place + 1])[0]

    def draw(self, place: int, ids: Ids, taken: Numbers) -> int:
        return draw_rest(self.logits[place], self.params, ids, taken, self.coins[place])


def verdict(
    work: Work,
    guesses: Sequence[Guess],
    found: Sequence[Mass | None],
    *,
    decide: Decide,
    coins: Sequence[float],
    drawing: Drawing,
) -> Verdict:
    """The verdict on one window, from the masses of its guesses; the numbers may be of any exact kind."""
    places: list[Place] = []
    for guess, mass in zip(guesses, found, strict=False):
        if mass is None:
            break  # nothing behind this position can be said
        places.append(_place(guess, mass))
    kept, scale = decide(places, coins[: len(places)])
    tokens = tuple(guess.token for guess in guesses[:kept])
    if kept < len(places):
        guess = guesses[kept]
        tokens += (drawing.draw(kept, guess.ids, guess.shares / scale),)
    elif kept < work.draws:
        if kept < len(guesses) or not drawing.usable(kept):
            return Verdict(tokens, kept, fault=NOT_NUMBERS)
        tokens += (drawing.draw(kept, NOTHING, NOTHING.astype(np.float64)),)
    # A guess that took the place of the target's own token is not counted as a draft.
    return Verdict(tokens, len(tokens) - 1)


def guesses_of(work: Work, *, laws: bool) -> list[Guess]:
    """What is tested in a window, with its laws or as if it were certain."""
    known = [*(work.laws if laws else ())]
    known += [None] * (len(work.tested) - len(known))
    guesses = []
    for token, law in zip(work.tested, known, strict=False):
        if law is None:
            guesses.append(Guess(token, np.array([token], dtype=np.int32), CERTAIN))
        else:
            guesses.append(Guess(token, law.ids, np.asarray(law.shares)))
    return guesses


def _place(guess: Guess, mass: Mass) -> Place:
    own = int((guess.ids == guess.token).argmax())
    return Place(mass.inside[own], guess.shares[own], mass.inside, guess.shares, mass.rest)
