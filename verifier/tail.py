"""The draft tail: a drafter's line of guesses as the verifier knows it. Pure.

Output positions split at `agreed`, the tokens that both sides hold. After it lie either `owed` tokens (committed here,
not yet confirmed by the drafter) or `ahead` (guesses beyond the committed prefix), never both. The invariant that makes
rejection sampling lossless: every token in `ahead` was drafted from exactly the committed prefix followed by the tokens
before it in `ahead`. Numbered rules: `docs/protocol.md`.
"""

from collections.abc import Sequence
from enum import StrEnum

from protocol.errors import PeerError
from protocol.laws import Law, unpack
from protocol.messages import DraftTailStream


class Row(StrEnum):
    """What became of a row."""

    TAKEN = "taken"
    CUT = "cut"  # it continues a line that a commit has cut


class DraftTail:
    """The line of one drafter for one request, opened when `final` was the committed output.

    `vocabulary` bounds token ids. `granted` is the largest `max_ahead` that the drafter was told. `laws` are what the
    tokens of `ahead` were drawn from; one is None, or all are missing, where guesses were not drawn.
    """

    __slots__ = (
        "agreed",
        "ahead",
        "base",
        "confidences",
        "cut",
        "final",
        "granted",
        "laws",
        "vocabulary",
    )

    def __init__(self, final: Sequence[int], vocabulary: int) -> None:
        self.final = list(final)
        self.vocabulary = vocabulary
        self.agreed = len(self.final)
        self.ahead: list[int] = []
        self.confidences: list[float] = []  # one for each of `ahead`, or none at all
        self.laws: list[Law | None] = []  # the same
        self.cut = False  # a commit contradicted the line and the drafter has not answered it yet
        self.base = (
            -1
        )  # committed tokens known to the drafter in its newest row; -1 before the first
        self.granted = 0

    @property
    def committed(self) -> int:
        return len(self.final)

    @property
    def owed(self) -> int:
        """Committed tokens that the drafter's line does not hold yet."""
        return len(self.final) - self.agreed

    @property
    def answered(self) -> bool:
        """Whether the drafter's newest row knew every commit."""
        return self.base == len(self.final)

    def grant(self, max_ahead: int) -> None:
        """The drafter is told that it may hold this many guesses."""
        self.granted = max(self.granted, max_ahead)

    def commit(self, tokens: Sequence[int]) -> None:
        """These output tokens are final now."""
        self.final.extend(tokens)
        self._settle()

    def receive(self, row: DraftTailStream) -> Row:
        """Take a row of this request and epoch; a PeerError changes nothing."""
        laws = self._check(row)
        base, start, confidences = row.base, row.start, row.confidences
        end = base if base > self.agreed else self.agreed + len(self.ahead)
        if start > end:
            if self.cut and base <= self.agreed:
                return Row.CUT
            raise PeerError(f"row starts at {start}, the line ends at {end}")
        self.base = max(self.base, base)
        if base > self.agreed:
            self._clear(base)
        if start < self.agreed:
            self._clear(start)
        offset = start - self.agreed
        self.ahead[offset:] = row.tokens
        if len(confidences) == len(row.tokens) and len(self.confidences) >= offset:
            self.confidences[offset:] = confidences
        else:
            self.confidences.clear()
        if laws or self.laws:
            self._take_laws(offset, laws)
        self.cut = False
        if self.agreed != len(self.final):
            self._settle()
        return Row.TAKEN

    def _take_laws(self, offset: int, laws: Sequence[Law]) -> None:
        """The laws of the tokens that `ahead` now ends with, from `offset` on."""
        del self.laws[offset:]
        if laws:
            self.laws += [None] * (offset - len(self.laws))
            self.laws += laws
        else:
            self.laws += [None] * (len(self.ahead) - len(self.laws))

    def _check(self, row: DraftTailStream) -> Sequence[Law]:
        tokens, base = row.tokens, row.base
        count = len(tokens)
        if base > len(self.final):
            raise PeerError(f"row knows {base} committed tokens, only {len(self.final)} exist")
        if row.start + count > base + self.granted:
            raise PeerError(f"row ends at {row.start + count}, granted was {base} + {self.granted}")
        if count and max(tokens) >= self.vocabulary:
            raise PeerError(f"token {max(tokens)} is not below {self.vocabulary}")
        if row.confidences and len(row.confidences) != count:
            raise PeerError(f"{len(row.confidences)} confidences for {count} tokens")
        return unpack(row.slice_ids, row.slice_probs, tokens, self.vocabulary)

    def _clear(self, agreed: int) -> None:
        self.agreed = agreed
        self.ahead.clear()
        self.confidences.clear()
        self.laws.clear()
        self.cut = False

    def _settle(self) -> None:
        """Compare what is owed with what was guessed, in order, until one of them is used up."""
        owed = self.final[self.agreed : self.agreed + len(self.ahead)]
        same = len(owed)
        if self.ahead[:same] == owed:
            self.agreed += same
            del self.ahead[:same], self.confidences[:same], self.laws[:same]
            return
        differs = next(place for place, final in enumerate(owed) if self.ahead[place] != final)
        self._clear(self.agreed + differs)
        self.cut = True
