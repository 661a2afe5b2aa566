"""Attention on CPUs: rows of similar size are gathered into padded batches for torch's kernel.

The query heads that share a key head are laid side by side as if they were further queries, so the
keys are read once and never repeated.

Shapes: T tokens of all rows; within a group R rows, W queries a row, L keys a row; K key heads, G
query heads to a key head, D head size; P pages, S positions of a page; 2 is (key, value).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from engine.attention import Attend, Span
from engine.models.config import ModelConfig

# Costs of one group in one layer, in keys read: fixed, and what each further query adds to a key.
GROUP_COST: Final = 300.0
QUERY_COST: Final = 0.07


@dataclass(frozen=True, slots=True)
class Group:
    """Rows that are padded to the same number of queries and keys."""

    rows: list[int]
    queries: int
    keys: int


def group(spans: Sequence[Span]) -> list[Group]:
    """Put rows together where padding costs less than another call."""
    order = sorted(range(len(spans)), key=lambda row: (spans[row].length, spans[row].start))
    groups: list[Group] = []
    for row in order:
        span = spans[row]
        keys = span.start + span.length
        alone = Group([row], span.length, keys)
        if groups:
            last = groups[-1]
            both = Group([*last.rows, row], max(last.queries, span.length), max(last.keys, keys))
            if _cost(both) <= _cost(last) + _cost(alone):
                groups[-1] = both
                continue
        groups.append(alone)
    return groups


def _cost(candidate: Group) -> float:
    keys = len(candidate.rows) * candidate.keys
    return GROUP_COST + keys * (1.0 + QUERY_COST * candidate.queries)


@dataclass(frozen=True, slots=True)
class _Batch:
    """A group as index tensors; `tokens_RW` picks its queries, padded ones repeat the row's last."""

    tokens_RW: Tensor
    real_N: Tensor  # of the flattened [R, W], which entries are tokens
    targets_N: Tensor  # and where each of those belongs in [T]
    pages_N: Tensor
    mask_R1XL: Tensor | None  # X = W * G


class SdpaAttention:
    """See `engine.attention.Backend`."""

    def __init__(self, model: ModelConfig, page_size: int, dtype: torch.dtype) -> None:
        self.kv_heads = model.kv_heads
        self.fold = model.heads // model.kv_heads
        self.head_dim = model.head_dim
        self.page_size = page_size
        self.dtype = dtype

    def prepare(self, spans: Sequence[Span]) -> Attend:
        first = [0]
        for span in spans:
            first.append(first[-1] + span.length)
        batches = [self._batch(each, spans, first) for each in group(spans)]

        def attend(q_TAD: Tensor, kv_PS2KD: Tensor) -> Tensor:
            out_TE = q_TAD.new_empty(q_TAD.shape[0], q_TAD.shape[1] * q_TAD.shape[2])
            for batch in batches:
                self._attend(batch, q_TAD, kv_PS2KD, out_TE)
            return out_TE

        return attend

    def _batch(self, chosen: Group, spans: Sequence[Span], first: Sequence[int]) -> _Batch:
        R, W = len(chosen.rows), chosen.queries
        pages = -(-chosen.keys // self.page_size)
        L = pages * self.page_size
        table_RP = torch.zeros(R, pages, dtype=torch.int64)
        start_R1 = torch.tensor([[spans[row].start] for row in chosen.rows])
        length_R1 = torch.tensor([[spans[row].length] for row in chosen.rows])
        first_R1 = torch.tensor([[first[row]] for row in chosen.rows])
        for index, row in enumerate(chosen.rows):
            span = spans[row]
            used = -(-(span.start + span.length) // self.page_size)
            table_RP[index, :used] = torch.tensor(span.pages[:used])
        column_RW = torch.minimum(torch.arange(W).expand(R, W), length_R1 - 1)
        tokens_RW = first_R1 + column_RW
        real_N = (torch.arange(W) < length_R1).flatten().nonzero().flatten()
        visible_RWL = torch.arange(L) <= (start_R1 + column_RW)[:, :, None]
        mask_RWL = torch.zeros(R, W, L, dtype=self.dtype).masked_fill_(~visible_RWL, -torch.inf)
        mask_R1XL = mask_RWL[:, None, :, None].expand(R, 1, W, self.fold, L).reshape(R, 1, -1, L)
        return _Batch(
            tokens_RW=tokens_RW,
            real_N=real_N,
            targets_N=tokens_RW.flatten()[real_N],
            pages_N=table_RP.flatten(),
            mask_R1XL=mask_R1XL,
        )

    def _attend(self, batch: _Batch, q_TAD: Tensor, kv_PS2KD: Tensor, out_TE: Tensor) -> None:
        R, W = batch.tokens_RW.shape
        K, G, D = self.kv_heads, self.fold, self.head_dim
        kv_RL2KD = kv_PS2KD.flatten(1).index_select(0, batch.pages_N).view(R, -1, 2, K, D)
        k_RKLD = kv_RL2KD[:, :, 0].transpose(1, 2)
        v_RKLD = kv_RL2KD[:, :, 1].transpose(1, 2)
        q_RWKGD = q_TAD.index_select(0, batch.tokens_RW.flatten()).view(R, W, K, G, D)
        q_RKXD = q_RWKGD.transpose(1, 2).reshape(R, K, W * G, D)
        o_RKXD = scaled_dot_product_attention(q_RKXD, k_RKLD, v_RKLD, batch.mask_R1XL)
        o_NE = o_RKXD.view(R, K, W, G, D).transpose(1, 2).reshape(R * W, K * G * D)
        out_TE.index_copy_(0, batch.targets_N, o_NE.index_select(0, batch.real_N))
