"""A plan of a GPU's memory says its numbers, and is refused with them."""

import pytest

from engine.allotment import GIB, Allotment, Sizes
from engine.errors import EngineError

PARTS = {"weights": 15 * GIB, "pages": 8 * GIB, "graphs": GIB, "buffers": GIB}


def test_a_plan_that_fits_says_what_it_takes() -> None:
    plan = Allotment(PARTS, 80 * GIB, 0.5)
    plan.check()
    assert plan.text == (
        "GPU memory in GiB: weights 15.00, pages 8.00, graphs 1.00, buffers 1.00; "
        "25.00 of 40.00 (50% of 80.00)"
    )


def test_an_impossible_plan_is_refused_with_the_numbers() -> None:
    with pytest.raises(
        EngineError, match=r"the plan does not fit, by 1\.00 GiB\. .*25\.00 of 24\.00"
    ):
        Allotment(PARTS, 40 * GIB, 0.6).check()


def test_what_a_forward_takes_grows_with_its_tokens() -> None:
    few, many = (
        Sizes(
            vocab=100, hidden=8, intermediate=16, heads=4, kv_heads=2, head_dim=2, tokens=tokens,
            itemsize=2,
        )
        for tokens in (1, 10)
    )  # fmt: skip
    assert few.forward == (4 * 8 + 12 * 2 + 3 * 16 + 100) * 2 + 400
    assert many.forward == 10 * few.forward
    assert many.logits == 10 * 2 * 400
