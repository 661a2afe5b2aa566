"""What is planted must be noticed: a simulation that finds nothing may only be blind."""

import pytest

from tests.sim.breach import Breach
from tests.sim.planted import PLANTED, known, noticed, planted
from tests.sim.small_scope import Scope, explore

QUICK = [name for name, fault in PLANTED.items() if not (fault.rare or fault.unseen)]
SEEDS = known()
RARE = [name for name, fault in PLANTED.items() if fault.rare and not fault.unseen]
TAIL_FAULTS = [
    "late tokens not compared",
    "start beyond the line taken",
    "no rewind",
    "no cut",
    "base not settling",
    "newest base not kept",
    "confidences not settled",
    "guesses kept at a difference",
    "run out taken for a match",
    "taking back not said",
    "row says an old base",
]


@pytest.mark.parametrize("name", PLANTED)
def test_every_fault_fits_the_source(name: str) -> None:
    with planted(name):
        pass


@pytest.mark.parametrize("name", QUICK)
def test_a_fault_is_noticed_soon(name: str) -> None:
    """Where the code has changed since its seed was noted, the seed may show nothing any more, but others do."""
    assert noticed(name, 100, _noted(name))


@pytest.mark.full
@pytest.mark.parametrize("name", RARE)
def test_a_rare_fault_is_noticed(name: str) -> None:
    assert noticed(name, 2000, _noted(name))


@pytest.mark.parametrize("name", TAIL_FAULTS)
def test_a_tail_fault_is_noticed_in_a_small_scope(name: str) -> None:
    with planted(name), pytest.raises(Breach):
        explore(Scope(committed=3, wanted=2, redrafts=1, queue=1, growing=False))


def _noted(name: str) -> tuple[int, ...]:
    return (SEEDS[name],) if name in SEEDS else ()
