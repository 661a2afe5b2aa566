"""Losses against values that were worked out by hand, for p = (.5, .3, .2) and q = (.7, .2, .1)."""

from math import exp, log

import pytest
import torch

from drafter.training import losses

P = torch.tensor([[0.5, 0.3, 0.2]])
Q = torch.tensor([[0.7, 0.2, 0.1]])
LOGITS = Q.log() + 3.0  # a constant changes no distribution


def test_soft_cross_entropy_is_what_the_definition_says() -> None:
    by_hand = -(0.5 * log(0.7) + 0.3 * log(0.2) + 0.2 * log(0.1))
    assert losses.soft_cross_entropy(LOGITS, P).item() == pytest.approx(by_hand)


def test_total_variation_is_what_a_ratio_test_rejects() -> None:
    """Kept is min(p, q) = .5 + .2 + .1, so .2 is rejected."""
    assert losses.total_variation(LOGITS, P).item() == pytest.approx(0.2)


def test_confidence_is_least_where_it_says_the_acceptance() -> None:
    variation = torch.tensor([0.2])
    right = log(0.8 / 0.2)
    at = [losses.confidence(torch.tensor([right + by]), variation).item() for by in (-0.1, 0, 0.1)]
    assert at[1] == pytest.approx(-(0.8 * log(0.8) + 0.2 * log(0.2)))
    assert at[1] < min(at[0], at[2])


def test_confidence_does_not_teach_the_head_to_be_accepted() -> None:
    variation = torch.tensor([0.2], requires_grad=True)
    logit = torch.tensor([0.0], requires_grad=True)
    torch.autograd.backward(losses.confidence(logit, variation).sum())
    assert variation.grad is None
    assert logit.grad is not None
    assert logit.grad.item() == pytest.approx(0.5 - 0.8)


def test_a_mean_is_weighted_and_nothing_gives_nothing() -> None:
    assert losses.mean(torch.tensor([1.0, 4.0]), torch.tensor([3.0, 1.0])).item() == 1.75
    assert losses.mean(torch.empty(0), torch.empty(0)).item() == 0.0


def test_weights_of_slots_and_steps_decay() -> None:
    assert losses.slot_weights(3, 4.0).tolist() == pytest.approx([1, exp(-0.25), exp(-0.5)])
    assert losses.step_weights(3, 0.8).tolist() == pytest.approx([1, 0.8, 0.64])


def test_the_fused_loss_and_its_gradients_are_those_of_the_plain_one() -> None:
    make = torch.Generator().manual_seed(3)
    rows, hidden, vocabulary = 2 * losses.ROWS_AT_ONCE + 5, 8, 11
    x, final = (torch.randn(rows, hidden, generator=make, dtype=torch.float64) for _ in range(2))
    head, known = (
        torch.randn(vocabulary, hidden, generator=make, dtype=torch.float64) for _ in range(2)
    )
    x, head = x.float().requires_grad_(), head.float().requires_grad_()
    final, known = final.float(), known.float()
    plain = losses.soft_cross_entropy(x @ head.T, (final @ known.T).softmax(-1)).sum()
    wanted = torch.autograd.grad(2 * plain, (x, head))
    fused = losses.fused_cross_entropy(x, head, final, known)
    found = torch.autograd.grad(2 * fused, (x, head))
    assert fused.item() == pytest.approx(plain.item(), rel=1e-5)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
