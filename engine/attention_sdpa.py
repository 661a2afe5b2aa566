"""Attention on CPUs: pieces of similar size are gathered into padded batches for torch's kernel.

The query heads that share a key head are laid side by side as if they were further queries, so the
keys are read once and never repeated.

Shapes: T tokens of all rows; within a group R pieces, W queries a piece, L keys a piece, X = W*G;
K key heads, G query heads to a key head, D head size, E = K*G*D; P pages, S positions of a page;
2 is (key, value).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from engine.attention import Attend
from engine.batch import Row
from engine.grouping import Group, Piece, cut, group
from engine.models.config import ModelConfig


@dataclass(frozen=True, slots=True)
class _Scatter:
    """Where a group's queries come from and go to; padded queries repeat the piece's last."""

    sources_RW: Tensor  # of the flattened [R, W], the token of each query
    real_N: Tensor  # of the flattened [R, W], which are no padding
    targets_N: Tensor  # and the token of each of those


@dataclass(frozen=True, slots=True)
class _Call:
    """A group as the kernel is called for it.

    Keys are the pages of a table, or a slice of slots where one piece has them in a row. Queries
    are all tokens in their order where there is nothing to scatter.
    """

    shape: tuple[int, int]  # R, W
    keys: Tensor | slice
    mask: Tensor | None
    scatter: _Scatter | None


class SdpaAttention:
    """See `engine.attention.Backend`."""

    def __init__(self, model: ModelConfig, page_size: int, dtype: torch.dtype) -> None:
        self._kv_heads = model.kv_heads
        self._fold = model.heads // model.kv_heads
        self._head_dim = model.head_dim
        self._page_size = page_size
        self._dtype = dtype

    def prepare(self, rows: Sequence[Row]) -> Attend:
        groups = group(list(cut(rows)))
        calls = [self._call(each, whole=len(groups) == 1) for each in groups]

        def attend(q_TAD: Tensor, kv_PS2KD: Tensor) -> Tensor:
            if calls[0].scatter is None:
                return self._attend(calls[0], q_TAD, kv_PS2KD)
            out_TE = q_TAD.new_empty(q_TAD.shape[0], q_TAD.shape[1] * q_TAD.shape[2])
            for call in calls:
                assert call.scatter is not None
                q_NAD = q_TAD.index_select(0, call.scatter.sources_RW)
                o_NE = self._attend(call, q_NAD, kv_PS2KD).index_select(0, call.scatter.real_N)
                out_TE.index_copy_(0, call.scatter.targets_N, o_NE)
            return out_TE

        return attend

    def _attend(self, call: _Call, q_NAD: Tensor, kv_PS2KD: Tensor) -> Tensor:
        R, W = call.shape
        K, G, D = self._kv_heads, self._fold, self._head_dim
        if isinstance(call.keys, slice):
            kv_RL2KD = kv_PS2KD.flatten(0, 1)[call.keys][None]
        else:
            kv_RL2KD = kv_PS2KD.flatten(1).index_select(0, call.keys).view(R, -1, 2, K, D)
        k_RLKD, v_RLKD = kv_RL2KD.unbind(2)
        q_RKXD = q_NAD.view(R, W, K, G, D).transpose(1, 2).reshape(R, K, W * G, D)
        o_RKXD = scaled_dot_product_attention(
            q_RKXD, k_RLKD.transpose(1, 2), v_RLKD.transpose(1, 2), call.mask
        )
        return o_RKXD.view(R, K, W, G, D).transpose(1, 2).reshape(R * W, K * G * D)

    def _call(self, chosen: Group, *, whole: bool) -> _Call:
        pieces, W = chosen.pieces, chosen.queries
        keys, length = self._keys(pieces, chosen.keys)
        start_R1 = torch.tensor([[piece.start] for piece in pieces])
        column_W = torch.arange(W)
        if len(pieces) == 1 and W == 1 and length == chosen.keys:
            mask = None  # one query that sees all there is
        else:
            hidden_RWL = torch.arange(length) > (start_R1 + column_W)[:, :, None]
            mask_RWL = torch.zeros(hidden_RWL.shape, dtype=self._dtype)
            mask_RWL.masked_fill_(hidden_RWL, -torch.inf)
            mask = (
                mask_RWL.repeat_interleave(self._fold, dim=1)[:, None]
                if W > 1
                else mask_RWL[:, None]
            )
        uniform = all(piece.length == W for piece in pieces)
        scatter = None if whole and uniform else _scatter(pieces, column_W)
        return _Call((len(pieces), W), keys, mask, scatter)

    def _keys(self, pieces: Sequence[Piece], longest: int) -> tuple[Tensor | slice, int]:
        """Where the keys are, and how many there are with padding."""
        size = self._page_size
        used = -(-longest // size)
        if len(pieces) == 1:
            pages = pieces[0].pages
            first = pages[0]
            if all(pages[i] == first + i for i in range(used)):
                return slice(first * size, first * size + longest), longest
        table: list[int] = []
        for piece in pieces:
            own = -(-piece.end // size)
            table.extend(piece.pages[:own])
            table.extend([0] * (used - own))  # any page will do, its keys are masked
        return torch.tensor(table), used * size


def _scatter(pieces: Sequence[Piece], column_W: Tensor) -> _Scatter:
    first_R1 = torch.tensor([[piece.first] for piece in pieces])
    length_R1 = torch.tensor([[piece.length] for piece in pieces])
    sources_RW = first_R1 + torch.minimum(column_W, length_R1 - 1)
    real_N = (column_W < length_R1).flatten().nonzero().flatten()
    return _Scatter(sources_RW.flatten(), real_N, sources_RW.flatten()[real_N])
