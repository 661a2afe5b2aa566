"""Prompts that share no beginning, and what the model says to them."""

from typing import Any, Final

import torch

OUTPUT: Final = 16


def prompt(length: int, salt: int) -> list[int]:
    """Token ids; those of 250 salts begin differently."""
    return [5 + (7 * index * index + 3 * index + 11 * salt) % 250 for index in range(length)]


def wanted(model: Any, tokens: list[int]) -> list[int]:  # noqa: ANN401
    """What `transformers` says."""
    ids = torch.tensor([tokens])
    with torch.no_grad():
        out = model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=OUTPUT, do_sample=False
        )
    found: list[int] = out[0, len(tokens) :].tolist()
    return found
