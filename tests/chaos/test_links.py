"""A wire that delays, jitters, narrows, loses and hangs up costs speed for a bounded while, and nothing else."""

import pytest

from tests.chaos.links import run


@pytest.mark.full
@pytest.mark.timeout(600)
def test_whatever_the_wire_does_answers_stay_and_drafts_come_back() -> None:
    assert run(lambda _line: None) == []
