"""Confidence that means what it says: one temperature a position, fitted from the first to the last.

Shapes: N blocks, J positions, S bins.
"""

from typing import Final

import torch
from torch import Tensor

BINS: Final = 15
GRID: Final = torch.logspace(-1.2, 1.2, 97)


def calibration_error(chance_N: Tensor, happened_N: Tensor, bins: int = BINS) -> float:
    """The expected calibration error: over bins of equal width, how far what happened is from what was said."""
    place_N = (chance_N * bins).long().clamp(max=bins - 1)
    size_S = torch.zeros(bins).index_add_(0, place_N, torch.ones_like(chance_N))
    said_S = torch.zeros(bins).index_add_(0, place_N, chance_N)
    was_S = torch.zeros(bins).index_add_(0, place_N, happened_N.to(chance_N))
    return float((said_S - was_S).abs().sum() / size_S.sum().clamp(min=1))


def survivals(logit_NJ: Tensor, temperatures_J: Tensor) -> Tensor:
    """The chance [N, J] that a guess and all before it are accepted."""
    return torch.sigmoid(logit_NJ / temperatures_J).cumprod(-1)


def temperatures(logit_NJ: Tensor, kept_NJ: Tensor) -> list[float]:
    """Temperatures that make the error of the survivals least, each fitted with those before it.

    `kept_NJ` says whether a guess and all before it were accepted. Of equals the one nearest to 1 is taken.
    """
    fitted: list[float] = []
    before_N = torch.ones(len(logit_NJ))
    candidates = sorted(GRID.tolist(), key=lambda each: abs(torch.tensor(each).log().item()))
    for position in range(logit_NJ.shape[1]):
        logit_N, kept_N = logit_NJ[:, position], kept_NJ[:, position]

        def error(
            heat: float, logit_N: Tensor = logit_N, kept_N: Tensor = kept_N, at: Tensor = before_N
        ) -> float:
            return calibration_error(at * torch.sigmoid(logit_N / heat), kept_N)

        fitted.append(min(candidates, key=error))
        before_N = before_N * torch.sigmoid(logit_N / fitted[-1])
    return fitted
