"""Lengths by finished rounds, and chunks that end in doubt."""

from tests.verifier.planners.rig import outcome, planner, tails
from verifier.planner import Candidate
from verifier.planners.failfast import length
from verifier.planners.history import next_length


def test_two_more_after_a_full_round_and_one_less_after_a_rejection() -> None:
    assert next_length(5, 5, 5, 16) == 7
    assert next_length(15, 15, 15, 16) == 16
    assert next_length(5, 5, 4, 16) == 4
    assert next_length(1, 1, 0, 16) == 1
    assert next_length(5, 0, 0, 16) == 5


def test_every_request_has_its_own_history_until_it_is_over() -> None:
    history = planner("history", history={"first": 4})
    asked = tails([0.5] * 16, [0.5] * 16)
    assert history.lengths(asked, 99) == [4, 4]
    history.learn(outcome((4, 4), (4, 1)))
    assert history.lengths(asked, 99) == [6, 3]
    history.forget(1)
    assert history.lengths(asked, 99) == [4, 3]


def test_a_chunk_in_doubt_is_taken_whole_and_is_the_last() -> None:
    sure, doubt = [0.9] * 4, [0.9, 0.3, 0.9, 0.9]
    assert length([*sure, *doubt, *sure], 4, 0.45, 80) == 8
    assert length([*sure, *sure, *sure], 4, 0.45, 80) == 12
    assert length([*sure, *sure, *sure], 4, 0.45, 6) == 6
    assert length([0.0, *sure], 4, 0.45, 80) == 4
    assert length([], 4, 0.45, 80) == 0


def test_a_doubt_behind_the_longest_window_is_not_looked_at() -> None:
    failfast = planner("failfast", draft_length=6, failfast={"chunk": 4, "least": 0.5})
    assert failfast.lengths(tails([0.9] * 6 + [0.1] * 4), 99) == [6]


def test_a_method_that_says_nothing_is_trusted() -> None:
    assert planner("failfast").lengths([Candidate(9, 4)], 99) == [4]
