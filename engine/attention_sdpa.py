"""Attention on CPUs: pieces of similar size are gathered into padded batches for torch's kernel.

The query heads that share a key head are laid side by side as if they were further queries, so the
keys are read once and never repeated.

Shapes: T tokens of all rows, U queries of all groups with padding; within a group R pieces, W
queries a piece, L keys a piece, X = W*G; K key heads, G query heads to a key head, D head size,
E = K*G*D; P pages, S positions of a page, C = S*2*K*D; 2 is (key, value).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import lcm

import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

from engine.attention import PLAIN, Attend, Kind
from engine.batch import Row
from engine.config import EngineConfig
from engine.errors import EngineError
from engine.grouping import QUERIES_AT_ONCE, Group, cut, group
from engine.models.config import ModelConfig
from engine.rotary import store
from engine.steady import (
    COMPANIES,
    KEYS,
    KEYS_APART,
    Company,
    attentions,
    find,
    lengths,
)


@dataclass(frozen=True, slots=True)
class _Call:
    """One call of the kernel: R pieces of W queries, the first of them at `first` of all U.

    The kernel gets `lack` queries more, of which nothing is wanted.
    Keys are the pages of a table, or a slice of slots where one piece has them in a row.
    """

    first: int
    shape: tuple[int, int]
    lack: int
    keys: Tensor | slice
    masks: "_Masks"


class _Masks:
    """What is added to the logits of one call, [R, 1, X, L], made once for each width of a window."""

    def __init__(self, at_RW: Tensor, keys: int, fold: int, lack: int, dtype: torch.dtype) -> None:
        self._at_RW1 = at_RW[:, :, None]
        self._keys = keys
        self._fold = fold
        self._lack = lack
        self._dtype = dtype
        self._made: dict[int | None, Tensor] = {}

    def __getitem__(self, window: int | None) -> Tensor:
        if window not in self._made:
            keys_L = torch.arange(self._keys)
            hidden_RWL = keys_L > self._at_RW1
            if window is not None:
                hidden_RWL |= keys_L <= self._at_RW1 - window
            mask_RWL = torch.zeros(hidden_RWL.shape, dtype=self._dtype)
            mask_RWL.masked_fill_(hidden_RWL, -torch.inf)
            if mask_RWL.shape[1] > 1:
                mask_RWL = mask_RWL.repeat_interleave(self._fold, dim=1)
                mask_RWL = pad(mask_RWL, (0, 0, 0, self._lack))
            self._made[window] = mask_RWL[:, None]
        return self._made[window]


@dataclass(frozen=True, slots=True)
class _Order:
    """The padded order of the queries and the way back; padding repeats a piece's last query."""

    sources_U: Tensor
    places_T: Tensor


@dataclass(frozen=True, slots=True)
class _Prepared:
    """See `engine.attention.Attend`."""

    backend: "SdpaAttention"
    calls: Sequence[_Call]
    order: _Order | None
    buffer_PC: Tensor

    store = staticmethod(store)

    def __call__(self, q_TAD: Tensor, kv_PS2KD: Tensor, kind: Kind = PLAIN) -> Tensor:
        order = self.order
        q_UAD = q_TAD if order is None else q_TAD.index_select(0, order.sources_U)
        parts = [
            self.backend.attend(call, q_UAD, kv_PS2KD, self.buffer_PC, kind) for call in self.calls
        ]
        out_UE = torch.cat(parts) if len(parts) > 1 else parts[0]
        return out_UE if order is None else out_UE.index_select(0, order.places_T)


@dataclass(frozen=True, slots=True)
class Habits:
    """How many queries and keys the kernel must be given, so that a query's bits do not depend on the others."""

    company: Company
    lengths: frozenset[int]


