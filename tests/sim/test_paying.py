"""A planner that looks at what drafts bring never costs more than it may, however far the drafter is."""

import pytest

from tests.sim.paying import LEAST, gain


@pytest.mark.parametrize(
    ("accuracy", "trip", "least"),
    [
        (1.0, 0.0002, 3.0),
        (0.8, 0.05, 1.1),
        (0.5, 0.05, LEAST),
        (0.0, 0.0002, LEAST),
        (0.0, 0.05, LEAST),
    ],
)
def test_drafts_pay_or_are_left_out(accuracy: float, trip: float, least: float) -> None:
    """Simulated time: what a step takes is given, so this is arithmetic and no measurement."""
    assert gain("budget", accuracy, trip) >= least


def test_where_nobody_looks_they_may_cost_more() -> None:
    """The measure is not blind: planner `fixed` verifies guesses that are always wrong."""
    assert gain("fixed", 0.0, 0.0002) < LEAST
