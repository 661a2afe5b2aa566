"""Suffix matching (arXiv 2411.04975): what followed the longest earlier places of the last tokens.

Looked up in the request's own text, in past outputs and in loaded corpora. Each source and match length gives a run of
guesses; the one with the most expected hits (the sum of its survivals) wins, and is matched again from its own end, for
confidence falls along a copy and ends it anyway: at `min_probability`, counted from the last committed token.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from math import prod
from typing import Final, Protocol

from drafter.config import DrafterConfig, SuffixConfig
from drafter.mirror import Kept, Mirror
from drafter.proposers import Proposal
from drafter.proposers.corpus import Corpora
from drafter.proposers.history import History, Place
from drafter.proposers.sorted_text import SortedText
from drafter.proposers.store import Store
from drafter.proposers.walk import Run, better, follow

_PLACES: Final = 32  # most recent places of a match that are counted
_LENGTHS: Final = 3  # match lengths that are tried in one source
_ROUNDS: Final = 4  # matches that one proposal is made of at most
_INDEXED: Final = (
    4096  # tokens filed in one call, so that a long prompt delays others by a few milliseconds
)
_ALWAYS: Final = 64  # what a mirror commits between calls is filed whatever others need
_FEWEST_SLOTS: Final = 1024


class _Source(Protocol):
    def places(self, tail: array[int], most: int) -> list[Place]: ...

    def after(self, position: int, most: int) -> array[int]: ...


class SuffixProposer:
    """A Proposer. `corpora` may be used from any thread."""

    def __init__(self, config: SuffixConfig) -> None:
        self._config = config
        self._windows = [
            length
            for length in (config.min_match << power for power in range(3))
            if length <= config.max_match
        ]
        self._texts: dict[Mirror, History] = {}
        self._quota = 0
        self._store = Store(self._windows, config.store_tokens)
        self.corpora = Corpora(config.corpus_tokens)

    def open(self, mirror: Mirror) -> None:
        self._texts[mirror] = self._history(len(mirror.prompt))

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
        self._store.add(mirror.line[: mirror.base])

    def reset(self) -> None:
        """Forget past outputs; live requests and corpora stay."""
        self._store = Store(self._windows, self._config.store_tokens)

    def _history(self, tokens: int) -> History:
        return History(self._windows, slots=max(_FEWEST_SLOTS, 2 * tokens))

    def _catch_up(self, mirror: Mirror) -> bool:
        """File committed tokens, as far as this call's quota goes; whether all of them are."""
        history = self._texts[mirror]
        if history.end > 2 * history.slots:
            history = self._texts[mirror] = self._history(2 * history.end)
        prompt = len(mirror.prompt)
        missing = prompt + mirror.base - history.end
        now = min(missing, max(self._quota, _ALWAYS))
        self._quota -= now
        start, end = history.end, history.end + now
        if start < prompt:
            history.append(mirror.prompt[start:end])
        if end > prompt:
            history.append(mirror.line[max(0, start - prompt) : end - prompt])
        return now == missing

    def _continue(self, mirror: Mirror, want: int) -> Proposal:
        least = self._config.min_probability
        survival = prod(mirror.confidences)
        tail = self._texts[mirror].last(self._config.max_match)
        tail.extend(mirror.line[mirror.base :])
        tokens: list[int] = []
        confidences: list[float] = []
        for _ in range(_ROUNDS):
            room = want - len(tokens)
            if room <= 0 or survival <= least:
                break
            run = self._best(self._texts[mirror], tail, room, least / survival)
            if not run.tokens:
                break
            tail.extend(run.tokens)
            tokens += run.tokens
            confidences += run.confidences
            survival *= run.reach
            if run.doubted:
                break
        return Proposal(tokens, confidences)

    def _best(self, own: History, tail: array[int], room: int, least: float) -> Run:
        best = self._counted(own, tail, room, least)
        if best.tokens and best.matched == len(tail):
            # Nothing can match longer, and nowhere is nearer.
            return best
        best = better(best, self._counted(self._store, tail, room, least))
        for text in self.corpora.ready():
            best = better(best, self._sorted(text, tail, room, least))
        return best

    def _budget(self, length: int, room: int) -> int:
        return min(room, int(self._config.factor * length + self._config.offset))

    def _counted(self, source: _Source, tail: array[int], room: int, least: float) -> Run:
        best = Run(0)
        places = source.places(tail, _PLACES)
        for length in sorted({place.length for place in places}, reverse=True)[:_LENGTHS]:
            budget = self._budget(length, room)
            rows = [source.after(position, budget) for held, position in places if held >= length]
            best = better(best, follow(rows, length, least))
        return best

    def _sorted(self, text: SortedText, tail: array[int], room: int, least: float) -> Run:
        match = text.longest(tail, self._config.min_match)
        best = Run(0)
        if match is None:
            return best
        best = better(best, text.follow(match, self._budget(match.length, room), least))
        half = match.length // 2
        if half >= self._config.min_match and (match := text.match(tail, half)):
            best = better(best, text.follow(match, self._budget(half, room), least))
        return best


def make(config: DrafterConfig) -> SuffixProposer:
    return SuffixProposer(config.suffix)
