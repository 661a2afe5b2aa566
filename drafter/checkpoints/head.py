"""What a draft head is, whatever dialect its checkpoint is written in. Imports no torch: a launcher reads it too."""

import json
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from engine.models.config import ModelConfig
from engine.models.llama_shape import LlamaShape
from engine.projections import Places

Kind = Literal["eagle", "eagle3", "dflash", "dspark"]
Markov = Literal["", "vanilla", "gated", "rnn"]
IN: Final = "in"
OUT: Final = "out"
SIZE: Final = struct.Struct("<Q")


KINDS: Final[Mapping[str, tuple[Kind, ...]]] = {
    "eagle3": ("eagle3", "eagle"),
    "dflash": ("dflash",),
    "dspark": ("dspark",),
}
"""Which heads a method takes."""


def reads_hidden(methods: Iterable[str]) -> bool:
    """Whether one of these methods reads hidden states."""
    return any(method in KINDS for method in methods)


class CheckpointError(ValueError):
    """The draft checkpoint cannot be used: which field or tensor, what it is, and what it should be."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a head must fit. Positions are those of its longest text."""

    layers: int
    hidden: int
    vocab: int
    tied: bool = True
    positions: int = 0

    @classmethod
    def read(cls, folder: Path) -> "Target":
        """Of a target checkpoint."""
        model = ModelConfig.read(folder)
        tied = bool(getattr(model.source, "tie_word_embeddings", False))
        return cls(model.layers, model.hidden, model.vocab, tied, model.positions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """One draft head. `model` describes its layers, `names` say where a tensor lies in the files.

    `states` are those of the target that it was trained on, numbered as in `engine.runner.Forward`. Sizes are of the
    draft: `vocab` is smaller than the target's where a map (`d2t`) says which tokens it knows.
    """

    kind: Kind
    dialect: str
    folder: Path
    model: ModelConfig
    states: tuple[int, ...]
    names: Mapping[str, str]
    vocab: int
    target: Target
    norm_before_residual: bool = False
    feeds_normed: bool = False  # a step's input is the last output after the final norm
    norms_logits: bool = True
    part_norms: bool = False
    joint_norm: bool = False
    block: int = 0
    mask_token: int = 0
    from_anchor: bool = False  # whether the first slot is a guess too
    causal: bool = False
    markov: Markov = ""
    rank: int = 0
    confidence: bool = False
    confidence_with_markov: bool = False
    confidence_temperatures: tuple[float, ...] = ()  # of each slot; none: as it was trained

    def check(self, methods: Iterable[str]) -> None:
        """Raise CheckpointError if none of these methods takes such a head."""
        taken = [kind for method in methods for kind in KINDS.get(method, ())]
        if self.kind not in taken:
            raise CheckpointError(
                f"{self.folder} is a head of kind {self.kind}, method {', '.join(methods)} "
                f"takes {' or '.join(taken) or 'none'}"
            )

    @property
    def shape(self) -> LlamaShape:
        """Of its layers."""
        return LlamaShape.of(self.model)

    @property
    def captured(self) -> int:
        """How wide the target's states side by side are."""
        return len(self.states) * self.target.hidden

    @property
    def longest(self) -> int:
        """Guesses from one committed text: a chain goes on as long as it is asked to."""
        return self.block - (not self.from_anchor) if self.block else 1 << 30


@dataclass(frozen=True, slots=True)
class Source:
    """An unread checkpoint: its configuration, its tensors' shapes by name, and what is known besides."""

    folder: Path
    config: Mapping[str, Any]
    shapes: Mapping[str, tuple[int, ...]]
    target: Target
    convention: str = ""
    states: tuple[int, ...] = ()

    @classmethod
    def open(
        cls, folder: Path, target: Target, convention: str, states: tuple[int, ...]
    ) -> "Source":
        """Read `config.json` and the headers of the weight files; or CheckpointError."""
        file = folder / "config.json"
        if not file.is_file():
            raise CheckpointError(f"{folder} is no checkpoint: it has no config.json")
        return cls(
            folder, json.loads(file.read_text()), headers(folder), target, convention, states
        )

    @property
    def architecture(self) -> str:
        return str((self.config.get("architectures") or [""])[0])

    def need(self, field: str, *sections: str) -> Any:  # noqa: ANN401
        """A field of the configuration (or of the sections in it, looked at first) that has no default."""
        for section in sections:
            inner = self.config.get(section)
            if isinstance(inner, Mapping) and inner.get(field) is not None:
                return inner[field]
        if self.config.get(field) is None:
            places = " or ".join([*(f"{section}.{field}" for section in sections), field])
            raise CheckpointError(f"{self.folder}: config.json has no {places}")
        return self.config[field]


def headers(folder: Path) -> dict[str, tuple[int, ...]]:
    """Shapes of all tensors in the safetensors files of a folder."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        others = ", ".join(sorted(path.name for path in folder.glob("*.bin"))) or "nothing"
        raise CheckpointError(f"{folder} has no safetensors file, but {others}: convert it first")
    shapes: dict[str, tuple[int, ...]] = {}
    for path in files:
        with path.open("rb") as file:
            (size,) = SIZE.unpack(file.read(SIZE.size))
            entries = json.loads(file.read(size))
        for name, entry in entries.items():
            if name != "__metadata__":
                shapes[name] = tuple(entry["shape"])
    return shapes


def places(head: Head) -> Places | None:
    """Where the projection lies that a verifier may apply; an EAGLE-1 head has none."""
    if head.kind == "eagle":
        return None
    parts = range(len(head.states)) if head.part_norms else ()
    return Places(
        folder=head.folder,
        fc=head.names["fc.weight"],
        part_norms=tuple(head.names[f"fc_norm.{part}.weight"] for part in parts),
        joint_norm=head.names["input_norm.weight"] if head.joint_norm else "",
        norm=head.names.get("hidden_norm.weight", ""),
        eps=head.shape.eps,
    )
