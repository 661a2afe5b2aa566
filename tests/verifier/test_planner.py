"""Planners: draft lengths from what is available, what is allowed and a budget."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verifier.config import PlannerConfig
from verifier.planner import Candidate, Outcome, Planner, Seen, fit
from verifier.planners import PLANNERS
from verifier.planners.fixed import Fixed


def fixed(length: int, patience: float = 0.002) -> Planner:
    return PLANNERS["fixed"](PlannerConfig(draft_length=length, patience=patience))


def candidates(*pairs: tuple[int, int]) -> list[Candidate]:
    return [Candidate(available, limit) for available, limit in pairs]


def test_the_table_names_the_fixed_planner() -> None:
    assert isinstance(fixed(4), Fixed)


def test_everybody_gets_the_length_that_is_available_and_allowed() -> None:
    asked = candidates((9, 9), (2, 9), (9, 3), (0, 9), (9, 0))
    assert fixed(4).lengths(asked, 100) == [4, 2, 3, 0, 0]


def test_nobody_is_nobody() -> None:
    assert fixed(4).lengths([], 100) == []


def test_length_zero_never_drafts_never_waits_and_asks_for_no_guesses() -> None:
    planner = fixed(0)
    assert planner.lengths(candidates((9, 9)), 100) == [0]
    assert (planner.wanted, planner.patience, planner.enough(0)) == (0, 0.0, True)


def test_a_drafter_is_asked_for_the_window_and_the_next_one() -> None:
    assert (fixed(4).wanted, fixed(1).wanted) == (9, 3)


def test_a_tail_is_enough_when_it_fills_the_window() -> None:
    assert [fixed(4).enough(available) for available in (0, 3, 4, 9)] == [False, False, True, True]


@pytest.mark.parametrize(
    ("budget", "lengths"),
    [
        (100, [4, 2, 3]),
        (9, [4, 2, 3]),
        (8, [3, 2, 3]),
        (7, [3, 2, 2]),
        (5, [2, 2, 1]),
        (2, [1, 1, 0]),
        (0, [0, 0, 0]),
    ],
)
def test_a_budget_gives_earlier_positions_first_and_earlier_requests_within_one(
    budget: int, lengths: Sequence[int]
) -> None:
    assert fit([4, 2, 3], budget) == lengths


@settings(max_examples=100)
@given(st.lists(st.integers(0, 6), max_size=8), st.integers(0, 40))
def test_a_budget_is_used_up_or_every_wish_is_granted(wishes: list[int], budget: int) -> None:
    lengths = fit(wishes, budget)
    assert all(0 <= length <= wish for length, wish in zip(lengths, wishes, strict=True))
    assert sum(lengths) == min(budget, sum(wishes))
    for length, wish in zip(lengths, wishes, strict=True):  # nobody runs ahead of who waits
        assert length == wish or length >= max(lengths, default=0) - 1


def test_a_step_waits_no_longer_than_what_tails_bring_is_worth() -> None:
    planner = fixed(4, patience=9.0)

    def after(*parts: Seen, seconds: float = 1.0) -> float:
        tokens = sum(1 + each.drafted for each in parts)
        planner.learn(Outcome(parts, tokens, 0, seconds, seconds))
        return planner.patience

    late = Seen(1, "suffix", 0, 0, 1)
    assert after(late) == pytest.approx(1.0)  # nothing was learned
    three = Seen(1, "suffix", 4, 3, 4)
    assert after(three) == pytest.approx(1.04)  # a fiftieth of the way from 1 to 3
    none = Seen(1, "suffix", 0, 0, 1, no_tail=True)
    assert after(none) == pytest.approx(1.04 * 0.98)
    assert after(none, Seen(2, "suffix", 4, 4, 5)) == pytest.approx(1.04 * 0.98**2 + 0.04)
    for _ in range(400):
        after(none)
    assert planner.patience < 0.001


def test_however_much_tails_bring_there_is_a_longest_wait() -> None:
    planner = fixed(4, patience=0.002)
    planner.learn(Outcome([Seen(1, "suffix", 4, 4, 5)], 5, 0, 1.0, 1.0))
    assert planner.patience == 0.002
