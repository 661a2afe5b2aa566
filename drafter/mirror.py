"""The drafter's copy of one request: committed tokens, then guesses. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from protocol.errors import PeerError
from protocol.messages import DraftSync, DraftTailStream, Sampling, VerifyCommit


@dataclass(frozen=True, slots=True)
class Kept:
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
    confidences: list[float] = field(default_factory=list)  # one for each guess: line[base:]
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
            said=committed,
            said_base=-1,  # the first row settles the base, even when it holds no guess
        )

    @property
    def key(self) -> tuple[int, int]:
        return (self.link, self.request)

    @property
    def room(self) -> int:
        """Guesses that may still be made before the mirror sleeps."""
        return 0 if self.exhausted else max(0, self.base + self.max_ahead - len(self.line))

    def adopt(self, commit: VerifyCommit) -> Kept:
        """Take over committed tokens; a PeerError changes nothing."""
        if commit.start != self.base:
            raise PeerError(f"commit starts at {commit.start}, the mirror holds {self.base}")
        end = commit.start + len(commit.tokens)
        true = commit.start + _common(self.line, commit.start, commit.tokens)
        if true == end:
            kept = len(self.line)
            del self.confidences[: end - self.base]
        else:
            kept = true
            self.line[true:] = commit.tokens[true - commit.start :]
            self.confidences.clear()
            self.said = end
        self.exhausted = False  # from a newer base there may be more to say
        self.base = end
        self.max_ahead = commit.max_ahead
        return Kept(tokens=kept, true=true)

    def extend(self, tokens: Sequence[int], confidences: Sequence[float]) -> None:
        """Append guesses; fewer than were asked for means that there are no more for now."""
        self.line.extend(tokens)
        self.confidences.extend(confidences)

    def replace(self, start: int, tokens: Sequence[int], confidences: Sequence[float]) -> None:
        """Take guesses back from output position `start` on and go on with `tokens` (a newer tail)."""
        del self.line[start:]
        del self.confidences[start - self.base :]
        self.said = min(self.said, start)
        self.extend(tokens, confidences)

    @property
    def unsaid(self) -> bool:
        return self.said < len(self.line) or self.said_base < self.base

    def take(self) -> DraftTailStream:
        """The row that brings the verifier up to date with this line."""
        start = max(self.said, self.base)
        row = DraftTailStream(
            request=self.request,
            epoch=self.epoch,
            base=self.base,
            start=start,
            tokens=tuple(self.line[start:]),
            confidences=tuple(self.confidences[start - self.base :]),
        )
        self.said = len(self.line)
        self.said_base = self.base
        return row


def _common(line: list[int], start: int, tokens: Sequence[int]) -> int:
    count = 0
    for held, final in zip(line[start : start + len(tokens)], tokens, strict=False):
        if held != final:
            break
        count += 1
    return count
