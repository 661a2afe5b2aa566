"""What each token of a tokenizer means in bytes, and how it is shown where it is only a part of a character."""

import json
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SPACE: Final = "\N{LOWER ONE EIGHTH BLOCK}"
"""How tokenizers of the SentencePiece family write a space."""


class TokenBytes:
    """For byte-level tokenizers and those of the SentencePiece family. Not for use by two threads at once."""

    def __init__(self, tokenizer: "Tokenizer") -> None:
        self._tokenizer = tokenizer
        kinds = _kinds(json.loads(tokenizer.to_str()).get("decoder"))
        self._byte_level = "ByteLevel" in kinds
        self.strips = not self._byte_level and bool({"Strip", "Metaspace"} & kinds)
        """Whether the space that the first token of a text begins with is not part of the text."""
        self._added: dict[int, Any] = tokenizer.get_added_tokens_decoder()
        self._known: dict[int, bytes] = {}

    def __getitem__(self, token: int) -> bytes:
        """The bytes of a token; none for a number that is no token of this tokenizer."""
        if token not in self._known:
            self._known[token] = self._bytes(token)
        return self._known[token]

    def special(self, token: int) -> bool:
        """Whether the token has no place in a text: a mark for the model only."""
        return token in self._added and bool(self._added[token].special)

    def shown(self, token: int) -> str:
        """The token as text; where its bytes are no text, they are named, in hexadecimal, behind `bytes:`."""
        own = self[token]
        try:
            return own.decode() if own else f"token_id:{token}"
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in own)

    def _bytes(self, token: int) -> bytes:
        word = self._tokenizer.id_to_token(token)
        if word is None:
            return b""
        if token in self._added:
            return word.encode()
        if self._byte_level:
            return b"".join(
                _BYTES[letter] if letter in _BYTES else letter.encode() for letter in word
            )
        if len(word) == 6 and word.startswith("<0x") and word.endswith(">"):
            return bytes.fromhex(word[3:5])
        return word.replace(SPACE, " ").encode()


def _kinds(decoder: dict[str, Any] | None) -> set[str]:
    """The types of all parts of a tokenizer's decoder."""
    if decoder is None:
        return set()
    inner: Sequence[dict[str, Any]] = decoder.get("decoders", ())
    return {decoder["type"]}.union(*map(_kinds, inner))


def _alphabet() -> Iterator[tuple[str, bytes]]:
    """The letters that byte-level tokenizers write for bytes: printable ones for themselves, others from 256 on."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = sorted(set(range(256)) - printable)
    letters = chain(
        ((byte, byte) for byte in printable),
        ((byte, 256 + index) for index, byte in enumerate(others)),
    )
    for byte, letter in letters:
        yield chr(letter), bytes([byte])


_BYTES: Final = dict(_alphabet())
