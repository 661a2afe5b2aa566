"""Every interleaving of a tail and a mirror, in scopes of two or three commits."""

import pytest

from tests.sim.small_scope import Scope, explore


@pytest.mark.parametrize(
    ("scope", "states"),
    [
        (Scope(committed=2, wanted=2, redrafts=1, queue=1), 50_000),
        (Scope(committed=3, wanted=2, redrafts=0, queue=1, growing=False), 20_000),
        (Scope(committed=3, wanted=1, redrafts=1, queue=1, growing=False), 10_000),
    ],
)
def test_no_interleaving_breaks_tail_or_mirror(scope: Scope, states: int) -> None:
    assert explore(scope) > states


@pytest.mark.full
@pytest.mark.parametrize(
    "scope",
    [
        Scope(committed=2, wanted=2, redrafts=1, queue=2),
        Scope(committed=3, wanted=1, redrafts=1, queue=1),
        Scope(committed=3, wanted=2, redrafts=0, queue=1),
    ],
)
def test_no_interleaving_of_a_larger_scope_does(scope: Scope) -> None:
    assert explore(scope)
