"""All that may happen, with exact probabilities: coins that split where they are compared, and every path once.

A coin is a uniform number of which only an interval is known. Comparing it with a bound inside that interval splits the
story in two, and the interval becomes the part that was chosen: whoever throws the same coin again learns nothing new.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable
from fractions import Fraction
from typing import TypeVar

State = TypeVar("State", bound=Hashable)
Interval = tuple[Fraction, Fraction]
WHOLE: Interval = (Fraction(0), Fraction(1))


class Path:
    """One story. `script` are the ways to go at the first splits; at every later one the first way is gone."""

    def __init__(self, script: list[bool]) -> None:
        self.script = script
        self.taken: list[bool] = []
        self.weight = Fraction(1)

    def below(self, interval: Interval, bound: Fraction) -> tuple[bool, Interval]:
        """Whether a number of the interval is below the bound, and where it lies then."""
        low, high = interval
        if bound >= high:
            return True, interval
        if bound <= low:
            return False, interval
        place = len(self.taken)
        is_below = self.script[place] if place < len(self.script) else True
        self.taken.append(is_below)
        share = (bound - low) / (high - low)
        self.weight *= share if is_below else 1 - share
        return is_below, (low, bound) if is_below else (bound, high)


class Coin:
    """A uniform number in (0, 1), compared and nothing else; `factor` times it."""

    def __init__(self, purse: "Purse", name: Hashable, factor: Fraction = Fraction(1)) -> None:
        self._purse, self._name, self._factor = purse, name, factor

    def __mul__(self, factor: Fraction) -> "Coin":
        return Coin(self._purse, self._name, self._factor * Fraction(factor))

    def __lt__(self, bound: Fraction) -> bool:
        if self._factor == 0:
            return bound > 0
        return self._purse.below(self._name, Fraction(bound) / self._factor)


class Purse:
    """Coins by their names; `known` are the intervals of those that were thrown already."""

    def __init__(self, path: Path, known: dict[Hashable, Interval]) -> None:
        self.known = known
        self._path = path

    def coin(self, *name: Hashable) -> Coin:
        return Coin(self, name)

    def below(self, name: Hashable, bound: Fraction) -> bool:
        is_below, self.known[name] = self._path.below(self.known.get(name, WHOLE), bound)
        return is_below


def outcomes(story: Callable[[Path], State]) -> dict[State, Fraction]:
    """Every outcome of a story with its probability."""
    found: dict[State, Fraction] = defaultdict(Fraction)
    scripts: list[list[bool]] = [[]]
    while scripts:
        path = Path(scripts.pop())
        found[story(path)] += path.weight
        new = range(len(path.script), len(path.taken))
        scripts += [[*path.taken[:place], not path.taken[place]] for place in new]
    assert sum(found.values()) == 1
    return found
