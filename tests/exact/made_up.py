"""Laws for enumeration: made up from a name, the same every time."""

import random
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Final

from tests.exact.rounds import Drafter, Numbers, Source, Target, Tokens

GRAIN: Final = 8
"""Probabilities of drafters are multiples of 1 / 8, which float32 holds."""


def target(vocabulary: int, possible: int, name: str = "") -> Target:
    """Gives so many of the tokens a probability, after every text other ones."""

    @lru_cache(None)
    def law(text: Tokens) -> Numbers:
        rng = random.Random(f"target {name} {text}")
        tokens = rng.sample(range(vocabulary), possible)
        return _law(vocabulary, tokens, [rng.randint(1, 5) for _ in tokens])

    return law


def one_by_one(vocabulary: int, possible: int, name: str = "") -> Drafter:
    """Its laws depend on every token before them."""

    @lru_cache(None)
    def law(source: Source) -> Numbers:
        return _grained(vocabulary, possible, f"{name} {source.committed + source.guesses}")

    return law


def at_once(vocabulary: int, possible: int, name: str = "") -> Drafter:
    """Its laws depend on what was committed when they were made, and on the position."""

    @lru_cache(None)
    def law(source: Source) -> Numbers:
        return _grained(vocabulary, possible, f"{name} {source.committed} {len(source.guesses)}")

    return law


def on_features(vocabulary: int, possible: int, name: str = "") -> Drafter:
    """Its laws depend on every token before them, and change when more of these are committed."""

    @lru_cache(None)
    def law(source: Source) -> Numbers:
        return _grained(vocabulary, possible, f"{name} {source.committed} {source.guesses}")

    return law


def certain(vocabulary: int, name: str = "") -> Drafter:
    """One token after each text."""
    return one_by_one(vocabulary, 1, name)


def always(*law: Fraction) -> Target:
    """The same target after every text."""
    return lambda _text: law


def drafts(*law: Fraction) -> Drafter:
    """The same drafter after every text."""
    return lambda _source: law


def _grained(vocabulary: int, possible: int, name: str) -> Numbers:
    rng = random.Random(f"drafter {name}")
    tokens = rng.sample(range(vocabulary), possible)
    cuts = sorted(rng.sample(range(1, GRAIN), possible - 1))
    ends = [0, *cuts, GRAIN]
    return _law(vocabulary, tokens, [ends[place + 1] - ends[place] for place in range(possible)])


def _law(vocabulary: int, tokens: Sequence[int], weights: Sequence[int]) -> Numbers:
    law = [Fraction(0)] * vocabulary
    for token, weight in zip(tokens, weights, strict=True):
        law[token] = Fraction(weight, sum(weights))
    return tuple(law)
