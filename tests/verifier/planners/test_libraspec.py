"""LibraSpec: the worked examples and fixed points of `methods.md` 3.5, which were computed apart from this code."""

import pytest

from tests.verifier.planners.rig import planner, tails
from verifier.planner import Looks
from verifier.planners.libraspec import bound, extended, submitted

SECOND = (0.98, 0.97, 0.95, 0.92, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)
THIRD = (0.98, 0.97, 0.95, 0.92, 0.95, 0.90, 0.25, 0.2, 0.2, 0.2, 0.2, 0.2)
LONG = (0.99, 0.97, 0.96, 0.95, 0.93, 0.96, 0.9, 0.88, 0.92, 0.9, 0.85, 0.9, 0.8, 0.6, 0.3, 0.35)
SURE = (*[0.99] * 16, 0.95, 0.95, 0.94, 0.93, 0.92, *[0.9] * 11)


def test_a_weak_end_is_rolled_back_once() -> None:
    assert bound((0.95, 0.9, 0.3, 0.2), 4, 2.0) == 3
    assert submitted((0.95, 0.9, 0.3, 0.2), 4, 12, 2.0) == (3, 4)


def test_each_step_of_the_second_example() -> None:
    assert [bound(SECOND, length, 2.0) for length in range(4, 11)] == [5, 6, 7, 8, 9, 10, 10]
    assert submitted(SECOND, 4, 12, 2.0) == (10, 12)


def test_the_third_example_keeps_the_weak_token_that_stopped_it() -> None:
    assert [bound(THIRD, length, 2.2) for length in (4, 6, 7)] == [6, 7, 7]
    assert submitted(THIRD, 4, 12, 2.2) == (7, 8)


def test_the_sizes_of_the_paper() -> None:
    assert submitted(LONG, 16, 24, 2.2).length == 15
    assert submitted(SURE, 16, 24, 2.2) == (24, 32)


@pytest.mark.parametrize(
    ("confidence", "expected"),
    [
        (0.97, (51, 60)), (0.95, (30, 30)), (0.9, (14, 20)), (0.8, (8, 10)),
        (0.7, (5, 10)), (0.6, (3, 10)), (0.5, (2, 10)),
    ],
)  # fmt: skip
def test_fixed_points_of_blocks_of_ten(confidence: float, expected: tuple[int, int]) -> None:
    assert submitted([confidence] * 80, 10, 60, 2.0) == expected


@pytest.mark.parametrize(
    ("confidence", "expected"),
    [(0.99, (24, 32)), (0.95, (24, 32)), (0.9, (17, 32)), (0.8, (9, 16)), (0.7, (6, 16)), (0.5, (3, 16))],
)  # fmt: skip
def test_fixed_points_of_blocks_of_sixteen(confidence: float, expected: tuple[int, int]) -> None:
    assert submitted([confidence] * 40, 16, 24, 2.2) == expected


def test_the_longest_window_bounds_the_first_block_too() -> None:
    assert submitted([1.0] * 9, 8, 3, 2.0) == (3, 8)


def test_a_tail_that_ends_is_taken_as_far_as_it_goes() -> None:
    assert submitted([1.0] * 5, 4, 12, 2.0).length == 5
    assert submitted([], 4, 12, 2.0) == (0, 0)


def test_the_careful_one_never_lets_a_token_decide_about_itself() -> None:
    """Changing the confidence of a token, and of all behind it, never changes whether it enters."""
    for confidences in (SECOND, THIRD, LONG, SURE):
        for place in range(len(confidences)):
            for other in (0.0, 0.5, 1.0):
                changed = (*confidences[:place], *[other] * (len(confidences) - place))
                enters = extended(confidences, 24, 2.2) > place
                assert enters == (extended(changed, 24, 2.2) > place)


def test_settings_reach_it_and_care_changes_what_it_looks_at() -> None:
    own = {"alpha": 2.2, "block": 4, "most": 12}
    assert planner("libraspec", libraspec=own).lengths(tails(THIRD), 99) == [7]
    assert planner("libraspec", libraspec=own).looks is Looks.AHEAD
    assert planner("libraspec", libraspec=own, careful=True).looks is Looks.BEHIND


def test_the_draft_length_bounds_it() -> None:
    assert planner("libraspec", draft_length=5).lengths(tails([1.0] * 40), 99) == [5]
