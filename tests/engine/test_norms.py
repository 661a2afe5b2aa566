"""Norms in tiles are those of torch, row by row."""

import pytest
import torch
from torch.nn.functional import rms_norm as whole

from engine.norms import TILE, rms_norm

EPS = 1e-5


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("rows", [0, 1, 9, TILE // 64 + 3])
def test_a_norm_is_torch_s_but_for_the_last_bit(dtype: torch.dtype, rows: int) -> None:
    torch.manual_seed(1)
    x_TH = torch.randn(rows, 64).mul_(30).to(dtype)
    weight_H = torch.randn(64).to(dtype)
    exact_TH = whole(x_TH.double(), (64,), weight_H.double(), EPS)
    normed_TH = rms_norm(x_TH, weight_H, EPS)
    assert normed_TH.dtype is dtype
    half_step = torch.finfo(dtype).eps / 2
    assert torch.allclose(normed_TH.double(), exact_TH, rtol=1.01 * half_step + 5e-7, atol=6e-8)


def test_heads_are_normed_each_by_itself() -> None:
    x_TXD = torch.randn(5, 3, 16).bfloat16()
    weight_D = torch.randn(16).bfloat16()
    by_rows = rms_norm(x_TXD.view(-1, 16), weight_D, EPS).view_as(x_TXD)
    assert torch.equal(rms_norm(x_TXD, weight_D, EPS), by_rows)
    many_TXD = torch.randn(TILE // 48 + 5, 3, 16).bfloat16()
    by_rows = rms_norm(many_TXD.view(-1, 16), weight_D, EPS).view_as(many_TXD)
    assert torch.equal(rms_norm(many_TXD, weight_D, EPS), by_rows)
    part, by_rows = x_TXD[:, :2], rms_norm(x_TXD, weight_D, EPS)
    assert torch.equal(rms_norm(part, weight_D, EPS), by_rows[:, :2])


def test_a_row_has_the_same_bits_alone_and_among_many() -> None:
    rows = TILE // 64 + 3
    x_TH = torch.randn(rows, 64).bfloat16()
    weight_H = torch.randn(64).bfloat16()
    together = rms_norm(x_TH, weight_H, EPS)
    alone = torch.cat([rms_norm(x_TH[n : n + 1], weight_H, EPS) for n in range(rows)])
    assert torch.equal(together, alone)


def test_what_is_normed_is_left_as_it_was() -> None:
    x_TH = torch.randn(3, 8).bfloat16()
    before = x_TH.clone()
    rms_norm(x_TH, torch.ones(8).bfloat16(), EPS)
    assert torch.equal(x_TH, before)
