"""A corpus: questions and answers as 16-bit token ids in one file that only grows, and a description beside it.

`NAME.u16` holds records end to end, each `[set + 16 * sampled, tokens of the question, tokens of the answer]` and the
tokens; `NAME.json` holds what all texts have in common: the tokens before a question and between it and its answer,
which target answered, and how far the file is whole. A run that was killed loses its last batch and nothing else.
"""

import json
import lzma
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

SETS: Final = ("self", "chat", "code", "math", "edit")
SAMPLED: Final = 16
IDS: Final = np.dtype("<u2")
RUN: Final = 20
"""Tokens in a row that no text may share with a text that is held out."""


class CorpusError(ValueError):
    """The corpus cannot be read or continued; the text is one sentence for the user."""


@dataclass(frozen=True, slots=True)
class Text:
    """One question of a set and its answer, which was `sampled`, or else is the target's likeliest."""

    kind: str
    sampled: bool
    question: tuple[int, ...]
    answer: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Header:
    """What all texts have in common. `whole` counts the numbers of the file that are of finished batches."""

    target: str
    seed: int
    before: tuple[int, ...]
    between: tuple[int, ...]
    settings: str
    batches: int = 0
    whole: int = 0


class Corpus:
    """A corpus that is written: `append` whole batches."""

    def __init__(self, path: Path, header: Header) -> None:
        """Go on where the file is whole; a CorpusError if it was begun with other settings."""
        self.path = path
        self.header = header
        if _description(path).is_file():
            found = read_header(path)
            if replace(found, batches=0, whole=0) != header:
                raise CorpusError(f"{path} was begun with other settings: {asdict(found)}")
            self.header = found
            with path.open("r+b") as file:
                file.truncate(found.whole * IDS.itemsize)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"")
            self._describe()

    def append(self, texts: Iterable[Text]) -> None:
        """A batch, which is whole once the description says so."""
        numbers = np.concatenate([np.empty(0, IDS), *map(encode, texts)])
        with self.path.open("ab") as file:
            file.write(numbers.tobytes())
            file.flush()
        header = self.header
        self.header = replace(header, batches=header.batches + 1, whole=header.whole + len(numbers))
        self._describe()

    def _describe(self) -> None:
        place = _description(self.path)
        new = place.with_suffix(".new")
        new.write_text(json.dumps(asdict(self.header), indent=1))
        new.replace(place)


def encode(text: Text) -> np.ndarray:
    """One record."""
    kind = SETS.index(text.kind) + SAMPLED * text.sampled
    sizes = (len(text.question), len(text.answer))
    return np.array([kind, *sizes, *text.question, *text.answer], IDS)


def decode(numbers: np.ndarray) -> Iterator[Text]:
    """The records of a file, in their order."""
    place = 0
    while place < len(numbers):
        kind, asked, said = (int(each) for each in numbers[place : place + 3])
        middle, place = place + 3 + asked, place + 3 + asked + said
        if place > len(numbers) or kind % SAMPLED >= len(SETS):
            raise CorpusError("the corpus is damaged: a record is cut off or of no set")
        question = numbers[middle - asked : middle].tolist()
        yield Text(
            SETS[kind % SAMPLED],
            kind >= SAMPLED,
            tuple(question),
            tuple(numbers[middle:place].tolist()),
        )


def read(path: Path) -> tuple[Header, list[Text]]:
    """All finished batches; `path` may end in `.xz`."""
    header = read_header(path)
    try:
        data = lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()
    except (OSError, lzma.LZMAError) as error:
        raise CorpusError(f"{path} cannot be read: {error}") from error
    return header, list(decode(np.frombuffer(data[: header.whole * IDS.itemsize], IDS)))


def read_header(path: Path) -> Header:
    place = _description(path)
    try:
        fields: dict[str, Any] = json.loads(place.read_text())
        before, between = (tuple(fields.pop(name)) for name in ("before", "between"))
        return Header(before=before, between=between, **fields)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise CorpusError(f"{place} does not describe a corpus: {error}") from error


def join(parts: Sequence[Path], out: Path) -> None:
    """One corpus with the texts of all parts in their order; each part becomes a batch.

    A CorpusError where their questions and answers were not framed alike, or come from different targets.
    """
    if out.exists() or _description(out).exists():
        raise CorpusError(f"{out} exists already")
    read_parts = [read(part) for part in parts]
    headers = [header for header, _ in read_parts]
    for part, header in zip(parts, headers, strict=True):
        if _common(header) != _common(headers[0]):
            raise CorpusError(f"{part} has another target or chat template than {parts[0]}")
    settings = " + ".join(header.settings for header in headers)
    corpus = Corpus(out, replace(headers[0], settings=settings, batches=0, whole=0))
    for _, texts in read_parts:
        corpus.append(texts)


def _common(header: Header) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    return header.target, header.before, header.between


def _description(path: Path) -> Path:
    return (path.with_suffix("") if path.suffix == ".xz" else path).with_suffix(".json")


def runs(tokens: Sequence[int], length: int = RUN) -> set[bytes]:
    """All runs of so many tokens in a text."""
    ids = np.array(tokens, IDS)
    return {ids[start : start + length].tobytes() for start in range(len(ids) - length + 1)}


def shares_a_run(text: Text, held_out: set[bytes]) -> bool:
    """Whether its question or answer has a run in common with texts that are held out."""
    return bool(held_out) and not (
        held_out.isdisjoint(runs(text.question)) and held_out.isdisjoint(runs(text.answer))
    )
