"""Committing: the one place where tokens become final, one at a time, in order. Pure.

Whatever ends a choice (an end token, a stop token, a stop text, the length) ends it at the first position that says so.
Token ids, text, usage, KV and the drafter's mirror all follow from that one cut.
"""

from collections.abc import Sequence
from typing import Protocol

from protocol.messages import Ending
from verifier.matcher import Matcher


class Detokenizer(Protocol):
    """Token ids in, text out, as soon as no later token can change it."""

    def step(self, token: int) -> str:
        """The text that became certain with this token, possibly none."""


class Timed(Detokenizer, Protocol):
    """One that knows when it did so."""

    def spent(self) -> tuple[float, float] | None:
        """From the first step since this was last asked to the end of the last one; None where there was none."""


class Output:
    """The committed output of one choice. `finish` is the reason of its end, once there is one, `detail` its words.

    With a matcher it is a text of a grammar: an end token ends it even if those are ignored otherwise, and so does the
    end of the grammar where nothing may follow, before `min_tokens` too.
    """

    __slots__ = (
        "_detokenizer",
        "_end_tokens",
        "_ending",
        "_hold",
        "_model_ends",
        "detail",
        "finish",
        "matcher",
        "text",
        "tokens",
    )

    def __init__(
        self, ending: Ending, end_tokens: frozenset[int], detokenizer: Detokenizer
    ) -> None:
        self.tokens: list[int] = []
        self.text = ""
        self.finish = ""
        self.detail = ""
        self.matcher: Matcher | None = None
        self._ending = ending
        self._model_ends = end_tokens
        self._end_tokens = frozenset(ending.stop_token_ids) | (
            frozenset() if ending.ignore_eos else end_tokens
        )
        self._detokenizer = detokenizer
        self._hold = max(map(len, ending.stop), default=1) - 1

    @property
    def end_tokens(self) -> frozenset[int]:
        """Tokens that end this choice; they must not be drawn before `min_tokens`."""
        return self._end_tokens

    @property
    def room(self) -> int:
        """Output tokens that may still be committed."""
        return 0 if self.finish else self._ending.max_tokens - len(self.tokens)

    @property
    def min_tokens(self) -> int:
        return self._ending.min_tokens

    @property
    def certain(self) -> int:
        """Characters of `text` that no later token can take back."""
        if self.finish:
            return len(self.text)
        return len(self.text) - _partial_stop(self.text, self._ending.stop, self._hold)

    def commit(self, tokens: Sequence[int]) -> list[int]:
        """Take tokens until something ends the choice; returns those that were taken."""
        taken: list[int] = []
        for token in tokens:
            if self.finish or not self._allowed(token):
                break
            self._commit_one(token)
            taken.append(token)
        return taken

    def follow(self, matcher: Matcher) -> None:
        """This is the grammar; nothing is committed yet."""
        self.matcher = matcher
        self._end_tokens |= self._model_ends

    def fail(self, detail: str) -> None:
        """No token may come next. That ends a text that is complete, and breaks off any other."""
        if not self.finish:
            complete = self.matcher is not None and self.matcher.complete
            self.finish, self.detail = ("stop", "") if complete else ("error", detail)

    def _allowed(self, token: int) -> bool:
        if self.matcher is not None and (fault := self.matcher.accept(token)):
            self.fail(fault)
        return not self.finish

    def _commit_one(self, token: int) -> None:
        self.tokens.append(token)
        early = len(self.tokens) < self._ending.min_tokens
        if token in self._end_tokens and not early:
            if self._ending.include_stop and token in self._ending.stop_token_ids:
                self.text += self._detokenizer.step(token)
            self.finish = "stop"
            return
        piece = self._detokenizer.step(token)
        before = len(self.text)
        self.text += piece
        stopped = piece and not early and self._cut_at_stop(before)
        if stopped or (self.matcher is not None and self.matcher.finished):
            self.finish = "stop"
        elif len(self.tokens) >= self._ending.max_tokens:
            self.finish = "length"

    def _cut_at_stop(self, before: int) -> bool:
        """Cut the text at the earliest stop text that ends behind `before`; at one place the first listed wins."""
        found = [
            (place, order, stop)
            for order, stop in enumerate(self._ending.stop)
            if (place := self.text.find(stop, max(0, before - len(stop) + 1))) >= 0
        ]
        if not found:
            return False
        place, _, stop = min(found)
        self.text = self.text[: place + len(stop) if self._ending.include_stop else place]
        return True


def _partial_stop(text: str, stops: Sequence[str], longest: int) -> int:
    """How many characters at the end of `text` may be the beginning of a stop text."""
    for size in range(min(longest, len(text)), 0, -1):
        end = text[len(text) - size :]
        if any(len(stop) > size and stop.startswith(end) for stop in stops):
            return size
    return 0
