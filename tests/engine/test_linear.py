"""Each kind of product against plain arithmetic, for few and for many tokens."""

from typing import Final

import pytest
import torch
from torch.nn.functional import silu

from engine.linear import Packed, Products, Transposed, products

KINDS: Final[list[tuple[Products, torch.dtype, float]]] = [
    (Transposed(), torch.float32, 1e-5),
    (Transposed(), torch.bfloat16, 2e-2),
    *([(Packed(), torch.bfloat16, 1e-2)] if Packed.supported() else []),
]
TOKENS: Final = (0, 1, 5, 32, 67)


def close(ours: torch.Tensor, exact: torch.Tensor, tolerance: float) -> None:
    torch.testing.assert_close(ours.double(), exact, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize(("kind", "dtype", "tolerance"), KINDS)
@pytest.mark.parametrize("tokens", TOKENS)
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(("inputs", "outputs"), [(24, 40), (40, 24)])
def test_products(
    *,
    kind: Products,
    dtype: torch.dtype,
    tolerance: float,
    tokens: int,
    biased: bool,
    inputs: int,
    outputs: int,
) -> None:
    torch.manual_seed(0)
    first_OI, second_OI = (0.2 * torch.randn(2, outputs, inputs)).to(dtype)
    biases_2O = torch.randn(2, outputs).to(dtype) if biased else torch.zeros(2, outputs).to(dtype)
    bias_O, given_2O = (biases_2O[0], biases_2O) if biased else (None, None)
    x_TI, y_TO = torch.randn(tokens, inputs).to(dtype), torch.randn(tokens, outputs).to(dtype)
    before_TO = y_TO.clone()

    one_TO = x_TI.double() @ first_OI.double().T + biases_2O[0].double()
    two_TO = x_TI.double() @ second_OI.double().T + biases_2O[1].double()
    close(kind.plain(first_OI, bias_O)(x_TI), one_TO, tolerance)
    close(kind.added(first_OI, bias_O)(x_TI, y_TO), y_TO.double() + one_TO, tolerance)
    close(kind.gated(first_OI, second_OI, given_2O)(x_TI), silu(one_TO) * two_TO, 2 * tolerance)
    assert torch.equal(y_TO, before_TO)


def test_float32_is_float32_throughout() -> None:
    assert isinstance(products(torch.float32), Transposed)
