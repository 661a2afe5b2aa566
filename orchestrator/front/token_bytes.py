"""Where in a text its tokens begin."""

from codecs import getincrementaldecoder

from protocol.token_bytes import TokenBytes


class Offsets:
    """How many characters of a text come before each of its tokens, one token after the other."""

    def __init__(self, known: TokenBytes, at: int = 0) -> None:
        self.at = at
        self._known = known
        self._first = known.strips
        self._decoder = getincrementaldecoder("utf-8")(errors="replace")

    def step(self, token: int, *, shown: bool) -> int:
        """The offset of the next token; a character counts for its last token, a token that is not shown for none."""
        before = self.at
        if shown:
            text = self._decoder.decode(self._known[token])
            self.at += len(text.removeprefix(" ") if self._first else text)
            self._first = False
        return before
