"""Whatever happens to a drafter, streams go on, and drafting is back within the bound of each fault."""

import pytest

from tests.sim.recovery import FAULTS, STALL, Rig, bound, cases, recovery


@pytest.mark.parametrize(("name", "other"), cases())
def test_drafting_is_back_within_its_bound(name: str, *, other: bool) -> None:
    found = recovery(FAULTS[name], 1, other=other)
    assert found.seconds <= bound(name, other=other)
    assert found.stall <= STALL


@pytest.mark.full
@pytest.mark.parametrize(("name", "other"), cases())
def test_drafting_is_back_whenever_it_happens(name: str, *, other: bool) -> None:
    for seed in range(2, 40):
        found = recovery(FAULTS[name], seed, other=other)
        assert found.seconds <= bound(name, other=other), seed
        assert found.stall <= STALL, seed


def test_the_watch_is_not_blind() -> None:
    """Without another drafter and without an end of the fault nothing is drafted."""
    rig = Rig(1, FAULTS["killed"], other=False)
    rig.run(rig.now + 0.3)
    victims = rig.bound()
    FAULTS["killed"].strike(rig)
    rig.run(rig.now + 0.1)
    before = [each.accepted for each in victims]
    rig.run(rig.now + 2.0)
    assert [each.accepted for each in victims] == before
