"""Detokenisation with the `tokenizers` library: text comes out as soon as no later token can change it."""

from pathlib import Path

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream


class StreamDetokenizer:
    """One choice's text; multi-byte characters are never split, special tokens have no text."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._stream = DecodeStream(skip_special_tokens=True)

    def step(self, token: int) -> str:
        return self._stream.step(self._tokenizer, token) or ""


def load_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer of a checkpoint folder."""
    return Tokenizer.from_file(str(folder / "tokenizer.json"))
