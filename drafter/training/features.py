"""Batches of texts with what the target made of them; with a folder, it is computed once and kept there.

Shapes: B texts, T tokens of the longest, S states captured side by side, H hidden, P tokens of the whole corpus.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import Tensor

from drafter.training.corpus import Header, Text
from drafter.training.target import Dense, causal

FORWARD_TOKENS: Final = 4096
"""Of one forward of the target."""


@dataclass(frozen=True, slots=True)
class Line:
    """A whole text as the target reads it; its answer begins at `start`."""

    ids: tuple[int, ...]
    start: int
    kind: str
    sampled: bool

    @classmethod
    def of(cls, header: Header, text: Text) -> "Line":
        before = (*header.before, *text.question, *header.between)
        return cls((*before, *text.answer), len(before), text.kind, text.sampled)


@dataclass(frozen=True, slots=True)
class Batch:
    """Texts padded at their ends. `final` is the last state after its norm."""

    ids_BT: Tensor
    starts_B: Tensor
    ends_B: Tensor
    states_BTS: Tensor
    final_BTH: Tensor

    @property
    def tokens(self) -> int:
        """Of the texts, without padding."""
        return int(self.ends_B.sum())


class Features:
    """What a target makes of lines. Rows of a line that was kept once are read from the folder's files.

    A file has a row for every token of the corpus in its order; it is sparse until they are written, and two
    runs may write the same rows at the same time, because they write the same.
    """

    def __init__(
        self, target: Dense, states: Sequence[int], lines: Sequence[Line], folder: Path | None
    ) -> None:
        self.target = target
        self.states = tuple(states)
        self.lines = lines
        self._places = np.cumsum([0, *(len(line.ids) for line in lines)])
        self._rows: np.memmap | None = None
        hidden = target.shape.hidden
        self._width = (len(self.states) + 1) * hidden
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            name = "-".join(map(str, self.states))
            self._rows = _mapped(
                folder / f"{name}.bf16", (int(self._places[-1]), self._width), "<u2"
            )
            self._done = _mapped(folder / f"{name}.done", (len(lines),), "u1")

    def batch(self, chosen: Sequence[int]) -> Batch:
        """These lines."""
        missing = [each for each in chosen if self._rows is None or not self._done[each]]
        made = self._make(missing)
        lines = [self.lines[each] for each in chosen]
        longest = max(len(line.ids) for line in lines)
        rows = np.zeros((len(lines), longest, self._width), "<u2")
        ids = np.zeros((len(lines), longest), np.int64)
        for row, (each, line) in enumerate(zip(chosen, lines, strict=True)):
            ids[row, : len(line.ids)] = line.ids
            found = made[each] if each in made else self._kept(each)
            rows[row, : len(line.ids)] = found
        S = len(self.states) * self.target.shape.hidden
        rows_BTW = torch.from_numpy(rows.view(np.int16)).view(torch.bfloat16)
        device = self.target.device
        return Batch(
            ids_BT=torch.from_numpy(ids).to(device),
            starts_B=torch.tensor([line.start for line in lines], device=device),
            ends_B=torch.tensor([len(line.ids) for line in lines], device=device),
            states_BTS=rows_BTW[..., :S].to(device),
            final_BTH=rows_BTW[..., S:].to(device),
        )

    def _kept(self, each: int) -> np.ndarray:
        assert self._rows is not None
        return self._rows[self._places[each] : self._places[each + 1]]

    def _make(self, chosen: Sequence[int]) -> dict[int, np.ndarray]:
        """Rows of these lines as they are kept, forwards of similar lengths together."""
        made: dict[int, np.ndarray] = {}
        queue = sorted(chosen, key=lambda each: len(self.lines[each].ids))
        while queue:
            count = max(1, FORWARD_TOKENS // len(self.lines[queue[-1]].ids))
            now, queue = queue[-count:], queue[:-count]
            made |= self._forward(now)
        for each, rows in made.items() if self._rows is not None else ():
            self._rows[self._places[each] : self._places[each + 1]] = rows  # type: ignore[index]
            self._done[each] = 1
        return made

    def _forward(self, chosen: Sequence[int]) -> dict[int, np.ndarray]:
        lines = [self.lines[each] for each in chosen]
        longest = max(len(line.ids) for line in lines)
        ids_BT = torch.tensor([[*line.ids, *[0] * (longest - len(line.ids))] for line in lines])
        ids_BT = ids_BT.to(self.target.device)
        at_BT = torch.arange(longest, device=ids_BT.device).expand(len(lines), -1)
        x_BTH, seen = self.target.forward(ids_BT, at_BT, causal, self.states)
        final_BTH = self.target.normed(x_BTH)
        states = [seen[state] for state in self.states]
        wide = torch.cat([*states, final_BTH], dim=-1).to(torch.bfloat16).cpu()
        rows = wide.view(torch.int16).numpy()
        return {
            each: rows[row, : len(line.ids)].view("<u2")
            for row, (each, line) in enumerate(zip(chosen, lines, strict=True))
        }


def _mapped(path: Path, shape: tuple[int, ...], kind: str) -> np.memmap:
    """A file of that size, which keeps what it holds."""
    size = int(np.prod(shape)) * np.dtype(kind).itemsize
    with path.open("ab") as file:
        file.truncate(max(size, file.tell()))
    return np.memmap(path, kind, "r+", shape=shape)


def answer_rows(batch: Batch, first: int, last: int) -> Tensor:
    """Whether [B, T] for a place t: t + `first` is in the answer, and so is t + `last`."""
    at_T = torch.arange(batch.ids_BT.shape[1], device=batch.ids_BT.device)
    begins = at_T + first >= batch.starts_B[:, None]
    return begins & (at_T + last < batch.ends_B[:, None])