class SdpaAttention:
    """See `engine.attention.Backend`."""

    def __init__(self, model: ModelConfig, config: EngineConfig) -> None:
        if config.device != "cpu":
            raise EngineError(f"attention sdpa runs on the CPU, not on {config.device}")
        self._kv_heads = model.kv_heads
        self._fold = model.heads // model.kv_heads
        self._head_dim = model.head_dim
        self._pages = config.pages
        self._page_size = config.page_size
        self._stride = lcm(config.page_size, KEYS_APART)
        self._dtype: torch.dtype = getattr(torch, config.dtype)
        self._habits = habits(model.head_dim, self._dtype)

    def prepare(self, rows: Sequence[Row], *, causal: bool = True) -> Attend:
        if any(row.seen is not None for row in rows):
            raise EngineError("attention sdpa takes no trees")
        pieces = list(cut(rows))
        if not causal and len(pieces) != len(rows):
            raise EngineError(f"a row that is not causal has {QUERIES_AT_ONCE} tokens at most")
        groups = group(pieces)
        calls: list[_Call] = []
        first = 0
        for each in groups:
            calls.append(self._call(each, first, causal=causal))
            first += len(each.pieces) * each.queries
        order = _order(groups)
        # One buffer for all groups and layers: it stays in the caches, and is paged in once.
        gathered = max((len(c.keys) for c in calls if isinstance(c.keys, Tensor)), default=0)
        width = self._page_size * 2 * self._kv_heads * self._head_dim
        buffer_PC = torch.empty(gathered, width, dtype=self._dtype)

        return _Prepared(self, calls, order, buffer_PC)

    def attend(
        self, call: _Call, q_UAD: Tensor, kv_PS2KD: Tensor, buffer_PC: Tensor, kind: Kind
    ) -> Tensor:
        """One call of the kernel, [R*W, K*G*D]."""
        R, W = call.shape
        K, G, D = self._kv_heads, self._fold, self._head_dim
        if isinstance(call.keys, slice):
            kv_RL2KD = kv_PS2KD.flatten(0, 1)[call.keys][None]
        else:
            kv_PC = buffer_PC[: len(call.keys)]
            torch.index_select(kv_PS2KD.flatten(1), 0, call.keys, out=kv_PC)
            kv_RL2KD = kv_PC.view(R, -1, 2, K, D)
        k_RLKD, v_RLKD = kv_RL2KD.unbind(2)
        q_RWKGD = q_UAD[call.first : call.first + R * W].view(R, W, K, G, D)
        q_RKXD = q_RWKGD.transpose(1, 2).reshape(R, K, W * G, D)
        if call.lack:
            q_RKXD = pad(q_RKXD, (0, 0, 0, call.lack))
        k_RKLD, v_RKLD = k_RLKD.transpose(1, 2), v_RLKD.transpose(1, 2)
        mask_R1XL = call.masks[kind.window]
        if kind.softcap is None and kind.sinks_A is None:
            o_RKXD = scaled_dot_product_attention(
                q_RKXD, k_RKLD, v_RKLD, mask_R1XL, scale=kind.scale
            )
        else:
            weights_RKXL = _weights(q_RKXD, k_RKLD, mask_R1XL, kind)
            o_RKXD = weights_RKXL.to(v_RKLD.dtype) @ v_RKLD
        o_RKWGD = o_RKXD[:, :, : W * G].view(R, K, W, G, D)
        return o_RKWGD.transpose(1, 2).reshape(R * W, K * G * D)

    def _call(self, chosen: Group, first: int, *, causal: bool) -> _Call:
        R, W = len(chosen.pieces), chosen.queries
        used = self._padded(chosen.keys) // self._page_size
        if causal:
            start_R1 = torch.tensor([[piece.start] for piece in chosen.pieces])
            at_RW = start_R1 + torch.arange(W)
        else:
            at_RW = torch.tensor([[piece.end - 1] * W for piece in chosen.pieces])
        lack = self._habits.company.lack(W * self._fold)
        masks = _Masks(at_RW, used * self._page_size, self._fold, lack, self._dtype)
        return _Call(first, (R, W), lack, self._keys(chosen, used), masks)

    def _padded(self, keys: int) -> int:
        """So many keys or more, whole pages, which the kernel sums as if they were many more."""
        padded = -(-keys // self._stride) * self._stride
        while padded % KEYS not in self._habits.lengths:
            padded += self._stride
        return padded

    def _keys(self, chosen: Group, used: int) -> Tensor | slice:
        """Where the keys of a group are, in `used` pages a piece."""
        if len(chosen.pieces) == 1:
            pages = chosen.pieces[0].pages
            own = -(-chosen.keys // self._page_size)
            in_a_row = all(pages[index] == pages[0] + index for index in range(own))
            if in_a_row and pages[0] + used <= self._pages:
                return slice(pages[0] * self._page_size, (pages[0] + used) * self._page_size)
        table: list[int] = []
        for piece in chosen.pieces:
            own = -(-piece.end // self._page_size)
            table.extend(piece.pages[:own])
            table.extend([0] * (used - own))  # any page will do, its keys are masked
        return torch.tensor(table)


@cache
def habits(head_dim: int, dtype: torch.dtype) -> Habits:
    """What keeps a query's bits on this CPU.

    Bits of float32 are not promised: the products around attention do not keep them.
    """
    if dtype is torch.float32:
        return Habits(Company(), frozenset(range(0, KEYS, KEYS_APART)))
    company = find(*attentions(head_dim, dtype), COMPANIES) or Company()
    return Habits(company, lengths(head_dim, dtype))


def _weights(q_RKXD: Tensor, k_RKLD: Tensor, mask_R1XL: Tensor, kind: Kind) -> Tensor:
    """What torch's kernel has no argument for: bent logits, and sinks. [R, K, X, L] in float32."""
    K, X, D = q_RKXD.shape[1:]
    scale = D**-0.5 if kind.scale is None else kind.scale
    logits_RKXL = (q_RKXD @ k_RKLD.transpose(2, 3)).float() * scale
    if kind.softcap is not None:
        logits_RKXL = kind.softcap * torch.tanh(logits_RKXL / kind.softcap)
    logits_RKXL += mask_R1XL
    if kind.sinks_A is None:
        return logits_RKXL.softmax(-1)
    sinks_KG = kind.sinks_A.float().view(K, -1)
    sinks_KX1 = sinks_KG.repeat(1, X // sinks_KG.shape[1])[:, :, None]
    with_sinks = torch.cat((logits_RKXL, sinks_KX1.expand(len(logits_RKXL), K, X, 1)), dim=-1)
    return with_sinks.softmax(-1)[..., :-1]


def _order(groups: Sequence[Group]) -> _Order | None:
    """None where the groups take the tokens as they come."""
    sources: list[int] = []
    places: dict[int, int] = {}
    for each in groups:
        for piece in each.pieces:
            for column in range(each.queries):
                token = piece.first + min(column, piece.length - 1)
                places.setdefault(token, len(sources))
                sources.append(token)
    if sources == list(range(len(sources))):
        return None
    return _Order(torch.tensor(sources), torch.tensor([places[t] for t in range(len(places))]))
