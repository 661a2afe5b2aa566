"""Logits in float32, where wanted in memory that is used again. Shapes: N rows, V vocabulary."""

import torch
from torch import Tensor


class Widening:
    """From the model's dtype to float32. Of at most `rows` rows the result is overwritten by the next one.

    Fresh memory of that size comes from the system and goes back to it: finding its pages takes longer than the
    arithmetic, a tenth of a step of 32 windows.
    """

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._kept_NV: Tensor | None = None

    def __call__(self, logits_NV: Tensor) -> Tensor:
        rows = logits_NV.shape[0]
        if rows > self._rows or logits_NV.dtype is torch.float32:
            return logits_NV.float()
        kept_NV = self._kept_NV
        if kept_NV is None or kept_NV.shape[0] < rows:
            most = min(self._rows, 1 << (rows - 1).bit_length())
            with torch.inference_mode(mode=False):  # it outlives the mode in which it is made
                kept_NV = torch.empty(most, logits_NV.shape[1], device=logits_NV.device)
            self._kept_NV = kept_NV
        return kept_NV[:rows].copy_(logits_NV)
