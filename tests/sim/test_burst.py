"""When a crowd has come and gone, those who were there before it draft as they did."""

import pytest

from tests.sim.burst import EVERY, story


@pytest.mark.parametrize(
    ("accuracy", "burst"),
    [
        pytest.param(0.8, 2.0),
        pytest.param(0.8, 10.0, marks=pytest.mark.full),
        pytest.param(0.5, 10.0, marks=pytest.mark.full),
    ],
)
def test_a_crowd_comes_and_goes(accuracy: float, burst: float) -> None:
    before, within, after = story("budget", accuracy, burst)
    assert after.accepted >= 0.8 * before.accepted > 0
    assert after.speed >= 0.9 * before.speed
    assert before.changes == after.changes == 0
    # A crowd that comes and ends may turn drafts off and on again, and nothing else does.
    assert within.changes <= 2 * 60 / EVERY + 60
    assert within.speed > before.speed / 4
