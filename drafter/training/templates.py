"""Questions from templates: `templates.json` holds patterns for each set and the words that fill them."""

import json
import random
import re
from collections.abc import Sequence
from importlib.resources import files
from typing import Final

SLOT: Final = re.compile(r"\{(\w+)\}")
NUMBER: Final = re.compile(r"n(\d+)_(\d+)")
PASSAGE: Final = "passage"
WRONG: Final = "wrong"
"""Slots of the set `edit`: a text, and the same with mistakes in its spelling."""


class Templates:
    """The patterns of every set, and `fill` to make a question of one."""

    def __init__(self) -> None:
        whole = json.loads(files("drafter.training").joinpath("templates.json").read_text("utf-8"))
        self.patterns: dict[str, list[str]] = whole["patterns"]
        self.words: dict[str, list[str]] = whole["words"]

    def fill(self, kind: str, draw: random.Random, passages: Sequence[str] = ()) -> str:
        """One question of a set; those of `edit` are about one of the passages."""
        pattern = draw.choice(self.patterns[kind])
        passage = draw.choice(passages) if passages else ""

        def word(match: re.Match[str]) -> str:
            name = match[1]
            if name == PASSAGE:
                return passage
            if name == WRONG:
                return misspelled(passage, draw)
            if number := NUMBER.fullmatch(name):
                return str(draw.randint(int(number[1]), int(number[2])))
            return draw.choice(self.words[name])

        return SLOT.sub(word, pattern)

    def expressions(self) -> list[re.Pattern[str]]:
        """What matches every question that the templates could ever make, one for each pattern."""
        return [
            re.compile(self._expression(pattern), re.DOTALL | re.IGNORECASE)
            for patterns in self.patterns.values()
            for pattern in patterns
        ]

    def _expression(self, pattern: str) -> str:
        """Text and slots take turns in what `split` gives."""
        parts = SLOT.split(pattern)
        parts[::2] = [re.escape(text) for text in parts[::2]]
        parts[1::2] = [self._words(name) for name in parts[1::2]]
        return "".join(parts)

    def _words(self, name: str) -> str:
        if NUMBER.fullmatch(name):
            return r"\d+"
        if name in {PASSAGE, WRONG}:
            return ".+"
        return f"(?:{'|'.join(map(re.escape, self.words[name]))})"


def misspelled(text: str, draw: random.Random) -> str:
    """With two letters changed places, or one lost or doubled, in some words."""
    words = text.split(" ")
    for index, word in enumerate(words):
        if len(word) < 4 or not word.isalpha() or draw.random() > 0.12:
            continue
        at = draw.randrange(1, len(word) - 1)
        words[index] = draw.choice(
            (
                word[:at] + word[at + 1] + word[at] + word[at + 2 :],
                word[:at] + word[at + 1 :],
                word[:at] + word[at] + word[at:],
            )
        )
    return " ".join(words)
