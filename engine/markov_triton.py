"""The bias from each token to the slot behind it, by a kernel: see `engine.kernels.markov` for how it is dealt out.

Shapes: J slots, R mirrors, V vocabulary of the target, U that of the head, M rank of the bias, C chunks of U.
"""

from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor

from engine.attention_triton import precision
from engine.errors import EngineError
from engine.kernels import check, interpreted
from engine.kernels.markov import markov
from engine.sampling_triton import Summary

CHUNK: Final = 512
STEP: Final = 32
MIRRORS: Final = 64
"""Mirrors of a program; more of them read the matrix again."""
WIDEST: Final = 1024
"""Bytes of a token's part of a bias (a rank of 512 in bfloat16); more does not fit into what a program has."""
LAST: Final = 0x7FFFFFFF
LEAST: Final = -(1 << 63)

Narrow = Callable[[int, Tensor], Tensor]
"""What the bias of a slot is made of, [R, M], from the slot and the tokens [R] before it."""


def fits(to_UM: Tensor) -> bool:
    """Whether the kernel takes a bias of this rank and dtype."""
    return to_UM.shape[1] * to_UM.element_size() <= WIDEST


class MarkovBias:
    """The matrices `from_VM` and `to_UM` of a head; `ids_U` are the target's tokens, where the head's are others."""

    def __init__(
        self,
        from_VM: Tensor,
        to_UM: Tensor,
        ids_U: Tensor | None = None,
        *,
        chunk: int = CHUNK,
        step: int = STEP,
    ) -> None:
        check(str(to_UM.device))
        if not fits(to_UM):
            most = WIDEST // to_UM.element_size()
            raise EngineError(
                f"a bias in {to_UM.dtype} has rank {most} at most, not {to_UM.shape[1]}"
            )
        self._from_VM, self._to_UM, self._ids_U = from_VM, to_UM.contiguous(), ids_U
        self._chunk, self._step = chunk, step

    def likeliest(
        self, base_JRU: Tensor, before_R: Tensor, narrow: Narrow | None = None
    ) -> tuple[Tensor, Tensor]:
        """The likeliest token of every slot, of the target's vocabulary, and its probability, [J, R] each.

        Slots are as `base_JRU` with the bias of the token before; `before_R` stand before the first. Of equal logits
        the lowest id of the head is taken. Without `narrow` the bias is made of a row of `from_VM`, and J launches are
        all there is.
        """
        J, R, _ = base_JRU.shape
        key_JR = torch.full((J, R), LEAST, dtype=torch.int64, device=base_JRU.device)
        heat_R = base_JRU.new_ones(R)
        notes = []
        for slot in range(J):
            logits_RU, key_R = base_JRU[slot], key_JR[slot]
            last = key_JR[slot - 1] if slot else None
            if narrow is None:
                before = before_R if last is None else last
                made = self._launch(
                    logits_RU, self._from_VM, heat_R, before, packed=slot > 0, key=key_R
                )
            else:
                narrow_RM = narrow(slot, before_R if last is None else self._said(last))
                made = self._launch(logits_RU, narrow_RM, heat_R, key=key_R)
            notes.append(made)
        top_JRC = torch.stack([each.top_NC for each in notes])
        sum_JRC = torch.stack([each.sum_NC for each in notes])
        shrink_JRC = (top_JRC - top_JRC.amax(dim=-1, keepdim=True)).exp()
        return self._said(key_JR), (sum_JRC * shrink_JRC).sum(dim=-1).reciprocal()

    def add(self, logits_RU: Tensor, narrow_RM: Tensor, heat_R: Tensor) -> Summary:
        """Put the bias of one slot on its logits; what is returned spares a draw from them its first pass."""
        return self._launch(logits_RU, narrow_RM, heat_R)

    def _said(self, key: Tensor) -> Tensor:
        """The target's token that the kernel packed into a number."""
        token = LAST - (key & LAST)
        return token if self._ids_U is None else self._ids_U[token]

    def _launch(
        self,
        logits_RU: Tensor,
        table: Tensor,
        heat_R: Tensor,
        before: Tensor | None = None,
        *,
        packed: bool = False,
        key: Tensor | None = None,
    ) -> Summary:
        R, U = logits_RU.shape
        M = self._to_UM.shape[1]
        chunks = -(-U // self._chunk)
        new = logits_RU.new_empty
        made = Summary(
            new(R, chunks), new(R, chunks, dtype=torch.int32), new(R, chunks), self._chunk
        )
        height = min(MIRRORS, max(16, 1 << (R - 1).bit_length()))
        nothing = made.best_NC  # stands for what is not read
        mapped = packed and self._ids_U is not None
        markov[(-(-R // height), chunks)](
            logits_RU, table.contiguous(), self._to_UM,
            nothing if before is None else before, self._ids_U if mapped else nothing,
            heat_R, made.top_NC, made.best_NC, made.sum_NC, nothing if key is None else key,
            R, U, chunks,
            R=height, M=M, WIDE=max(16, 1 << (M - 1).bit_length()),
            BLOCK=self._chunk, STEP=self._step,
            GATHER=before is not None, PACKED=packed, MAPPED=mapped,
            KEYS=key is not None, PRECISION=precision(self._to_UM.dtype),
            WIDEN=interpreted() and self._to_UM.dtype is torch.bfloat16,
            num_warps=warps(height), num_stages=2,
        )  # fmt: skip
        return made


def warps(height: int) -> int:
    """For a tile of so many mirrors: what they sum up must stay in registers."""
    return 4 if height <= 16 else 8
