"""The bias from token to token, by the kernel: the likeliest tokens that double precision finds, the lowest of equals.

Numbers are small whole ones, so that sums are exact in every order and equals are many: tokens must be the same.
"""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from engine.errors import EngineError
from engine.kernels.sampling import summarise
from engine.markov_triton import WIDEST, MarkovBias, fits

CHUNK = 32


class Bias:
    """A bias between vocabularies of `target` and `own` tokens, and what it should do."""

    def __init__(
        self, source: np.random.Generator, target: int, own: int, rank: int, kind: torch.dtype
    ) -> None:
        def whole(*shape: int) -> Tensor:
            return torch.from_numpy(source.integers(-2, 3, shape)).to(kind)

        chosen = np.sort(source.permutation(target)[:own])
        self.ids = None if own == target else torch.from_numpy(chosen)
        self.table, self.to = whole(target, rank), whole(own, rank)
        self.kernel = MarkovBias(self.table, self.to, self.ids, chunk=CHUNK, step=16)

    def biased(self, base_RU: Tensor, narrow_RM: Tensor) -> Tensor:
        return base_RU.double() + narrow_RM.double() @ self.to.double().T

    def said(self, token_R: Tensor) -> Tensor:
        return token_R if self.ids is None else self.ids[token_R]

    def reference(
        self, base_JRU: Tensor, before_R: Tensor, narrow: Callable[[int, Tensor], Tensor]
    ) -> tuple[Tensor, Tensor]:
        tokens, chances = [], []
        for slot, base_RU in enumerate(base_JRU):
            logits_RU = self.biased(base_RU, narrow(slot, before_R))
            before_R = self.said(torch.from_numpy(logits_RU.numpy().argmax(-1)))  # the lowest id
            tokens.append(before_R)
            chances.append(logits_RU.softmax(-1).amax(-1))
        return torch.stack(tokens), torch.stack(chances)


SHAPES = [
    # slots, mirrors, target's tokens, the head's, rank
    (1, 1, CHUNK, CHUNK, 16),
    (3, 2, 50, 50, 8),
    (2, 3, 2 * CHUNK + 1, 2 * CHUNK + 1, 20),
    (7, 17, 90, 70, 16),
    (2, 70, 40, 33, 24),
    (3, 5, 20, 1, 8),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16], ids=str)
def test_every_slot_follows_from_the_token_before_it(
    shape: tuple[int, int, int, int, int], kind: torch.dtype
) -> None:
    slots, mirrors, target, own, rank = shape
    source = np.random.default_rng(sum(shape))
    bias = Bias(source, target, own, rank, kind)
    base = torch.from_numpy(source.integers(-3, 4, (slots, mirrors, own))).float()
    before = torch.from_numpy(source.integers(0, target, mirrors))
    tokens, chances = bias.kernel.likeliest(base, before)
    right, likely = bias.reference(base, before, lambda _, token_R: bias.table[token_R])
    assert torch.equal(tokens, right)
    torch.testing.assert_close(chances.double(), likely, atol=1e-5, rtol=1e-5)


@pytest.mark.full
def test_ragged_shapes_that_chance_finds() -> None:
    for seed in range(60):
        source = np.random.default_rng(seed)
        target = int(source.integers(1, 150))
        own = int(source.integers(1, target + 1))
        slots, mirrors, rank = (int(source.integers(1, most)) for most in (9, 40, 70))
        bias = Bias(source, target, own, rank, torch.bfloat16 if seed % 2 else torch.float32)
        base = torch.from_numpy(source.integers(-9, 10, (slots, mirrors, own))).float()
        before = torch.from_numpy(source.integers(0, target, mirrors))
        tokens, _ = bias.kernel.likeliest(base, before)
        right, _ = bias.reference(base, before, lambda _, token_R: bias.table[token_R])  # noqa: B023  # called at once
        assert torch.equal(tokens, right), seed


def test_of_equals_the_lowest_wins_within_chunks_and_between_them() -> None:
    bias = Bias(np.random.default_rng(0), 3 * CHUNK, 3 * CHUNK, 8, torch.float32)
    bias.to.zero_()
    base = torch.zeros(3, 1, 3 * CHUNK)
    base[0, 0, [2 * CHUNK, CHUNK + 3, CHUNK + 1]] = 1.0
    base[1] = -0.0
    base[1, 0, 5:] = 0.0
    base[2] = -torch.inf
    tokens, _ = bias.kernel.likeliest(base, torch.tensor([4]))
    assert tokens.tolist() == [[CHUNK + 1], [0], [0]]


def test_negative_logits_are_ordered_as_numbers_and_what_is_no_number_never_wins() -> None:
    bias = Bias(np.random.default_rng(0), 2 * CHUNK, 2 * CHUNK, 8, torch.float32)
    bias.to.zero_()
    base = torch.linspace(-9.0, -1.0, 2 * CHUNK).roll(7).expand(2, 1, -1).clone()
    base[1, 0, 40] = torch.nan
    tokens, chances = bias.kernel.likeliest(base, torch.tensor([4]))
    assert tokens.tolist() == [[6], [6]]
    assert float(chances[0, 0]) == pytest.approx(float(base[0, 0].softmax(-1).max()), abs=1e-6)


def test_a_row_of_ones_own_may_stand_for_the_token_before() -> None:
    """As the gated and the rnn form have it: the kernel is told what they made of it, and the tokens are theirs."""
    source = np.random.default_rng(3)
    bias = Bias(source, 90, 70, 16, torch.float32)
    base = torch.from_numpy(source.integers(-3, 4, (4, 5, 70))).float()
    before = torch.from_numpy(source.integers(0, 90, 5))

    def narrow(slot: int, token_R: Tensor) -> Tensor:
        return bias.table[(token_R + slot) % 90] * 2

    tokens, _ = bias.kernel.likeliest(base, before, narrow)
    assert torch.equal(tokens, bias.reference(base, before, narrow)[0])


@pytest.mark.parametrize("mirrors", [1, 18])
def test_biased_logits_are_written_and_summed_up_where_tokens_are_drawn(mirrors: int) -> None:
    """The notes of the chunks are those of the kernel whose pass they spare."""
    source = np.random.default_rng(mirrors)
    bias = Bias(source, 70, 70, 16, torch.float32)
    base = torch.from_numpy(source.integers(-3, 4, (mirrors, 70))).float()
    narrow = torch.from_numpy(source.integers(-2, 3, (mirrors, 16))).float()
    heat = torch.from_numpy(source.uniform(0.3, 2.0, mirrors)).float()
    logits = base.clone()
    made = bias.kernel.add(logits, narrow, heat)
    assert torch.equal(logits.double(), bias.biased(base, narrow))
    top, best, total = (torch.empty_like(each) for each in (made.top_NC, made.best_NC, made.sum_NC))
    summarise[(mirrors, 3)](
        logits, best, best, top, best, total, heat, 70, 3, 0, BLOCK=CHUNK, MASKS=False
    )
    assert torch.equal(made.top_NC, top)
    assert torch.equal(made.best_NC, best)
    torch.testing.assert_close(made.sum_NC, total, atol=1e-5, rtol=1e-5)


def test_a_bias_that_is_too_wide_is_refused() -> None:
    for dtype in (torch.float32, torch.bfloat16):
        most = WIDEST // dtype.itemsize
        wide = torch.zeros(3, most + 1, dtype=dtype)
        assert (fits(wide), fits(wide[:, :most])) == (False, True)
        with pytest.raises(EngineError, match=f"rank {most} at most, not {most + 1}"):
            MarkovBias(wide, wide)
