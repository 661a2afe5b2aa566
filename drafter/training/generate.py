"""Questions and answers for a corpus, batch after batch: a batch depends on the seed, its number and the one before it.

Questions are the target's own, of templates, or both: it is shown where a user's turn begins, or the first words of one
that a template made, and goes on.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

from drafter.training.answers import go_on
from drafter.training.corpus import Corpus, CorpusError, Header, Text, shares_a_run
from drafter.training.target import Dense
from drafter.training.templates import Templates
from engine.weights import fingerprint

MARK: Final = "\ue000"
"""Stands for the question while the chat template is taken apart."""
QUESTION: Final = range(4, 97)
"""Tokens that the target's own question may have."""
PASSAGE: Final = range(25, 110)
MIXED: Final = ("self", "self", "self", "chat", "chat", "code", "code", "math", "math")
BEGUN: Final = 0.5
"""This part of the templates' questions is cut after a few words, and finished by the target."""
OPENING: Final = range(1, 6)
"""Words that are left of these."""
EDITS_EVERY: Final = 8
HEATS: Final = (0.0, 0.0, 0.0, 0.5, 0.8)


@dataclass(frozen=True, slots=True)
class Settings:
    """How a corpus is made; `size` texts a batch, answers of at most `longest` tokens."""

    seed: int = 0
    size: int = 192
    longest: int = 200


class Source:
    """A target that asks and answers."""

    def __init__(self, target: Dense, settings: Settings, held_out: set[bytes]) -> None:
        self.target = target
        self.settings = settings
        self._held_out = held_out
        self._templates = Templates()
        self.tokenizer = Tokenizer.from_file(str(target.folder / "tokenizer.json"))
        self.before, self.between = frame(target.folder, self.tokenizer)
        self._ends = set(target.model.eos_ids)
        self._special = set(self.tokenizer.get_added_tokens_decoder())

    def header(self) -> Header:
        """See `drafter.training.corpus`."""
        return Header(
            target=fingerprint(self.target.folder),
            seed=self.settings.seed,
            before=self.before,
            between=self.between,
            settings=repr(self.settings),
        )

    def batch(self, number: int, last: Sequence[Text]) -> list[Text]:
        """One batch; questions of `edit` are about what was said in the last one."""
        draw = random.Random(f"{self.settings.seed}/{number}")  # noqa: S311
        generator = torch.Generator().manual_seed(draw.getrandbits(60))
        asked = self._questions(number, last, draw, generator)
        draw.shuffle(asked)
        prompts = [[*self.before, *ids, *self.between] for _, ids in asked]
        heats = [draw.choice(HEATS) for _ in asked]
        said = self._go_on(prompts, heats, self.settings.longest, generator)
        texts = [
            Text(kind, heat > 0, tuple(ids), tuple(answer))
            for (kind, ids), heat, answer in zip(asked, heats, said, strict=True)
        ]
        return [text for text in texts if not shares_a_run(text, self._held_out)]

    def answers(self, kind: str, questions: Sequence[str]) -> list[Text]:
        """The likeliest answers to questions that are given."""
        asked = [self._ids(text) for text in questions]
        prompts = [[*self.before, *ids, *self.between] for ids in asked]
        cold = [0.0] * len(prompts)
        generator = torch.Generator()
        said = self._go_on(prompts, cold, self.settings.longest, generator)
        return [
            Text(kind, False, tuple(ids), tuple(answer))
            for ids, answer in zip(asked, said, strict=True)
        ]

    def _go_on(
        self,
        prompts: Sequence[Sequence[int]],
        heats: Sequence[float],
        most: int,
        generator: torch.Generator,
    ) -> list[list[int]]:
        return go_on(self.target, prompts, heats, most=most, ends=self._ends, generator=generator)

    def _questions(
        self, number: int, last: Sequence[Text], draw: random.Random, generator: torch.Generator
    ) -> list[tuple[str, list[int]]]:
        size = self.settings.size
        passages = self._passages(last)
        if number % EDITS_EVERY == EDITS_EVERY - 1 and passages:
            return [("edit", self._filled("edit", draw, passages)) for _ in range(size // 2)]
        kinds = [MIXED[index % len(MIXED)] for index in range(size)]
        whole: list[tuple[str, list[int]]] = []
        begun: list[tuple[str, list[int]]] = []
        for kind in kinds:
            if kind == "self":
                begun.append((kind, []))
            elif draw.random() < BEGUN:
                words = self._templates.fill(kind, draw).split(" ")
                begun.append((kind, self._ids(" ".join(words[: draw.choice(OPENING)]))))
            else:
                whole.append((kind, self._filled(kind, draw)))
        return self._finished(begun, generator) + whole

    def _filled(self, kind: str, draw: random.Random, passages: Sequence[str] = ()) -> list[int]:
        return self._ids(self._templates.fill(kind, draw, passages))

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def _finished(
        self, begun: Sequence[tuple[str, list[int]]], generator: torch.Generator
    ) -> list[tuple[str, list[int]]]:
        """Questions as the target goes on with them where a user would; those that are no question are left out."""
        prompts = [[*self.before, *opening] for _, opening in begun]
        turns = self._go_on(prompts, [1.0] * len(prompts), QUESTION.stop, generator)
        said = [
            (kind, [*opening, *turn[:-1]])
            for (kind, opening), turn in zip(begun, turns, strict=True)
            if turn[-1] in self._ends
        ]
        return [
            (kind, ids)
            for kind, ids in said
            if len(ids) in QUESTION and self._special.isdisjoint(ids)
        ]

    def _passages(self, texts: Sequence[Text]) -> list[str]:
        """Paragraphs of answers."""
        answers = [
            self.tokenizer.decode([each for each in text.answer if each not in self._ends])
            for text in texts
            if text.kind in {"self", "chat"}
        ]
        paragraphs = {part.strip() for answer in answers for part in answer.split("\n\n")[:-1]}
        return sorted(
            part for part in paragraphs
            if len(self._ids(part)) in PASSAGE
        )  # fmt: skip


def frame(folder: Path, tokenizer: Tokenizer) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The tokens that the chat template puts before a question, and between it and its answer."""
    file = folder / "chat_template.jinja"
    if not file.is_file():
        raise CorpusError(f"{folder} has no chat_template.jinja: questions need one")
    template = ImmutableSandboxedEnvironment().from_string(file.read_text("utf-8"))
    messages: list[dict[str, Any]] = [{"role": "user", "content": MARK}]
    whole = template.render(messages=messages, add_generation_prompt=True)
    before, between = whole.split(MARK)
    return tuple(
        tuple(tokenizer.encode(part, add_special_tokens=False).ids) for part in (before, between)
    )  # type: ignore[return-value]


def batches(
    source: Source, corpus: Corpus, last: Sequence[Text], enough: Callable[[int], bool]
) -> Iterator[list[Text]]:
    """Append batches until that many numbers are enough; each is handed on as soon as it is written."""
    while not enough(corpus.header.whole):
        texts = source.batch(corpus.header.batches, last)
        corpus.append(texts)
        last = texts
        yield texts
