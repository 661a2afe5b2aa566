"""Which amounts of tokens a kernel sums alike is found out by its own results."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from engine.attention_sdpa import habits
from engine.linear import Packed
from engine.steady import (
    ANY,
    BLOCK,
    CHOICES,
    COMPANIES,
    KEYS,
    SIZES,
    Amounts,
    Company,
    find,
    rounding,
)

HABITS: list[tuple[Callable[[int], float], Amounts | None]] = [
    (lambda _: 0.0, ANY),
    (lambda tokens: float(tokens == 1), Amounts(2)),
    (lambda tokens: float(tokens > 40), Amounts(1, 32)),
    (lambda tokens: float(tokens == 1) + float(tokens > 40), Amounts(2, 32)),
    (lambda tokens: float(tokens == 1) + float(tokens > 9), Amounts(2, 8)),
    (float, None),
]


@pytest.mark.parametrize(("error", "amounts"), HABITS)
def test_a_product_is_given_what_it_sums_alike(
    error: Callable[[int], float], amounts: Amounts | None
) -> None:
    """A kernel whose error depends on the number of tokens is kept to the first amounts in which it does not."""

    def product(x_TI: Tensor) -> Tensor:
        return x_TI + error(len(x_TI))

    found = find([product], torch.ones(1, 4), CHOICES)
    assert found == amounts
    if found is None:
        return
    kept = found.keep(product)
    alone = kept(torch.ones(1, 4))
    for size in SIZES:
        assert torch.equal(kept(torch.ones(size, 4)), alone.expand(size, 4))
    assert kept(torch.ones(0, 4)).shape == (0, 4)


def test_rows_of_one_product_that_differ_are_seen() -> None:
    def product(x_TI: Tensor) -> Tensor:
        return x_TI + (torch.arange(len(x_TI)) // 8 % 2)[:, None]  # every second block of eight

    assert find([product], torch.ones(1, 4), CHOICES) == Amounts(1, 8)


def test_every_product_must_agree() -> None:
    first: list[Callable[[Tensor], Tensor]] = [lambda x: x + float(len(x) == 1), lambda x: x]
    assert find(first, torch.ones(1, 4), CHOICES) == Amounts(2)


def test_pieces_come_back_in_order() -> None:
    kept = Amounts(2, 8).keep(lambda x, y: 10 * x + y)
    x_TI, y_TO = torch.arange(17.0)[:, None], torch.ones(17, 1)
    assert torch.equal(kept(x_TI, y_TO), 10 * x_TI + y_TO)


def test_queries_left_over_of_blocks() -> None:
    def attention(q_XD: Tensor) -> Tensor:
        rest = len(q_XD) % BLOCK
        errors_X = torch.zeros(len(q_XD))
        if 0 < rest < 3:
            errors_X[-rest:] = 1
        return q_XD + errors_X[:, None]

    assert find([attention], torch.ones(1, 4), COMPANIES) == Company(3)
    assert [Company(3).lack(each) for each in (1, 2, 3, 31, 32, 33, 64)] == [2, 1, 0, 0, 0, 2, 0]


@pytest.mark.parametrize(("outputs", "inputs"), [(5, 7), (2000, 64), (64, 1537)])
def test_rounding_errors_are_all_that_comes_out(outputs: int, inputs: int) -> None:
    weight_OI, token_1I, nought_1O = rounding(outputs, inputs, torch.bfloat16)
    assert weight_OI.shape == (outputs, inputs)
    exact_1O = token_1I.double() @ weight_OI.double().T
    assert torch.equal(exact_1O, nought_1O.double())
    assert float(weight_OI.float().abs().mean()) > 0.5


@pytest.mark.skipif(not Packed.supported(), reason="this CPU has no products of bfloat16")
def test_the_kernels_of_this_machine_have_habits_that_can_be_kept() -> None:
    found = habits(64, torch.bfloat16)
    assert found.company in COMPANIES
    assert 0 in found.lengths
    assert max(found.lengths) < KEYS
