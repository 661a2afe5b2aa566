"""With real processes, too, drafting is back within the bound of each fault, and no stream waits for it."""

import pytest

from tests.chaos.recovery import FAULTS, recoveries
from tests.chaos.run import STALL


@pytest.mark.full
@pytest.mark.timeout(300)
@pytest.mark.parametrize("other", [True, False], ids=["another is there", "alone"])
@pytest.mark.parametrize("name", FAULTS)
def test_drafting_is_back_within_its_bound(name: str, *, other: bool) -> None:
    fault = FAULTS[name]
    bound = fault.moved if other else fault.back
    if bound is None:
        assert name == "context limit", "only what no longer fits is never back"
        return
    [found] = recoveries(name, 1, other=other)
    assert found.seconds <= bound
    assert found.stall <= STALL
