"""The right answers, from `transformers`: plain greedy generation, and how sure it was at each position."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

GAP: Final = 1e-3
"""Below this distance of the two best logits, float32 arithmetic of another order may choose the other token."""


@dataclass(frozen=True)
class Greedy:
    """Output tokens; the smallest top-two distance on the way."""

    tokens: list[int]
    gap: float


def greedy(model: Any, prompt: Sequence[int], count: int) -> Greedy:  # noqa: ANN401
    """`generate` of a batch of one, at most `count` tokens, ended by the model's own end token."""
    with torch.no_grad():
        result = model.generate(
            torch.tensor([list(prompt)]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            max_new_tokens=count,
            do_sample=False,
            return_dict_in_generate=True,
            output_logits=True,
        )
    gaps = [float(top[0] - top[1]) for top in (each[0].topk(2).values for each in result.logits)]
    return Greedy(result.sequences[0, len(prompt) :].tolist(), min(gaps))


def shortfalls(model: Any, prompt: Sequence[int], output: Sequence[int]) -> list[float]:  # noqa: ANN401
    """By teacher forcing: how far below the largest logit each emitted token is."""
    line = [*prompt, *output]
    with torch.no_grad():
        logits = model(torch.tensor([line])).logits[0, len(prompt) - 1 : -1].float()
    chosen = logits.gather(1, torch.tensor(list(output))[:, None])[:, 0]
    short: list[float] = (logits.max(dim=-1).values - chosen).tolist()
    return short
