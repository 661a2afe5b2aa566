"""Simulated acceptance, on rounds that are short enough to count on paper."""

import pytest

from drafter.training.rounds import Acceptance, walk, whole


def test_rounds_go_on_behind_what_was_emitted() -> None:
    """Anchors 0, 3, 4 keep two, none and one guess; tokens 1 and 2 are never anchors."""
    found = walk([2, 9, 9, 0, 1], 2)
    assert found == Acceptance(3, (2, 1))
    assert found.mean_emitted == 2.0
    assert list(found.by_position) == pytest.approx([2 / 3, 0.5])


def test_nothing_right_is_plain_decoding() -> None:
    assert walk([0, 0, 0], 4).mean_emitted == 1.0


def test_an_answer_of_one_token_has_no_rounds() -> None:
    assert walk([], 4) == Acceptance(0, (0, 0, 0, 0))


def test_parts_add_up() -> None:
    assert whole([walk([1], 2), walk([2], 2)], 2) == Acceptance(2, (2, 1))
