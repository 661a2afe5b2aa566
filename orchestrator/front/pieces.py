"""What the emissions of one choice become: pieces of an answer, which add up to the whole. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from orchestrator.front.logprobs import Mark
from orchestrator.front.schema import Request
from orchestrator.front.text import Prompt
from orchestrator.front.token_bytes import Offsets
from protocol.messages import Emit, Scored
from protocol.token_bytes import TokenBytes


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a client wants to see beside the text."""

    echo: bool = False
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    ids: bool = False
    output: bool = True

    @classmethod
    def of(cls, request: Request) -> "Wishes":
        return cls(
            echo=request.echoes,
            logprobs=request.likeliest,
            prompt_logprobs=request.prompt_logprobs,
            ids=bool(request.return_token_ids),
            output=request.budget[1] != 0,
        )

    @property
    def scores_prompt(self) -> bool:
        """Whether a verifier is asked to score the prompt."""
        return self.prompt_logprobs is not None or (self.echo and self.logprobs is not None)


@dataclass(slots=True)
class Piece:
    """A part of one choice's answer. `ids` and `drafted` are of the output, `marks` of all that is shown."""

    text: str = ""
    ids: list[int] = field(default_factory=list)
    drafted: list[bool] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)

    def __iadd__(self, other: "Piece") -> "Piece":
        self.text += other.text
        self.ids += other.ids
        self.drafted += other.drafted
        self.marks += other.marks
        return self


class Reader:
    """Reads one choice. Offsets of tokens count from the beginning of the prompt, whether it is shown or not."""

    def __init__(self, prompt: Prompt, text: str, wishes: Wishes, known: TokenBytes) -> None:
        self._prompt = prompt
        self._text = text
        self._wishes = wishes
        self._known = known
        self._offsets = Offsets(known, len(text))

    def opening(self, scores: Sequence[Scored]) -> Piece:
        """The prompt, where it is wanted; `scores` are of its tokens from the second on."""
        if not self._wishes.echo:
            return Piece()
        if self._wishes.logprobs is None:
            return Piece(self._text)
        return Piece(self._text, marks=list(self._prompt_marks(scores)))

    def take(self, emit: Emit) -> Piece:
        """The next piece of the output."""
        if not self._wishes.output:
            return Piece()
        piece = Piece(emit.text, list(emit.tokens), list(emit.drafted))
        if self._wishes.logprobs is not None:
            for token, score in zip(emit.tokens, emit.logprobs, strict=True):
                shown = not self._known.special(token)
                piece.marks.append(Mark(token, self._offsets.step(token, shown=shown), score))
        return piece

    def _prompt_marks(self, scores: Sequence[Scored]) -> Iterator[Mark]:
        offsets = Offsets(self._known)
        known = [None, *scores]
        for index, (token, score) in enumerate(zip(self._prompt.tokens, known, strict=True)):
            yield Mark(token, offsets.step(token, shown=index >= self._prompt.added), score)
