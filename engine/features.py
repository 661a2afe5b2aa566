"""Features: what drafters need of the target's hidden states, kept at the same slots as its KV.

A page that is shared brings its features along, and one that is computed again writes them again, so
they need no bookkeeping of their own.

Shapes: T tokens of a forward, N rows that are read, H hidden, C states captured side by side, F
width of a kept row, Q slots of all pages.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor

from engine.config import Dtype
from engine.errors import EngineError
from engine.linear import products
from engine.memory import pool
from engine.norms import rms_norm
from engine.projections import Places
from engine.weights import files

Span = tuple[Sequence[int], int, int]
"""Pages of a sequence, and the positions [from, to) of it that are meant."""


@dataclass(frozen=True, slots=True)
class Projection:
    """Captured states [T, C] to rows [T, F], held by the verifier or by the drafter."""

    fc_FC: Tensor
    part_norms: tuple[Tensor, ...] = ()
    joint_norm_C: Tensor | None = None
    norm_F: Tensor | None = None
    eps: float = 1e-6
    product: Callable[[Tensor], Tensor] = field(init=False)

    def __post_init__(self) -> None:
        plain = products(self.fc_FC.dtype, self.fc_FC.device).plain(self.fc_FC, None)
        object.__setattr__(self, "product", plain)

    @classmethod
    def read(cls, places: Places, dtype: torch.dtype, device: str = "cpu") -> "Projection":
        """From the checkpoint that was trained with it."""

        def one(name: str) -> Tensor | None:
            return tensor(places.folder, name).to(device, dtype) if name else None

        return cls(
            tensor(places.folder, places.fc).to(device, dtype),
            tuple(tensor(places.folder, name).to(device, dtype) for name in places.part_norms),
            one(places.joint_norm),
            one(places.norm),
            places.eps,
        )

    @property
    def width(self) -> int:
        return self.fc_FC.shape[0]

    @property
    def captured(self) -> int:
        """How wide the states side by side are."""
        return self.fc_FC.shape[1]

    def __call__(self, c_TC: Tensor) -> Tensor:
        if self.part_norms:
            parts = c_TC.chunk(len(self.part_norms), dim=-1)
            c_TC = torch.cat(
                [
                    rms_norm(part, norm, self.eps)
                    for part, norm in zip(parts, self.part_norms, strict=True)
                ],
                dim=-1,
            )
        if self.joint_norm_C is not None:
            c_TC = rms_norm(c_TC, self.joint_norm_C, self.eps)
        f_TF = self.product(c_TC)
        if self.norm_F is not None:
            f_TF = rms_norm(f_TF, self.norm_F, self.eps)
        return f_TF

    @property
    def digest(self) -> str:
        """The same for the same numbers, in whatever dtype they are held."""
        parts = [self.fc_FC, *self.part_norms, self.joint_norm_C, self.norm_F]
        digest = hashlib.sha256()
        for part in parts:
            if part is not None:
                digest.update(part.to(torch.bfloat16).view(torch.uint8).cpu().numpy().tobytes())
        return digest.hexdigest()[:16]


def tensor(folder: Path, name: str) -> Tensor:
    """One tensor of a checkpoint folder, or EngineError."""
    for path in files(folder):
        with safe_open(path, framework="pt") as file:
            if name in file.keys():  # noqa: SIM118  # it is no mapping
                found: Tensor = file.get_tensor(name)
                return found
    raise EngineError(f"{folder} has no tensor {name}")


def describe(states: Sequence[int], projection: str, width: int, dtype: Dtype) -> str:
    """What verifier and drafter must say alike; `projection` is the digest of one, or empty."""
    kind = f"projected by {projection}" if projection else "raw"
    listed = ",".join(map(str, states))
    return f"hidden states {listed} {kind}, width {width}, {dtype}"


def made_by(weights: str) -> str:
    """Whose states they are, by the hash of the target's weights: the head shares its embedding and output matrix."""
    return f"a target with weights {weights}"


class Features:
    """One row of `width` numbers for every slot of the engine's pages.

    `states` are numbered as in `engine.runner.Forward`.
    """

    def __init__(
        self,
        states: Sequence[int],
        hidden: int,
        slots: int,
        dtype: Dtype,
        projection: Projection | None = None,
        *,
        device: str = "cpu",
    ) -> None:
        captured = len(states) * hidden
        if projection is not None and projection.captured != captured:
            raise EngineError(
                f"fc takes {projection.captured} numbers, {len(states)} states of {hidden} have {captured}"
            )
        self.states = tuple(states)
        self.width = projection.width if projection else captured
        self._dtype: torch.dtype = getattr(torch, dtype)
        self._projection = projection
        self.text = describe(states, projection.digest if projection else "", self.width, dtype)
        self.rows_QF = pool((slots, self.width), self._dtype, device)

    def write(self, slots_T: Tensor, seen: Mapping[int, Tensor]) -> None:
        """Keep the features of new tokens."""
        c_TC = torch.cat([seen[state] for state in self.states], dim=-1).to(self._dtype)
        f_TF = self._projection(c_TC) if self._projection else c_TC
        self.rows_QF.index_copy_(0, slots_T, f_TF)

    def read(self, spans: Iterable[Span], page_size: int) -> Tensor:
        """The rows [N, F] of these positions, span after span, gathered at once."""
        slots: list[int] = []
        for pages, start, end in spans:
            position = start
            while position < end:
                page, offset = divmod(position, page_size)
                count = min(page_size - offset, end - position)
                first = pages[page] * page_size + offset
                slots.extend(range(first, first + count))
                position += count
        places_N = torch.tensor(slots, dtype=torch.int64)
        return self.rows_QF.index_select(0, places_N.to(self.rows_QF.device))


def bytes_per_slot(width: int, dtype: Dtype) -> int:
    """Memory of one position."""
    itemsize: int = getattr(torch, dtype).itemsize
    return width * itemsize
