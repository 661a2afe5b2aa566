"""Float32 logits in memory that is used again, and what may be overwritten."""

import torch

from engine.widening import Widening


def random(rows: int) -> torch.Tensor:
    return torch.randn(rows, 7).bfloat16()


def test_logits_are_the_same_numbers_in_float32() -> None:
    wide = Widening(4)
    for rows in (3, 0, 1, 4, 5):
        logits_NV = random(rows)
        assert wide(logits_NV).dtype is torch.float32
        assert torch.equal(wide(logits_NV), logits_NV.float())


def test_few_rows_lie_where_those_before_them_lay() -> None:
    wide = Widening(4)
    first = wide(random(3))
    assert wide(random(2)).data_ptr() == first.data_ptr()
    assert wide(random(4)).data_ptr() == first.data_ptr()


def test_many_rows_or_a_widening_that_keeps_nothing_leave_what_was_said_before() -> None:
    for wide, rows in ((Widening(4), 5), (Widening(0), 1)):
        first = wide(random(rows))
        said = first.clone()
        wide(random(rows))
        assert torch.equal(first, said)


def test_what_is_wide_already_is_not_copied() -> None:
    logits_NV = torch.randn(2, 7)
    assert Widening(4)(logits_NV) is logits_NV
