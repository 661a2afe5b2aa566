"""Log-probabilities of given tokens and of the likeliest ones, from raw logits.

Shapes: N rows, M of them, V vocabulary, K likeliest tokens.
"""

from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor

Score = tuple[float, tuple[tuple[int, float], ...]]
"""A token's log-probability, and (token, log-probability) of the likeliest ones, best first, lowest id of equals."""

ROWS_AT_ONCE: Final = 32


def score(logits_NV: Tensor, tokens: Sequence[int], top: int) -> list[Score]:
    """One score for each row and the token at its position; natural logarithms of float32 softmax."""
    scores: list[Score] = []
    for begin in range(0, len(tokens), ROWS_AT_ONCE):
        chosen_M = torch.tensor(list(tokens[begin : begin + ROWS_AT_ONCE]), device=logits_NV.device)
        logits_MV = logits_NV[begin : begin + len(chosen_M)]
        total_M1 = logits_MV.logsumexp(dim=-1, keepdim=True)
        own = (logits_MV.gather(1, chosen_M[:, None]) - total_M1)[:, 0].tolist()
        best = _best(logits_MV, total_M1, top)
        scores += zip(own, best, strict=True)
    return scores


def _best(logits_MV: Tensor, total_M1: Tensor, top: int) -> list[tuple[tuple[int, float], ...]]:
    if not top:
        return [()] * len(logits_MV)
    values_MK, ids_MK = logits_MV.topk(min(top, logits_MV.shape[1]), dim=-1)
    rows = zip(ids_MK.tolist(), (values_MK - total_M1).tolist(), strict=True)
    return [
        tuple(sorted(zip(ids, values, strict=True), key=lambda pair: (-pair[1], pair[0])))
        for ids, values in rows
    ]
