"""Which verifier gets a prompt."""

from orchestrator.front.seats import Seat, choose, prefixes
from protocol.messages import Limits


def seat(link: int) -> Seat:
    return Seat(link, f"verifier-{link}", Limits())


def test_prefixes_are_those_of_full_pages_and_depend_on_all_before() -> None:
    one, other = prefixes([1, 2, 3, 4, 5], 2), prefixes([9, 2, 3, 4], 2)
    assert (len(one), len(other)) == (2, 2)
    assert one[1] != other[1]
    assert prefixes([1, 2, 3, 4], 2) == one
    assert prefixes([1], 2) == []


def test_the_least_loaded_wins_then_the_least_used_then_the_first_by_name() -> None:
    busy, used, fresh = seat(1), seat(2), seat(3)
    busy.choices, used.taken = 1, 5
    assert choose([busy, used, fresh], [], 4) is fresh
    assert choose([busy, used], [], 4) is used
    assert choose([seat(2), seat(1)], [], 4).node_id == "verifier-1"  # type: ignore[union-attr]


def test_a_shared_prefix_wins_within_the_slack() -> None:
    knows, idle = seat(1), seat(2)
    knows.remember([11, 12, 13], 100)
    knows.choices = 4
    assert choose([knows, idle], [11, 12, 99], 4) is knows
    knows.choices = 5
    assert choose([knows, idle], [11, 12, 99], 4) is idle


def test_memory_is_bounded_and_forgets_the_oldest() -> None:
    one = seat(1)
    one.remember([1, 2], 2)
    one.remember([1], 2)
    one.remember([3], 2)
    assert list(one.pages) == [1, 3]


def test_nobody_is_chosen_where_nobody_is_free() -> None:
    leaving = seat(1)
    leaving.draining = True
    assert choose([leaving], [], 4) is None
