"""An answer as it streams: which of its text came from drafts, and what it cost. Pure but for the lines it is fed."""

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple


class StreamError(Exception):
    """The service ended the answer; the text is its reason."""


class Span(NamedTuple):
    """A piece of the answer's text."""

    text: str
    drafted: bool


Lengths = Callable[[Sequence[int]], list[int]]
"""How many characters each of some tokens adds to the text, given those asked for before."""


def lengths_by(folder: Path) -> Lengths:
    """By the tokenizer in `folder`: a character in several tokens counts for the last of them."""
    from tokenizers import Tokenizer  # noqa: PLC0415  (not needed for --help)
    from tokenizers.decoders import DecodeStream  # noqa: PLC0415

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    stream = DecodeStream(skip_special_tokens=True)
    return lambda tokens: [len(stream.step(tokenizer, token) or "") for token in tokens]


@dataclass(slots=True)
class Painter:
    """Cuts the text of a stream into spans; the text itself is always the service's."""

    lengths: Lengths | None = None
    _marks: deque[tuple[int, bool]] = field(default_factory=deque)

    def paint(self, text: str, tokens: Sequence[int], drafted: Sequence[bool]) -> list[Span]:
        """The spans of one event. Text may lag behind its tokens, so marks wait for their characters."""
        if self.lengths is None:
            return [Span(text, any(drafted))] if text else []
        self._marks.extend(zip(self.lengths(tokens), drafted, strict=False))
        spans: list[Span] = []
        while text:
            count, mark = self._marks.popleft() if self._marks else (len(text), False)
            if count > len(text):
                self._marks.appendleft((count - len(text), mark))
            if count:
                spans.append(Span(text[:count], mark))
            text = text[count:]
        return spans


@dataclass(slots=True)
class Tally:
    """What is known of the answer so far."""

    tokens: int = 0
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    finish: str = ""

    def line(self, seconds: float) -> str:
        """One line of statistics."""
        parts = [
            f"{self.tokens} tokens in {seconds:.2f} s ({self.tokens / max(seconds, 1e-9):.1f}/s)"
        ]
        if self.rounds:
            parts.append(f"{self.tokens / self.rounds:.2f} emitted per round")
        if self.drafted:
            rate = self.accepted / self.drafted
            parts.append(f"{rate:.0%} of {self.drafted} drafts accepted")
        elif self.rounds:
            parts.append("nothing was drafted")
        return ", ".join(parts)


def events(lines: Iterable[str]) -> Iterator[Mapping[str, Any]]:
    """The data of server-sent events, to the end of the stream; an error in it is a StreamError."""
    for line in lines:
        if not line.startswith("data:"):
            continue
        data = line.removeprefix("data:").strip()
        if data == "[DONE]":
            return
        event: Mapping[str, Any] = json.loads(data)
        if "error" in event:
            raise StreamError(event["error"]["message"])
        yield event
    raise StreamError("the connection ended before the answer did")


def spans(stream: Iterable[Mapping[str, Any]], painter: Painter, tally: Tally) -> Iterator[Span]:
    """The text of the only choice, while `tally` is kept."""
    for event in stream:
        for choice in event["choices"]:
            text = choice["text"] if "text" in choice else choice["delta"].get("content", "")
            tokens = choice.get("token_ids", [])
            tally.tokens += len(tokens)
            yield from painter.paint(text, tokens, choice.get("drafted", []))
            if choice["finish_reason"]:
                tally.finish = choice["finish_reason"]
                for name, count in choice.get("draftmesh", {}).items():
                    setattr(tally, name, count)
