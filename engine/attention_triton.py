"""Attention by Triton's kernels: on GPUs, and, interpreted, in tests.

Shapes: T tokens of all rows, A = K*G query heads, K key heads, G query heads to a key head, D head size, X = A + 2K;
P pages, S positions of a page, U tokens whose keys are split; 2 is (key, value).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log2
from typing import Any, Final

import torch
from torch import Tensor

from engine.attention import PLAIN, Attend, Kind
from engine.batch import Row
from engine.config import EngineConfig
from engine.errors import EngineError
from engine.kernels import check, interpreted
from engine.kernels.attention import merge, ragged, turn_and_store
from engine.models.config import ModelConfig
from engine.ragged import LONGEST_TREE, SPLIT, Room, Shape, deal, room_of
from engine.upload import upload

LANES: Final = 16
"""Programs that share the splits of a row: a longer row has each of them take several, one after the other."""
LARGEST: Final = 256
"""Numbers of a head; more do not fit into what a program has."""


@dataclass(frozen=True, slots=True)
class Heads:
    """What is the same for all rows."""

    kv: int
    fold: int
    size: int
    page: int

    @property
    def queries(self) -> int:
        return self.kv * self.fold


class TritonAttention:
    """See `engine.attention.Backend`."""

    def __init__(self, model: ModelConfig, config: EngineConfig) -> None:
        check(config.device)
        if model.head_dim % 2 or not 16 <= model.head_dim <= LARGEST:
            raise EngineError(
                f"attention triton takes even head sizes from 16 to {LARGEST}, not {model.head_dim}"
            )
        fold = model.heads // model.kv_heads
        self.heads = Heads(model.kv_heads, fold, model.head_dim, config.page_size)
        self.device = config.device

    def shape(self, longest: int) -> Shape:
        """The programs for rows of at most so many tokens."""
        return Shape(longest, self.heads.fold, self.heads.size)

    def prepare(self, rows: Sequence[Row], *, causal: bool = True) -> Attend:
        if any(row.seen is not None and len(row.seen) > LONGEST_TREE for row in rows):
            raise EngineError(f"a tree has {LONGEST_TREE} tokens at most")
        shape = self.shape(max(len(row.tokens) for row in rows))
        room = room_of(rows, shape.tile, self.heads.page)
        dealt = deal(rows, room, self.heads.page, causal=causal)
        arrays = {"numbers": dealt.numbers} | (
            {} if dealt.seen_T is None else {"seen": dealt.seen_T}
        )
        on = upload(arrays, self.device)
        numbers, seen_T = on["numbers"], on.get("seen")
        deepest = max((max(map(int.bit_count, row.seen)) for row in rows if row.seen), default=0)
        return self.over(shape, room, dealt.splits, numbers, seen_T=seen_T, deepest=deepest)

    def over(
        self,
        shape: Shape,
        room: Room,
        splits: int,
        numbers: Tensor,
        *,
        seen_T: Tensor | None = None,
        scratch: "Scratch | None" = None,
        deepest: int = 0,
    ) -> Attend:
        """Attention that reads its rows from a buffer when it runs, which may say something else by then.

        No row may have more than `splits` of its keys; `deepest` is how many ancestors a token of a tree has.
        """
        if scratch is None:
            scratch = Scratch.make(room.parts, splits, self.heads, self.device)
        views: Mapping[str, Any] = room.views(numbers)  # type: ignore[arg-type]  # it slices tensors as well
        return _Prepared(self.heads, shape, room, splits, views, seen_T, scratch, deepest)


@dataclass(frozen=True, slots=True)
class Scratch:
    """Partial sums of `parts` tokens, and (largest logit, sum of weights) of each."""

    partial: Tensor
    weight: Tensor

    @classmethod
    def make(cls, parts: int, splits: int, heads: Heads, device: str) -> "Scratch":
        """Nothing, where no row is split."""
        count = parts * splits * heads.queries if splits > 1 else 0
        return cls(
            torch.empty(count * heads.size, dtype=torch.float32, device=device),
            torch.empty(count * 2, dtype=torch.float32, device=device),
        )


@dataclass(frozen=True, slots=True)
class _Prepared:
    """See `engine.attention.Attend`."""

    heads: Heads
    shape: Shape
    room: Room
    splits: int
    views: Mapping[str, Any]
    seen_T: Tensor | None
    scratch: Scratch
    deepest: int

    def store(
        self,
        qkv_TXD: Tensor,
        cos_T1D: Tensor,
        sin_T1D: Tensor,
        slots_T: Tensor,
        kv_PS2KD: Tensor,
    ) -> Tensor:
        kv, size, queries = self.heads.kv, self.heads.size, self.heads.queries
        qkv_TXD = qkv_TXD.contiguous()
        at_once = 8
        turn_and_store[(len(qkv_TXD), -(-qkv_TXD.shape[1] // at_once))](
            qkv_TXD, kv_PS2KD, cos_T1D, sin_T1D, slots_T, qkv_TXD.stride(0),
            A=queries, K=kv, D=size, HEADS=at_once, HALF=_power(size // 2), num_warps=4,
            **short(kv_PS2KD.dtype),
        )  # fmt: skip
        return qkv_TXD[:, :queries]

    def __call__(self, q_TAD: Tensor, kv_PS2KD: Tensor, kind: Kind = PLAIN) -> Tensor:
        heads, room, view, shape = self.heads, self.room, self.views, self.shape
        if kind.window is not None and kind.window < self.deepest:
            raise EngineError(
                f"a tree of depth {self.deepest} does not fit a window of {kind.window}"
            )
        if q_TAD.stride(2) != 1:
            q_TAD = q_TAD.contiguous()
        out_TE = q_TAD.new_empty(len(q_TAD), heads.queries * heads.size)
        nothing = view["last"]  # stands for what is not read
        sinks = nothing if kind.sinks_A is None else kind.sinks_A
        lanes = min(self.splits, LANES)
        wide = _power(heads.size)
        ragged[(room.tiles, heads.kv, lanes)](
            out_TE, self.scratch.partial, self.scratch.weight,
            q_TAD, kv_PS2KD, sinks,
            view["last"], nothing if self.seen_T is None else self.seen_T, view["table"],
            view["tile_row"], view["tile_token"], view["tile_count"], view["tile_keys"],
            view["tile_own"], view["tile_part"],
            q_TAD.stride(0), q_TAD.stride(1), room.pages, self.splits,
            heads.size**-0.5 if kind.scale is None else kind.scale,
            kind.softcap or 1.0, kind.window or 0,
            K=heads.kv, G=heads.fold, D=heads.size, PAGE=heads.page,
            M=shape.queries, N=shape.keys, WIDE=wide, SPLIT=SPLIT, LANES=lanes,
            TREE=self.seen_T is not None, WINDOW=kind.window is not None,
            SOFTCAP=kind.softcap is not None, SINKS=kind.sinks_A is not None,
            PRECISION=precision(q_TAD.dtype),
            WIDEN=interpreted() and q_TAD.dtype is torch.bfloat16, num_warps=shape.warps, num_stages=stages(shape),
        )  # fmt: skip
        if self.splits > 1:
            merge[(room.parts, heads.queries)](
                out_TE, self.scratch.partial, self.scratch.weight, sinks,
                view["part_token"], view["part_keys"], self.splits,
                A=heads.queries, D=heads.size, WIDE=wide, SPLIT=SPLIT,
                SINKS=kind.sinks_A is not None, num_warps=4,
            )  # fmt: skip
        return out_TE


def precision(dtype: torch.dtype) -> str:
    """Float32 is for tests and is taken as it is; for other numbers it does not matter."""
    return "ieee" if dtype is torch.float32 else "tf32"


def short(dtype: torch.dtype) -> dict[str, float]:
    """What `turn_and_store` is told of numbers of one byte."""
    if dtype.itemsize > 1:
        return {"BITS": 0, "LARGEST": 0.0, "LEAST": 0.0}
    known = torch.finfo(dtype)
    return {"BITS": -round(log2(known.eps)), "LARGEST": known.max, "LEAST": known.tiny}


def stages(shape: Shape) -> int:
    """Steps whose keys are on their way at once: what a low tile, which waits for memory, can have more of."""
    return 3 if shape.queries <= 32 and shape.head_dim <= 128 else 2


def _power(size: int) -> int:
    """The next power of two, 16 at least."""
    return max(16, 1 << (size - 1).bit_length())
