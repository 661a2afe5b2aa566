"""Whatever happens to drafters, no request fails or changes; if a verifier dies, nobody is told a half-truth."""

from pathlib import Path

import pytest

from tests.chaos.run import STALL, run


@pytest.mark.full
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("target", "rounds"), [("tiny", 24), ("default", 12)])
def test_drafters_come_and_go_and_nobody_notices(tmp_path: Path, target: str, rounds: int) -> None:
    """The stall is a promise; whatever else this machine does meanwhile counts into it, too."""
    outcome = run(tmp_path, rounds=rounds, seed=1, target=target)
    assert outcome.record.faults == []
    assert outcome.record.errors == 0
    assert outcome.stall <= STALL
    assert outcome.record.answers > 20
    assert min(outcome.faults_made.values()) > 2
    for name in ("front-0", "verifier-0"):
        assert outcome.after[name] < outcome.before[name] * 1.1 + 8


@pytest.mark.full
@pytest.mark.timeout(1200)
def test_a_stream_that_loses_its_verifier_says_so(tmp_path: Path) -> None:
    outcome = run(tmp_path, rounds=5, seed=2, victims="verifier")
    assert outcome.record.faults == []
    assert outcome.record.errors > 0
    assert outcome.record.answers > 0
