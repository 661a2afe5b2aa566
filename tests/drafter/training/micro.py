"""A tiny target, texts that it said, and heads for it."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from drafter.training.block import Shape
from drafter.training.dflash import DFlash
from drafter.training.dspark import DSpark
from drafter.training.eagle3 import Eagle3
from drafter.training.features import Batch, Features, Line
from drafter.training.methods import Method, states
from drafter.training.target import Dense
from tests.models import VOCABULARY

MASK = 4


def fluent(model: Any, steps: int) -> Any:  # noqa: ANN401
    """The same target, trained on phrases that repeat themselves."""
    rng = random.Random("fluent")
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for _ in range(steps):
        phrases = [_phrase(rng) for _ in range(16)]
        ids = torch.tensor([(phrase * 32)[:64] for phrase in phrases])
        optimiser.zero_grad()
        torch.autograd.backward(model(input_ids=ids, labels=ids).loss)
        optimiser.step()
    return model


def _phrase(rng: random.Random) -> list[int]:
    return [rng.randrange(5, 60) for _ in range(rng.randrange(2, 6))]


def spoken(model: Any, count: int, length: int = 24) -> list[Line]:  # noqa: ANN401
    """Greedy answers to prompts that repeat themselves."""
    lines: list[Line] = []
    for number in range(count):
        rng = random.Random(f"micro {number}")
        phrase = _phrase(rng)
        prompt = (phrase * 12)[: rng.randrange(8, 24)]
        with torch.no_grad():
            whole = model.generate(
                torch.tensor([prompt]), max_new_tokens=length, do_sample=False, eos_token_id=None
            )
        lines.append(Line(tuple(whole[0].tolist()), len(prompt), "chat", sampled=False))
    return lines


def make(name: str, target: Dense, vocabulary: Sequence[int] = range(VOCABULARY)) -> Method:
    """With blocks of four guesses."""
    read, ids = states(target.shape.layers), torch.tensor(vocabulary)
    if name == "dflash":
        return DFlash(target, read, ids, Shape(size=5, mask=MASK))
    if name == "dspark":
        return DSpark(target, read, ids, Shape(size=4, from_anchor=True, mask=MASK))
    return Eagle3(target, read, ids)


def taught(method: Method, batch: Batch, steps: int) -> tuple[dict[str, Tensor], list[float]]:
    """Weights after so many steps on one batch, and the losses on the way."""
    w = {n: each.requires_grad_() for n, each in method.fresh(torch.Generator()).items()}
    optimiser = torch.optim.AdamW(list(w.values()), lr=3e-3)
    generator = torch.Generator().manual_seed(0)
    losses: list[float] = []
    for _ in range(steps):
        optimiser.zero_grad()
        loss = method.loss(w, batch, generator)
        torch.autograd.backward(loss)
        optimiser.step()
        losses.append(float(loss.detach()))
    return {name: each.detach() for name, each in w.items()}, losses


def features(target: Dense, method: Method, lines: Sequence[Line], folder: Path | None) -> Features:
    return Features(target, method.states, lines, folder)
