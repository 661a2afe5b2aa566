"""Whole histories: whatever happens on the way, answers are those of plain decoding, and all is given back."""

import pytest

from tests.sim.asks import State
from tests.sim.history import History
from tests.sim.runner import Result, first_failures, replay


@pytest.fixture(scope="module")
def results() -> list[Result]:
    """The first histories; `make sim` runs many more."""
    return [replay(seed) for seed in range(100)]


def test_whatever_happens_all_invariants_hold(results: list[Result]) -> None:
    assert [each.failure for each in results if each.failure] == []


@pytest.mark.full
@pytest.mark.parametrize("start", range(10_000, 12_000, 100))
def test_many_more_histories_hold(start: int) -> None:
    assert first_failures(range(start, start + 100)) == []


def test_a_seed_is_a_repro() -> None:
    one, other = History(7, remember=None), History(7, remember=None)
    assert one.run() == other.run()
    assert one.told() == other.told()


def test_histories_are_about_something(results: list[Result]) -> None:
    summaries = [each.summary for each in results if each.summary]
    states = frozenset[State]().union(*(each.states for each in summaries))
    assert states >= {State.DONE, State.REFUSED, State.FAILED}
    assert sum(each.accepted for each in summaries) > 1000
    assert 0 < sum(each.failed for each in summaries) < sum(each.asks for each in summaries) / 5
