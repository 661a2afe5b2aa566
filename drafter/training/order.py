"""Which texts are trained on, when, and which are held out. Pure: all follows from a seed and the lengths."""

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

HELD_OUT: Final = 40
"""One text of so many is never trained on, by its number in the corpus."""
POOL: Final = 8
"""Batches are made of texts of similar length within so many batches."""


def held_out(number: int) -> bool:
    return number % HELD_OUT == 0


def epoch(lengths: Sequence[int], tokens: int, seed: str) -> list[list[int]]:
    """All texts that are not held out once, in batches of at most so many tokens with their padding."""
    draw = random.Random(seed)  # noqa: S311
    chosen = [number for number in range(len(lengths)) if not held_out(number)]
    draw.shuffle(chosen)
    batches: list[list[int]] = []
    size = max(1, POOL * tokens * len(lengths) // max(1, sum(lengths)))
    for start in range(0, len(chosen), size):
        pool = sorted(chosen[start : start + size], key=lambda number: lengths[number])
        batches += packed(pool, lengths, tokens)
    draw.shuffle(batches)
    return batches


def packed(pool: Iterable[int], lengths: Sequence[int], tokens: int) -> list[list[int]]:
    """Texts of ascending length in batches."""
    batches: list[list[int]] = []
    batch: list[int] = []
    for number in pool:
        if batch and (len(batch) + 1) * lengths[number] > tokens:
            batches.append(batch)
            batch = []
        batch.append(number)
    return [*batches, batch] if batch else batches


def frequent(texts: Iterable[Sequence[int]], size: int, vocab: int) -> list[int]:
    """The ids that occur most often, ascending; of equals, and where there are too few, the lowest."""
    counts = Counter(token for text in texts for token in text)
    ranked = sorted(range(vocab), key=lambda token: (-counts[token], token))
    return sorted(ranked[:size])
