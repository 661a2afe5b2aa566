"""Two tokenizers: whether the same ids mean the same tokens, and what their tokens have in common where they do not."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer

from protocol.token_bytes import TokenBytes


class Vocabulary:
    """The tokens of a checkpoint folder by id; a ValueError where it has no `tokenizer.json`."""

    def __init__(self, folder: Path) -> None:
        path = folder / "tokenizer.json"
        if not path.is_file():
            raise ValueError(f"{folder} has no tokenizer.json: its tokens cannot be compared")
        tokenizer = Tokenizer.from_file(str(path))
        pairs = tokenizer.get_vocab(with_added_tokens=True).items()
        self.tokens: Mapping[int, str] = {number: token for token, number in sorted(pairs)}
        self.size = max(self.tokens, default=-1) + 1
        self._bytes = TokenBytes(tokenizer)

    def words(self) -> dict[int, bytes]:
        """The bytes of every token that stands for text."""
        return {
            number: self._bytes[number] for number in self.tokens if not self._bytes.special(number)
        }

    def marks(self) -> dict[int, str]:
        """Tokens that stand for no text: marks for the model."""
        return {
            number: token for number, token in self.tokens.items() if self._bytes.special(number)
        }


def difference(target: Vocabulary, draft: Vocabulary) -> str:
    """The first id below both sizes that does not mean the same, in words; empty if there is none.

    What lies behind the end of the shorter one is padding: the other never sees or never says it.
    """
    for number in range(min(target.size, draft.size)):
        ours, theirs = target.tokens.get(number), draft.tokens.get(number)
        if ours != theirs:
            return f"token {number} is {_shown(ours)} for the target and {_shown(theirs)} for the draft model"
    return ""


def _shown(token: str | None) -> str:
    return "nothing" if token is None else repr(token)


@dataclass(frozen=True, slots=True)
class Intersection:
    """`spelled` says how each token of the target is written in tokens of the draft model, perhaps with none;
    `said` which token of the target a token of the draft model is, where it is one.
    """

    spelled: Mapping[int, tuple[int, ...]]
    said: Mapping[int, int]


def intersection(target: Vocabulary, draft: Vocabulary) -> Intersection:
    """What the two have in common: words by their bytes, marks by their names. A ValueError if that is nothing."""
    known = _lowest(draft.words())
    ours = _lowest(target.words())
    longest = max(map(len, known), default=0)
    spelled = {
        number: spell(word, known, longest) for number, word in target.words().items() if word
    }
    said = {number: ours[word] for word, number in known.items() if word in ours}
    if not said:
        raise ValueError("the vocabularies of target and draft model have no word in common")
    marks = {token: number for number, token in draft.marks().items()}
    for number, token in target.marks().items():
        if token in marks:
            spelled[number] = (marks[token],)
            said[marks[token]] = number
        else:
            spelled[number] = ()
    return Intersection(spelled, said)


def spell(word: bytes, known: Mapping[bytes, int], longest: int) -> tuple[int, ...]:
    """A word in known ones, the longest first; bytes that nobody knows are left out."""
    found: list[int] = []
    start = 0
    while start < len(word):
        for end in range(min(len(word), start + longest), start, -1):
            if (number := known.get(word[start:end])) is not None:
                found.append(number)
                start = end
                break
        else:
            start += 1
    return tuple(found)


def _lowest(words: Mapping[int, bytes]) -> dict[bytes, int]:
    """Where several tokens have the same bytes, the first of them."""
    found: dict[bytes, int] = {}
    for number, word in sorted(words.items()):
        if word:
            found.setdefault(word, number)
    return found
