"""Prompt lookup: what followed the earliest place of the last tokens in the request's own text, longest match first."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from drafter.config import DrafterConfig, NgramConfig
from drafter.mirror import Kept, Mirror
from drafter.proposers import Proposal
from drafter.proposers.walk import confidence

_WIDTH: Final = array("i").itemsize
_INDEXED: Final = (
    4096  # tokens filed in one call, so that a long prompt delays others by a few milliseconds
)
_ALWAYS: Final = 64


@dataclass(slots=True)
class _Text:
    """Committed tokens of one request, and for each n-gram in them (as bytes) where it first ended."""

    tokens: array[int] = field(default_factory=lambda: array("i"))
    first: dict[bytes, int] = field(default_factory=dict)


class NgramProposer:
    """A Proposer. The confidence is that of the one place of a suffix match, so it grows along a copy."""

    def __init__(self, config: NgramConfig) -> None:
        self._config = config
        self._texts: dict[Mirror, _Text] = {}
        self._quota = 0

    def open(self, mirror: Mirror) -> None:
        self._texts[mirror] = _Text()

    def adopt(self, mirror: Mirror, kept: Kept) -> None:
        """Nothing to undo: only committed tokens are filed, and they are read when they are needed."""

    def propose(self, wants: Sequence[tuple[Mirror, int]]) -> list[Proposal]:
        self._quota = _INDEXED
        return [
            self._continue(mirror, want) if self._catch_up(mirror) else Proposal(pending=True)
            for mirror, want in wants
        ]

    def close(self, mirror: Mirror) -> None:
        self._texts.pop(mirror, None)

    def _catch_up(self, mirror: Mirror) -> bool:
        """File committed tokens, as far as this call's quota goes; whether all of them are."""
        text = self._texts[mirror]
        start, prompt = len(text.tokens), len(mirror.prompt)
        missing = prompt + mirror.base - start
        now = min(missing, max(self._quota, _ALWAYS))
        self._quota -= now
        if start < prompt:
            text.tokens.extend(mirror.prompt[start : start + now])
        if start + now > prompt:
            text.tokens.extend(mirror.line[max(0, start - prompt) : start + now - prompt])
        self._file(text, start)
        return now == missing

    def _file(self, text: _Text, start: int) -> None:
        lengths = range(self._config.min_match, self._config.max_match + 1)
        before = max(0, start - self._config.max_match)
        data = text.tokens[before:].tobytes()
        for end in range(start + 1, len(text.tokens) + 1):
            stop = (end - before) * _WIDTH
            for length in lengths:
                if length > end:
                    break
                text.first.setdefault(data[stop - length * _WIDTH : stop], end)

    def _continue(self, mirror: Mirror, want: int) -> Proposal:
        text, longest = self._texts[mirror], self._config.max_match
        tail = text.tokens[-longest:]
        tail.extend(mirror.line[mirror.base :])
        data = tail[-longest:].tobytes()
        for length in range(min(longest, len(data) // _WIDTH), self._config.min_match - 1, -1):
            place = text.first.get(data[-length * _WIDTH :], len(text.tokens))
            if place < len(text.tokens):
                tokens = text.tokens[place : place + want].tolist()
                return Proposal(
                    tokens, [confidence(1, 1, 1, length + i) for i in range(len(tokens))]
                )
        return Proposal()


def make(config: DrafterConfig) -> NgramProposer:
    return NgramProposer(config.ngram)
