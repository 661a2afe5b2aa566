"""Detokenisation with the `tokenizers` library: text comes out as soon as no later token can change it."""

from collections.abc import Callable
from pathlib import Path

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from verifier.commit import Detokenizer


class StreamDetokenizer:
    """One choice's text; multi-byte characters are never split, special tokens have no text."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._stream = DecodeStream(skip_special_tokens=True)

    def step(self, token: int) -> str:
        return self._stream.step(self._tokenizer, token) or ""


class TimedDetokenizer:
    """Another one's text, and when it was made; see `verifier.commit.Timed`."""

    def __init__(self, other: Detokenizer, clock: Callable[[], float]) -> None:
        self._other = other
        self._clock = clock
        self._spent: tuple[float, float] | None = None

    def step(self, token: int) -> str:
        began = self._clock() if self._spent is None else self._spent[0]
        text = self._other.step(token)
        self._spent = began, self._clock()
        return text

    def spent(self) -> tuple[float, float] | None:
        spent, self._spent = self._spent, None
        return spent


def load_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer of a checkpoint folder."""
    return Tokenizer.from_file(str(folder / "tokenizer.json"))
