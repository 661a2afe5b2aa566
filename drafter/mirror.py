"""The drafter's copy of one request: committed tokens, then guesses. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from protocol.errors import LocalError, PeerError
from protocol.laws import Law, certain, one_row
from protocol.messages import DraftSync, DraftTailStream, Sampling, VerifyCommit


class Kept(Struct, frozen=True, gc=False):
    """What survives a commit: `tokens` of the line, of which the first `true` are the verifier's own.

    Draft KV of guesses that became true is still right for drafters that condition on tokens; drafters that
    condition on features keep only what they computed on true ones.
    """

    tokens: int
    true: int


@dataclass(slots=True, eq=False)
class Mirror:
    """Positions count output tokens. `line[:base]` is committed, `line[base:]` are guesses, `line[:said]` was told."""

    link: int
    request: int
    epoch: int
    prompt: tuple[int, ...]
    line: list[int]
    base: int
    max_ahead: int
    sampling: Sampling = Sampling()
    choice: int = 0
    adapter: str = ""
    slice: int = 0  # tokens that a guess may be drawn from, at most; 0: it may not be drawn
    fresh: bool = False  # whether the noise of a draw carries the committed length
    confidences: list[float] = field(default_factory=list)  # one for each guess: line[base:]
    laws: list[Law] = field(default_factory=list)  # the same, or none at all
    said: int = 0
    said_base: int = 0
    exhausted: bool = False  # the proposer had no more to say after this line

    @classmethod
    def open(cls, link: int, sync: DraftSync) -> "Mirror":
        committed = len(sync.output)
        return cls(
            link=link,
            request=sync.request,
            epoch=sync.epoch,
            prompt=sync.prompt,
            line=list(sync.output),
            base=committed,
            max_ahead=sync.max_ahead,
            sampling=sync.sampling,
            choice=sync.choice,
            adapter=sync.adapter,
            slice=sync.slice,
            fresh=sync.fresh,
            said=committed,
            said_base=-1,  # the first row settles the base, even when it holds no guess
        )

    @property
    def key(self) -> tuple[int, int]:
        return (self.link, self.request)

    @property
    def room(self) -> int:
        """Guesses that may still be made before the mirror sleeps."""
        room = self.base + self.max_ahead - len(self.line)
        return room if room > 0 and not self.exhausted else 0

    def adopt(self, commit: VerifyCommit) -> Kept:
        """Take over committed tokens; a PeerError changes nothing."""
        start, tokens = commit.start, commit.tokens
        if start != self.base:
            raise PeerError(f"commit starts at {start}, the mirror holds {self.base}")
        end = start + len(tokens)
        true = start + _common(self.line[start:end], tokens)
        if true == end:
            kept = len(self.line)
            del self.confidences[: end - self.base], self.laws[: end - self.base]
        else:
            kept = true
            self.line[true:] = tokens[true - start :]
            self.confidences.clear()
            self.laws.clear()
            self.said = end
        self.exhausted = False  # from a newer base there may be more to say
        self.base = end
        self.max_ahead = commit.max_ahead
        return Kept(kept, true)

    def extend(
        self, tokens: Sequence[int], confidences: Sequence[float], laws: Sequence[Law] = ()
    ) -> None:
        """Append guesses, all with their laws or none; those that were not drawn count as certain beside drawn ones."""
        if laws and len(laws) != len(tokens):
            raise LocalError(f"{len(laws)} laws for {len(tokens)} guesses")
        if laws and not self.laws:
            self.laws.extend(map(certain, self.line[self.base :]))
        if laws or self.laws:
            self.laws.extend(laws or map(certain, tokens))
        self.line.extend(tokens)
        self.confidences.extend(confidences)

    def replace(
        self,
        start: int,
        tokens: Sequence[int],
        confidences: Sequence[float],
        laws: Sequence[Law] = (),
    ) -> None:
        """Take guesses back from output position `start` on and go on with `tokens` (a newer tail)."""
        del self.line[start:]
        del self.confidences[start - self.base :], self.laws[start - self.base :]
        self.said = min(self.said, start)
        self.extend(tokens, confidences, laws)

    @property
    def unsaid(self) -> bool:
        return self.said < len(self.line) or self.said_base < self.base

    def take(self) -> DraftTailStream:
        """The row that brings the verifier up to date with this line."""
        line, base = self.line, self.base
        start = max(base, self.said)
        self.said = len(line)
        self.said_base = base
        tokens, confidences = line[start:], self.confidences[start - base :]
        laws = one_row(self.laws[start - base :]) if self.laws else ()
        return DraftTailStream(
            self.request, self.epoch, base, start, tuple(tokens), tuple(confidences), *laws
        )


def _common(held: list[int], tokens: tuple[int, ...]) -> int:
    """How many of the first tokens are the same; mostly all of them, which is seen at a glance."""
    if tuple(held) == tokens[: len(held)]:
        return len(held)
    return next(place for place, guess in enumerate(held) if guess != tokens[place])
