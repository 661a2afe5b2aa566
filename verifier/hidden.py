"""Which rows of hidden states drafters are still to be sent. Pure.

Rows lie in the pages of the target, beside the KV (`engine/features.py`). What was not sent yet waits there: a choice
without pages has nothing to send, and goes on when its line was computed again.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from msgspec import structs

from protocol.messages import AnyMessage, DraftContext, DraftSync, VerifyCommit
from protocol.tensor import Tensor
from verifier.generation import Binding, Generation

FRAME_BYTES: Final = 4 << 20
"""Bytes of rows in one frame: a long prompt takes several, and other links have their turn between them."""
FRAME_SPANS: Final = 128
"""Each span is a tensor frame, of which the other side takes only so many."""
NOTHING: Final = Tensor("uint8", (1,), b"\0")
"""Stands in a message until all rows of a frame are read at once."""


class Span(NamedTuple):
    """Positions [start, end) of the sequence that lies in these pages."""

    pages: Sequence[int]
    start: int
    end: int


Rows = Callable[[Sequence[Span]], Sequence[Tensor]]
"""Reads a tensor [end - start, width] for each span."""


class Hidden:
    """What goes into the frame that is being made.

    `recent` bounds how many positions back a new mirror is told of; 0: to the begin.
    """

    def __init__(
        self, rows: Rows, row_bytes: int, recent: int = 0, frame_bytes: int = FRAME_BYTES
    ) -> None:
        self.counters: Counter[str] = Counter()
        self.recent = recent
        self._rows = rows
        self._rows_a_frame = frame_bytes // row_bytes or 1
        self._spans: dict[int, Span] = {}  # by request
        self._behind: list[Generation] = []
        self._room = 0

    def first(self, generation: Generation) -> int:
        """From where on a drafter that is bound now is told."""
        return max(0, len(generation.line) - 1 - self.recent) if self.recent else 0

    def begin(self) -> None:
        """A frame is made."""
        self._spans.clear()
        self._behind.clear()
        self._room = self._rows_a_frame

    def take(self, generation: Generation, binding: Binding) -> Span | None:
        """The rows that go with what this drafter is told now; None: there are none, or no room for them."""
        if not binding.drafter.needs:
            return None
        start, end = binding.told_hidden, known(generation)
        if end <= start:
            return None
        if self._room <= 0 or len(self._spans) >= FRAME_SPANS:
            self._behind.append(generation)
            return None
        if end - start > self._room:
            end = start + self._room
            self._behind.append(generation)
        self._room -= end - start
        binding.told_hidden = end
        assert generation.sequence is not None
        span = self._spans[generation.id] = Span(tuple(generation.sequence.pages), start, end)
        return span

    @property
    def behind(self) -> Sequence[Generation]:
        """Whose rows did not all fit."""
        return self._behind

    def filled(self, messages: list[AnyMessage]) -> list[AnyMessage]:
        """The same messages with their rows, all of them read at once."""
        if not self._spans:
            return messages
        read = self._rows(list(self._spans.values()))
        rows = dict(zip(self._spans, read, strict=True))
        self.counters["rows"] += sum(span.end - span.start for span in self._spans.values())
        self.counters["bytes"] += sum(len(each.data) for each in read)
        for place, message in enumerate(messages):
            match message:
                case DraftSync() | VerifyCommit() | DraftContext() if message.hidden is NOTHING:
                    messages[place] = structs.replace(message, hidden=rows[message.request])
                case _:
                    pass
        return messages


def known(generation: Generation) -> int:
    """Positions before this one hold final tokens whose rows are in the choice's pages."""
    if generation.sequence is None:
        return 0
    return min(generation.sequence.computed, len(generation.line) - 1)
