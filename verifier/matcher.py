"""Grammars as cores see them: what may come next, and what has come. Pure; `verifier/grammar.py` is behind it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Masks:
    """Which tokens may stand at the positions of a window, one row for each from the first on.

    Bit i (the lowest of a byte first) of a row is set where token i may stand. Rows end behind the first draft that may
    not stand where it does, or with which the text is complete: nothing behind it counts. `fault` says why there is no
    row where one would be needed: nothing can be drawn there.
    """

    rows: tuple[bytes, ...]
    fault: str = ""


class Unchecked(str):
    """Why nobody can tell what a grammar is worth: a fault of ours, not of the grammar."""

    __slots__ = ()


class Matcher(Protocol):
    """Follows the committed output of one choice through its grammar."""

    def masks(self, drafts: Sequence[int]) -> Masks:
        """What may stand behind the committed output, and behind each draft; the matcher itself does not move."""

    def accept(self, token: int) -> str:
        """The next committed token; returns why it cannot stand here, or nothing."""

    @property
    def complete(self) -> bool:
        """The output is a whole text of the grammar, whatever else may follow."""

    @property
    def finished(self) -> bool:
        """It is, and nothing may follow."""


Compiled = Callable[[], Matcher]
"""A grammar that can be used: a matcher for each choice, at the beginning of its output."""
