"""Heads that begin by looking: at the newest state whoever asks, and from masks at the block's own token."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from drafter.training.arithmetic import Rotary
from drafter.training.block import Blocks, Shape
from drafter.training.looking import SHARP, Near, directions, narrowed
from drafter.training.target import Dense
from tests.drafter import dense
from tests.models import write_byte_llama

SIZE = 7


def rotary(size: int = 64, base: float = 1e5) -> Rotary:
    angles = torch.arange(300)[:, None] * base ** (-torch.arange(0, size, 2) / size)
    sin = angles.sin()
    return Rotary(torch.cat((angles.cos(), angles.cos()), -1), torch.cat((-sin, sin), -1))


def shares(query: Tensor, key: Tensor, turns: Rotary, newest: int) -> Tensor:
    """What keys get that stand so far and farther before a query."""
    query, key = (torch.nn.functional.rms_norm(x, x.shape) for x in (query, key))
    away = torch.arange(newest, 257)
    scores = turns.turn(query.expand(len(away), 1, -1), away)[:, 0] @ key
    found: Tensor = (SHARP * scores / len(key) ** 0.5).softmax(0)
    return found


def test_the_newest_state_gets_the_most_of_every_slot() -> None:
    turns = rotary()
    near = Near.find(turns, SIZE)
    assert shares(near.from_token, near.key, turns, 1)[0] > 0.7
    for slot in range(1, 5):
        share = shares(near.from_mask, near.key, turns, slot + 1)
        assert share.argmax() == 0
        assert share[0] > 0.3


def test_a_direction_is_one_along_which_groups_agree() -> None:
    noise = torch.randn(500, 8, generator=torch.Generator().manual_seed(0))
    apart = torch.eye(8)[0] * 5
    [found] = directions((noise + apart, noise - apart), [(1, -1)])
    assert ((noise + apart) @ found - 1).abs().mean() < 0.2
    assert ((noise - apart) @ found + 1).abs().mean() < 0.2


def test_mlps_keep_their_heaviest_neurons_in_their_order() -> None:
    gate, up, down = torch.ones(4, 2), torch.ones(4, 2), torch.tensor([[1.0, 9, 0, 5]]).repeat(2, 1)
    assert torch.equal(narrowed(gate, up, down, 2)[2], torch.tensor([[9.0, 5], [9, 5]]))
    assert torch.equal(narrowed(gate, up, down, 9)[2], down)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Dense:
    folder: Path = tmp_path_factory.mktemp("target")
    write_byte_llama(folder)
    return Dense(folder, dtype=torch.float32)


def test_a_fresh_block_carries_the_newest_state(target: Dense) -> None:
    """The first layer's attention depends on the newest state before a block far more than on those before it."""
    shape = replace(Shape(), size=SIZE, from_anchor=True, mask=16)
    blocks = Blocks(target, (0, 1, 2), shape)
    w = blocks.fresh(torch.Generator().manual_seed(0))
    generator = torch.Generator().manual_seed(1)
    rows = torch.randn(12, 3 * target.shape.hidden, generator=generator)
    ids = torch.tensor([40] + [16] * (SIZE - 1))
    known = {**w, "embed_tokens.weight": target.embedding_VH.float()}

    def said(states: Tensor) -> Tensor:
        context = dense.rms(states @ w["fc.weight"].T, w["hidden_norm.weight"])
        return dense.block(known, ids, context, 1)

    plain = said(rows)
    moved = []
    for place in (11, 10, 5):
        changed = rows.clone()
        changed[place] = torch.randn(rows.shape[1], generator=generator)
        moved.append((said(changed) - plain).norm(dim=-1)[:3].mean().item())
    assert moved[0] > 2 * max(moved[1:])
