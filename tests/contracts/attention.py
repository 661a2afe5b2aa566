"""What every backend of attention must compute, in double precision and one token at a time."""

from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor

from engine.attention import PLAIN, Kind
from engine.batch import Row
from engine.config import Dtype, EngineConfig
from engine.models.config import ModelConfig

PAGE: Final = 4


def model(heads: int, kv_heads: int, head_dim: int) -> ModelConfig:
    """A model of which attention is all that matters."""
    return ModelConfig(
        architecture="none", vocab=10, hidden=heads * head_dim, layers=1, heads=heads,
        kv_heads=kv_heads, head_dim=head_dim, positions=4096, rope={}, eos_ids=(), source=None,
    )  # fmt: skip


def config(name: str, pages: int, dtype: Dtype = "float32", page: int = PAGE) -> EngineConfig:
    return EngineConfig(pages=pages, max_context=4096, dtype=dtype, page_size=page, attention=name)


def dealt(
    rows: Sequence[tuple[int, int]], page: int = PAGE, seed: int = 0
) -> tuple[list[Row], int]:
    """Rows with so many new tokens behind so many, on pages in no order; and how many pages there are."""
    counts = [-(-(start + new) // page) for new, start in rows]
    order = torch.randperm(sum(counts) + 3, generator=torch.Generator().manual_seed(seed)).tolist()
    made = []
    for (new, start), count in zip(rows, counts, strict=True):
        own, order = order[:count], order[count:]
        made.append(Row([1] * new, start, own, 0))
    return made, sum(counts) + 3


def seen_by(row: Row, index: int, kind: Kind, *, causal: bool) -> list[int]:
    """Places of the keys that a token of a row sees."""
    if row.seen is not None:
        own = [row.start + j for j in range(len(row.tokens)) if row.seen[index] >> j & 1]
        at = row.positions[index]
        before = range(max(0, at - kind.window + 1) if kind.window else 0, row.start)
        return [*before, *own]
    at = row.start + index if causal else row.end - 1
    return list(range(max(0, at - kind.window + 1) if kind.window else 0, at + 1))


def expected(
    q_TAD: Tensor, kv_PS2KD: Tensor, rows: Sequence[Row], kind: Kind = PLAIN, *, causal: bool = True
) -> Tensor:
    """Attention [T, A*D]."""
    A, D = q_TAD.shape[1:]
    fold = A // kv_PS2KD.shape[3]
    scale = D**-0.5 if kind.scale is None else kind.scale
    out = []
    token = 0
    for row in rows:
        kv_L2KD = kv_PS2KD[torch.tensor(list(row.pages))].flatten(0, 1).double()
        for index in range(len(row.tokens)):
            places = seen_by(row, index, kind, causal=causal)
            k_LAD, v_LAD = (x.repeat_interleave(fold, 1) for x in kv_L2KD[places].unbind(1))
            logits_AL = torch.einsum("ad,lad->al", q_TAD[token].double(), k_LAD) * scale
            if kind.softcap is not None:
                logits_AL = kind.softcap * torch.tanh(logits_AL / kind.softcap)
            if kind.sinks_A is not None:
                logits_AL = torch.cat((logits_AL, kind.sinks_A.double()[:, None]), dim=1)
            weights_AL = logits_AL.softmax(-1)[:, : len(places)]
            out.append(torch.einsum("al,lad->ad", weights_AL, v_LAD).flatten())
            token += 1
    return torch.stack(out)
