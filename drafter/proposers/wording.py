"""What a draft model reads of a mirror, and what it may say: for the same vocabulary, and for one that overlaps.

Shapes: N mirrors that draw a token, V vocabulary of the draft model.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from drafter.config import DrafterConfig
from drafter.mirror import Mirror
from drafter.vocabulary import Intersection, Vocabulary, difference, intersection
from engine.sampling import SamplingParams


class Wording(Protocol):
    """Between token ids of the target, which mirrors hold, and those of the draft model."""

    def length(self, mirror: Mirror, line: int) -> int:
        """Tokens of the draft model in the prompt and the first `line` tokens of the line."""

    def read(self, mirror: Mirror, start: int, end: int) -> list[int]:
        """Its tokens [start, end)."""

    def sayable(self, logits_NV: Tensor) -> Tensor:
        """The logits, less than none for what the target has no token for."""

    def said(self, token: int) -> int:
        """The target's token for one that is sayable."""

    def params(self, mirror: Mirror) -> SamplingParams:
        """How a guess is drawn."""


class SameWording:
    """Ids mean the same; those from `limit` on, the target does not have."""

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit

    def length(self, mirror: Mirror, line: int) -> int:
        return len(mirror.prompt) + line

    def read(self, mirror: Mirror, start: int, end: int) -> list[int]:
        prompt = len(mirror.prompt)
        line = mirror.line[max(0, start - prompt) : max(0, end - prompt)]
        return [*mirror.prompt[start:end], *line]

    def sayable(self, logits_NV: Tensor) -> Tensor:
        return logits_NV[:, : self._limit]

    def said(self, token: int) -> int:
        return token

    def params(self, mirror: Mirror) -> SamplingParams:
        return SamplingParams.of(mirror.sampling)


class SharedWording:
    """Ids differ: the text is spelled anew for the draft model, and only what both can say is guessed.

    Guesses are the likeliest token whatever the request draws: another vocabulary has another law.
    """

    def __init__(self, common: Intersection, vocabulary: int) -> None:
        self._common = common
        self._silent_V = torch.ones(vocabulary, dtype=torch.bool)
        self._silent_V[[token for token in common.said if token < vocabulary]] = False

    def length(self, mirror: Mirror, line: int) -> int:
        return sum(map(len, self._spelled(mirror, line)))

    def read(self, mirror: Mirror, start: int, end: int) -> list[int]:
        return list(chain.from_iterable(self._spelled(mirror, len(mirror.line))))[start:end]

    def sayable(self, logits_NV: Tensor) -> Tensor:
        return logits_NV.masked_fill(self._silent_V, -torch.inf)

    def said(self, token: int) -> int:
        return self._common.said[token]

    def params(self, mirror: Mirror) -> SamplingParams:
        return SamplingParams(temperature=0.0, seed=mirror.sampling.seed)

    def _spelled(self, mirror: Mirror, line: int) -> Iterator[Sequence[int]]:
        for token in chain(mirror.prompt, mirror.line[:line]):
            yield self._common.spelled.get(token, ())


def wording_of(config: DrafterConfig, folder: Path, width: int) -> Wording:
    """Compare the vocabularies, if the target's is known; otherwise verifiers compare fingerprints with ours."""
    if config.target is None:
        if config.standalone.use_heterogeneous_vocab:
            raise ValueError("use_heterogeneous_vocab needs `target`: the folder of its tokenizer")
        return SameWording()
    target = Vocabulary(config.target)
    if config.target.resolve() == folder.resolve():
        return SameWording(target.size)
    draft = Vocabulary(folder)
    differs = difference(target, draft)
    if not differs:
        return SameWording(target.size)
    if config.standalone.use_heterogeneous_vocab:
        return SharedWording(intersection(target, draft), width)
    raise ValueError(
        f"the draft model in {folder} has another vocabulary: {differs}; use_heterogeneous_vocab would guess "
        "what both have in common"
    )
