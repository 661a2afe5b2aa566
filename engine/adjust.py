"""What a request changes in logits before anything is drawn: what is allowed, biases, penalties.

The order is that of vLLM: allowed tokens, bad words, biases, then penalties; temperature and filters come after
(`engine.sampling`). A row is adjusted as if every token before its position had been output already, so drafts count
where they stand in front of a position, and nowhere else.

Shapes: N rows, M of them, V vocabulary, C distinct tokens.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

NEVER = float("-inf")
LARGEST = torch.finfo(torch.float32).max
"""What a penalty next to zero makes of a logit: two infinite ones could not be compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adjustments:
    """Neutral by default. `bad_words` are token sequences whose last token may not follow the others.

    `repetition` divides positive logits of tokens in prompt and output and multiplies negative ones (CTRL, arXiv
    1909.05858); `frequency` takes its value off for each occurrence in the output, `presence` once.
    """

    allowed: Sequence[int] = ()
    bad_words: Sequence[Sequence[int]] = ()
    bias: Mapping[int, float] = field(default_factory=dict)
    repetition: float = 1.0
    presence: float = 0.0
    frequency: float = 0.0

    @property
    def neutral(self) -> bool:
        return self == Adjustments()


def adjust(
    logits_V: Tensor, wanted: Adjustments, prompt: Sequence[int], output: Sequence[int]
) -> None:
    """Change the logits of the token that comes after `prompt` and `output`, in place."""
    if wanted.allowed:
        allowed_C = torch.tensor(sorted(set(wanted.allowed)))
        kept_C = logits_V[allowed_C].clone()
        logits_V.fill_(NEVER)
        logits_V[allowed_C] = kept_C
    for word in wanted.bad_words:
        *before, last = word
        line = output[len(output) - len(before) :] if len(before) <= len(output) else None
        if line is not None and list(line) == before:
            logits_V[last] = NEVER
    if wanted.bias:
        ids_C = torch.tensor(list(wanted.bias))
        logits_V[ids_C] += torch.tensor(list(wanted.bias.values()), dtype=logits_V.dtype)
    if wanted.repetition != 1.0:
        _repeat(logits_V, wanted.repetition, {*prompt, *output})
    if output and (wanted.presence or wanted.frequency):
        counts = Counter(output)
        counts_C = torch.tensor(list(counts.values()), dtype=logits_V.dtype)
        logits_V[torch.tensor(list(counts))] -= wanted.presence + wanted.frequency * counts_C


def restrict(logits_NV: Tensor, masks: Sequence[bytes]) -> None:
    """Leave each of the first rows only the tokens whose bit is set in its mask, in place.

    Bit i, the lowest of a byte first, is token i; what has no bit is not allowed.
    """
    rows = len(masks)
    if not rows:
        return
    bits = np.frombuffer(b"".join(masks), dtype=np.uint8).reshape(rows, -1)
    banned_MV = np.unpackbits(bits, axis=1, count=logits_NV.shape[1], bitorder="little") == 0
    np.copyto(logits_NV[:rows].numpy(), NEVER, where=banned_MV)


def dead_end(logits_NV: Tensor) -> int | None:
    """The first row where nothing is left that can be drawn."""
    dead = np.flatnonzero(logits_NV.numpy().max(axis=1) == NEVER)
    return int(dead[0]) if dead.size else None


def _repeat(logits_V: Tensor, penalty: float, seen: set[int]) -> None:
    if not seen:
        return
    ids_C = torch.tensor(sorted(seen))
    seen_C = logits_V[ids_C]
    changed_C = torch.where(seen_C > 0, seen_C / penalty, seen_C * penalty)
    logits_V[ids_C] = changed_C.clamp_(max=LARGEST)
