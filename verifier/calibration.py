"""From what a method says of its guesses to how often such guesses were kept. Pure.

Guesses are sorted by label (method and adapter), position in the window and confidence; each class has its own record
of finished positions, which forgets slowly. A class with few of them leans on its confidence at all positions, and that
on the confidence itself. Suffix and n-gram methods say what match length and counts come to; they are treated alike.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

Chances = npt.NDArray[np.float64]
BINS: Final = 20
UNKNOWN: Final = BINS
"""The class of guesses of which nothing is said."""
POSITIONS: Final = 16
"""From the last of them on, all are one class."""
LEAN: Final = 6.0
"""Finished positions that weigh as much as what a class leans on."""
GUESSED: Final = 0.5
"""The chance of a guess of which nothing is known."""
MEMORY: Final = 4000.0
"""Finished positions of a label after which half is forgotten."""
CELLS: Final = 10


class Errors(NamedTuple):
    """Expected calibration error of what was said and of what was made of it, each before the outcome was known."""

    before: float
    after: float
    positions: int


class Label:
    """The record of one label."""

    def __init__(self) -> None:
        self.kept = np.zeros((POSITIONS, BINS + 1))
        self.seen = np.zeros((POSITIONS, BINS + 1))
        self.said = np.zeros(BINS + 1)  # sums of confidences, to lean on
        self._chances: Chances | None = None
        self._cells = np.zeros((2, CELLS, 3))  # before and after: sums of chance, of outcome, count

    @property
    def chances(self) -> Chances:
        """For each position and class of confidence, how likely a guess there is kept if those before it were."""
        if self._chances is None:
            kept, seen = self.kept.sum(axis=0), self.seen.sum(axis=0)
            middle = np.append((np.arange(BINS) + 0.5) / BINS, GUESSED)
            told = np.where(seen > 0, self.said / np.maximum(seen, 1e-9), middle)
            told[UNKNOWN] = GUESSED
            pooled = (kept + LEAN * told) / (seen + LEAN)
            made = (self.kept + LEAN * pooled) / (self.seen + LEAN)
            self._chances = np.clip(made, 0.0, 1.0)
        return self._chances

    def learn(self, confidences: Sequence[float], drafted: int, accepted: int) -> None:
        """Of so many drafts so many were kept; the first that was not is a finished position too."""
        chances = self.chances
        for position in range(min(drafted, accepted + 1)):
            known = position < len(confidences)
            said = confidences[position] if known else GUESSED
            row, column = min(position, POSITIONS - 1), class_of(said) if known else UNKNOWN
            kept = float(position < accepted)
            self._judge(said, float(chances[row, column]), kept)
            for place in {column, UNKNOWN}:  # the last one knows of all guesses, whatever was said
                self.kept[row, place] += kept
                self.seen[row, place] += 1.0
            self.said[column] += said if known else 0.0
        if self.seen[:, UNKNOWN].sum() > MEMORY:
            self.kept *= 0.5
            self.seen *= 0.5
            self.said *= 0.5
        self._chances = None

    def _judge(self, said: float, made: float, kept: float) -> None:
        for cells, chance in zip(self._cells, (said, made), strict=True):
            cells[min(int(chance * CELLS), CELLS - 1)] += (chance, kept, 1.0)

    @property
    def errors(self) -> Errors:
        count = int(self._cells[0, :, 2].sum())
        gaps = np.abs(self._cells[:, :, 0] - self._cells[:, :, 1]).sum(axis=1) / max(count, 1)
        return Errors(float(gaps[0]), float(gaps[1]), count)


def class_of(confidence: float) -> int:
    return min(max(int(confidence * BINS), 0), BINS - 1)


class Calibration:
    """The records of all labels."""

    def __init__(self) -> None:
        self.labels: dict[str, Label] = {}

    def of(self, label: str) -> Label:
        if label not in self.labels:
            self.labels[label] = Label()
        return self.labels[label]

    @property
    def errors(self) -> dict[str, Errors]:
        return {name: label.errors for name, label in self.labels.items()}
