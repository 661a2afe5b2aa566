"""How many drafts of one window are kept: the rules themselves, on a handful of numbers each. Pure.

Numbers need only be added, multiplied, divided and compared, and coins only be compared: tests run these very functions
on fractions, with coins that split into all their outcomes (`tests/exact/rounds.py`). A coin lies strictly between 0
and 1.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Number = float
Numbers = npt.NDArray[np.float64]


class Place(NamedTuple):
    """One draft x and its position.

    `p` and `q` are its probabilities under target and drafter, `ps` and `qs` those of every token that the drafter
    might have drawn there, x among them; `rest` is what the target gives to all others.
    """

    p: Number
    q: Number
    ps: Numbers
    qs: Numbers
    rest: Number


class Cut(NamedTuple):
    """The first `accepted` drafts are kept. At the next, the target's distribution is scaled by `scale`, and what the
    drafter's gives is taken off, before a token is drawn.
    """

    accepted: int
    scale: Number = 1


Decide = Callable[[Sequence[Place], Sequence[Number]], Cut]
"""(places, a coin for each) -> cut."""


def ratio(places: Sequence[Place], coins: Sequence[Number]) -> Cut:
    """Each draft with probability min(1, p / q), up to the first that fails (Leviathan et al., arXiv 2211.17192).

    p = 0 always fails; q = 0 with p > 0 never does.
    """
    for index, (place, coin) in enumerate(zip(places, coins, strict=True)):
        if not coin * place.q < place.p:
            return Cut(index)
    return Cut(len(places))


def block(places: Sequence[Place], coins: Sequence[Number]) -> Cut:
    """The longest prefix whose own coin falls (Sun et al., arXiv 2403.10444): all are thrown, failures end nothing."""
    cut = Cut(0)
    joint: Number = 1
    for index, (place, coin) in enumerate(zip(places, coins, strict=True), start=1):
        joint = _joined(joint, place)
        chance = joint if index == len(places) else _chance(joint, places[index])
        if coin < chance:
            cut = Cut(index, joint)
    return cut


def _joined(joint: Number, place: Place) -> Number:
    """min(1, joint p / q), where p / 0 is infinite for a p above 0."""
    if place.p == 0 or joint == 0:
        return 0
    return 1 if joint * place.p >= place.q else joint * place.p / place.q


def _chance(joint: Number, following: Place) -> Number:
    """Z / (Z + 1 - joint), 0 / 0 being 1, for Z = sum of max(joint p - q, 0) at the following position."""
    left = joint * following.rest + np.maximum(joint * following.ps - following.qs, 0).sum()
    missing = 1 - joint
    return 1 if left == 0 and missing == 0 else left / (left + missing)


def threshold(single: float, accumulated: float) -> Decide:
    """With probability min(1, p / accumulated), and always from p = `single` on; both 1: the law of the target.

    What the drafter's distribution was does not matter. `single` is above 0, so p = 0 always fails.
    """

    def decide(places: Sequence[Place], coins: Sequence[Number]) -> Cut:
        for index, (place, coin) in enumerate(zip(places, coins, strict=True)):
            if not (coin * accumulated < place.p or place.p >= single):
                return Cut(index)
        return Cut(len(places))

    return decide


def conditional(rates: Sequence[float]) -> list[float]:
    """From P(at least i drafts are kept) to P(draft i is kept | those before it were)."""
    before = [1.0, *rates]
    return [
        rate / earlier if earlier else 0.0 for earlier, rate in zip(before, rates, strict=False)
    ]


def staircase(length: float, drafts: int) -> list[float]:
    """Rates with which 1 + the number of kept drafts has the mean `length`, and the least variance (methods 1.10)."""
    whole = int(length - 1)
    steps = [1.0] * whole + [length - 1 - whole]
    return [*steps, *[0.0] * drafts][:drafts]
