"""What heads are trained on: pure functions of logits and distributions. All but the fused one give one number a row.

Shapes: N rows, H hidden, U vocabulary of the head, J slots of a block.
"""

from typing import Any, Final

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits


def soft_cross_entropy(logits_NU: Tensor, wanted_NU: Tensor) -> Tensor:
    """The cross entropy of the target's distribution and the head's, [N]."""
    return -(wanted_NU * logits_NU.log_softmax(-1)).sum(-1)


ROWS_AT_ONCE: Final = 512
"""Logits of so many rows stay in the caches of a CPU."""


class _Fused(torch.autograd.Function):
    """Gradients are made on the way, so that no logits are kept."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        x_NH: Tensor,
        head_UH: Tensor,
        final_NH: Tensor,
        rows_UH: Tensor,
    ) -> Tensor:
        total = torch.zeros((), device=x_NH.device)
        dx_NH = torch.empty_like(x_NH)
        dhead_UH = torch.zeros_like(head_UH, dtype=torch.float32)
        for start in range(0, len(x_NH), ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            x = x_NH[part]
            wanted_NU = (final_NH[part] @ rows_UH.T).float().softmax(-1)
            logits_NU = (x @ head_UH.T).float()
            sum_N1 = logits_NU.logsumexp(-1, keepdim=True)
            total += sum_N1.sum() - torch.dot(wanted_NU.flatten(), logits_NU.flatten())
            slope_NU = logits_NU.sub_(sum_N1).exp_().sub_(wanted_NU).to(x.dtype)
            dx_NH[part] = slope_NU @ head_UH
            dhead_UH += slope_NU.T @ x
        ctx.save_for_backward(dx_NH, dhead_UH.to(head_UH.dtype))
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # noqa: ANN401
        dx_NH, dhead_UH = ctx.saved_tensors
        return grad * dx_NH, grad * dhead_UH, None, None


def fused_cross_entropy(x_NH: Tensor, head_UH: Tensor, final_NH: Tensor, rows_UH: Tensor) -> Tensor:
    """The sum over all rows of `soft_cross_entropy`, of logits `x head` and the target's own `final rows`."""
    total: Tensor = _Fused.apply(x_NH, head_UH, final_NH, rows_UH)  # type: ignore[no-untyped-call]
    return total


def total_variation(logits_NU: Tensor, wanted_NU: Tensor) -> Tensor:
    """Half the sum of absolute differences, [N]: what a ratio test rejects."""
    return (logits_NU.softmax(-1) - wanted_NU).abs().sum(-1) / 2


def confidence(logit_N: Tensor, variation_N: Tensor) -> Tensor:
    """Binary cross entropy of a confidence with what a ratio test accepts, which is taken as given, [N]."""
    accepted_N = (1 - variation_N).detach()
    return binary_cross_entropy_with_logits(logit_N, accepted_N, reduction="none")


def mean(loss_N: Tensor, weight_N: Tensor) -> Tensor:
    """The weighted mean; 0 where nothing weighs."""
    return (loss_N * weight_N).sum() / weight_N.sum().clamp(min=1e-9)


def slot_weights(slots: int, decay: float) -> Tensor:
    """Weights [J] of the guesses of a block: exp(-j / decay)."""
    return torch.exp(-torch.arange(slots) / decay)


def step_weights(steps: int, decay: float) -> Tensor:
    """Weights of the steps of a chain: decay to the power of the step."""
    return decay ** torch.arange(steps)
