"""Large constants of the target for drafters that have no copy of it: read where asked, a piece at a time. Pure."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from protocol.messages import AnyMessage, Blob, Refuse

PIECE: Final = 1 << 20
"""Bytes in one frame: work of a millisecond, so that requests have their turn between two of them."""


@dataclass(frozen=True, slots=True)
class Loan:
    """What is lent: `length` bytes named by `hash`; `read(offset, size)` gives some of them."""

    hash: str
    length: int
    read: Callable[[int, int], bytes]


class Lending:
    """Who asked for what, and how far each was told."""

    def __init__(self, loan: Loan | None) -> None:
        self.counters: Counter[str] = Counter()
        self._loan = loan
        self._offsets: dict[int, int | None] = {}  # by link; None: nothing is wanted
        self._refused: dict[int, Refuse] = {}

    def __contains__(self, link: int) -> bool:
        return link in self._offsets

    def link_up(self, link: int) -> None:
        self._offsets[link] = None

    def link_down(self, link: int) -> None:
        self._offsets.pop(link, None)
        self._refused.pop(link, None)

    def asked(self, link: int, ask: Blob) -> None:
        """An empty blob asks for everything from its offset on."""
        if self._loan is None or ask.hash != self._loan.hash:
            has = f"weights {self._loan.hash}" if self._loan else "nothing to lend"
            text = f"asked for weights {ask.hash}, this verifier has {has}"
            self._refused[link] = Refuse("unknown", text)
        elif ask.offset <= self._loan.length:
            self._offsets[link] = ask.offset
        else:
            text = f"asked from byte {ask.offset} on, there are {self._loan.length}"
            self._refused[link] = Refuse("invalid", text)

    @property
    def links(self) -> list[int]:
        """Who is to be told something."""
        wanting = [link for link, offset in self._offsets.items() if offset is not None]
        return [*self._refused, *wanting]

    def messages(self, link: int) -> list[AnyMessage]:
        """The next frame: a refusal, or one piece."""
        if refused := self._refused.pop(link, None):
            return [refused]
        offset = self._offsets.get(link)
        if self._loan is None or offset is None:
            return []
        data = self._loan.read(offset, PIECE)
        self.counters["bytes"] += len(data)
        end = offset + len(data)
        self._offsets[link] = end if end < self._loan.length else None
        return [Blob(self._loan.hash, offset, self._loan.length, data)]
