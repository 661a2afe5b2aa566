"""Whole histories: whatever happens on the way, answers are those of plain decoding, and all is given back."""

import pytest

from tests.sim.asks import State
from tests.sim.history import History
from tests.sim.runner import first_failures


@pytest.mark.parametrize("start", range(0, 150, 50))
def test_whatever_happens_all_invariants_hold(start: int) -> None:
    assert first_failures(range(start, start + 50)) == []


@pytest.mark.full
@pytest.mark.parametrize("start", range(10_000, 12_000, 100))
def test_many_more_histories_hold(start: int) -> None:
    assert first_failures(range(start, start + 100)) == []


def test_a_seed_is_a_repro() -> None:
    one, other = History(7, remember=None), History(7, remember=None)
    assert one.run() == other.run()
    assert one.told() == other.told()


def test_histories_are_about_something() -> None:
    histories = [History(seed) for seed in range(40)]
    summaries = [history.run() for history in histories]
    asks = [ask for each in histories for front in each.world.fronts.values() for ask in front.asks]
    assert {ask.state for ask in asks} >= {State.DONE, State.REFUSED, State.FAILED}
    assert sum(each.accepted for each in summaries) > 500
    assert 0 < sum(each.failed for each in summaries) < len(asks) / 5
